//! A permission that is always given back.

use super::decide::{DenyReason, Destination};
use super::gate::{Attempt, Closed, Gate, Leaves, Meter, Pass, Refusal, Verdict};
use super::stream::ClientReader;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// Bytes that a client may send while its attempt is judged, or its answer awaited. Past them
/// nobody watches whether it gives up: thousands may wait at once, and each must cost little.
pub(super) const EAGER: usize = 4 * 1024;

/// An allowed connection. However it ends, also by the end of the session, the gate is told.
pub(super) struct Ticket {
    gate: Arc<dyn Gate>,
    pass: Option<Pass>,
    address: Option<IpAddr>,
    cut: watch::Receiver<bool>,
    /// What was judged; only this is dialled.
    pub(super) destination: Destination,
    /// Special addresses that an operator's rule names by itself.
    pub(super) excepted: Vec<IpAddr>,
    /// Counts as bytes pass.
    pub(super) meter: Arc<Meter>,
}

impl Ticket {
    fn new(gate: Arc<dyn Gate>, pass: Pass) -> Self {
        Self {
            gate,
            address: None,
            cut: pass.cut.clone(),
            destination: pass.destination.clone(),
            excepted: pass.excepted.clone(),
            meter: Arc::clone(&pass.meter),
            pass: Some(pass),
        }
    }

    /// Notes the address that was checked and dialled.
    pub(super) fn dialled(&mut self, address: IpAddr) {
        self.address = Some(address);
    }

    /// Comes when the operator cuts the connection.
    pub(super) fn cut(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut cut = self.cut.clone();
        async move {
            if cut.wait_for(|cut| *cut).await.is_err() {
                // Nobody is left who could cut it.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Gives the permission back, and waits until it is known whose it was.
    pub(super) async fn close(mut self, how: Closed) {
        let id = self.pass.as_ref().map(|pass| pass.id);
        self.give_back(how);
        if let Some(id) = id {
            self.gate.settled(id).await;
        }
    }

    /// Gives it back after an ordinary end.
    pub(super) fn done(mut self) {
        let how = self.ordinary_end();
        self.give_back(how);
    }

    /// Gives it back as refused after all, as [`Ticket::close`].
    pub(super) async fn refuse(self, reason: DenyReason, detail: impl Into<String>) {
        let detail = detail.into();
        let address = self.address;
        self.close(Closed::Refused {
            reason,
            detail,
            address,
        })
        .await;
    }

    /// Gives it back as failed after all, as [`Ticket::close`].
    pub(super) async fn fail(self, detail: String) {
        let address = self.address;
        self.close(Closed::Failed { detail, address }).await;
    }

    fn ordinary_end(&self) -> Closed {
        self.address.map_or_else(
            || Closed::Failed {
                detail: "the session ended before the destination answered".to_owned(),
                address: None,
            },
            |address| Closed::Done {
                address: Some(address),
            },
        )
    }

    fn give_back(&mut self, how: Closed) {
        if let Some(pass) = self.pass.take() {
            self.gate.closed(pass, how);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let how = self.ordinary_end();
        self.give_back(how);
    }
}

/// What became of an attempt.
pub(super) enum Judged {
    /// It may pass.
    Pass(Box<Ticket>),
    /// It may not.
    Refuse(Refusal),
}

/// Puts an attempt to the gate, and says when the client has ended its side. A denial reaches a
/// client that only listens from then on.
pub(super) async fn judge(
    gate: &Arc<dyn Gate>,
    attempt: Attempt,
    client: &mut ClientReader,
) -> Judged {
    let (stays, leaves) = Leaves::new();
    let mut stays = Some(stays);
    let mut verdict = gate.judge(attempt, leaves);
    let verdict = loop {
        if stays.is_none() || client.ahead().len() >= EAGER {
            break verdict.await;
        }
        tokio::select! {
            biased;
            verdict = &mut verdict => break verdict,
            read = client.fill() => match read {
                Ok(0) | Err(_) => stays = None,
                Ok(_) => {}
            },
        }
    };
    match verdict {
        Verdict::Pass(pass) => Judged::Pass(Box::new(Ticket::new(Arc::clone(gate), pass))),
        Verdict::Refuse(refusal) => Judged::Refuse(refusal),
    }
}
