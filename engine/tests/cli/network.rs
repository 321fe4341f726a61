//! `kotak explain`, `kotak log`, `kotak rules`, and questions in the terminal. Nothing leaves the
//! machine: no destination here is ever allowed.

use super::shell::Person;
use super::*;
use kotak_engine::api::{ActivityRow, RuleInfo};
use kotak_engine::egress::decide::DenyReason;
use std::io::{BufRead, BufReader};
use std::time::Duration;

/// Asks the HTTP proxy for a tunnel and shows the first line of its answer.
fn connect(host: &str) -> String {
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; \
         printf 'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' >&3; \
         read -r line <&3; echo \"answer: $line\""
    )
}

fn bash<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let mut args = vec!["run"];
    args.extend(options);
    args.extend(["--", "bash", "-c", script]);
    args
}

fn rows(desk: &Desk, options: &[&str]) -> Vec<ActivityRow> {
    let args = [&["log", "--json"], options].concat();
    let finished = desk.finish(&args);
    finished.succeeded();
    finished
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_grant_is_made_listed_and_revoked_and_what_cannot_be_is_said() {
    // REQ EG-12
    let desk = Desk::new();
    let grants = |args: &[&str]| desk.finish(&[&["grants"], args].concat());
    assert_eq!(grants(&["list"]).stdout, "no grants yet\n");
    let added = grants(&["add", "--forward-in", "3000:8080"]);
    added.succeeded();
    assert!(
        added.stdout.starts_with(
            "1  port 3000 inside, opened as 127.0.0.1:8080 of this computer, for every session"
        ),
        "{added:?}"
    );
    assert_eq!(grants(&["list"]).stdout, added.stdout);
    for (what, code) in [
        (["--forward-in", "http"], "GRANT_PORT_INVALID"),
        (["--forward-out", "3128"], "GRANT_PORT_OWN"),
        (["--forward-out", "9000:2375"], "PORT_CONTROLS_HOST"),
        (["--socket", "x.sock"], "GRANT_SOCKET_PATH_INVALID"),
        (["--socket", "/run/docker.sock"], "SOCKET_CONTROLS_HOST"),
        (["--socket", "/nowhere/x.sock"], "SOCKET_MISSING"),
    ] {
        grants(&[&["add"], what.as_slice()].concat()).refused(2, code);
    }
    grants(&["add"]).refused(2, "USAGE");
    grants(&["add", "--forward-in", "1", "--forward-out", "2"]).refused(2, "USAGE");
    let nobody = ["add", "--session", "nobody", "--forward-in", "3000"];
    grants(&nobody).refused(2, "NO_SUCH_SESSION");
    grants(&["remove", "1"]).succeeded();
    grants(&["remove", "1"]).refused(2, "NO_SUCH_GRANT");
    assert_eq!(grants(&["list"]).stdout, "no grants yet\n");
}

#[test]
fn a_refusal_is_in_the_log_with_its_process_and_explained_the_same() {
    let desk = Desk::new();
    assert_eq!(desk.finish(&["log"]).stdout, "nothing yet\n");
    let script = connect("evil.example.net:443");
    let finished = desk.finish(&bash(
        &[
            "--network",
            "allowlist",
            "--allow",
            "*.kotak-test.example.com",
        ],
        &script,
    ));
    finished.succeeded();
    assert!(finished.stdout.contains("403"), "{finished:?}");

    let found = rows(&desk, &["--denied"]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].target, "evil.example.net:443");
    assert_eq!(found[0].process.as_ref().unwrap().name, "bash");
    let session = found[0].session_id.clone();
    let text = desk.finish(&["log", "--session", &session]).stdout;
    assert!(text.contains("refused  evil.example.net:443"), "{text}");
    assert!(text.contains("bash ["), "{text}");
    assert!(rows(&desk, &["--session", "another"]).is_empty());

    let explain = |name: &str| desk.finish(&["explain", "host", name, "--session", &session]);
    let refused = explain("evil.example.net:443");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stdout.contains("would be refused"), "{refused:?}");
    assert!(
        refused.stdout.contains("not on the allowlist"),
        "{refused:?}"
    );
    // The session's own entry, which no other session has.
    assert_eq!(explain("a.kotak-test.example.com").code, Some(0));
    let elsewhere = desk.finish(&["explain", "host", "a.kotak-test.example.com"]);
    assert_eq!(elsewhere.code, Some(1), "{elsewhere:?}");
    desk.finish(&["explain", "host", "github.com"]).succeeded();
    desk.finish(&["explain", "host", "github.com", "--session", "nobody"])
        .refused(2, "NO_SUCH_SESSION");
    let json = desk.finish(&["--json", "explain", "host", "Evil.Example.NET."]);
    let explained: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(explained["target"], "evil.example.net:443");
    assert_eq!(explained["verdict"], "deny");
}

