//! Rows of attempts.

use super::SessionNetwork;
use super::granted::GrantedWay;
use super::who::Who;
use crate::api::{ActivityRow, ConnectionDetail, Outcome};
use crate::egress::decide::{Allowed, DenyReason, Destination, Source};
use crate::egress::gate::{Attempt, Closed, Meter, Route};
use crate::events::Evidence;
use crate::spec::{ForwardDirection, Host};
use std::sync::atomic::Ordering;

const CONNECT: &str = "network-outbound";
const LOOK_UP: &str = "network-dns";
const COME_IN: &str = "network-inbound";
/// Where DNS queries go.
const DNS_PORT: u16 = 53;

fn row(session: &str, detail: ConnectionDetail, target: String, why: &str) -> ActivityRow {
    ActivityRow {
        // The number, the times and the count are the journal's to set.
        id: 0,
        session_id: session.to_owned(),
        at_ms: 0,
        last_ms: 0,
        outcome: Outcome::Refused,
        action: CONNECT.to_owned(),
        target,
        unicode: None,
        why: why.to_owned(),
        way_out: None,
        count: 1,
        process: None,
        evidence: Evidence::Observed,
        raw: None,
        connection: Some(detail),
        file: None,
    }
}

fn detail(connection: u64, host: String, port: u16, route: Route) -> ConnectionDetail {
    ConnectionDetail {
        connection,
        host,
        port,
        route,
        address: None,
        bytes_up: 0,
        bytes_down: 0,
        duration_ms: None,
        allowed: None,
        denied: None,
    }
}

/// Of an attempt that passes.
pub(super) fn allowed_row(
    session: &str,
    connection: u64,
    attempt: &Attempt,
    allowed: Allowed,
) -> ActivityRow {
    let destination = &attempt.destination;
    let host = destination.host.to_string();
    let why = allowed.why();
    let detail = ConnectionDetail {
        allowed: Some(allowed),
        ..detail(connection, host, destination.port, attempt.route)
    };
    ActivityRow {
        unicode: destination.host.unicode(),
        ..row(session, detail, destination.to_string(), why)
    }
}

/// Of a connection through a grant.
pub(super) fn granted_row(session: &str, connection: u64, way: &GrantedWay) -> ActivityRow {
    let allowed = Allowed {
        source: Source::Grant,
        pattern: way.words.clone(),
        rule: None,
    };
    let why = allowed.why();
    let detail = ConnectionDetail {
        allowed: Some(allowed),
        ..detail(connection, way.host.clone(), way.port, way.route)
    };
    let action = match way.direction {
        ForwardDirection::In => COME_IN,
        ForwardDirection::Out => CONNECT,
    };
    ActivityRow {
        action: action.to_owned(),
        ..row(session, detail, way.target.clone(), why)
    }
}

/// Of an attempt that does not.
pub(super) fn refused_row(session: &str, attempt: &Attempt, reason: DenyReason) -> ActivityRow {
    let destination = &attempt.destination;
    let host = destination.host.to_string();
    let detail = ConnectionDetail {
        denied: Some(reason),
        ..detail(0, host, destination.port, attempt.route)
    };
    ActivityRow {
        unicode: destination.host.unicode(),
        way_out: reason.way_out(destination),
        ..row(session, detail, destination.to_string(), reason.why())
    }
}

/// Of a name that the DNS inside does not answer.
pub(super) fn unanswered_row(session: &str, host: &Host, reason: DenyReason) -> ActivityRow {
    let detail = ConnectionDetail {
        denied: Some(reason),
        ..detail(0, host.to_string(), DNS_PORT, Route::Dns)
    };
    // The port that is asked for is not known yet; HTTPS is the likely one.
    let destination = Destination {
        host: host.clone(),
        port: 443,
    };
    ActivityRow {
        action: LOOK_UP.to_owned(),
        unicode: host.unicode(),
        way_out: reason.way_out(&destination),
        ..row(session, detail, host.to_string(), reason.why())
    }
}

/// Of something that is no destination. It has no port either.
pub(super) fn malformed_row(session: &str, route: Route, seen: &str, words: &str) -> ActivityRow {
    let reason = DenyReason::Malformed;
    let detail = ConnectionDetail {
        denied: Some(reason),
        ..detail(0, seen.to_owned(), 0, route)
    };
    ActivityRow {
        raw: Some(words.to_owned()),
        ..row(session, detail, seen.to_owned(), reason.why())
    }
}

/// Puts the bytes so far into a row; false when there are no more than before.
pub(super) fn meter_row(row: &mut ActivityRow, meter: &Meter) -> bool {
    let Some(detail) = &mut row.connection else {
        return false;
    };
    let bytes = (
        meter.up.load(Ordering::Relaxed),
        meter.down.load(Ordering::Relaxed),
    );
    if bytes == (detail.bytes_up, detail.bytes_down) {
        return false;
    }
    (detail.bytes_up, detail.bytes_down) = bytes;
    true
}

/// How an allowed connection ended, with the time of that and how long it lasted.
pub(super) fn close_row(
    row: &mut ActivityRow,
    (destination, route): (Option<&Destination>, Route),
    meter: &Meter,
    how: Closed,
    (now_ms, duration_ms): (u64, u64),
) {
    meter_row(row, meter);
    row.last_ms = now_ms;
    let (outcome, denied, address) = match how {
        Closed::Done { address } => (Outcome::Allowed, None, address),
        Closed::Refused {
            reason,
            detail,
            address,
        } => {
            row.why = reason.why().to_owned();
            row.way_out = destination.and_then(|destination| reason.way_out(destination));
            row.raw = Some(detail);
            // What the operator cut had passed.
            let cut = reason == DenyReason::Cut;
            let outcome = if cut {
                Outcome::Allowed
            } else {
                Outcome::Refused
            };
            (outcome, Some(reason), address)
        }
        Closed::Failed { detail, address } => {
            row.raw = Some(detail);
            (Outcome::Failed, None, address)
        }
    };
    row.outcome = outcome;
    if let Some(detail) = &mut row.connection {
        detail.route = route;
        detail.address = address.map(|address| address.to_string());
        detail.denied = denied;
        detail.duration_ms = Some(duration_ms);
    }
}

/// Of an attempt that nobody answered while its client waited.
pub(super) fn given_up_row(session: &str, attempt: &Attempt) -> ActivityRow {
    ActivityRow {
        raw: Some("the program gave up before an answer came".to_owned()),
        ..refused_row(session, attempt, DenyReason::Timeout)
    }
}

/// A refusal that is put down when this goes, whatever becomes of those who wait for it: what can
/// be denied unseen can be tried without end (REQ EG-3).
pub(super) struct Refused<'a> {
    network: &'a SessionNetwork,
    row: Option<ActivityRow>,
    who: Who,
}

impl<'a> Refused<'a> {
    pub(super) fn new(network: &'a SessionNetwork, row: ActivityRow) -> Self {
        Self {
            network,
            row: Some(row),
            who: Who::hurried(),
        }
    }

    /// Whose attempt it is.
    pub(super) fn by(&mut self, who: Who) {
        self.who = who;
    }

    /// It is no refusal after all, or another one.
    pub(super) fn withdraw(&mut self) {
        self.row = None;
    }
}

impl Drop for Refused<'_> {
    fn drop(&mut self) {
        if let Some(mut row) = self.row.take() {
            std::mem::replace(&mut self.who, Who::sampled()).sign(&mut row);
            self.network.put_down(row);
        }
    }
}
