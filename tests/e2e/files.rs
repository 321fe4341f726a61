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

/// Loads a filter that refuses seccomp(2) with these flags, then becomes the panel.
#[cfg(target_arch = "x86_64")]
const MASKED: &str = r"#!/usr/bin/python3
import ctypes, os, struct, sys
program = [
    (0x20, 0, 0, 0),
    (0x15, 0, 3, 317),
    (0x20, 0, 0, 24),
    (0x45, 0, 1, FLAGS),
    (0x06, 0, 0, 0x00050001),
    (0x06, 0, 0, 0x7fff0000),
]
code = b''.join(struct.pack('=HBBI', *one) for one in program)
held = ctypes.create_string_buffer(code)
fprog = struct.pack('@HP', len(program), ctypes.addressof(held))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
assert libc.prctl(38, 1, 0, 0, 0) == 0
buffer = ctypes.create_string_buffer(fprog)
assert libc.prctl(22, 2, ctypes.addressof(buffer), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv('PANEL', ['PANEL'] + sys.argv[1:])
";

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread")]
async fn a_masked_supervisor_is_named_by_the_badge_and_its_gaps() {
    // REQ BK-7, BW-4: masked by an outer filter, as a container's, and by no switch of Kotak's.
    // 8 is SECCOMP_FILTER_FLAG_NEW_LISTENER; the control's is no flag at all.
    for (flags, masked) in [("0x40000000", false), ("8", true)] {
        let panel = Panel::open_behind(&MASKED.replace("FLAGS", flags)).await;
        let id = panel.start("native", None).await;
        panel.phase(&id, "running").await;
        let snapshot = panel
            .invoke("snapshot", json!({}))
            .await
            .expect("a snapshot");
        let sessions = snapshot["sessions"].as_array().expect("sessions");
        let session = sessions.iter().find(|session| session["id"] == id.as_str());
        let enforcement = session.expect("the session")["handle"]["enforcement"].to_string();
        let gaps = ["missing-protected-path", "new-repositories"];
        for gap in gaps {
            assert_eq!(enforcement.contains(gap), masked, "{flags}: {enforcement}");
        }
        view(&panel, "Policy").await;
        panel
            .line(&id, "mkdir fresh; touch fresh/.envrc; echo e-$?")
            .await;
        if masked {
            panel
                .window
                .says("aside.inspector", "can be created inside")
                .await;
            // What the report says is what happens.
            panel.shows(&id, "e-0").await;
            pictures(&panel, "masked-supervisor").await;
            let mut refused = panel.request("native", None);
            refused["execRestriction"] = json!("writable");
            let refused = panel.invoke("launch", json!({ "request": refused })).await;
            let problem = refused.expect_err("nothing could report what is refused");
            assert_eq!(
                problem["code"],
                json!("EXEC_RESTRICTION_UNAVAILABLE"),
                "{problem}"
            );
        } else {
            panel.shows(&id, "e-1").await;
        }
        panel.close().await;
    }
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
