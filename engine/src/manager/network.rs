//! The networks of this engine's restricted sessions: each with its rules, its pair of proxies
//! and its journal; and the questions of all.

mod sinks;

use self::sinks::{BesideNetwork, EngineSink};
use super::exec_grants::{self, ExecGrants, Joined};
use super::forwards::SessionForwards;
use super::from_inside::{GuardWho, pair_sockets};
use super::grants_api;
use super::host::HostView;
use super::prompts::Prompts;
use crate::api::{ActivityRow, GrantInfo, NetworkCounts, RuleInfo, SessionGrant, UiEvent};
use crate::backend::{Bridge, SandboxBackend};
use crate::egress::ask::{AskFirst, Clock, SessionFacts};
use crate::egress::decide::Source;
use crate::egress::gate::Gate;
use crate::egress::journal::{Journal, Live, RowIds, SessionRun, Sink};
use crate::egress::limits::Limits;
use crate::egress::pair::ProxyPair;
use crate::egress::resolve::HostResolver;
use crate::egress::rules::{OperatorRule, RuleSet};
use crate::egress::session::SessionNetwork;
use crate::error::{Coded, Fix, Problem};
use crate::events::Bus;
use crate::process::{HostSockets, Tree};
use crate::spec::{Grant, GrantKind, HostPattern, NetworkMode, ValidSpec};
use crate::store::{GrantStart, SessionNetworkRecord, Store};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A restricted network as it was prepared: what the spec and the built-in lists say.
#[derive(Debug, Clone)]
pub(super) struct PreparedNetwork {
    pub(super) rules: RuleSet,
    pub(super) mode: NetworkMode,
    /// The workspace whose rules hold.
    pub(super) workspace: String,
    /// What the spec lets through its walls.
    pub(super) grants: Vec<Grant>,
}

/// A network that runs.
pub(super) struct Running {
    pub(super) network: Arc<SessionNetwork>,
    pub(super) mode: NetworkMode,
    pub(super) bridge: Bridge,
    pub(super) forwards: SessionForwards,
    workspace: String,
    _pair: ProxyPair,
}

impl Running {
    /// The workspace whose rules and grants hold.
    pub(super) fn workspace(&self) -> &str {
        &self.workspace
    }
}

/// Is told what a session's network did so far, where that is news, and how many refusals are new.
pub(super) type CountsListener = Box<dyn Fn(&str, Option<NetworkCounts>, u64) + Send + Sync>;

