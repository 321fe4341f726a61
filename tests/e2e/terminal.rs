//! The terminal in the real window (REQ UI-2): type, run, resize, interrupt, end, find, split,
//! reload, close, suspend.

use kotak_tests::panel::{Panel, chord, control, key, pane};
use serde_json::json;

/// The folder field of the new-session sheet, once that is open.
async fn folder_field(panel: &Panel) -> fantoccini::elements::Element {
    panel
        .window
        .find("dialog[open] input[type=text], dialog[open] input:not([type])")
        .await
}

/// Waits until the sheet's Open button can be pressed.
async fn can_open(panel: &Panel) {
    panel
        .window
        .until(
            "Open can be pressed",
            "const open = [...document.querySelectorAll('dialog[open] button')]\
             .find(b => b.textContent.trim().startsWith('Open') && b.type === 'submit'); \
             return !!open && !open.disabled;",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_opens_the_sheet_presses_enter_and_works_in_a_sandboxed_shell() {
    let panel = Panel::open().await;
    panel.window.click("[data-testid=new-session]").await;
    let folder = folder_field(&panel).await;
    folder.clear().await.expect("an empty field");
    folder
        .send_keys(&panel.stage.work().display().to_string())
        .await
        .expect("typing");
    can_open(&panel).await;
    folder.send_keys(key::ENTER).await.expect("typing");
    let row = panel.window.find("[data-testid=session-row]").await;
    let id = row
        .attr("data-session-id")
        .await
        .expect("an attribute")
        .expect("an id");
    panel.phase(&id, "running").await;
    let badge = panel
        .window
        .find(&format!("{} [data-testid=pane-badge]", pane(&id)))
        .await;
    assert_eq!(
        badge
            .attr("data-backend")
            .await
            .expect("an attribute")
            .as_deref(),
        Some("native")
    );
    panel
        .line(&id, "echo in-$((40+2)); cat ~/.ssh/secret")
        .await;
    panel.shows(&id, "in-42").await;
    panel
        .window
        .until(
            "the refusal",
            &format!(
                "return document.querySelector(\"{} .xterm-rows\").textContent.includes('denied')",
                pane(&id)
            ),
        )
        .await;
    assert!(!panel.rows(&id).await.contains(kotak_tests::stage::SECRET));
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_running_resizing_interrupting_and_ending() {
    for backend in ["native", "none"] {
        let panel = Panel::open().await;
        let id = panel.start(backend, None).await;
        panel.phase(&id, "running").await;
        panel.line(&id, "echo typed-$((1+1))").await;
        panel.shows(&id, "typed-2").await;

        panel.line(&id, "tty && jobs && echo job-control-$-").await;
        panel.window.until("interactive", &format!(
            "return /job-control-\\S*i\\S*m/.test(document.querySelector(\"{} .xterm-rows\").textContent) \
             || /job-control-\\S*m\\S*i/.test(document.querySelector(\"{} .xterm-rows\").textContent)",
            pane(&id), pane(&id))).await;
        assert!(!panel.rows(&id).await.contains("no job control"));

        panel
            .line(
                &id,
                "clear; trap 'echo size-$(stty size | tr \" \" x)' WINCH",
            )
            .await;
        panel
            .window
            .client()
            .set_window_size(900, 700)
            .await
            .expect("a size");
        panel.window.until("the program hears of the new size", &format!(
            "return /size-\\d+x\\d+/.test(document.querySelector(\"{} .xterm-rows\").textContent)",
            pane(&id))).await;

        panel
            .line(&id, "trap - WINCH; sleep 100000; echo after-$((2+3))")
            .await;
        panel.runs(&id, "sleep 100000").await;
        panel.keys(&id, &control('c')).await;
        panel.line(&id, "echo interrupted-$((6*7))").await;
        panel.shows(&id, "interrupted-42").await;

        panel.line(&id, "exit 7").await;
        panel.phase(&id, "ended").await;
        panel
            .window
            .says(&format!("{} [data-testid=exit-strip]", pane(&id)), "7")
            .await;
        panel.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finding_text_in_the_scrollback() {
    let panel = Panel::open().await;
    let id = panel.start("native", None).await;
    panel.phase(&id, "running").await;
    panel
        .line(
            &id,
            "clear; for i in $(seq 1 300); do echo needle-$i; done; echo rea''dy",
        )
        .await;
    panel.shows(&id, "ready").await;
    panel.keys(&id, &chord('f')).await;
    let find = panel.window.find("[data-testid=find-input]").await;
    find.send_keys("needle-150").await.expect("typing");
    find.send_keys(key::ENTER).await.expect("typing");
    panel
        .window
        .until(
            "a count",
            "return /1/.test(document.querySelector('[data-testid=find-count]').textContent)",
        )
        .await;
    panel.shows(&id, "needle-150").await;
    find.send_keys(key::ESCAPE).await.expect("typing");
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn splitting_opens_a_second_session_beside_the_first() {
    let panel = Panel::open().await;
    let id = panel.start("native", None).await;
    panel.phase(&id, "running").await;
    panel.keys(&id, &chord('d')).await;
    // The sheet offers the same choice again; Enter alone takes it.
    let folder = folder_field(&panel).await;
    can_open(&panel).await;
    folder.send_keys(key::ENTER).await.expect("typing");
    panel
        .window
        .until(
            "a second pane",
            "return document.querySelectorAll('[data-testid=pane]').length === 2",
        )
        .await;
    let second = panel
        .window
        .script(
            "return [...document.querySelectorAll('[data-testid=pane]')]\
             .map(p => p.dataset.sessionId).find(id => id !== arguments[0]);",
            vec![json!(id)],
        )
        .await;
    let second = second.as_str().expect("an id").to_owned();
    panel.phase(&second, "running").await;
    panel.line(&second, "echo second-$((1+1))").await;
    panel.shows(&second, "second-2").await;
    assert!(
        !panel.rows(&id).await.contains("second-2"),
        "the panes share a terminal"
    );
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reloaded_window_reattaches_without_loss() {
    let panel = Panel::open().await;
    let id = panel.start("native", None).await;
    panel.phase(&id, "running").await;
    panel
        .line(
            &id,
            "clear; echo before-$((1+1)); (sleep 2; printf '\\nduring-%s\\n' $((1+2))) & ",
        )
        .await;
    panel.shows(&id, "before-2").await;
    panel.window.client().refresh().await.expect("a reload");
    panel.reveal(&id).await;
    panel.shows(&id, "before-2").await;
    panel.shows(&id, "during-3").await;
    panel.line(&id, "echo after-$((1+3))").await;
    panel.shows(&id, "after-4").await;
    let rows = panel.rows(&id).await;
    assert_eq!(rows.matches("before-2").count(), 1, "shown twice: {rows}");
    assert!(
        !rows.contains(";1;2c") && !rows.contains("[?"),
        "an answer was typed: {rows}"
    );
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_pane_with_a_running_child_asks_first() {
    let panel = Panel::open().await;
    let id = panel.start("native", None).await;
    panel.phase(&id, "running").await;
    panel.line(&id, "sleep 31536000 & echo star''ted").await;
    panel.shows(&id, "started").await;
    panel.line(&id, "clear; sleep 31536001").await;
    // The child has to be there before the question can name it.
    panel.runs(&id, "31536001").await;
    panel.keys(&id, &chord('w')).await;
    panel.window.until("a question that names the program", "const d = document.querySelector('dialog[open]'); return !!d && d.textContent.includes('31536001')").await;
    panel.window.script(
        "[...document.querySelectorAll('dialog[open] button')].find(b => /cancel|keep/i.test(b.textContent)).click()",
        Vec::new(),
    ).await;
    panel.phase(&id, "running").await;
    panel.keys(&id, &chord('w')).await;
    panel
        .window
        .until(
            "the question again",
            "return !!document.querySelector('dialog[open]')",
        )
        .await;
    panel.window.script(
        "[...document.querySelectorAll('dialog[open] button')].find(b => /close|end/i.test(b.textContent)).click()",
        Vec::new(),
    ).await;
    panel
        .window
        .until(
            "the pane is gone",
            &format!("return !document.querySelector(\"{}\")", pane(&id)),
        )
        .await;
    for _ in 0..600 {
        if crate::survival::survivors("3153600").is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(crate::survival::survivors("3153600"), Vec::<String>::new());
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspending_stops_a_counter_and_resuming_goes_on() {
    for backend in ["native", "none"] {
        let panel = Panel::open().await;
        let id = panel
            .start(
                backend,
                Some("sh -c 'i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.02; done'"),
            )
            .await;
        panel.phase(&id, "running").await;
        let count = || {
            panel
                .stage
                .read("work/count")
                .and_then(|text| text.trim().parse::<u64>().ok())
        };
        moves(&count).await;
        panel
            .invoke("suspend", json!({ "id": id }))
            .await
            .expect("suspended");
        panel.phase(&id, "suspended").await;
        let still = count();
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        assert_eq!(count(), still, "{backend}: it counted on while suspended");
        panel
            .invoke("resume", json!({ "id": id }))
            .await
            .expect("resumed");
        panel.phase(&id, "running").await;
        moves(&count).await;
        panel.close().await;
    }
}

/// Waits until the counter has moved.
async fn moves(count: &impl Fn() -> Option<u64>) {
    let before = count();
    for _ in 0..600 {
        if count() > before {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the counter stands at {before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_cannot_set_the_clipboard_or_imitate_a_badge() {
    // launch case: OSC 52, a badge in the title
    let panel = Panel::open().await;
    let id = panel.start("none", None).await;
    panel.phase(&id, "running").await;
    panel
        .invoke("write_clipboard", json!({ "text": "mine" }))
        .await
        .expect("a clipboard");
    panel.line(&id, "printf '\\033]52;c;%s\\007' $(printf stolen | base64); printf '\\033]0;[native] safe\\007'; echo se''nt").await;
    panel.shows(&id, "sent").await;
    let clipboard = panel
        .invoke("read_clipboard", json!({}))
        .await
        .expect("a clipboard");
    assert_eq!(clipboard, json!("mine"));
    let badge = panel
        .window
        .find(&format!("{} [data-testid=pane-badge]", pane(&id)))
        .await;
    assert_eq!(
        badge
            .attr("data-backend")
            .await
            .expect("an attribute")
            .as_deref(),
        Some("none")
    );
    assert!(!badge.text().await.expect("text").contains("native"));
    panel.close().await;
}
