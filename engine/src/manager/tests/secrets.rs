//! Secrets that a program on the host replaces or makes while a session runs (REQ TM-2, SP).

use super::{ALONE, Rig, alone_in, eventually, home, marker, sleepers};
use crate::api::{ActivityKind, ActivityQuery, SessionInfo};
use crate::backend::{Aspect, BackendChoice};
use crate::events::Evidence;
use crate::manager::{ExecRequest, ExecStdio, SandboxPort};
use std::fs;
use std::path::Path;

/// Runs a test in a process of its own whose home directory is empty; `true` in that process.
fn in_own_home(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let own = tempfile::Builder::new()
        .prefix("kotak-test-home-")
        .tempdir_in(home())
        .unwrap();
    alone_in(&format!("manager::tests::secrets::{test}"), own.path())
}

/// As most editors and `git config` save.
fn save(path: &Path, content: &str) {
    let new = path.with_file_name("being-saved");
    fs::write(&new, content).unwrap();
    fs::rename(&new, path).unwrap();
}

impl Rig {
    /// Whether a program inside can read it.
    async fn can_read(&self, id: &str, path: &Path) -> bool {
        let request = ExecRequest {
            argv: vec!["cat".into(), path.into()],
            cwd: None,
            env: Vec::new(),
            stdio: ExecStdio::Pipes,
        };
        let exec = self.engine.manager().exec(id, request).await.unwrap();
        exec.wait().await.exit_code == 0
    }

    async fn until_hidden(&self, id: &str, path: &Path) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while self.can_read(id, path).await {
            assert!(std::time::Instant::now() < deadline, "{}", path.display());
        }
    }
}

fn gap_codes(info: &SessionInfo) -> Vec<String> {
    let enforcement = info.handle.enforcement.as_ref().unwrap();
    let rows = enforcement.aspects.iter();
    rows.filter(|row| row.aspect == Aspect::SecretReads)
        .flat_map(|row| row.gaps.iter().map(|gap| gap.code.clone()))
        .collect()
}

