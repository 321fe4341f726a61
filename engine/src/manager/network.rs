//! The networks of this engine's restricted sessions: each with its rules, its pair of proxies
//! and its journal; and the questions of all.

use super::prompts::Prompts;
use crate::api::{ActivityRow, Actor, NetworkCounts, RuleInfo, UiEvent};
use crate::backend::{Bridge, SandboxBackend};
use crate::egress::ask::{AskFirst, Clock, SessionFacts};
use crate::egress::decide::Source;
use crate::egress::gate::{Boxed, Ends, Gate, Route};
use crate::egress::journal::{Counted, Journal, Live, RowIds, SessionRun, Sink, Tally};
use crate::egress::limits::Limits;
use crate::egress::pair::{PairSockets, ProxyPair};
use crate::egress::resolve::HostResolver;
use crate::egress::rules::{OperatorRule, RuleSet};
use crate::egress::session::{SessionNetwork, WhoAsks};
use crate::egress::stream::{Accept, Accepted};
use crate::error::{Coded, Fix, Problem};
use crate::events::Bus;
use crate::process::{Inside, Listener, SessionSockets, Tree};
use crate::spec::{HostPattern, NetworkMode};
use crate::store::{Recorder, RuleFilter, SessionNetworkRecord, Store};
use kotak_guard::proto::Transport;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes of a command line that is shown.
const COMMAND_BYTES: usize = 4096;

/// A restricted network as it was prepared: what the spec and the built-in lists say.
#[derive(Debug, Clone)]
pub(super) struct PreparedNetwork {
    pub(super) rules: RuleSet,
    pub(super) mode: NetworkMode,
    /// The workspace whose rules hold.
    pub(super) workspace: String,
}

/// A network that runs.
pub(super) struct Running {
    pub(super) network: Arc<SessionNetwork>,
    pub(super) mode: NetworkMode,
    pub(super) bridge: Bridge,
    workspace: String,
    _pair: ProxyPair,
}

/// Is told what a session's network did so far, and how many refusals are new.
pub(super) type CountsListener = Box<dyn Fn(&str, NetworkCounts, u64) + Send + Sync>;

/// All restricted networks of an engine.
pub(super) struct Networks {
    pub(super) prompts: Prompts,
    clock: Arc<dyn Clock>,
    ids: Arc<RowIds>,
    sink: Arc<EngineSink>,
    store: Arc<Store>,
    events: Arc<Bus<UiEvent>>,
    sessions: Mutex<HashMap<String, Arc<Running>>>,
    rules: Mutex<Arc<Vec<RuleInfo>>>,
    /// Held from reading the rules until a session has them: whoever read older ones has given
    /// them to the session before newer ones come.
    applying: Mutex<()>,
    titles: Mutex<HashMap<String, String>>,
}

impl fmt::Debug for Networks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Networks").finish_non_exhaustive()
    }
}

/// Why a session's network could not be opened.
#[derive(Debug, thiserror::Error)]
enum NetworkError {
    /// The tree gave no sockets.
    #[error("the session's listeners are missing")]
    NoSockets,
    /// A session without a network of its own was prepared with rules.
    #[error("the session has no network of its own")]
    NoInside,
}

impl Coded for NetworkError {
    fn code(&self) -> &'static str {
        "NETWORK_NOT_OPENED"
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words("Start the session again; the log says more."))
    }
}

impl Networks {
    /// Starts without sessions; listens to changes of rules from now on.
    pub(super) fn start(
        prompts: Prompts,
        clock: Arc<dyn Clock>,
        store: Arc<Store>,
        events: Arc<Bus<UiEvent>>,
        counts: CountsListener,
    ) -> Arc<Self> {
        let live = Live::new({
            let (events, prompts) = (Arc::clone(&events), prompts.clone());
            move |rows: Vec<ActivityRow>, skipped| {
                prompts.rows(&rows, skipped);
                events.send(UiEvent::Activity { rows, skipped });
            }
        });
        let sink = EngineSink {
            recorder: store.recorder(),
            live,
            counts,
        };
        let networks = Arc::new(Self {
            prompts,
            clock,
            ids: Arc::new(RowIds::of_process()),
            sink: Arc::new(sink),
            store: Arc::clone(&store),
            events,
            sessions: Mutex::default(),
            rules: Mutex::default(),
            applying: Mutex::default(),
            titles: Mutex::default(),
        });
        let weak = Arc::downgrade(&networks);
        store.on_rules(move |rules| {
            if let Some(networks) = weak.upgrade() {
                networks.rules_changed(rules);
            }
        });
        networks
    }

