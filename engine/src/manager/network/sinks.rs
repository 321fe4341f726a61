//! Where the journals of sessions go.

use super::CountsListener;
use crate::api::{ActivityRow, NetworkCounts};
use crate::egress::journal::{Counted, Live, SessionRun, Sink, Tally};
use crate::store::Recorder;
use std::sync::Arc;

/// The history and the windows.
pub(super) struct EngineSink {
    pub(super) recorder: Recorder,
    pub(super) live: Live,
    pub(super) counts: CountsListener,
}

impl Sink for EngineSink {
    fn keep(&self, row: &ActivityRow) -> bool {
        self.recorder.row(row)
    }

    fn show(&self, row: &ActivityRow) {
        self.live.show(row);
    }

    fn skipped(&self, rows: u64) {
        self.live.skipped(rows);
    }

    fn tally(&self, run: &SessionRun, counted: Counted, tally: Tally) {
        self.recorder.tally(run, counted, tally);
    }

    fn flood(&self, run: &SessionRun, counted: Counted, at_ms: u64, count: u64) {
        self.recorder.flood(run, counted, at_ms, count);
    }

    fn counts(&self, run: &SessionRun, counts: NetworkCounts, fresh_refusals: u64) {
        (self.counts)(&run.id, Some(counts), fresh_refusals);
    }
}

/// The same for what is refused beside the network, whose counts are another journal's.
pub(super) struct BesideNetwork(pub(super) Arc<EngineSink>);

impl Sink for BesideNetwork {
    fn keep(&self, row: &ActivityRow) -> bool {
        self.0.keep(row)
    }

    fn show(&self, row: &ActivityRow) {
        self.0.show(row);
    }

    fn skipped(&self, rows: u64) {
        self.0.skipped(rows);
    }

    fn tally(&self, run: &SessionRun, counted: Counted, tally: Tally) {
        self.0.tally(run, counted, tally);
    }

    fn flood(&self, run: &SessionRun, counted: Counted, at_ms: u64, count: u64) {
        self.0.flood(run, counted, at_ms, count);
    }

    fn counts(&self, run: &SessionRun, _counts: NetworkCounts, fresh_refusals: u64) {
        (self.0.counts)(&run.id, None, fresh_refusals);
    }
}
