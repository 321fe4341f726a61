//! What was refused and what passed, as the window shows it, now and after a restart (REQ UI-4,
//! UI-5, UI-9).

use crate::questions::{Asking, REFUSED, Session};
use kotak_tests::net::world;

/// Two refusals of one host and one of another, and one connection that passes.
async fn traffic(asking: &Asking, session: &Session, [often, once, good]: [&str; 3]) {
    for (host, answer) in [
        (often, "deny"),
        (often, "deny"),
        (once, "deny"),
        (good, "allowWorkspace"),
    ] {
        let attempt = asking.fetch(session, host).await;
        asking.answer_for(&format!("{host}:80"), answer).await;
        let expected = if answer == "deny" {
            REFUSED.to_owned()
        } else {
            format!("hello from {host}")
        };
        assert_eq!(asking.end(attempt).await, expected, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_and_the_timeline_show_what_was_refused_and_what_passed() {
    // REQ UI-5, UI-9
    let hosts = ["often", "once", "good"].map(|name| format!("{name}.history-one.net"));
    let [often, once, good] = [0, 1, 2].map(|at| world().name(&hosts[at]));
    let asking = Asking::open().await;
    let session = asking.session().await;
    let window = &asking.panel.window;
    traffic(&asking, &session, [often, once, good]).await;

    // The feed: what, who, why, in the row.
    asking
        .activity(&[&format!("{often}:80"), "curl", "you answered no"])
        .await;
    asking
        .activity(&[&format!("{once}:80"), "curl", "you answered no"])
        .await;
    asking
        .activity(&[&format!("{good}:80"), "curl", "your rule"])
        .await;
    window.says("[data-testid=pulse]", "3 refused").await;
    window.says("[data-testid=pulse]", "1 allowed").await;
    asking.picture("activity").await;

    // The timeline, and the refused hosts by how often.
    asking.view("Network").await;
    window
        .says("[aria-label=Timeline] .legend", "3 refused")
        .await;
    window
        .says("[aria-label=Timeline] .legend", "1 allowed")
        .await;
    let ranked = "
        const rows = [...document.querySelectorAll('[aria-label=\"Refused hosts\"] li')];
        return rows.map(row => `${row.querySelector('.said').textContent} ${row.querySelector('.count').textContent} ${row.querySelector('.why').textContent}`).join('\\n');
    ";
    let shown = window.until("the refused hosts", ranked).await;
    assert_eq!(
        shown.as_str().unwrap_or_default(),
        format!("{often}:80 2 you answered no\n{once}:80 1 you answered no")
    );
    window.says("[data-testid=allowlist]", good).await;
    asking.picture("network").await;

    // What is open can be cut.
    let waiting = asking
        .fetch(&session, &format!("{good}/wait/600000?"))
        .await;
    window
        .says("[data-testid=open-connection]", &format!("{good}:80"))
        .await;
    window.click("[data-testid=open-connection] button").await;
    let end = asking.end(waiting).await;
    assert!(end.starts_with("curl: ("), "{end}");
    asking.view("Activity").await;
    asking
        .activity(&[&format!("{good}:80"), "you cut the connection"])
        .await;

    // A refused host leads to its attempts.
    asking.view("Network").await;
    window
        .click("[aria-label=\"Refused hosts\"] li button")
        .await;
    let only = format!(
        "const rows = [...document.querySelectorAll('aside [data-row] .target')]; \
         return rows.length > 0 && rows.every(row => row.textContent.includes('{often}:80'));"
    );
    window.until("its attempts and no others", &only).await;
    asking.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_the_history_and_the_rules_of_the_workspace() {
    // REQ UI-4, UI-5, EG-9: always in this workspace
    let hosts = ["often", "once", "good"].map(|name| format!("{name}.history-two.net"));
    let [often, once, good] = [0, 1, 2].map(|at| world().name(&hosts[at]));
    let new = world().name("new.history-two.net");
    let asking = Asking::open().await;
    let session = asking.session().await;
    traffic(&asking, &session, [often, once, good]).await;
    asking.activity(&[&format!("{good}:80"), "your rule"]).await;
    let rules = [format!("allow {good}:80")];
    assert_eq!(asking.rules().await, rules);

    let asking = asking.reopen().await;
    asking.nothing_is_asked().await;
    assert_eq!(asking.rules().await, rules);
    for (host, why) in [
        (often, "you answered no"),
        (once, "you answered no"),
        (good, "your rule"),
    ] {
        asking
            .activity(&[&format!("{host}:80"), "other session", "curl", why])
            .await;
    }
    asking
        .panel
        .window
        .says("[data-testid=pulse]", "3 refused")
        .await;
    asking.picture("restarted").await;

    // A session of the workspace needs no question for what the rule covers, and one for all else;
    // answers for once ended with what they were for.
    let session = asking.session().await;
    let attempt = asking.fetch(&session, good).await;
    assert_eq!(asking.end(attempt).await, format!("hello from {good}"));
    asking.nothing_is_asked().await;
    let elsewhere = asking.session_in("elsewhere").await;
    for (session, host) in [(&session, new), (&session, often), (&elsewhere, good)] {
        let attempt = asking.fetch(session, host).await;
        asking.answer_for(&format!("{host}:80"), "deny").await;
        assert_eq!(asking.end(attempt).await, REFUSED, "{host}");
    }
    asking.close().await;
}
