//! When a question comes, how long it stands, and what a person does meanwhile (REQ EG-9, UI-8).

use crate::questions::{Asking, REFUSED};
use kotak_tests::Stage;
use kotak_tests::net::world;
use kotak_tests::panel::{chord, key, pane};
use serde_json::json;
use std::time::Duration;

/// Presses every answer of a card at the moment in which it is drawn, long before anybody can have
/// read it, and counts how often.
const HASTY: &str = "
    window.hasty = 0;
    new MutationObserver((_, observer) => {
        const buttons = document.querySelectorAll('[data-testid=prompt-card] [data-answer]');
        if (buttons.length === 0) return;
        observer.disconnect();
        for (const button of buttons) { button.click(); window.hasty += 1; }
    }).observe(document.body, { childList: true, subtree: true });
";

#[tokio::test(flavor = "multi_thread")]
async fn a_question_leaves_the_keys_to_the_terminal_and_ignores_a_click_that_comes_too_early() {
    // REQ EG-9, UI-8; ux: a prompt never takes the focus, an early click is ignored
    let host = world().name("early.timing-one.net");
    let asking = Asking::open().await;
    let session = asking.session().await;
    let window = &asking.panel.window;
    window.script(HASTY, Vec::new()).await;

    let attempt = asking.fetch(&session, host).await;
    let prompt = asking.card(&format!("{host}:80")).await;
    window
        .until("the hasty clicks", "return window.hasty === 5")
        .await;
    let has_keys = format!(
        "return document.activeElement === document.querySelector(\"{} .xterm-helper-textarea\")",
        pane(&session.id)
    );
    assert_eq!(window.script(&has_keys, Vec::new()).await, json!(true));
    let line = format!("echo typed-$((40+2)){}", key::ENTER);
    asking.panel.type_blindly(&line).await;
    asking.panel.shows(&session.id, "typed-42").await;
    assert_eq!(window.script(&has_keys, Vec::new()).await, json!(true));

    // Longer than an early click is ignored: had one been kept for later, it would show by now.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(asking.card(&format!("{host}:80")).await, prompt);
    assert!(!asking.is_over(&attempt), "an early click was an answer");
    assert_eq!(world().names.asked(host), 0);
    assert_eq!(asking.rules().await, Vec::<String>::new());
    for fact in [
        "curl -sS",
        "1 attempt waits",
        "no allowed connection in the history",
    ] {
        let facts = format!("[data-prompt='{prompt}'] dl");
        window.says(&facts, fact).await;
    }
    asking.picture("question").await;

    // A click in time is taken.
    asking.answer(&prompt, "allowOnce").await;
    assert_eq!(asking.end(attempt).await, format!("hello from {host}"));
    asking.nothing_is_asked().await;
    asking.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_answers_denies_and_stores_nothing() {
    // REQ EG-9; ux: the countdown, "missed", and an answer for the next attempt
    let host = world().name("late.timing-two.net");
    let target = format!("{host}:80");
    let stage = Stage::new();
    stage.write(".config/kotak/config.toml", "promptSeconds = 10\n");
    let asking = Asking::open_at(stage).await;
    let session = asking.session().await;
    let window = &asking.panel.window;

    let attempt = asking.fetch(&session, host).await;
    let prompt = asking.card(&target).await;
    let time = format!("[data-prompt='{prompt}'] [data-testid=prompt-time]");
    window.says(&time, "Denied in ").await;
    assert_eq!(asking.end(attempt).await, REFUSED);
    assert_eq!(world().names.asked(host), 0);
    assert_eq!(asking.rules().await, Vec::<String>::new());
    let missed = format!("[data-testid=prompt-row][data-prompt='{prompt}']");
    window.says(&missed, "missed").await;
    asking.activity(&[&target, "nobody answered in time"]).await;

    // It can still be answered, for the next attempt and no other.
    window.click(&missed).await;
    window.says(&time, "Nobody answered in time").await;
    asking.picture("question-missed").await;
    asking.answer(&prompt, "allowOnce").await;
    let next = asking.fetch(&session, host).await;
    assert_eq!(asking.end(next).await, format!("hello from {host}"));
    asking.nothing_is_asked().await;

    // While somebody is at the card, by the keys alone, the countdown stands still.
    let held = asking.fetch(&session, host).await;
    let prompt = asking.card(&target).await;
    let time = format!("[data-prompt='{prompt}'] [data-testid=prompt-time]");
    asking.panel.keys(&session.id, &chord('j')).await;
    window.says(&time, "The countdown is stopped").await;
    // Longer than the countdown is.
    tokio::time::sleep(Duration::from_secs(12)).await;
    window.says(&time, "The countdown is stopped").await;
    assert!(!asking.is_over(&held));
    asking.panel.type_blindly(&chord('y')).await;
    assert_eq!(asking.end(held).await, format!("hello from {host}"));
    let has_keys = format!(
        "return document.activeElement === document.querySelector(\"{} .xterm-helper-textarea\")",
        pane(&session.id)
    );
    window
        .until("the terminal has the keys again", &has_keys)
        .await;
    assert_eq!(asking.rules().await, Vec::<String>::new());
    asking.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_connections_to_one_host_are_one_card() {
    // REQ EG-9: identical requests in flight share one prompt, and one answer is for them all
    let host = world().name("many.timing-three.net");
    let target = format!("{host}:443");
    let asking = Asking::open().await;
    let session = asking.session().await;
    let window = &asking.panel.window;
    let job = json!({ "op": "many", "id": 0, "target": target, "parallel": 300, "tls": host });
    asking
        .panel
        .stage
        .write("work/many.json", &format!("{job}\n"));
    for (answer, counts) in [
        ("deny", json!({ "403": 300 })),
        ("allowOnce", json!({ "tls": 300 })),
    ] {
        let attempt = asking
            .run(&session, "python3 driver.py <many.json | tail -n 1")
            .await;
        let prompt = asking.card(&target).await;
        window
            .says("[data-testid=prompt-waiting]", "300 attempts wait")
            .await;
        let shown = asking.shown().await;
        assert_eq!(shown.len(), 1, "{shown:#?}");
        let count = "return document.querySelector('[data-testid=needs-you] .count')?.textContent";
        assert_eq!(window.script(count, Vec::new()).await, json!("1"));
        asking.picture(&format!("question-many-{answer}")).await;
        asking.answer(&prompt, answer).await;
        let end: serde_json::Value =
            serde_json::from_str(&asking.end(attempt).await).expect("the counts");
        assert_eq!(end["counts"], counts);
        asking.nothing_is_asked().await;
    }
    assert_eq!(asking.rules().await, Vec::<String>::new());
    asking.close().await;
}
