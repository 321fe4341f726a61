//! The host runs out of something while sessions run: a typed error for what cannot be had, and
//! every other session goes on.

use crate::{READ_ARGUMENTS, Scene, in_own_mounts};
use kotak_engine::api::{LaunchRequest, Program, SessionInfo, SessionPhase};
use kotak_engine::backend::{BackendChoice, SandboxBackend};
use kotak_engine::manager::Engine;
use kotak_engine::probe::Switch;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// An answering machine: says `LINE-back` for every line it gets.
const ECHO: &str = "sh -c 'stty -echo; echo up; while read -r line; do echo $line-back; done'";

fn request(scene: &Scene, backend: BackendChoice, line: &str) -> LaunchRequest {
    LaunchRequest {
        program: Program::Command {
            line: line.to_owned(),
        },
        network: None,
        ..scene.request(backend, Path::new("unused"))
    }
}

/// Reads the session's output until it holds `words`.
async fn until(engine: &Engine, id: &str, words: &str) {
    let mut seen = Vec::new();
    let mut offset = 0;
    while !String::from_utf8_lossy(&seen).contains(words) {
        let chunk = engine.read_output(id, offset).await.expect("output");
        assert!(
            !chunk.ended || !chunk.bytes.is_empty(),
            "ended before `{words}`"
        );
        offset += chunk.bytes.len() as u64;
        seen.extend(chunk.bytes);
    }
}

/// A session that runs.
async fn running(scene: &Scene, backend: BackendChoice) -> SessionInfo {
    let launched = scene.engine.launch(request(scene, backend, ECHO)).await;
    let session = launched.expect("a session");
    assert_eq!(session.handle.error, None);
    until(&scene.engine, &session.id, "up").await;
    session
}

/// It still answers.
async fn answers(scene: &Scene, session: &SessionInfo, word: &str) {
    let line = format!("{word}\n");
    let typed = scene.engine.write_input(&session.id, line.as_bytes()).await;
    typed.expect("input");
    until(&scene.engine, &session.id, &format!("{word}-back")).await;
}

/// What a launch that cannot work says: at once, or as a session that broke.
async fn broken(scene: &Scene, backend: BackendChoice, line: &str) -> kotak_engine::error::Problem {
    match scene.engine.launch(request(scene, backend, line)).await {
        Err(problem) => problem,
        Ok(session) => {
            let ended = scene.engine.wait(&session.id).await.expect("an end");
            assert_eq!(ended.phase, SessionPhase::Error, "{ended:?}");
            ended.handle.error.expect("a problem")
        }
    }
}

