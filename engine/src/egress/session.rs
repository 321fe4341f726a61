//! The network of one session: what its proxies ask, and what they tell.

mod attempt;
mod granted;
mod who;

#[cfg(test)]
mod tests;

pub(super) use granted::GrantedPass;
pub use granted::GrantedWay;
pub use who::{Asker, WhoAsks};

use super::ask::{AskFirst, Clock, Resolution};
use super::decide::{Allowed, Decision, DenyReason, Destination, decide};
use super::gate::{
    Attempt, Boxed, Closed, Ends, Gate, Leaves, Meter, Pass, Refusal, Route, Verdict,
};
use super::journal::{Counted, Journal};
use super::rules::RuleSet;
use crate::api::{ActivityRow, NetworkCounts, Outcome};
use crate::spec::{Host, HostName};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Between two flushes of the journal while something happens.
const FLUSH_EVERY: Duration = Duration::from_millis(250);
/// Flushes between two looks at the bytes of open connections.
const LOOK_EVERY: u32 = 4;
/// Open connections whose bytes are shown at one look.
const SHOWN: usize = 200;

/// A connection that passed and goes on.
struct Open {
    /// Its row; absent when it is only counted.
    row: Option<ActivityRow>,
    /// What was judged; absent where a grant let it through.
    destination: Option<Destination>,
    route: Route,
    opened_ms: u64,
    meter: Arc<Meter>,
    cut: watch::Sender<bool>,
    /// Who opened it is being looked up.
    looking: bool,
}

/// The row of a connection that is over while it is still being looked up who opened it.
struct Over {
    row: ActivityRow,
    /// Dropped once that is known.
    _known: watch::Sender<()>,
    known: watch::Receiver<()>,
}

/// The network of one session, behind its proxies.
pub struct SessionNetwork {
    own: Weak<Self>,
    rules: RwLock<RuleSet>,
    ask: AskFirst,
    asker: Asker,
    journal: Journal,
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<u64, Open>>,
    /// Taken after `open` where both are.
    over: Mutex<HashMap<u64, Over>>,
    next: AtomicU64,
    busy: Notify,
    ended: AtomicBool,
}

impl fmt::Debug for SessionNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SessionNetwork")
            .field("session", &self.journal.run())
            .finish_non_exhaustive()
    }
}

impl SessionNetwork {
    /// A session's network by its rules. The session must be known to `ask`. Must be called
    /// inside a runtime.
    #[must_use]
    pub fn start(
        rules: RuleSet,
        ask: AskFirst,
        who: Arc<dyn WhoAsks>,
        journal: Journal,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let network = Arc::new_cyclic(|own| Self {
            own: own.clone(),
            rules: RwLock::new(rules),
            ask,
            asker: Asker::new(who),
            journal,
            clock,
            open: Mutex::new(HashMap::new()),
            over: Mutex::new(HashMap::new()),
            next: AtomicU64::new(1),
            busy: Notify::new(),
            ended: AtomicBool::new(false),
        });
        tokio::spawn(keep_journal(Arc::downgrade(&network)));
        network
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.journal.run().id
    }

    /// The rules as they are now.
    #[must_use]
    pub fn rules(&self) -> RuleSet {
        self.rules
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Other rules, from the next decision on; what waits for an answer is judged by them at once.
    /// Open connections go on until they are cut.
    pub fn set_rules(&self, rules: RuleSet) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        self.ask
            .judge_again(self.id(), |destination| self.resolution(destination));
    }