/// All restricted networks of an engine.
pub(super) struct Networks {
    pub(super) prompts: Prompts,
    clock: Arc<dyn Clock>,
    ids: Arc<RowIds>,
    sink: Arc<EngineSink>,
    store: Arc<Store>,
    events: Arc<Bus<UiEvent>>,
    sessions: Mutex<HashMap<String, Arc<Running>>>,
    /// Written on the store's thread alone, so that newer rules never give way to older ones.
    rules: Arc<Mutex<Arc<Vec<RuleInfo>>>>,
    grants: Mutex<Vec<GrantInfo>>,
    pub(super) exec: ExecGrants,
    host: Arc<HostSockets>,
    /// For what the store's thread tells.
    runtime: tokio::runtime::Handle,
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
    /// Starts without sessions; listens to changes of rules and grants from now on. Must be called
    /// inside a runtime.
    pub(super) fn start(
        prompts: Prompts,
        clock: Arc<dyn Clock>,
        (store, host): (Arc<Store>, HostSockets),
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
            rules: Arc::default(),
            grants: Mutex::default(),
            exec: ExecGrants::new(Arc::clone(&store)),
            host: Arc::new(host),
            runtime: tokio::runtime::Handle::current(),
            applying: Mutex::default(),
            titles: Mutex::default(),
        });
        let weak = Arc::downgrade(&networks);
        store.on_rules(move |rules| {
            if let Some(networks) = weak.upgrade() {
                networks.rules_changed(rules);
            }
        });
        let weak = Arc::downgrade(&networks);
        store.on_grants(move |grants| {
            if let Some(networks) = weak.upgrade() {
                networks.grants_changed(grants);
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

    /// Grants as they are known, oldest first.
    pub(super) fn grants(&self) -> Vec<GrantInfo> {
        let grants = self.grants.lock();
        grants.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the sockets that are to be let in; waits for the file system.
    ///
    /// # Errors
    /// The first of them that is not.
    pub(super) fn check(&self, grants: &[Grant]) -> Result<(), Problem> {
        grants_api::check(&self.host, grants)
    }

    /// Puts the approved folders of a session and its workspace into its spec; waits for the disk.
    pub(super) fn join_exec(&self, spec: &mut ValidSpec, host: &HostView) -> Option<Vec<Joined>> {
        exec_grants::join(spec, &self.store, host)
    }

    /// What a workspace's grants let through, in sentences.
    pub(super) fn workspace_sentences(&self, workspace: &str) -> Vec<String> {
        let grants = self.grants();
        let of_workspace = grants
            .iter()
            .filter(|grant| grant.session_id.is_none() && grant.workspace == workspace)
            // Those are the policy's own to say.
            .filter(|grant| grant.kind != GrantKind::Exec);
        of_workspace
            .filter_map(GrantInfo::grant)
            .map(|grant| format!("{}.", grant.sentence()))
            .collect()
    }

    /// What a session is granted, and what became of it; nothing of one without a network of its
    /// own.
    pub(super) fn session_grants(&self, session: &str) -> Option<Vec<SessionGrant>> {
        self.find(session).map(|running| running.forwards.list())
    }

    /// The journal of what a session is refused beside its network.
    pub(super) fn refusals(&self, session: &str) -> (Journal, Arc<dyn Clock>) {
        let run = SessionRun {
            id: session.into(),
            since_ms: self.clock.now_ms(),
        };
        let sink = Arc::new(BesideNetwork(Arc::clone(&self.sink)));
        let journal = Journal::new(run, Arc::clone(&self.ids), sink as Arc<dyn Sink>);
        (journal, Arc::clone(&self.clock))
    }

    /// Puts a pair of proxies behind a launched tree, and opens what it is granted; the variables
    /// that this brings. Until it stands, nothing inside can reach anything, so a failure leaves
    /// nothing open once the network is closed.
    ///
    /// # Errors
    /// The operator's rules cannot be read, the tree lacks its sockets, or a grant of the spec
    /// cannot be opened.
    pub(super) async fn open(
        &self,
        session: &str,
        tree: &Tree,
        prepared: PreparedNetwork,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Problem> {
        let grants: Vec<GrantStart> = prepared
            .grants
            .iter()
            .map(|grant| GrantStart {
                grant: grant.clone(),
                session_id: Some(session.to_owned()),
                workspace: prepared.workspace.clone(),
            })
            .collect();
        let running = self.start_pair(session, tree, prepared)?;
        let store = Arc::clone(&self.store);
        super::network_api::blocking(move || {
            for grant in grants {
                store.add_grant(grant)?;
            }
            Ok(())
        })
        .await?;
        running.forwards.begin().await?;
        let agent = running.forwards.agent();
        let named = agent.map(|path| (b"SSH_AUTH_SOCK".to_vec(), path.into_bytes()));
        Ok(named.into_iter().collect())
    }

    fn start_pair(
        &self,
        session: &str,
        tree: &Tree,
        prepared: PreparedNetwork,
    ) -> Result<Arc<Running>, Problem> {
        let sockets = tree
            .take_sockets()
            .ok_or_else(|| NetworkError::NoSockets.problem())?;
        let inside = tree
            .inside()
            .ok_or_else(|| NetworkError::NoInside.problem())?;
        // Read anew: without the rules that deny, nothing may begin. What other engines changed
        // since the last look is known from here on.
        let known = Arc::clone(&self.rules);
        let learn = move |rules: &[RuleInfo]| {
            *known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules.to_vec());
        };
        let rules = self
            .store
            .learn_rules(learn)
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
            Arc::new(GuardWho(inside.clone())),
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
        let forwards = SessionForwards::new(
            (session, &prepared.workspace),
            inside,
            Arc::clone(&network),
            Arc::clone(&self.host),
            Arc::clone(&self.store),
        );
        let running = Arc::new(Running {
            network,
            mode: prepared.mode,
            bridge,
            forwards,
            workspace: prepared.workspace,
            _pair: pair,
        });
        self.sessions()
            .insert(session.to_owned(), Arc::clone(&running));
        // A rule that came between reading and inserting.
        self.apply_rules(session);
        Ok(running)
    }

    /// Closes a session's ways out and in; its questions and its own grants go. What is given back
    /// has the granted ways, which are closed when it goes.
    pub(super) fn close(&self, session: &str) -> Option<Arc<Running>> {
        let running = self.sessions().remove(session);
        self.exec.ended(session);
        self.titles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(session);
        if let Some(running) = &running {
            running.network.end();
            self.store.grants_ended(session);
        }
        running
    }

    /// Sessions follow in tasks of their own: the store's thread does not wait for them.
    fn grants_changed(&self, grants: Vec<GrantInfo>) {
        (*self.grants.lock().unwrap_or_else(PoisonError::into_inner)).clone_from(&grants);
        for running in self.all() {
            self.runtime
                .spawn(async move { running.forwards.follow().await });
        }
        self.events.send(UiEvent::Grants { grants });
    }

    /// Every network that runs.
    pub(super) fn all(&self) -> Vec<Arc<Running>> {
        self.sessions().values().map(Arc::clone).collect()
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
    let pattern = |rule: &RuleInfo| {
        if rule.allow {
            HostPattern::parse(&rule.pattern)
        } else {
            HostPattern::parse_denial(&rule.pattern)
        }
    };
    rules
        .iter()
        .filter(|rule| match &rule.session_id {
            Some(own) => own == session,
            None => rule.workspace == workspace,
        })
        .filter_map(|rule| match pattern(rule) {
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