/// Host process ids of this process's helpers of masks.
fn helpers() -> Vec<i32> {
    let own = std::process::id();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split(' ').nth(2)?.parse().ok());
        if command.starts_with(b"kotak-guard\0masks\0") && parent == Some(own) {
            found.push(entry.file_name().to_str().unwrap().parse().unwrap());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_saved_again_and_again_is_hidden_each_time() {
    if !in_own_home("a_secret_that_is_saved_again_and_again_is_hidden_each_time") {
        return;
    }
    let (netrc, plain) = (home().join(".netrc"), home().join("plain"));
    fs::write(&netrc, "old").unwrap();
    let rig = Rig::start().await;
    rig.assert_native();
    let line = rig.script(
        "reader",
        &format!("while :; do cat {} 2>/dev/null; done", netrc.display()),
    );
    let info = rig.launch(BackendChoice::Native, &line).await;
    let id = info.id.as_str();
    assert_eq!(info.handle.details.get("secretsNotHiddenAgain"), None);
    let codes = gap_codes(&info);
    assert!(
        codes.contains(&"secret-for-a-moment".to_owned()),
        "{codes:?}"
    );
    assert!(
        !codes.contains(&"secret-file-replaced".to_owned()),
        "{codes:?}"
    );
    assert_eq!(helpers().len(), 1);
    assert!(!rig.can_read(id, &netrc).await);
    for round in 0..50 {
        save(&netrc, &format!("secret {round}"));
        save(&plain, "plain");
        rig.until_hidden(id, &netrc).await;
        assert!(rig.can_read(id, &plain).await, "the control failed");
    }
    // A burst, of which only the last file is left.
    for round in 0..200 {
        save(&netrc, &format!("burst {round}"));
    }
    rig.until_hidden(id, &netrc).await;

    let query = || ActivityQuery {
        session_id: Some(id.to_owned()),
        kind: Some(ActivityKind::Files),
        ..ActivityQuery::default()
    };
    let rows = rig.engine.activity(query()).await.unwrap().rows;
    let row = rows
        .iter()
        .find(|row| row.target == netrc.to_str().unwrap())
        .unwrap();
    assert_eq!(row.action, "file-read-data");
    assert_eq!(row.evidence, Evidence::Inferred);
    assert_eq!(row.process, None);
    assert!(row.count >= 1);

    // Nothing of it on the host, and nothing after the session.
    assert_eq!(fs::read_to_string(&netrc).unwrap(), "burst 199");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(".netrc"), "{mounts}");
    rig.engine.close(id).await.unwrap();
    eventually("the helper is gone", || helpers().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_and_secrets_that_the_host_makes_later_are_hidden_too() {
    if !in_own_home("folders_and_secrets_that_the_host_makes_later_are_hidden_too") {
        return;
    }
    let at = |below: &str| home().join(below);
    fs::create_dir_all(at(".ssh")).unwrap();
    fs::create_dir_all(at(".config/gh")).unwrap();
    fs::write(at(".ssh/id"), "old").unwrap();
    fs::write(at(".config/gh/hosts.yml"), "old").unwrap();
    let rig = Rig::start().await;
    rig.assert_native();
    let info = rig.launch(BackendChoice::Native, "sleep 86400").await;
    let id = info.id.as_str();

    // A folder that is replaced.
    fs::remove_dir_all(at(".ssh")).unwrap();
    fs::create_dir(at(".ssh")).unwrap();
    fs::write(at(".ssh/id"), "new").unwrap();
    rig.until_hidden(id, &at(".ssh/id")).await;
    // A folder, and a file in a folder, that were not there.
    fs::create_dir(at(".aws")).unwrap();
    fs::write(at(".aws/credentials"), "new").unwrap();
    rig.until_hidden(id, &at(".aws/credentials")).await;
    fs::create_dir(at(".docker")).unwrap();
    fs::write(at(".docker/config.json"), "new").unwrap();
    fs::write(at(".docker/other"), "new").unwrap();
    rig.until_hidden(id, &at(".docker/config.json")).await;
    assert!(
        rig.can_read(id, &at(".docker/other")).await,
        "the control failed"
    );
    // The folder above a secret that is replaced.
    fs::rename(at(".config"), at("moved")).unwrap();
    fs::create_dir_all(at(".config/gh")).unwrap();
    fs::write(at(".config/gh/hosts.yml"), "new").unwrap();
    fs::write(at(".config/other"), "new").unwrap();
    rig.until_hidden(id, &at(".config/gh/hosts.yml")).await;
    assert!(!rig.can_read(id, &at("moved/gh/hosts.yml")).await);
    assert!(
        rig.can_read(id, &at(".config/other")).await,
        "the control failed"
    );
    // A symbolic link, at a secret's name and on the way to one.
    fs::write(at("elsewhere"), "new").unwrap();
    std::os::unix::fs::symlink("elsewhere", at(".netrc")).unwrap();
    rig.until_hidden(id, &at(".netrc")).await;
    fs::create_dir(at("cargo")).unwrap();
    fs::write(at("cargo/auth.json"), "new").unwrap();
    std::os::unix::fs::symlink("../cargo", at(".config/containers")).unwrap();
    rig.until_hidden(id, &at(".config/containers/auth.json"))
        .await;
    assert!(fs::read_to_string(at(".netrc")).is_ok());
    rig.engine.close(id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_watch_a_saved_secret_is_read_and_the_report_says_so() {
    if !in_own_home("without_the_watch_a_saved_secret_is_read_and_the_report_says_so") {
        return;
    }
    crate::process::forbid_secret_watch_for_test();
    let netrc = home().join(".netrc");
    fs::write(&netrc, "old").unwrap();
    let rig = Rig::start().await;
    rig.assert_native();
    let info = rig.launch(BackendChoice::Native, "sleep 86400").await;
    assert!(info.handle.details.contains_key("secretsNotHiddenAgain"));
    let codes = gap_codes(&info);
    assert!(
        codes.contains(&"secret-file-replaced".to_owned()),
        "{codes:?}"
    );
    assert!(
        codes.contains(&"missing-secret-path".to_owned()),
        "{codes:?}"
    );
    assert!(
        !codes.contains(&"secret-for-a-moment".to_owned()),
        "{codes:?}"
    );
    assert!(!rig.can_read(&info.id, &netrc).await);
    save(&netrc, "new");
    assert!(rig.can_read(&info.id, &netrc).await);
    rig.engine.close(&info.id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_secrets_cannot_be_hidden_any_more_is_killed() {
    if !in_own_home("a_session_whose_secrets_cannot_be_hidden_any_more_is_killed") {
        return;
    }
    let rig = Rig::start().await;
    rig.assert_native();
    let kept = marker();
    let info = rig
        .launch(BackendChoice::Native, &format!("sleep {kept}"))
        .await;
    let id = info.id.as_str();
    eventually("the program runs", || sleepers(&kept).len() == 1).await;
    let [helper] = helpers()[..] else {
        panic!("{:?}", helpers())
    };
    let helper = nix::unistd::Pid::from_raw(helper);
    nix::sys::signal::kill(helper, nix::sys::signal::Signal::SIGKILL).unwrap();
    let ended = rig.engine.wait(id).await.unwrap();
    let error = ended.handle.error.unwrap();
    assert_eq!(error.code, "SECRET_NOT_HIDDEN");
    assert!(error.fix.is_some());
    assert!(sleepers(&kept).is_empty());
    assert!(helpers().is_empty());
}
