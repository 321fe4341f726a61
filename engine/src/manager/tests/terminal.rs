//! Bytes: none lost, memory bounded, reattach.

use super::{Rig, eventually};
use crate::backend::BackendChoice;
use sha2::{Digest, Sha256};

const LINES: u32 = 3_000_000;

async fn every_line_arrives(backend: BackendChoice) {
    let rig = Rig::start().await;
    let info = rig.launch(backend, &format!("seq 1 {LINES}")).await;
    let mut hash = Sha256::new();
    let mut from = 0;
    loop {
        let chunk = rig.engine.read_output(&info.id, from).await.unwrap();
        assert_eq!((chunk.truncated, chunk.offset), (false, from));
        hash.update(&chunk.bytes);
        from += chunk.bytes.len() as u64;
        // What waits for the reader is bounded, whatever the program produces.
        assert!(
            chunk.head - from <= 1024 * 1024,
            "{} bytes wait",
            chunk.head - from
        );
        if chunk.ended && from == chunk.head {
            break;
        }
    }
    let mut expected = Sha256::new();
    for line in 1..=LINES {
        expected.update(format!("{line}\r\n"));
    }
    assert_eq!(hash.finalize(), expected.finalize());
    assert_eq!(rig.engine.wait(&info.id).await.unwrap().exit_code, Some(0));
}

// REQ TM-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_million_lines_arrive_unchanged_without_a_sandbox() {
    every_line_arrives(BackendChoice::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_million_lines_arrive_unchanged_from_the_native_sandbox() {
    every_line_arrives(BackendChoice::Native).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_that_nobody_reads_stops_and_an_interrupt_ends_it() {
    let rig = Rig::start().await;
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let info = rig.launch(backend, "yes").await;
        let session = rig.engine.0.find(&info.id).unwrap();
        let terminal = session.terminal().unwrap();
        // Offset 0 acknowledges nothing.
        eventually("the flood reached the mark", || {
            terminal.read_now(0).head >= 512 * 1024
        })
        .await;
        let head = terminal.read_now(0).head;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(terminal.read_now(0).head, head, "it stands still");
        assert!(head <= 640 * 1024);
        rig.engine.write_input(&info.id, b"\x03").await.unwrap();
        let end = rig.engine.wait(&info.id).await.unwrap();
        assert_eq!(end.exit_code, Some(130));
        let (text, _) = rig.read_to_end(&info.id).await;
        assert!(text.starts_with("y\r\ny\r\n"));
        assert!(text.len() as u64 >= head);
        assert_eq!(
            rig.engine
                .write_input(&info.id, b"x")
                .await
                .unwrap_err()
                .code,
            "SESSION_ENDED"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_that_reloads_gets_everything_again_and_loses_nothing() {
    let rig = Rig::start().await;
    let info = rig.launch(BackendChoice::None, "cat").await;
    rig.engine.write_input(&info.id, b"first\n").await.unwrap();
    let mut seen = 0;
    while seen < b"first\r\nfirst\r\n".len() as u64 {
        let chunk = rig.engine.read_output(&info.id, seen).await.unwrap();
        seen += chunk.bytes.len() as u64;
    }
    // The old window waits for more while the new one starts over.
    let engine = rig.engine.clone();
    let id = info.id.clone();
    let old_window = tokio::spawn(async move { engine.read_output(&id, seen).await });
    rig.engine
        .write_input(&info.id, b"second\n\x04")
        .await
        .unwrap();
    let (text, _) = rig.read_to_end(&info.id).await;
    assert_eq!(text, "first\r\nfirst\r\nsecond\r\nsecond\r\n");
    assert!(old_window.await.unwrap().is_ok());
    // And again after the end, until the session is dismissed.
    let (again, _) = rig.read_to_end(&info.id).await;
    assert_eq!(again, text);
    rig.engine.dismiss(&info.id).await.unwrap();
    assert_eq!(
        rig.engine.read_output(&info.id, 0).await.unwrap_err().code,
        "NO_SUCH_SESSION"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_size_reaches_the_program_with_its_signal() {
    let rig = Rig::start().await;
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let line = rig.script(
            "size.sh",
            "trap 'stty size; exit 0' WINCH\necho ready\nwhile :; do sleep 0.05; done",
        );
        let info = rig.launch(backend, &line).await;
        let first = rig.engine.read_output(&info.id, 0).await.unwrap();
        assert!(first.bytes.starts_with(b"ready"));
        rig.engine.resize(&info.id, 132, 43).unwrap();
        let (text, end) = rig.read_to_end(&info.id).await;
        assert_eq!(
            (text.as_str(), end.exit_code),
            ("ready\r\n43 132\r\n", Some(0)),
            "{backend:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_has_job_control() {
    let rig = Rig::start().await;
    for backend in [BackendChoice::None, BackendChoice::Native] {
        let info = rig.launch(backend, "bash --norc --noprofile -i").await;
        rig.engine
            .write_input(&info.id, b"sleep 1000 &\njobs; kill %1; exit 3\n")
            .await
            .unwrap();
        let (text, end) = rig.read_to_end(&info.id).await;
        assert!(text.contains("[1]+  Running"), "{text}");
        assert!(!text.contains("no job control"), "{text}");
        assert_eq!(end.exit_code, Some(3), "{backend:?}");
    }
}
