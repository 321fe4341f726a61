//! Restricted networks in real sandboxes: judged, asked about, put down. Nothing here leaves the
//! machine: every destination is refused, or is one that no resolver knows.

use super::*;
use crate::api::{
    ActivityQuery, Answer, AnswerScope, ExplainedVerdict, HostHistory, NewRule, Outcome,
    PromptState, SessionPhase,
};
use crate::egress::decide::{DenyReason, Source};
use crate::spec::NetworkMode;

/// A program inside that asks the HTTP proxy for a tunnel and shows the first line of the answer,
/// as often as it reads a line.
const CONNECT: &str = r#"
trap '' HUP
while read -r host; do
    exec 3<>/dev/tcp/127.0.0.1/3128
    printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' "$host" "$host" >&3
    read -r line <&3
    echo "answer: $line"
    exec 3<&-
done
"#;

async fn launch(rig: &Rig, network: NetworkMode, domains: &[&str]) -> SessionInfo {
    rig.assert_native();
    let line = rig.script("connect.sh", CONNECT).replace("sh ", "bash ");
    let request = LaunchRequest {
        network: Some(network),
        extra_domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        port_forwards: Vec::new(),
        socket_grants: Vec::new(),
        ..rig.request(BackendChoice::Native, &line)
    };
    let info = rig.engine.launch(request).await.unwrap();
    assert_eq!(info.handle.error, None);
    assert_eq!(info.phase, SessionPhase::Running);
    info
}

async fn connect(rig: &Rig, id: &str, host: &str) {
    let line = format!("{host}\n");
    rig.engine.write_input(id, line.as_bytes()).await.unwrap();
}

fn query(id: &str) -> ActivityQuery {
    ActivityQuery {
        session_id: Some(id.to_owned()),
        ..ActivityQuery::default()
    }
}

/// The rows of a session, newest first, once there are so many.
async fn rows(rig: &Rig, id: &str, count: usize) -> Vec<crate::api::ActivityRow> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let rows = rig.engine.activity(query(id)).await.unwrap().rows;
        if rows.len() >= count {
            return rows;
        }
        assert!(Instant::now() < deadline, "{rows:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn prompt(rig: &Rig) -> crate::api::Prompt {
    eventually("a question", || !rig.engine.snapshot().prompts.is_empty()).await;
    rig.engine.snapshot().prompts.remove(0)
}

