//! Badges, verdict and errors in the real window (REQ BK-6, BK-7, UI-3, UI-6).

use kotak_tests::desktop::picture_dir;
use kotak_tests::panel::{Panel, pane};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn every_badge_tells_what_was_launched() {
    let panel = Panel::open().await;
    panel
        .window
        .says("[data-testid=status-verdict]", "agent sandbox ON")
        .await;
    for backend in ["native", "none"] {
        let id = panel.start(backend, None).await;
        panel.phase(&id, "running").await;
        let badge = panel
            .window
            .find(&format!("{} [data-testid=pane-badge]", pane(&id)))
            .await;
        let shown = badge.attr("data-backend").await.expect("an attribute");
        assert_eq!(shown.as_deref(), Some(backend));
    }
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_microvm_is_refused_with_its_reason() {
    let panel = Panel::open().await;
    let request = panel.request("microvm", Some("touch ran"));
    let problem = panel
        .invoke("launch", json!({ "request": request }))
        .await
        .expect_err("no microVM here");
    assert_eq!(problem["code"], json!("MICROVM_UNAVAILABLE"));
    assert!(panel.stage.read("work/ran").is_none(), "the payload ran");
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_program_is_an_error_in_its_pane_and_others_go_on() {
    let panel = Panel::open().await;
    let good = panel.start("native", None).await;
    panel.phase(&good, "running").await;
    let request = panel.request("native", Some("no-such-program-here"));
    let answer = panel.invoke("launch", json!({ "request": request })).await;
    match answer {
        Err(problem) => assert_eq!(problem["code"], json!("PROGRAM_NOT_FOUND"), "{problem}"),
        Ok(session) => {
            let id = session["id"].as_str().expect("an id").to_owned();
            panel.reveal(&id).await;
            panel.phase(&id, "error").await;
            panel
                .window
                .says(
                    &format!("{} [data-testid=pane-error]", pane(&id)),
                    "no-such-program-here",
                )
                .await;
        }
    }
    panel.reveal(&good).await;
    panel.line(&good, "echo still-$((1+1))").await;
    panel.shows(&good, "still-2").await;
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_off_is_said_in_the_status_bar() {
    let panel = Panel::open_with(&["--sandbox", "off"]).await;
    panel
        .window
        .says(
            "[data-testid=status-verdict]",
            "agent sandbox DISABLED by --sandbox off",
        )
        .await;
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_not_http_is_not_opened() {
    let panel = Panel::open().await;
    for url in ["file:///etc/passwd", "vscode://x", "javascript:alert(1)"] {
        let problem = panel
            .invoke("open_link", json!({ "url": url }))
            .await
            .expect_err("refused");
        assert_eq!(problem["code"], json!("LINK_REFUSED"), "{url}");
    }
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_comes_to_the_first_window() {
    let panel = Panel::open().await;
    let first = panel.window.panel_pid();
    let second = panel.desktop.second_start(panel.stage.home());
    assert!(
        second.success(),
        "the second start ends by itself: {second}"
    );
    panel
        .window
        .until("the first is alive", "return true")
        .await;
    assert_eq!(panel.window.panel_pid(), first);
    panel.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_of_the_real_window() {
    let panel = Panel::open().await;
    let dir = picture_dir();
    for theme in ["light", "dark"] {
        panel.theme(theme).await;
        panel
            .desktop
            .picture(&dir.join(format!("empty-{theme}.png")));
        let id = panel.start("native", None).await;
        panel.phase(&id, "running").await;
        panel
            .line(&id, "clear; cat ../.ssh/secret; echo x >> ../.bashrc; ls")
            .await;
        panel.line(&id, "echo do''ne").await;
        panel.shows(&id, "done").await;
        panel
            .desktop
            .picture(&dir.join(format!("session-{theme}.png")));
        panel.window.click("[data-testid=status-verdict]").await;
        panel
            .window
            .until(
                "the report",
                "return !!document.querySelector('dialog[open]')",
            )
            .await;
        panel
            .desktop
            .picture(&dir.join(format!("host-report-{theme}.png")));
        panel
            .window
            .script(
                "document.querySelector('dialog[open]').close?.()",
                Vec::new(),
            )
            .await;
        panel.window.client().refresh().await.expect("a reload");
        panel.window.click("[data-testid=new-session]").await;
        panel
            .window
            .until(
                "the sheet",
                "return !!document.querySelector('dialog[open]')",
            )
            .await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        panel
            .desktop
            .picture(&dir.join(format!("new-session-{theme}.png")));
        panel.window.client().refresh().await.expect("a reload");
        panel.window.find("[data-testid=status-verdict]").await;
    }
    panel.close().await;
}
