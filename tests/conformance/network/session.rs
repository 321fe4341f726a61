//! A session launched by the engine's own stages, without the manager: what its proxies would get.

use kotak_engine::backend::{
    Bridge, BridgeChoice, BridgePlan, NativePlan, PlanFacts, SeccompArch, native_plan,
};
use kotak_engine::policy::{HostContext, KotakPaths, OsHostFs, resolve};
use kotak_engine::probe::HostFacts;
use kotak_engine::process::{Command, LaunchError, SessionSockets, Streams, Tree, native};
use kotak_engine::spec::{AbsPath, NetworkMode, TerminalRequest, ValidSpec};
use kotak_guard::proto::{ExitStatus, Namespace};
use kotak_tests::stage::Stage;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Both ways in.
pub(super) const BRIDGES: [Bridge; 2] = [Bridge::Guard, Bridge::Socat];

pub(super) fn abs(path: impl AsRef<Path>) -> AbsPath {
    AbsPath::from_path(path.as_ref()).expect("an absolute path")
}

fn bwrap_version() -> (u32, u32, u32) {
    let output = std::process::Command::new("bwrap")
        .arg("--version")
        .output()
        .expect("bubblewrap");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text
        .trim()
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .split('.')
        .map(|number| number.parse().expect("a version"));
    let mut next = || numbers.next().expect("a version");
    (next(), next(), next())
}

fn facts() -> PlanFacts {
    let kinds = [
        Namespace::Ipc,
        Namespace::Mount,
        Namespace::Network,
        Namespace::Pid,
        Namespace::User,
        Namespace::Uts,
    ];
    let inode = |kind: Namespace| {
        let path = format!("/proc/self/ns/{}", kind.proc_name());
        (kind, std::fs::metadata(path).expect("a namespace").ino())
    };
    PlanFacts {
        bwrap_path: abs("/usr/bin/bwrap"),
        bwrap_version: bwrap_version(),
        arch: SeccompArch::from_name(std::env::consts::ARCH).expect("a known architecture"),
        landlock_abi: 0,
        namespaces: kinds.map(inode).to_vec(),
    }
}

/// The plan of a terminal in the staged home.
pub(super) fn plan(stage: &Stage, network: NetworkMode) -> NativePlan {
    let request = TerminalRequest {
        network: Some(network),
        ..TerminalRequest::plain("network", "network", stage.work())
    };
    let spec = ValidSpec::terminal(&request).expect("a valid request");
    let context = HostContext {
        uid: nix::unistd::getuid().as_raw(),
        gid: nix::unistd::getgid().as_raw(),
        home: abs(stage.home()),
        passwd_home: None,
        env: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
        kotak: KotakPaths::default(),
        facts: HostFacts::default(),
    };
    let policy = resolve(&spec, &context, &OsHostFs::default()).expect("a policy");
    native_plan(&policy, &facts()).expect("a plan")
}

/// The bridge of a plan.
pub(super) fn only(bridge: Bridge) -> BridgePlan {
    BridgePlan {
        choice: BridgeChoice::Only(bridge),
        socat: Some(abs("/usr/bin/socat")),
        run: None,
    }
}

/// A session that runs.
pub(super) struct Session {
    pub(super) plan: NativePlan,
    pub(super) tree: Tree,
    pub(super) sockets: SessionSockets,
    _stage: Stage,
}

/// A program that was started inside.
pub(super) struct Program {
    pub(super) pid: i32,
    stdout: OwnedFd,
    end: tokio::sync::watch::Receiver<Option<ExitStatus>>,
}

impl Session {
    /// Asks first, over the given bridge.
    pub(super) async fn launch(bridge: Bridge) -> Self {
        let stage = Stage::new();
        let mut plan = plan(&stage, NetworkMode::Ask);
        plan.bridge = only(bridge);
        Self::launch_plan(stage, plan).await.expect("a session")
    }

    pub(super) async fn launch_plan(stage: Stage, plan: NativePlan) -> Result<Self, LaunchError> {
        let tree = native::launch(&plan, None).await?;
        let sockets = tree.take_sockets().expect("the session's listeners");
        assert!(tree.take_sockets().is_none(), "they are given once");
        Ok(Self {
            plan,
            tree,
            sockets,
            _stage: stage,
        })
    }

    /// Starts a program; standard output and error are kept.
    pub(super) async fn start(&self, argv: &[&str]) -> Program {
        let null: OwnedFd = File::open("/dev/null").expect("/dev/null").into();
        let (stdout, write) = std::io::pipe().expect("a pipe");
        let write = OwnedFd::from(write);
        let also = write.try_clone().expect("a copy");
        let command = Command {
            argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
            cwd: self.plan.cwd.as_bytes().to_vec(),
            env: self.plan.env.clone(),
            streams: Streams::Given([null, write, also]),
        };
        let started = self.tree.exec(command).await.expect("a program");
        Program {
            pid: started.pid,
            stdout: stdout.into(),
            end: started.end,
        }
    }

    pub(super) async fn python(&self, script: &str) -> Program {
        self.start(&["python3", "-c", script]).await
    }

    /// Runs a program to its end: all that it wrote.
    pub(super) async fn run(&self, argv: &[&str]) -> String {
        self.start(argv).await.output().await
    }

    pub(super) async fn end(self) {
        self.tree.end().await.expect("the end of the session");
    }
}

impl Program {
    /// Waits for its end: all that it wrote.
    pub(super) async fn output(mut self) -> String {
        let mut stdout = File::from(self.stdout);
        let text = tokio::task::spawn_blocking(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).map(|_| text)
        });
        let text = text.await.expect("a thread").expect("its output");
        self.end
            .wait_for(Option::is_some)
            .await
            .expect("the end of a program");
        String::from_utf8_lossy(&text).into_owned()
    }
}