fn shell(line: &str) {
    let status = Command::new("sh").args(["-c", line]).status();
    assert!(status.is_ok_and(|status| status.success()), "`{line}`");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_free_pty_a_session_is_an_error_and_the_others_go_on() {
    if !in_own_mounts("shortage::without_a_free_pty_a_session_is_an_error_and_the_others_go_on") {
        return;
    }
    let scene = Scene::start(Switch::On).await;
    shell(
        "mount -t devpts -o newinstance,max=2,ptmxmode=0666 devpts /dev/pts \
         && mount --bind /dev/pts/ptmx /dev/ptmx",
    );
    let first = running(&scene, BackendChoice::None).await;
    let second = running(&scene, BackendChoice::None).await;
    let marker = scene.stage.work().join("payload-ran");
    let line = format!("/usr/bin/touch {}", marker.display());
    let problem = broken(&scene, BackendChoice::None, &line).await;
    assert_eq!(problem.code, "NO_FREE_PTY", "{problem:?}");
    assert!(problem.fix.is_some(), "{problem:?}");
    assert!(!marker.exists(), "the payload ran");
    // The sandbox has terminals of its own.
    let native = running(&scene, BackendChoice::Native).await;
    assert_eq!(native.handle.backend, Some(SandboxBackend::Native));
    for session in [&first, &second, &native] {
        answers(&scene, session, "still").await;
    }
    // What has ended gives its terminal back, and keeps its output.
    scene.engine.close(&first.id).await.expect("a close");
    until(&scene.engine, &first.id, "still-back").await;
    let third = running(&scene, BackendChoice::None).await;
    answers(&scene, &third, "again").await;
    scene.engine.shutdown().await;
}

/// The sandbox's `/dev` with a terminal for one: bubblewrap's own holds as many as the kernel has.
const ONE_TERMINAL: &str = r#"kept=()
for ((i = 0; i < ${#all[@]}; i++)); do
  if [ "${all[$i]}" = --dev ]; then kept+=(--dev-bind DEV /dev); i=$((i+1))
  else kept+=("${all[$i]}"); fi
done
exec REAL "${kept[@]}"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn without_a_free_pty_in_its_sandbox_a_session_is_an_error_and_the_others_go_on() {
    let name = "without_a_free_pty_in_its_sandbox_a_session_is_an_error_and_the_others_go_on";
    if !in_own_mounts(&format!("shortage::{name}")) {
        return;
    }
    let scene = Scene::start(Switch::On).await;
    let dev = scene.stage.home().join("dev");
    let dev = dev.display();
    shell(&format!(
        "mkdir {dev} && mount -t tmpfs -o mode=755 dev {dev} && mkdir {dev}/pts {dev}/shm && \
         for node in null zero full random urandom tty; do \
           touch {dev}/$node && mount --bind /dev/$node {dev}/$node; done && \
         mount -t devpts -o newinstance,max=1,ptmxmode=0666,mode=620 devpts {dev}/pts && \
         ln -s pts/ptmx {dev}/ptmx && ln -s /proc/self/fd {dev}/fd"
    ));
    let script = format!("{READ_ARGUMENTS}{ONE_TERMINAL}").replace("DEV", &dev.to_string());
    scene.replace_bwrap(&script);
    let first = running(&scene, BackendChoice::Native).await;
    assert_eq!(first.handle.backend, Some(SandboxBackend::Native));
    let bare = running(&scene, BackendChoice::None).await;
    let marker = scene.stage.work().join("payload-ran");
    let line = format!("/usr/bin/touch {}", marker.display());
    let problem = broken(&scene, BackendChoice::Native, &line).await;
    assert_eq!(problem.code, "NO_FREE_PTY", "{problem:?}");
    assert!(problem.fix.is_some(), "{problem:?}");
    assert!(!marker.exists(), "the payload ran");
    for session in [&first, &bare] {
        answers(&scene, session, "still").await;
    }
    scene.engine.close(&first.id).await.expect("a close");
    let third = running(&scene, BackendChoice::Native).await;
    answers(&scene, &third, "again").await;
    scene.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_sessions_go_on_and_nothing_of_the_history_is_lost() {
    if !in_own_mounts("shortage::on_a_full_disk_sessions_go_on_and_nothing_of_the_history_is_lost")
    {
        return;
    }
    let home = std::path::PathBuf::from(std::env::var_os("HOME").expect("a home"));
    let state = home.join(".local/state/kotak");
    std::fs::create_dir_all(&state).expect("a directory");
    let state = state.display();
    shell(&format!(
        "mount -t tmpfs -o size=1m,mode=700 tiny '{state}'"
    ));
    let scene = Scene::start(Switch::On).await;
    let before = running(&scene, BackendChoice::Native).await;
    shell(&format!(
        "cat /dev/zero > '{state}/filler' 2>/dev/null; test -s '{state}/filler'"
    ));
    let during = running(&scene, BackendChoice::Native).await;
    assert_eq!(during.handle.backend, Some(SandboxBackend::Native));
    // Fills what the database still had room for.
    let mut told = None;
    for n in 0..400 {
        let layout = format!("{{\"filling\":\"{}\"}}", "x".repeat(1000 + n));
        let _waits = scene.engine.save_layout(layout);
        told = scene
            .engine
            .snapshot()
            .notices
            .into_iter()
            .find(|problem| problem.code == "DISK_FULL");
        if told.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let told = told.expect("the full disk is told");
    assert!(told.fix.is_some(), "{told:?}");
    answers(&scene, &before, "before").await;
    answers(&scene, &during, "during").await;
    shell(&format!("rm '{state}/filler'"));
    let after = running(&scene, BackendChoice::Native).await;
    answers(&scene, &after, "after").await;
    let ids = || {
        let history = scene.engine.history(100).unwrap_or_default();
        let ids: Vec<String> = history.into_iter().map(|record| record.id).collect();
        ids
    };
    for _ in 0..200 {
        if ids().len() == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ids = ids();
    for session in [&before, &during, &after] {
        assert!(
            ids.contains(&session.id),
            "{} is not in {ids:?}",
            session.id
        );
    }
    scene.engine.shutdown().await;
}

/// Lowers this process's limit of processes until it is dropped. The shell that raises it again
/// was started before.
struct ProcessLimit {
    shell: Child,
    raise: Option<ChildStdin>,
}

impl ProcessLimit {
    fn lower() -> Self {
        let own = std::process::id();
        let mut shell = Command::new("sh")
            .args([
                "-c",
                &format!(
                    "was=$(prlimit --pid {own} --nproc --noheadings --output SOFT); \
                     prlimit --pid {own} --nproc=1: && echo low; read -r word; \
                     prlimit --pid {own} --nproc=$was:"
                ),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut low = [0_u8; 4];
        let stdout = shell.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(stdout, &mut low).expect("the limit");
        assert_eq!(&low, b"low\n");
        let raise = shell.stdin.take();
        Self { shell, raise }
    }

    fn raise(mut self) {
        let mut raise = self.raise.take().expect("a pipe");
        raise.write_all(b"raise\n").expect("a word");
        drop(raise);
        assert!(self.shell.wait().expect("an end").success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_process_limit_a_session_is_an_error_and_the_others_go_on() {
    if kotak_tests::stage::is_root() && std::env::var_os(crate::INNER).is_none() {
        kotak_tests::stage::skip("the kernel exempts user 0 from the limit of processes");
        return;
    }
    if !in_own_mounts("shortage::at_the_process_limit_a_session_is_an_error_and_the_others_go_on") {
        return;
    }
    let scene = Scene::start(Switch::On).await;
    let native = running(&scene, BackendChoice::Native).await;
    let bare = running(&scene, BackendChoice::None).await;
    let marker = scene.stage.work().join("payload-ran");
    let line = format!("/usr/bin/touch {}", marker.display());
    let limit = ProcessLimit::lower();
    for backend in [BackendChoice::Native, BackendChoice::None] {
        let problem = broken(&scene, backend, &line).await;
        assert_eq!(problem.code, "PROCESS_LIMIT", "{backend:?}: {problem:?}");
        assert!(problem.fix.is_some(), "{problem:?}");
        assert!(!marker.exists(), "{backend:?}: the payload ran");
    }
    answers(&scene, &native, "still").await;
    answers(&scene, &bare, "still").await;
    limit.raise();
    let after = running(&scene, BackendChoice::Native).await;
    answers(&scene, &after, "again").await;
    scene.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_go_on_while_bubblewrap_is_broken_and_new_ones_work_when_it_is_mended() {
    let name = "sessions_go_on_while_bubblewrap_is_broken_and_new_ones_work_when_it_is_mended";
    if !in_own_mounts(&format!("shortage::{name}")) {
        return;
    }
    let scene = Scene::start(Switch::On).await;
    let native = running(&scene, BackendChoice::Native).await;
    let bare = running(&scene, BackendChoice::None).await;
    scene.replace_bwrap("#!/bin/sh\necho 'bwrap: broken' >&2\nexit 1\n");
    let problem = broken(&scene, BackendChoice::Native, "/bin/true").await;
    assert_eq!(problem.code, "BWRAP_FAILED", "{problem:?}");
    assert!(problem.fix.is_some(), "{problem:?}");
    answers(&scene, &native, "still").await;
    answers(&scene, &bare, "still").await;
    shell(&format!("umount '{}'", scene.bwrap.display()));
    let after = running(&scene, BackendChoice::Native).await;
    answers(&scene, &after, "again").await;
    scene.engine.shutdown().await;
}