    /// What the rules say now; nothing when they say to ask. Questions are judged by this where
    /// no other can begin or end meanwhile, so that none waits for a rule that is there already.
    fn resolution(&self, destination: &Destination) -> Option<Resolution> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        match decide(destination, &rules) {
            Decision::Allow(allowed) => Some(Resolution::Allow(allowed)),
            Decision::Deny(reason) => Some(Resolution::Deny(reason)),
            Decision::Ask => None,
        }
    }

    /// What the network did so far, and the questions that wait.
    #[must_use]
    pub fn counts(&self) -> NetworkCounts {
        NetworkCounts {
            waiting: self.ask.waiting(self.id()),
            ..self.journal.counts()
        }
    }

    /// Open connections now.
    #[must_use]
    pub fn open_connections(&self) -> u32 {
        u32::try_from(self.open().len()).unwrap_or(u32::MAX)
    }

    /// Cuts an open connection; false when there is none of that number.
    pub fn cut(&self, connection: u64) -> bool {
        match self.open().get(&connection) {
            Some(open) => {
                open.cut.send_replace(true);
                true
            }
            None => false,
        }
    }

    /// The session is over: its questions go, and what is held back is written.
    pub fn end(&self) {
        // Once: the session's id may be another's when this value goes.
        if !self.ended.swap(true, Ordering::SeqCst) {
            self.ask.session_ended(self.id());
        }
        let over: Vec<Over> = self.over().drain().map(|(_, over)| over).collect();
        for over in over {
            self.journal.changed(&over.row);
        }
        self.journal.flush(self.clock.now_ms());
    }

    fn over(&self) -> MutexGuard<'_, HashMap<u64, Over>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn judge_attempt(&self, attempt: Attempt, leaves: Leaves) -> Verdict {
        let rules = self.rules();
        match decide(&attempt.destination, &rules) {
            Decision::Allow(allowed) => self.pass(&attempt, allowed, None),
            Decision::Deny(reason) => {
                let row = attempt::refused_row(self.id(), &attempt, reason);
                let mut refused = attempt::Refused::new(self, row);
                refused.by(self.asker.ask(&attempt, self.clock.now_ms()).await);
                drop(refused);
                refusal(&attempt, reason)
            }
            Decision::Ask => self.ask_first(attempt, leaves).await,
        }
    }

    async fn ask_first(&self, attempt: Attempt, leaves: Leaves) -> Verdict {
        let row = attempt::given_up_row(self.id(), &attempt);
        let mut given_up = attempt::Refused::new(self, row);
        let who = self.asker.ask(&attempt, self.clock.now_ms()).await;
        given_up.by(who.clone());
        let asked = self.ask.ask(
            self.id(),
            attempt.destination.clone(),
            who.actor.clone(),
            // The rules may have changed during the look-up.
            |destination| self.resolution(destination),
        );
        let resolution = tokio::select! {
            biased;
            resolution = asked => resolution,
            () = leaves.gone() => return refusal(&attempt, DenyReason::Timeout),
        };
        given_up.withdraw();
        match resolution {
            Resolution::Deny(reason) => self.refuse(&attempt, reason, who),
            // A rule that denies may have come in between; it wins over an answer.
            Resolution::Allow(allowed) => match decide(&attempt.destination, &self.rules()) {
                Decision::Deny(reason @ (DenyReason::OperatorRule | DenyReason::NetworkOff)) => {
                    self.refuse(&attempt, reason, who)
                }
                Decision::Deny(_) | Decision::Allow(_) | Decision::Ask => {
                    self.pass(&attempt, allowed, Some(who))
                }
            },
        }
    }

    /// Lets an attempt pass. Whoever was looked up already is not looked up again: by then it may be
    /// gone.
    fn pass(&self, attempt: &Attempt, allowed: Allowed, known: Option<who::Who>) -> Verdict {
        let id = self.next_id();
        let mut row = attempt::allowed_row(self.id(), id, attempt, allowed);
        let ends = match known {
            Some(who) => {
                who.sign(&mut row);
                None
            }
            None => attempt.ends,
        };
        let destination = Some(attempt.destination.clone());
        let (meter, cut) = self.admit(id, row, destination, (attempt.route, ends));
        Verdict::Pass(Pass {
            id,
            destination: attempt.destination.clone(),
            excepted: self.rules().excepted(attempt.destination.port),
            meter,
            cut,
        })
    }

    fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Follows a connection that passes from now on.
    fn admit(
        &self,
        id: u64,
        row: ActivityRow,
        destination: Option<Destination>,
        (route, ends): (Route, Option<Ends>),
    ) -> (Arc<Meter>, watch::Receiver<bool>) {
        let now_ms = self.clock.now_ms();
        let (sender, cut) = watch::channel(false);
        let meter = Arc::new(Meter::default());
        let row = self.journal.opened(now_ms, row);
        let looking = row.is_some() && ends.is_some();
        self.open().insert(
            id,
            Open {
                row,
                destination,
                route,
                opened_ms: now_ms,
                meter: Arc::clone(&meter),
                cut: sender,
                looking,
            },
        );
        self.busy.notify_one();
        if looking {
            self.find_who(id, route, ends);
        }
        (meter, cut)
    }

    /// Looks up who opened a connection that passes, without keeping it waiting.
    fn find_who(&self, id: u64, route: Route, ends: Option<Ends>) {
        let own = self.own.clone();
        tokio::spawn(async move {
            let Some(network) = own.upgrade() else { return };
            let look = network.asker.begin(route, ends, network.clock.now_ms());
            let who = match look {
                Some(look) => look.await,
                None => who::Who::sampled(),
            };
            let mut open = network.open();
            let row = match open.get_mut(&id) {
                Some(open) => {
                    open.looking = false;
                    open.row.as_mut().map(|row| {
                        who.sign(row);
                        row.clone()
                    })
                }
                None => network.over().remove(&id).map(|over| {
                    let mut row = over.row;
                    who.sign(&mut row);
                    row
                }),
            };
            drop(open);
            if let Some(row) = row {
                network.journal.changed(&row);
            }
        });
    }

    fn refuse(&self, attempt: &Attempt, reason: DenyReason, who: who::Who) -> Verdict {
        let mut row = attempt::refused_row(self.id(), attempt, reason);
        who.sign(&mut row);
        self.put_down(row);
        refusal(attempt, reason)
    }

    fn put_down(&self, row: ActivityRow) {
        self.journal.refused(self.clock.now_ms(), row);
        self.busy.notify_one();
    }

    /// Puts a refusal down that was told already, after a look at who it was.
    fn put_down_later(&self, route: Route, ends: Option<Ends>, row: ActivityRow) {
        let now_ms = self.clock.now_ms();
        // In a flood there is nothing to look up, and no task to start for each.
        let Some(look) = self.asker.begin(route, ends, now_ms) else {
            let mut row = row;
            who::Who::sampled().sign(&mut row);
            self.put_down(row);
            return;
        };
        // Held until then: the row is not lost with the session.
        let Some(network) = self.own.upgrade() else {
            return self.put_down(row);
        };
        tokio::spawn(async move {
            let mut refused = attempt::Refused::new(&network, row);
            refused.by(look.await);
        });
    }
}

