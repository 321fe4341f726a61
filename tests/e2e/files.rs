//! Refused files and programs in the real window: the row with path and program, and the way from a
//! refused program to one that runs (REQ UI-5, UI-7, BW-5, BW-6).

use kotak_tests::desktop::picture_dir;
use kotak_tests::panel::{Panel, pane};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long a row may take to show on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Opens a view of the inspector.
async fn view(panel: &Panel, name: &str) {
    let script = format!(
        "const tab = [...document.querySelectorAll('[role=tab]')] \
           .find(tab => tab.textContent.trim() === '{name}'); \
         tab?.click(); return tab?.getAttribute('aria-selected') === 'true';"
    );
    panel
        .window
        .until(&format!("the view {name}"), &script)
        .await;
}

/// Waits until a row of the feed holds all these parts.
async fn row(panel: &Panel, parts: &[&str]) {
    let script = "return [...document.querySelectorAll('aside [data-row]')] \
                  .map(row => row.textContent.replace(/\\s+/g, ' ').trim());";
    let began = Instant::now();
    loop {
        let rows = panel.window.script(script, Vec::new()).await;
        let rows: Vec<String> = serde_json::from_value(rows).expect("texts");
        if rows
            .iter()
            .any(|row| parts.iter().all(|part| row.contains(part)))
        {
            return;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "no row of the feed with {parts:?}: {rows:#?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Presses the first button whose words begin so, and waits until it is there.
async fn press(panel: &Panel, words: &str) {
    let script = format!(
        "const button = [...document.querySelectorAll('aside button')] \
           .find(button => button.textContent.trim().startsWith('{words}') && !button.disabled); \
         button?.click(); return !!button;"
    );
    panel
        .window
        .until(&format!("the button {words}"), &script)
        .await;
}

/// The session that took another's place.
async fn successor(panel: &Panel, old: &str) -> String {
    let began = Instant::now();
    loop {
        let snapshot = panel
            .invoke("snapshot", json!({}))
            .await
            .expect("a snapshot");
        let sessions = snapshot["sessions"].as_array().expect("sessions");
        let fresh = sessions
            .iter()
            .find(|session| session["id"] != old && session["phase"] == "running");
        if let Some(id) = fresh.and_then(|session| session["id"].as_str()) {
            return id.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "nothing took its place");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn pictures(panel: &Panel, name: &str) {
    for theme in ["light", "dark"] {
        panel.theme(theme).await;
        let path = picture_dir().join(format!("{name}-{theme}.png"));
        panel.desktop.picture(&path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_name_shows_with_its_path_and_the_program() {
    // REQ UI-5, BW-5, SP: a protected name that does not exist yet
    let panel = Panel::open().await;
    let id = panel.start("native", None).await;
    panel.phase(&id, "running").await;
    view(&panel, "Activity").await;
    panel
        .line(
            &id,
            "mkdir fresh; touch fresh/control fresh/.envrc; echo do''ne",
        )
        .await;
    panel.shows(&id, "done").await;
    row(&panel, &["work/fresh/.envrc", "touch"]).await;
    assert!(
        panel.stage.read("work/fresh/control").is_some(),
        "the control"
    );
    assert!(
        panel.stage.read("work/fresh/.envrc").is_none(),
        "it was made"
    );
    pictures(&panel, "refused-file").await;
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_program_is_approved_and_runs_after_a_restart() {
    // REQ UI-7, BW-6
    let panel = Panel::open().await;
    let mut request = panel.request("native", None);
    request["execRestriction"] = json!("writable");
    let id = panel.launch(request).await;
    panel.phase(&id, "running").await;
    view(&panel, "Activity").await;
    panel
        .line(
            &id,
            "mkdir -p bin; cp /usr/bin/true bin/own; bin/own; echo ended-$?",
        )
        .await;
    panel.shows(&id, "ended-126").await;
    row(&panel, &["work/bin/own"]).await;
    panel
        .window
        .until(
            "the refused program's row",
            "const row = [...document.querySelectorAll('aside [data-row]')] \
               .find(row => row.textContent.includes('work/bin/own')); \
             (row?.querySelector('button') ?? row)?.click(); \
             return !!document.querySelector('[data-testid=activity-detail]');",
        )
        .await;
    press(&panel, "Approve running").await;
    pictures(&panel, "approve-folder").await;
    press(&panel, "Approve").await;
    panel
        .window
        .says("[data-testid=approved]", "next start")
        .await;
    // What runs is not widened.
    panel.line(&id, "bin/own; echo still-$?").await;
    panel.shows(&id, "still-126").await;
    press(&panel, "Restart").await;
    let live = successor(&panel, &id).await;
    panel.reveal(&live).await;
    panel.phase(&live, "running").await;
    panel.line(&live, "clear; bin/own; echo ran-$?").await;
    panel.shows(&live, "ran-0").await;
    let badge = panel
        .window
        .find(&format!("{} [data-testid=pane-badge]", pane(&live)))
        .await;
    let shown = badge.attr("data-backend").await.expect("an attribute");
    assert_eq!(shown.as_deref(), Some("native"));
    panel.close().await;
}
