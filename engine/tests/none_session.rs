//! Sessions without a sandbox, through the whole engine.

mod rig;

use kotak_engine::api::{LaunchRequest, Program, SessionPhase};
use kotak_engine::backend::{BackendChoice, SandboxBackend};
use rig::Rig;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_runs_and_its_output_and_exit_code_arrive() {
    let rig = Rig::start().await;
    let info = rig.launch(BackendChoice::None, "sh -c 'tty; echo hello; exit 7'").await;
    assert_eq!(info.handle.backend, Some(SandboxBackend::None));
    let (text, end) = rig.read_to_end(&info.id).await;
    assert!(text.contains("/dev/pts/"), "{text}");
    assert!(text.contains("hello"), "{text}");
    assert_eq!((end.phase, end.exit_code), (SessionPhase::Ended, Some(7)));
}