fn refusal(attempt: &Attempt, reason: DenyReason) -> Verdict {
    Verdict::Refuse(Refusal {
        reason,
        message: reason.message(&attempt.destination),
    })
}

impl Gate for SessionNetwork {
    fn judge(&self, attempt: Attempt, leaves: Leaves) -> Boxed<'_, Verdict> {
        Box::pin(self.judge_attempt(attempt, leaves))
    }

    fn answers(&self, name: &HostName, ends: Option<Ends>) -> bool {
        match self.rules().answers(name) {
            Ok(()) => true,
            Err(reason) => {
                let row = attempt::unanswered_row(self.id(), &Host::Name(name.clone()), reason);
                self.put_down_later(Route::Dns, ends, row);
                false
            }
        }
    }

    fn malformed(&self, route: Route, ends: Option<Ends>, seen: &str, detail: &str) {
        let row = attempt::malformed_row(self.id(), route, seen, detail);
        self.put_down_later(route, ends, row);
    }

    fn closed(&self, pass: Pass, how: Closed) {
        self.ended(pass.id, how);
    }

    fn settled(&self, id: u64) -> Boxed<'_, ()> {
        let known = self.over().get(&id).map(|over| over.known.clone());
        Box::pin(async move {
            if let Some(mut known) = known {
                // Nothing is ever sent: this ends when the sender goes.
                let _gone = known.changed().await;
            }
        })
    }
}

impl SessionNetwork {
    /// A connection that passed is over.
    fn ended(&self, id: u64, how: Closed) {
        let mut opened = self.open();
        let Some(open) = opened.remove(&id) else {
            return;
        };
        let now_ms = self.clock.now_ms();
        let refused = match &how {
            // It had passed, and was ended by the operator.
            Closed::Refused {
                reason: DenyReason::Cut,
                ..
            }
            | Closed::Done { .. }
            | Closed::Failed { .. } => None,
            Closed::Refused { reason, .. } => Some(*reason),
        };
        let only_counted_at = open.row.is_none().then_some(open.opened_ms);
        let duration_ms = now_ms.saturating_sub(open.opened_ms);
        let row = open.row.and_then(|mut row| {
            let attempt = (open.destination.as_ref(), open.route);
            attempt::close_row(&mut row, attempt, &open.meter, how, (now_ms, duration_ms));
            if !open.looking {
                return Some(row);
            }
            // Its end is told together with its name.
            let (sender, known) = watch::channel(());
            let over = Over {
                row,
                _known: sender,
                known,
            };
            self.over().insert(id, over);
            None
        });
        drop(opened);
        if let Some(reason) = refused {
            let counted = Counted::of(Outcome::Refused, Some(reason));
            self.journal
                .refused_after_all(now_ms, counted, only_counted_at);
        }
        if let Some(row) = row {
            self.journal.changed(&row);
        }
        self.busy.notify_one();
    }
}

impl Drop for SessionNetwork {
    fn drop(&mut self) {
        self.end();
    }
}

/// Flushes the journal while something happens, and shows how the bytes of open connections grow.
async fn keep_journal(network: Weak<SessionNetwork>) {
    let mut round: u32 = 0;
    loop {
        let Some(strong) = network.upgrade() else {
            return;
        };
        let idle = strong.open().is_empty() && !strong.journal.holds_back();
        if idle {
            let woken = strong.busy.notified();
            tokio::select! {
                () = woken => {}
                // So that this task does not keep a session that is gone.
                () = tokio::time::sleep(Duration::from_secs(5)) => {}
            }
        }
        drop(strong);
        tokio::time::sleep(FLUSH_EVERY).await;
        let Some(strong) = network.upgrade() else {
            return;
        };
        round = round.wrapping_add(1);
        if round.is_multiple_of(LOOK_EVERY) {
            strong.show_bytes();
        }
        strong.journal.flush(strong.clock.now_ms());
    }
}

impl SessionNetwork {
    fn show_bytes(&self) {
        let moved: Vec<ActivityRow> = {
            let mut open = self.open();
            open.values_mut()
                .filter_map(|open| {
                    let row = open.row.as_mut()?;
                    attempt::meter_row(row, &open.meter).then(|| row.clone())
                })
                .take(SHOWN)
                .collect()
        };
        for row in &moved {
            self.journal.moved(row);
        }
    }
}