#[test]
fn rules_are_made_listed_and_removed_and_decide() {
    let desk = Desk::new();
    assert_eq!(desk.finish(&["rules", "list"]).stdout, "no rules yet\n");
    for (pattern, code) in [
        ("*.com", "HOST_PATTERN_INVALID"),
        ("a b", "HOST_PATTERN_INVALID"),
    ] {
        desk.finish(&["rules", "add", pattern]).refused(2, code);
    }
    let added = desk.finish(&["rules", "add", "*.Evil.example.net", "--json"]);
    added.succeeded();
    let rule: RuleInfo = serde_json::from_str(&added.stdout).unwrap();
    assert_eq!(rule.pattern, "*.evil.example.net");
    assert_eq!(rule.workspace, text(&desk.project()));
    desk.finish(&["explain", "host", "a.evil.example.net"])
        .succeeded();
    let list = desk.finish(&["rules", "list"]).stdout;
    assert!(
        list.contains("Allow *.evil.example.net always in"),
        "{list}"
    );
    // Of another workspace it is not.
    let other = text(&desk.path("home"));
    let list = desk.finish(&["rules", "list", "--workspace", &other]);
    assert_eq!(list.stdout, "no rules yet\n");
    desk.finish(&["rules", "add", "github.com", "--deny"])
        .succeeded();
    let denied = desk.finish(&["explain", "host", "github.com"]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    let id = rule.id.to_string();
    desk.finish(&["rules", "remove", &id]).succeeded();
    desk.finish(&["rules", "remove", &id])
        .refused(2, "NO_SUCH_RULE");
    let gone = desk.finish(&["explain", "host", "a.evil.example.net"]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    desk.finish(&["rules", "add", "a.example.com", "--session", "nobody"])
        .refused(2, "NO_SUCH_SESSION");
}

#[test]
fn the_log_follows_what_happens() {
    let desk = Desk::new();
    let mut follower = desk
        .kotak(&["log", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let script = connect("evil.example.net:443");
    desk.finish(&bash(&["--network", "off"], &script))
        .succeeded();
    let row: ActivityRow = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(row.target, "evil.example.net:443");
    let denied = row.connection.unwrap().denied;
    assert_eq!(denied, Some(DenyReason::NetworkOff));
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn without_a_terminal_nobody_is_asked_and_it_is_denied() {
    let desk = Desk::new();
    let script = connect("new.example.net:443");
    let finished = desk.finish(&bash(&["--network", "ask"], &script));
    finished.succeeded();
    assert!(finished.stdout.contains("403"), "{finished:?}");
    let denied = rows(&desk, &[])[0].connection.as_ref().unwrap().denied;
    assert_eq!(denied, Some(DenyReason::NobodyToAsk));
}

#[test]
fn domains_are_refused_where_no_list_is_kept() {
    let desk = Desk::new();
    let with = |network| {
        desk.finish(&bash(
            &[
                "--profile",
                "terminal",
                "--network",
                network,
                "--allow",
                "a.example.com",
            ],
            "true",
        ))
    };
    for network in ["open", "off"] {
        let refused = with(network);
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    with("allowlist").succeeded();
    with("ask").succeeded();
    let wrong = desk.finish(&bash(
        &["--network", "allowlist", "--allow", "*.com"],
        "true",
    ));
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

/// Keeps pressing a key until something is seen: what comes too early counts for nothing.
fn presses(person: &mut Person, key: &str, until: &str) {
    while !person.has_seen(until, Duration::from_millis(200)) {
        person.types(key);
    }
    person.sees(until);
}

#[test]
fn a_question_stands_alone_on_its_screen_and_nothing_typed_before_answers_it() {
    let desk = Desk::new();
    // It draws a question of its own and never stops drawing.
    let script = format!(
        "printf 'kotak asks? o once\\n'; read -r go; \
         (while :; do printf 'tick'; done) & \
         {}; kill $!; echo over",
        connect("new.example.net:443")
    );
    let mut person = Person::starts(&desk, &bash(&["--network", "ask"], &script), &[]);
    person.sees("o once");
    person.types("go\roooo\rwwww\r");
    person.sees("\u{1b}[?1049h");
    person.sees("bash wants to reach new.example.net:443");
    person.sees("denied in");
    // Drawn several times, and nothing of the session's in between.
    let page = person.page(&["denied in", "denied in", "denied in"]);
    assert!(!page.contains("tick"), "{page:?}");
    presses(&mut person, "d", "\u{1b}[?1049l");
    person.sees("answer: HTTP/1.1 403");
    person.sees("over");
    assert_eq!(person.ends(), Some(0));
    let found = rows(&desk, &[]);
    assert_eq!(found.len(), 1);
    let denied = found[0].connection.as_ref().unwrap().denied;
    assert_eq!(denied, Some(DenyReason::Answer));
    assert_eq!(desk.finish(&["rules", "list"]).stdout, "no rules yet\n");
}

#[test]
fn deny_for_the_session_is_asked_once_with_the_scope_that_was_chosen() {
    let desk = Desk::new();
    let script = format!(
        "{}; {}; echo over",
        connect("new.example.net:443"),
        connect("new.example.net:8443")
    );
    let mut person = Person::starts(&desk, &bash(&["--network", "ask"], &script), &[]);
    person.sees("> 1 new.example.net:443");
    presses(&mut person, "2", "> 2 new.example.net");
    presses(&mut person, "D", "\u{1b}[?1049l");
    person.sees("answer: HTTP/1.1 403");
    person.sees("answer: HTTP/1.1 403");
    person.sees("over");
    assert_eq!(person.ends(), Some(0));
    let reasons: Vec<_> = rows(&desk, &[])
        .into_iter()
        .map(|row| row.connection.unwrap().denied)
        .collect();
    // The answer is a rule from the moment it was given, for what waited too.
    assert_eq!(reasons, [Some(DenyReason::OperatorRule); 2]);
}