/// Answers as soon as an answer is taken.
async fn answer(rig: &Rig, id: &str, answer: Answer) -> Option<crate::api::RuleInfo> {
    loop {
        match rig
            .engine
            .answer_prompt(id, answer, AnswerScope::HostPort)
            .await
        {
            Ok(rule) => return rule,
            Err(problem) => assert_eq!(problem.code, "ANSWER_TOO_EARLY"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn output(rig: &Rig, id: &str, wanted: &str, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let chunk = rig.engine.read_output(id, 0).await.unwrap();
        let text = String::from_utf8_lossy(&chunk.bytes).into_owned();
        if text.matches(wanted).count() >= count {
            return;
        }
        assert!(Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_host_is_refused_put_down_and_named_with_its_process() {
    let rig = Rig::start().await;
    let id = launch(&rig, NetworkMode::Allowlist, &["*.kotak-test.example.com"])
        .await
        .id;
    connect(&rig, &id, "evil.example.net:443").await;
    output(&rig, &id, "403", 1).await;
    let found = rows(&rig, &id, 1).await;
    assert_eq!(found[0].outcome, Outcome::Refused);
    assert_eq!(found[0].target, "evil.example.net:443");
    let detail = found[0].connection.as_ref().unwrap();
    assert_eq!(detail.denied, Some(DenyReason::NotListed));
    let actor = found[0].process.as_ref().unwrap();
    assert_eq!(actor.name, "bash");
    assert!(actor.command.contains("connect.sh"), "{actor:?}");

    eventually("the refusal is counted", || {
        let info = rig.engine.session(&id).unwrap();
        (info.counts.refused, info.unread_refusals) == (1, 1)
    })
    .await;
    rig.engine.mark_seen(&id).unwrap();
    assert_eq!(rig.engine.session(&id).unwrap().unread_refusals, 0);

    let policy = rig.engine.network_policy(&id).unwrap();
    assert!(policy.observed);
    let spec: Vec<_> = policy
        .allowed
        .iter()
        .filter(|entry| entry.source == Source::Spec)
        .map(|entry| entry.pattern.as_str())
        .collect();
    assert_eq!(spec, ["*.kotak-test.example.com"]);
    let verdict = |text: &str| rig.engine.test_destination(&id, text).unwrap().verdict;
    assert_eq!(verdict("a.kotak-test.example.com"), ExplainedVerdict::Allow);
    assert_eq!(verdict("evil.example.net"), ExplainedVerdict::Deny);
    let totals = rig.engine.network_totals(&id).await.unwrap();
    assert_eq!((totals.allowed, totals.refused), (0, 1));
    rig.engine.close(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_change_running_sessions_at_once_and_end_with_theirs() {
    let rig = Rig::start().await;
    let info = launch(&rig, NetworkMode::Allowlist, &[]).await;
    let id = info.id;
    let verdict = |rig: &Rig| {
        let explained = rig
            .engine
            .test_destination(&id, "a.invalid-kotak.example.com");
        explained.unwrap().verdict
    };
    assert_eq!(verdict(&rig), ExplainedVerdict::Deny);
    let new = |pattern: &str, session: Option<&str>, workspace: Option<&str>| NewRule {
        pattern: pattern.to_owned(),
        allow: true,
        session_id: session.map(str::to_owned),
        workspace: workspace.map(str::to_owned),
    };
    let refused = rig.engine.add_rule(new("*.com", Some(&id), None)).await;
    assert_eq!(refused.unwrap_err().code, "HOST_PATTERN_INVALID");
    let placeless = rig.engine.add_rule(new("a.example.com", None, None)).await;
    assert_eq!(placeless.unwrap_err().code, "RULE_WITHOUT_PLACE");

    let pattern = "*.INVALID-kotak.example.com";
    let own = rig
        .engine
        .add_rule(new(pattern, Some(&id), None))
        .await
        .unwrap();
    assert_eq!(own.pattern, "*.invalid-kotak.example.com");
    assert_eq!(own.workspace, info.workspace);
    assert_eq!(verdict(&rig), ExplainedVerdict::Allow);
    assert_eq!(rig.engine.snapshot().rules, std::slice::from_ref(&own));
    rig.engine.remove_rule(own.id).await.unwrap();
    assert_eq!(verdict(&rig), ExplainedVerdict::Deny);
    let again = rig.engine.remove_rule(own.id).await;
    assert_eq!(again.unwrap_err().code, "NO_SUCH_RULE");

    let kept = rig
        .engine
        .add_rule(new(pattern, None, Some(&info.workspace)))
        .await
        .unwrap();
    rig.engine
        .add_rule(new(pattern, Some(&id), None))
        .await
        .unwrap();
    rig.engine.close(&id).await.unwrap();
    eventually("only the workspace's rule is left", || {
        rig.engine.rules() == [kept.clone()]
    })
    .await;
    // The next session of the workspace begins with it.
    let next = launch(&rig, NetworkMode::Allowlist, &[]).await.id;
    let explained = rig
        .engine
        .test_destination(&next, "a.invalid-kotak.example.com");
    assert_eq!(explained.unwrap().verdict, ExplainedVerdict::Allow);
    rig.engine.close(&next).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_once_and_each_answer_does_what_it_says() {
    let rig = Rig::start().await;
    let info = launch(&rig, NetworkMode::Ask, &[]).await;
    let id = info.id;
    connect(&rig, &id, "new.example.net:443").await;
    let asked = prompt(&rig).await;
    assert_eq!(asked.host, "new.example.net");
    assert_eq!(asked.session_id, id);
    assert_eq!(asked.session_title, info.title);
    assert_eq!(asked.workspace, info.workspace);
    assert_eq!(asked.process.as_ref().unwrap().name, "bash");
    eventually("the session says that it waits", || {
        rig.engine.session(&id).unwrap().counts.waiting == 1
    })
    .await;
    eventually("the history was read", || {
        rig.engine.snapshot().prompts[0].history == HostHistory::NoneAllowed
    })
    .await;
    rig.engine.hold_prompt(&asked.id).await.unwrap();
    assert_eq!(rig.engine.snapshot().prompts[0].deadline_ms, None);
    rig.engine.release_prompt(&asked.id);
    assert!(rig.engine.snapshot().prompts[0].deadline_ms.is_some());
    assert_eq!(answer(&rig, &asked.id, Answer::Deny).await, None);
    output(&rig, &id, "403", 1).await;

    connect(&rig, &id, "new.example.net:443").await;
    let asked = prompt(&rig).await;
    let rule = answer(&rig, &asked.id, Answer::DenySession).await.unwrap();
    assert_eq!(
        (rule.allow, rule.session_id.as_deref()),
        (false, Some(id.as_str()))
    );
    output(&rig, &id, "403", 2).await;
    // Now a rule says no, and nobody is asked.
    connect(&rig, &id, "new.example.net:443").await;
    output(&rig, &id, "403", 3).await;
    assert_eq!(rig.engine.snapshot().prompts, []);
    let found = rows(&rig, &id, 2).await;
    let denied = found[0].connection.as_ref().unwrap().denied;
    assert_eq!(denied, Some(DenyReason::OperatorRule));

    // Undone, it is asked about again; the fixed denylist never is.
    rig.engine.remove_rule(rule.id).await.unwrap();
    connect(&rig, &id, "metadata.google.internal:80").await;
    output(&rig, &id, "403", 4).await;
    connect(&rig, &id, "new.example.net:443").await;
    let asked = prompt(&rig).await;
    assert_eq!(asked.state, PromptState::Waiting);
    rig.engine.close(&id).await.unwrap();
    eventually("its questions went with the session", || {
        rig.engine.snapshot().prompts.is_empty()
    })
    .await;
}

// REQ EG-7
#[tokio::test(flavor = "multi_thread")]
async fn with_the_network_off_everything_is_refused_and_seen() {
    let rig = Rig::start().await;
    let id = launch(&rig, NetworkMode::Off, &[]).await.id;
    for (count, host) in ["github.com:443", "evil.example.net:443"]
        .iter()
        .enumerate()
    {
        connect(&rig, &id, host).await;
        output(&rig, &id, "403", count + 1).await;
    }
    let found = rows(&rig, &id, 2).await;
    for row in &found {
        let denied = row.connection.as_ref().unwrap().denied;
        assert_eq!(denied, Some(DenyReason::NetworkOff));
    }
    rig.engine.close(&id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_anybody_to_ask_denies_and_one_at_the_desk_asks_the_window() {
    let rig = Rig::start().await;
    let options = |root: &Path| EngineOptions {
        switch: Switch::On,
        dirs: Dirs::under(root),
        role: EngineRole::Command,
    };
    // Alone, in directories of its own.
    let apart = tempfile::tempdir().unwrap();
    let alone = Engine::start(options(apart.path())).await.unwrap();
    // At the desk of the rig's window.
    let guest = Engine::start(options(rig.kotak.path())).await.unwrap();
    eventually("the desk is reached", || guest.is_at_desk()).await;
    let line = rig.script("connect.sh", CONNECT).replace("sh ", "bash ");
    let request = LaunchRequest {
        network: Some(NetworkMode::Ask),
        ..rig.request(BackendChoice::Native, &line)
    };
    let mut ids = Vec::new();
    for engine in [&alone, &guest] {
        let info = engine.launch(request.clone()).await.unwrap();
        assert_eq!(info.handle.error, None);
        engine
            .write_input(&info.id, b"new.example.net:443\n")
            .await
            .unwrap();
        ids.push(info.id);
    }
    let read = async |engine: &Engine, id: &str| loop {
        let chunk = engine.read_output(id, 0).await.unwrap();
        let text = String::from_utf8_lossy(&chunk.bytes).into_owned();
        if text.contains("answer:") {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let told = read(&alone, &ids[0]).await;
    assert!(told.contains("403"), "{told}");
    let query = query(&ids[0]);
    let rows = alone.activity(query).await.unwrap().rows;
    let denied = rows[0].connection.as_ref().unwrap().denied;
    assert_eq!(denied, Some(DenyReason::NobodyToAsk));

    let asked = prompt(&rig).await;
    assert_eq!(asked.session_id, ids[1]);
    let rule = answer(&rig, &asked.id, Answer::DenySession).await.unwrap();
    assert_eq!(rule.session_id.as_deref(), Some(ids[1].as_str()));
    let told = read(&guest, &ids[1]).await;
    assert!(told.contains("403"), "{told}");
    eventually("the window knows the rule of the other engine", || {
        rig.engine.rules().contains(&rule)
    })
    .await;
    alone.shutdown().await;
    guest.shutdown().await;
}