    pub(super) fn ask(&self) -> &AskFirst {
        self.prompts.ask()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Running>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session's title in its questions; named before it is launched.
    pub(super) fn name(&self, session: &str, title: &str) {
        let mut titles = self.titles.lock().unwrap_or_else(PoisonError::into_inner);
        titles.insert(session.to_owned(), title.to_owned());
    }

    pub(super) fn find(&self, session: &str) -> Option<Arc<Running>> {
        self.sessions().get(session).map(Arc::clone)
    }

    /// The workspace of a session whose network runs.
    pub(super) fn workspace(&self, session: &str) -> Option<String> {
        self.find(session).map(|running| running.workspace.clone())
    }

    /// The operator's rules as they are known, oldest first.
    pub(super) fn rules(&self) -> Vec<RuleInfo> {
        self.known_rules().as_ref().clone()
    }

    fn known_rules(&self) -> Arc<Vec<RuleInfo>> {
        Arc::clone(&self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a pair of proxies behind a launched tree. Until it stands, nothing inside can reach
    /// anything, so a failure leaves nothing open.
    ///
    /// # Errors
    /// The operator's rules cannot be read, or the tree lacks its sockets.
    pub(super) fn open(
        &self,
        session: &str,
        tree: &Tree,
        prepared: PreparedNetwork,
    ) -> Result<(), Problem> {
        let sockets = tree
            .take_sockets()
            .ok_or_else(|| NetworkError::NoSockets.problem())?;
        let inside = tree
            .inside()
            .ok_or_else(|| NetworkError::NoInside.problem())?;
        // Read anew: without the rules that deny, nothing may begin.
        let rules = self
            .store
            .rules(&RuleFilter::default())
            .map_err(|error| error.problem())?;
        let operator = operator_rules(&rules, session, &prepared.workspace);
        let title = {
            let titles = self.titles.lock().unwrap_or_else(PoisonError::into_inner);
            titles.get(session).cloned()
        };
        let id: Arc<str> = session.into();
        self.ask().session(SessionFacts {
            id: Arc::clone(&id),
            title: title.unwrap_or_else(|| session.to_owned()),
            workspace: prepared.workspace.clone(),
            backend: Some(SandboxBackend::Native),
        });
        let run = SessionRun {
            id,
            since_ms: self.clock.now_ms(),
        };
        let journal = Journal::new(
            run,
            Arc::clone(&self.ids),
            Arc::clone(&self.sink) as Arc<dyn Sink>,
        );
        let network = SessionNetwork::start(
            prepared.rules.with_operator(operator),
            self.ask().clone(),
            Arc::new(GuardWho(inside)),
            journal,
            Arc::clone(&self.clock),
        );
        let allowlist = prepared.rules.allowed_entries().into_iter();
        self.store.network_started(
            session,
            SessionNetworkRecord {
                mode: prepared.mode,
                allowlist: allowlist
                    .filter(|entry| entry.source == Source::Spec)
                    .map(|entry| entry.pattern)
                    .collect(),
                workspace: prepared.workspace.clone(),
            },
        );
        let bridge = sockets.bridge;
        let pair = ProxyPair::start(
            Arc::clone(&network) as Arc<dyn Gate>,
            Arc::new(HostResolver::default()),
            pair_sockets(sockets),
            Limits::default(),
        );
        let running = Running {
            network,
            mode: prepared.mode,
            bridge,
            workspace: prepared.workspace,
            _pair: pair,
        };
        self.sessions()
            .insert(session.to_owned(), Arc::new(running));
        // A rule that came between reading and inserting.
        self.apply_rules(session);
        Ok(())
    }

    /// Closes a session's way out; its questions go.
    pub(super) fn close(&self, session: &str) {
        let running = self.sessions().remove(session);
        self.titles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(session);
        if let Some(running) = running {
            running.network.end();
        }
    }

    fn rules_changed(&self, rules: Vec<RuleInfo>) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules.clone());
        let ids: Vec<String> = self.sessions().keys().cloned().collect();
        for id in ids {
            self.apply_rules(&id);
        }
        self.events.send(UiEvent::Rules { rules });
    }

    fn apply_rules(&self, session: &str) {
        let Some(running) = self.find(session) else {
            return;
        };
        let _applying = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        let operator = operator_rules(&self.known_rules(), session, &running.workspace);
        let rules = running.network.rules();
        if rules.operator() != operator {
            running.network.set_rules(rules.with_operator(operator));
        }
    }
}

/// The rules that hold for a session: its own, and those of its workspace.
#[must_use]
pub fn operator_rules(rules: &[RuleInfo], session: &str, workspace: &str) -> Vec<OperatorRule> {
    rules
        .iter()
        .filter(|rule| match &rule.session_id {
            Some(own) => own == session,
            None => rule.workspace == workspace,
        })
        .filter_map(|rule| match HostPattern::parse(&rule.pattern) {
            Ok(pattern) => Some(OperatorRule {
                id: rule.id,
                allow: rule.allow,
                pattern,
            }),
            Err(error) => {
                tracing::error!(rule = rule.id, %error, "a stored rule cannot be read");
                None
            }
        })
        .collect()
}

/// The history and the windows.
struct EngineSink {
    recorder: Recorder,
    live: Live,
    counts: CountsListener,
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
        (self.counts)(&run.id, counts, fresh_refusals);
    }
}

