//! Each of the five answers does what it says, and no more (REQ EG-9, UI-8).

use crate::questions::{Asking, REFUSED};
use kotak_tests::net::world;
use serde_json::json;

/// What a page of a host says.
fn hello(host: &str) -> String {
    format!("hello from {host}")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_for_once_is_for_what_waits_and_is_not_stored() {
    // REQ EG-9, UI-8: Deny, Allow once
    let host = world().name("once.answers-one.net");
    let target = format!("{host}:80");
    let asking = Asking::open().await;
    let session = asking.session().await;

    let denied = asking.fetch(&session, host).await;
    asking.answer_for(&target, "deny").await;
    assert_eq!(asking.end(denied).await, REFUSED);
    assert_eq!(world().names.asked(host), 0, "a refused name was resolved");

    // It was about that attempt alone: the next one is asked about again.
    let allowed = asking.fetch(&session, host).await;
    asking.answer_for(&target, "allowOnce").await;
    assert_eq!(asking.end(allowed).await, hello(host));

    // And so is the one after.
    let again = asking.fetch(&session, host).await;
    asking.answer_for(&target, "deny").await;
    assert_eq!(asking.end(again).await, REFUSED);
    assert_eq!(world().sites.hits(host).len(), 1);
    assert_eq!(asking.rules().await, Vec::<String>::new());
    asking.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_for_the_session_holds_for_it_alone_and_can_be_undone() {
    // REQ EG-9, UI-8: Deny for the session, Allow for the session
    let good = world().name("good.answers-two.net");
    let bad = world().name("bad.answers-two.net");
    let asking = Asking::open().await;
    let one = asking.session().await;

    let denied = asking.fetch(&one, bad).await;
    asking.answer_for(&format!("{bad}:80"), "denySession").await;
    assert_eq!(asking.end(denied).await, REFUSED);
    let allowed = asking.fetch(&one, good).await;
    asking
        .answer_for(&format!("{good}:80"), "allowSession")
        .await;
    assert_eq!(asking.end(allowed).await, hello(good));
    let rules = [format!("deny {bad}:80"), format!("allow {good}:80")];
    assert_eq!(asking.rules().await, rules);

    // Neither is asked about again.
    let denied = asking.fetch(&one, bad).await;
    assert_eq!(asking.end(denied).await, REFUSED);
    let allowed = asking.fetch(&one, good).await;
    assert_eq!(asking.end(allowed).await, hello(good));
    asking.nothing_is_asked().await;

    // Another port is another destination, and another session has its own answers.
    let port = asking.fetch(&one, &format!("{good}:8080")).await;
    asking.answer_for(&format!("{good}:8080"), "deny").await;
    assert_eq!(asking.end(port).await, REFUSED);
    let two = asking.session().await;
    for (host, answer, end) in [
        (good, "deny", REFUSED.to_owned()),
        (bad, "allowOnce", hello(bad)),
    ] {
        let attempt = asking.fetch(&two, host).await;
        asking.answer_for(&format!("{host}:80"), answer).await;
        assert_eq!(asking.end(attempt).await, end);
    }
    assert_eq!(asking.rules().await, rules);

    // What was stored is undone where it is told.
    let undo = format!(
        "const strip = [...document.querySelectorAll('[data-testid=done-strip]')] \
           .find(strip => strip.textContent.includes('{good}')); \
         strip?.querySelector('.undo').click(); return !!strip;"
    );
    asking.panel.window.until("the way back", &undo).await;
    let attempt = asking.fetch(&one, good).await;
    asking.answer_for(&format!("{good}:80"), "deny").await;
    assert_eq!(asking.end(attempt).await, REFUSED);
    assert_eq!(asking.rules().await, [format!("deny {bad}:80")]);
    asking.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_for_the_workspace_holds_in_all_its_sessions_as_far_as_it_says() {
    // REQ EG-9, UI-4, UI-8: Always in this workspace, and the scopes
    let first = world().name("first.answers-three.net");
    let second = world().name("second.answers-three.net");
    let other = world().name("other.answers-four.net");
    let asking = Asking::open().await;
    let one = asking.session().await;

    let attempt = asking.fetch(&one, first).await;
    let prompt = asking.card(&format!("{first}:80")).await;
    asking.scope("*.answers-three.net").await;
    // What will be stored is said before it is.
    let rule = "[data-testid=prompt-rule]";
    asking.panel.window.says(rule, "*.answers-three.net").await;
    asking.answer(&prompt, "allowWorkspace").await;
    assert_eq!(asking.end(attempt).await, hello(first));
    assert_eq!(asking.rules().await, ["allow *.answers-three.net"]);

    // A sibling, another port, another session of the workspace: no question.
    let two = asking.session().await;
    for host in [second.to_owned(), format!("{first}:8080")] {
        let attempt = asking.fetch(&two, &host).await;
        let name = host.trim_end_matches(":8080");
        assert_eq!(asking.end(attempt).await, hello(name), "{host}");
    }
    asking.nothing_is_asked().await;

    // Another host, and another workspace.
    let foreign = asking.session_in("elsewhere").await;
    for (session, host) in [(&two, other), (&foreign, first)] {
        let attempt = asking.fetch(session, host).await;
        asking.answer_for(&format!("{host}:80"), "deny").await;
        assert_eq!(asking.end(attempt).await, REFUSED, "{host}");
    }

    // It is listed where all rules are, and taken away there.
    asking
        .panel
        .keys(&foreign.id, &kotak_tests::panel::chord('l'))
        .await;
    asking
        .panel
        .window
        .says("dialog[open] [data-testid=rule]", "*.answers-three.net")
        .await;
    asking.picture("rules").await;
    asking
        .panel
        .window
        .click("dialog[open] [data-testid=rule] button")
        .await;
    let gone = "return !document.querySelector('[data-testid=rule]')";
    asking.panel.window.until("the rule is gone", gone).await;
    assert_eq!(asking.rules().await, Vec::<String>::new());
    asking.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_the_command_asks_in_the_window() {
    // REQ EG-9, UI-8: the window answers for every engine of this person
    let host = world().name("command.answers-five.net");
    let asking = Asking::open().await;
    let call = asking
        .panel
        .stage
        .kotak()
        .args(["run", "--backend", "native", "--profile", "terminal"])
        .args(["--network", "ask", "--", "curl", "-sS", "-f"])
        .arg(format!("http://{host}/"));
    let run = tokio::task::spawn_blocking(move || call.run());
    let target = format!("{host}:80");
    let prompt = asking.card(&target).await;
    let facts = format!("[data-prompt='{prompt}'] dl");
    asking.panel.window.says(&facts, "curl -sS -f").await;
    asking.answer(&prompt, "allowOnce").await;
    let outcome = run.await.expect("the command");
    assert_eq!(
        (outcome.code, outcome.stdout.trim()),
        (0, hello(host).as_str()),
        "{outcome:?}"
    );
    let snapshot = asking.panel.invoke("snapshot", json!({})).await;
    assert_eq!(snapshot.expect("a snapshot")["prompts"], json!([]));
    asking.close().await;
}
