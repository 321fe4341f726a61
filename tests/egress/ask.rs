//! Ask first (REQ EG-9), through the real proxies and the real desk: one question for whatever
//! waits on one host, an answer for all of it, and silence denies.

use crate::desk::{Desk, waits};
use crate::sandbox::Sandbox;
use kotak_engine::api::{Answer, AnswerScope, PromptState};
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::world;
use serde_json::json;

#[test]
fn three_hundred_connections_to_one_new_host_make_one_question() {
    // egress case: ask first: 300 connections to one new host at once
    let name = world().name("many.ask-one.net");
    let sandbox = Sandbox::new("ask", &[]);
    let desk = Desk::open(&sandbox);
    for (answer, expected) in [
        (Answer::Deny, json!({ "403": 300 })),
        (Answer::AllowOnce, json!({ "tls": 300 })),
    ] {
        let mut driver = sandbox.driver();
        let job = driver.start(
            json!({ "op": "many", "target": format!("{name}:443"), "parallel": 300, "tls": name }),
        );
        let prompt = desk.prompt(name, |prompt| prompt.attempts == 300);
        assert_eq!(
            desk.prompts().iter().filter(|prompt| waits(prompt)).count(),
            1
        );
        assert_eq!(
            (prompt.port, prompt.process.map(|actor| actor.name)),
            (443, Some("python3".into()))
        );
        assert_eq!(world().names.asked(name), 0, "asked before it was allowed");
        desk.answer(&desk.prompt(name, waits), answer, AnswerScope::HostPort);
        assert_eq!(driver.wait(job)["counts"], expected);
        let allowed = answer == Answer::AllowOnce;
        assert_eq!(world().names.asked(name) > 0, allowed);
        driver.end();
    }
    assert!(
        desk.engine.rules().is_empty(),
        "an answer for once was stored"
    );
}

#[test]
fn a_lasting_answer_covers_what_it_says_and_no_more() {
    let name = world().name("one.ask-two.net");
    let sibling = world().name("two.ask-two.net");
    let sandbox = Sandbox::new("ask", &[]);
    let desk = Desk::open(&sandbox);
    let mut driver = sandbox.driver();
    let connect = |host: &str, port: u16| json!({ "op": "connect", "target": format!("{host}:{port}"), "tls": host });
    let job = driver.start(connect(name, 443));
    let rule = desk.answer(
        &desk.prompt(name, waits),
        Answer::AllowSession,
        AnswerScope::HostPort,
    );
    assert_eq!(rule.map(|rule| rule.pattern), Some(format!("{name}:443")));
    assert_eq!(driver.wait(job)["tls"], "tls");
    // No second question for the same host and port; one for another port, and for a sibling.
    assert_eq!(driver.ask(connect(name, 443))["tls"], "tls");
    for (host, port) in [(name, 8443), (sibling, 443)] {
        let job = driver.start(connect(host, port));
        let prompt = desk.prompt(host, |prompt| waits(prompt) && prompt.port == port);
        desk.answer(&prompt, Answer::Deny, AnswerScope::HostPort);
        assert_eq!(driver.wait(job)["status"], json!(403), "{host}:{port}");
    }
    let job = driver.start(connect(sibling, 443));
    let rule = desk.answer(
        &desk.prompt(sibling, waits),
        Answer::AllowWorkspace,
        AnswerScope::Parent,
    );
    assert_eq!(
        rule.map(|rule| rule.pattern).as_deref(),
        Some("*.ask-two.net")
    );
    assert_eq!(driver.wait(job)["tls"], "tls");
    driver.end();
    // Another session of this workspace needs no question.
    let mut driver = sandbox.driver();
    assert_eq!(
        driver.ask(connect(world().name("three.ask-two.net"), 443))["tls"],
        "tls"
    );
    driver.end();
    let log = sandbox.log();
    log.refused(&format!("{name}:8443"), DenyReason::Answer, "python3");
    log.passed("three.ask-two.net:443");
}

#[test]
fn a_question_that_nobody_answers_denies_all_and_stores_nothing() {
    // egress case: a timeout denies all and stores nothing
    let name = world().name("late.ask-three.net");
    let sandbox = Sandbox::new("ask", &[]);
    sandbox
        .stage
        .write(".config/kotak/config.toml", "promptSeconds = 10\n");
    let desk = Desk::open(&sandbox);
    let mut driver = sandbox.driver();
    let job =
        driver.start(json!({ "op": "many", "target": format!("{name}:443"), "parallel": 20 }));
    desk.prompt(name, |prompt| prompt.attempts == 20);
    assert_eq!(driver.wait(job)["counts"], json!({ "403": 20 }));
    let missed = desk.prompt(name, |prompt| prompt.state == PromptState::Missed);
    assert!(desk.engine.rules().is_empty());
    assert_eq!(world().names.asked(name), 0);
    // An answer to it holds for the next attempt.
    desk.answer(&missed, Answer::AllowOnce, AnswerScope::HostPort);
    let next = json!({ "op": "connect", "target": format!("{name}:443"), "tls": name });
    assert_eq!(driver.ask(next.clone())["tls"], "tls");
    // And for no other.
    let job = driver.start(next);
    desk.answer(
        &desk.prompt(name, waits),
        Answer::Deny,
        AnswerScope::HostPort,
    );
    assert_eq!(driver.wait(job)["status"], json!(403));
    driver.end();
    sandbox
        .log()
        .refusals(&format!("{name}:443"))
        .iter()
        .for_each(|row| {
            let denied = row.connection.as_ref().and_then(|c| c.denied);
            assert!(
                [Some(DenyReason::Timeout), Some(DenyReason::Answer)].contains(&denied),
                "{row:#?}"
            );
        });
}