/// Asks the guard who connects.
struct GuardWho(Inside);

impl WhoAsks for GuardWho {
    fn who(&self, route: Route, Ends { client, local }: Ends) -> Boxed<'_, Option<Actor>> {
        Box::pin(async move {
            let found = match route {
                // A query comes by either, mostly by UDP.
                Route::Dns => match self.0.who_connects(Transport::Udp, client, local).await {
                    None => self.0.who_connects(Transport::Tcp, client, local).await,
                    found => found,
                },
                Route::Connect
                | Route::Http
                | Route::Socks
                | Route::Transparent
                | Route::Forward => self.0.who_connects(Transport::Tcp, client, local).await,
            };
            found.map(|found| Actor {
                pid: found.pid,
                name: shown(&found.comm),
                executable: found.executable.as_deref().map(shown),
                command: shown(&found.argv.join(" ")),
                cwd: found.cwd.as_deref().map(shown),
                parents: found.parents.iter().map(|name| shown(name)).collect(),
            })
        })
    }
}

/// Text of a program, bounded, with everything that could mislead made visible.
fn shown(text: &str) -> String {
    crate::text::printable_start(text, COMMAND_BYTES / 4)
}

/// A listener inside, as the proxies accept on it.
struct FromInside(Listener);

impl Accept for FromInside {
    fn accept(&mut self) -> Boxed<'_, io::Result<Accepted>> {
        Box::pin(async move {
            let accepted = self.0.accept().await?;
            if let Err(error) = accepted.stream.set_nodelay() {
                tracing::debug!(%error, "a socket could not be tuned");
            }
            Ok(Accepted {
                stream: Box::new(accepted.stream),
                client: accepted.client,
                local: accepted.local,
            })
        })
    }
}

fn pair_sockets(sockets: SessionSockets) -> PairSockets {
    let boxed = |listener| -> Box<dyn Accept> { Box::new(FromInside(listener)) };
    let mut pair = PairSockets {
        http: vec![boxed(sockets.http)],
        socks: vec![boxed(sockets.socks)],
        ..PairSockets::default()
    };
    if let Some(direct) = sockets.direct {
        pair.dns_udp = vec![direct.dns_udp];
        pair.dns_tcp = vec![boxed(direct.dns_tcp)];
        pair.transparent = direct
            .transparent
            .into_iter()
            .map(|(_, listener)| boxed(listener))
            .collect();
    }
    pair
}
