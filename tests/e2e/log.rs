//! The panel's log.

use kotak_tests::Stage;
use kotak_tests::panel::Panel;
use std::collections::BTreeMap;

/// The log files by name, with their contents.
fn logs(stage: &Stage) -> BTreeMap<String, String> {
    let dir = stage.home().join(".local/state/kotak/logs");
    let entries = std::fs::read_dir(dir).expect("a log directory").flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(entry.path()).expect("a log");
            (name, text)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_panel_logs_to_a_file_of_the_day_and_keeps_seven() {
    let stage = Stage::new();
    let dir = ".local/state/kotak/logs";
    let old: Vec<String> = (1..=9)
        .map(|day| format!("kotak.2020-01-{day:02}.log"))
        .collect();
    for name in &old {
        stage.write(&format!("{dir}/{name}"), name);
        // Files are told apart by their age, too.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let state = stage.home().join(".local/state/kotak");
    for place in [state.clone(), state.join("logs")] {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(place, private).expect("permissions");
    }
    let panel = Panel::open_at(stage, &[], &[]).await;
    let found = logs(&panel.stage);
    let fresh: Vec<&String> = found.keys().filter(|name| !old.contains(name)).collect();
    assert_eq!(fresh.len(), 1, "{:?}", found.keys());
    assert!(found[fresh[0]].contains("agent sandbox ON"), "{found:?}");
    assert_eq!(found.len(), 7, "{:?}", found.keys());
    for name in &old[3..] {
        assert_eq!(found.get(name), Some(name), "yesterday's is as it was");
    }
    panel.close().await;
}