#[test]
fn an_answer_after_the_client_gave_up_holds_as_far_as_its_lifetime_says() {
    // egress case: ask first: prompt answered after the client gave up
    let sandbox = Sandbox::new("ask", &[]);
    let desk = Desk::open(&sandbox);
    let mut driver = sandbox.driver();
    for (name, answer, attempts) in [
        (world().name("once.ask-four.net"), Answer::AllowOnce, 1),
        (
            world().name("session.ask-four.net"),
            Answer::AllowSession,
            3,
        ),
    ] {
        let gave_up = driver
            .ask(json!({ "op": "shell", "script": format!("curl -sS -m 2 https://{name}/") }));
        assert_ne!(gave_up["code"], json!(0), "{gave_up}");
        let missed = desk.prompt(name, |prompt| prompt.state == PromptState::Missed);
        desk.answer(&missed, answer, AnswerScope::HostPort);
        let connect = json!({ "op": "connect", "target": format!("{name}:443"), "tls": name });
        for _ in 0..attempts {
            assert_eq!(driver.ask(connect.clone())["tls"], "tls", "{name}");
        }
        if answer == Answer::AllowOnce {
            let job = driver.start(connect);
            desk.answer(
                &desk.prompt(name, waits),
                Answer::Deny,
                AnswerScope::HostPort,
            );
            assert_eq!(driver.wait(job)["status"], json!(403));
        }
    }
    driver.end();
}

#[test]
fn a_host_on_the_fixed_denylist_is_denied_without_a_question() {
    // egress case: ask first: a host on the fixed denylist
    let name = world().name("metadata.google.internal");
    let sandbox = Sandbox::new("ask", &[]);
    let desk = Desk::open(&sandbox);
    let mut driver = sandbox.driver();
    let answer = driver.ask(json!({ "op": "connect", "target": format!("{name}:80") }));
    assert_eq!(answer["status"], json!(403), "{answer}");
    // The control: another host makes a question, and that was the first.
    let other = world().name("other.ask-five.net");
    let job = driver.start(json!({ "op": "connect", "target": format!("{other}:443") }));
    let prompt = desk.prompt(other, waits);
    assert_eq!(desk.prompts().len(), 1, "{:#?}", desk.prompts());
    desk.answer(&prompt, Answer::Deny, AnswerScope::HostPort);
    driver.wait(job);
    driver.end();
    sandbox
        .log()
        .refused(&format!("{name}:80"), DenyReason::Metadata, "python3");
}

#[test]
fn without_anybody_to_ask_the_attempt_is_denied() {
    let name = world().name("nobody.ask-six.net");
    let sandbox = Sandbox::new("ask", &[]);
    let outcome = sandbox.run(&format!(
        "curl -sS -o /dev/null -w '%{{http_code}}' http://{name}/"
    ));
    assert_eq!(outcome.stdout, "403", "{outcome:?}");
    sandbox
        .log()
        .refused(&format!("{name}:80"), DenyReason::NobodyToAsk, "curl");
    // What a rule covers needs no question.
    let control = Sandbox::new("ask", &[name]);
    let outcome = control.run(&format!("curl -fsS http://{name}/"));
    assert_eq!(
        outcome.stdout,
        format!("hello from {name}\n"),
        "{outcome:?}"
    );
}

#[test]
fn a_flood_of_distinct_names_is_bounded_and_told() {
    // egress case: ask first for a flood of 10,000 distinct names
    const NAMES: u64 = 10_000;
    let sandbox = Sandbox::new("ask", &[]);
    let desk = Desk::open(&sandbox);
    let mut driver = sandbox.driver();
    let memory = crate::memory::Watch::start(driver.pid());
    let job = driver.start(
        json!({ "op": "flood", "suffix": "ask-seven.net", "names": NAMES, "parallel": 400 }),
    );
    let folded = desk.until("attempts denied unasked", || {
        let folded = desk.engine.snapshot().folded;
        folded
            .into_iter()
            .find(|folded| folded.denied_unasked > NAMES / 2)
    });
    assert!(u64::from(folded.hosts) < 1_000, "{folded:?}");
    assert!(desk.prompts().len() < 50, "{} cards", desk.prompts().len());
    let grown = memory.grown();
    assert!(grown < 96 << 20, "the engine grew by {grown} bytes");
    // Everything that is asked is answered with no.
    desk.until("the end of the flood", || {
        for prompt in desk.prompts().iter().filter(|prompt| waits(prompt)) {
            // One that is too early, or gone, has its turn again.
            let _ = desk.run(desk.engine.answer_prompt(
                &prompt.id,
                Answer::DenySession,
                AnswerScope::Parent,
            ));
        }
        driver.is_answered(job).then_some(())
    });
    let answer = driver.wait(job);
    assert_eq!(answer["counts"], json!({ "403": NAMES }), "{answer}");
    driver.end();
    assert!(world().names.asked_with("ask-seven.net").is_empty());
}
