//! SIGKILL of the engine's process leaves nothing behind.

use super::{ALONE, Rig, eventually, sleepers};
use crate::backend::BackendChoice;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const ROLE: &str = "KOTAK_TEST_CRASH_MARKER";

/// Not a test of its own: the process that is killed by the one below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engine_process_to_be_killed() {
    let Some(marker) = std::env::var(ROLE).ok() else {
        return;
    };
    let rig = Rig::start().await;
    rig.assert_native();
    let line = rig.script("daemons.sh", &format!(
        "trap '' HUP TERM INT\nsetsid sh -c 'sleep {marker} & sleep {marker} &'\n(setsid sleep {marker} &)\nsleep {marker}\n"
    ));
    for number in 0..20 {
        let backend = if number % 2 == 0 {
            BackendChoice::None
        } else {
            BackendChoice::Native
        };
        let info = rig.launch(backend, &line).await;
        if number >= 16 {
            eventually("its four sleep", || {
                sleepers(&marker).len() == 4 * (number + 1)
            })
            .await;
            rig.engine.suspend(&info.id).await.unwrap();
        }
    }
    eventually("all sleep", || sleepers(&marker).len() == 80).await;
    println!("\nROOT {}", rig.root.path().display());
    std::future::pending::<()>().await;
}

// Launch case: children survive when the app crashes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_sigkill_of_the_engine_with_twenty_sessions_of_daemons_nothing_is_left() {
    let marker = format!("86399.{}", std::process::id());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "manager::tests::crash::engine_process_to_be_killed",
            "--nocapture",
        ])
        .env(ROLE, &marker)
        .env(ALONE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let root = tokio::task::spawn_blocking(move || {
        output
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("ROOT ").map(str::to_owned))
    });
    let root = root
        .await
        .unwrap()
        .expect("the engine process said where it works");
    assert_eq!(sleepers(&marker).len(), 80);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("nothing is left", || sleepers(&marker).is_empty()).await;
    // Nothing of the sessions is mounted on the host.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&root), "{mounts}");
    std::fs::remove_dir_all(root).unwrap();
}
