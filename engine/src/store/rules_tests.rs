use super::tests::{end, open_clean, start};
use super::*;
use crate::api::{RuleInfo, RuleOrigin};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Long enough for the busiest machine; nothing waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(60);

fn rule(pattern: &str, allow: bool, session: Option<&str>) -> RuleStart {
    RuleStart {
        pattern: pattern.to_owned(),
        allow,
        session_id: session.map(str::to_owned),
        workspace: "/w".to_owned(),
        origin: RuleOrigin::Prompt,
    }
}

fn all(store: &Store) -> Vec<RuleInfo> {
    store.rules(&RuleFilter::default()).unwrap()
}

#[test]
fn a_rule_is_kept_once_and_the_opposite_takes_its_place() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    let first = store
        .add_rule(rule("a.example.com:443", true, None))
        .unwrap();
    assert_eq!(first.words, "Allow a.example.com:443 always in /w");
    assert_eq!(
        store
            .add_rule(rule("a.example.com:443", true, None))
            .unwrap(),
        first
    );
    // Of a session it is another rule.
    let own = store
        .add_rule(rule("a.example.com:443", true, Some("s")))
        .unwrap();
    assert_eq!(all(&store), [first.clone(), own.clone()]);
    let denied = store
        .add_rule(rule("a.example.com:443", false, None))
        .unwrap();
    assert_eq!(all(&store), [own.clone(), denied.clone()]);
    assert!(denied.id > own.id, "a number is never used again");

    let filter = RuleFilter {
        session_id: Some("s".to_owned()),
        ..RuleFilter::default()
    };
    assert_eq!(store.rules(&filter).unwrap(), std::slice::from_ref(&own));
    assert_eq!(store.remove_rule(own.id).unwrap(), Some(own.clone()));
    assert_eq!(store.remove_rule(own.id).unwrap(), None);
    assert_eq!(all(&store), [denied]);
}

#[test]
fn rules_of_a_session_end_with_it_and_those_of_the_workspace_stay() {
    let root = tempfile::tempdir().unwrap();
    let kept = {
        let store = open_clean(root.path());
        store.session_started(start("s"));
        store.session_started(start("lost"));
        store
            .add_rule(rule("a.example.com", true, Some("s")))
            .unwrap();
        store
            .add_rule(rule("b.example.com", true, Some("t")))
            .unwrap();
        let kept = store.add_rule(rule("c.example.com", true, None)).unwrap();
        store.session_ended("s", end(0));
        let patterns: Vec<_> = all(&store).into_iter().map(|rule| rule.pattern).collect();
        assert_eq!(patterns, ["b.example.com", "c.example.com"]);
        kept
    };
    // A workspace rule is there for a later engine.
    let store = open_clean(root.path());
    assert!(all(&store).contains(&kept));
}

#[test]
fn every_change_is_told_in_this_engine_and_in_others() {
    let root = tempfile::tempdir().unwrap();
    let store = open_clean(root.path());
    let other = open_clean(root.path());
    let (here, told_here) = channel();
    let (there, told_there) = channel();
    store.on_rules(move |rules| here.send(rules).unwrap());
    other.on_rules(move |rules| there.send(rules).unwrap());
    assert_eq!(told_here.recv_timeout(PATIENCE).unwrap(), []);
    assert_eq!(told_there.recv_timeout(PATIENCE).unwrap(), []);
    let added = store.add_rule(rule("a.example.com", true, None)).unwrap();
    assert_eq!(
        told_here.recv_timeout(PATIENCE).unwrap(),
        std::slice::from_ref(&added)
    );
    assert_eq!(
        told_there.recv_timeout(PATIENCE).unwrap(),
        std::slice::from_ref(&added)
    );
    other.remove_rule(added.id).unwrap();
    assert_eq!(told_here.recv_timeout(PATIENCE).unwrap(), []);
    assert_eq!(told_there.recv_timeout(PATIENCE).unwrap(), []);
}
