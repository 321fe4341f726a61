//! Rules that change while a session runs (case: the operator removes a host from the list while a
//! connection to it is open).

use crate::desk::Desk;
use crate::sandbox::Sandbox;
use kotak_engine::api::{NewRule, Outcome};
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::{tunnels, world};
use serde_json::json;

#[test]
fn removing_a_host_denies_new_connections_and_leaves_the_open_one_to_be_cut() {
    let name = world().name("removed.rules-one.net");
    let sandbox = Sandbox::allowing(&[]);
    let work = sandbox.stage.work().display().to_string();
    let desk = Desk::open(&sandbox);
    let rule = NewRule {
        pattern: name.to_owned(),
        allow: true,
        session_id: None,
        workspace: Some(work),
    };
    let rule = desk.run(desk.engine.add_rule(rule)).expect("a rule");
    let mut driver = sandbox.driver();
    let target = format!("{name}:{}", tunnels::ECHO);
    let held = driver.ask(json!({ "op": "hold", "target": target, "as": "held" }));
    assert_eq!(held["status"], json!(200), "{held}");
    desk.run(desk.engine.remove_rule(rule.id))
        .expect("the removal");
    desk.until("a refusal of new connections", || {
        let answer = driver.ask(json!({ "op": "connect", "target": target }));
        (answer["status"] == json!(403)).then_some(())
    });
    let said = driver.ask(json!({ "op": "say", "as": "held", "text": "still open" }));
    assert_eq!(said["answer"], "still open", "{said}");
    let open = sandbox
        .log()
        .rows
        .into_iter()
        .find(|row| row.outcome == Outcome::Open);
    let open = open.expect("the open connection is listed");
    assert_eq!(open.target, target);
    let listed = sandbox.kotak(&["rules", "list", "--json"]);
    assert!(!listed.stdout.contains(name), "{listed:?}");
    driver.end();
    sandbox
        .log()
        .refused(&target, DenyReason::NotListed, "python3");
}

#[test]
fn an_open_connection_is_cut_and_nothing_else_with_it() {
    let name = world().name("cut.rules-two.net");
    let sandbox = Sandbox::allowing(&[]);
    let desk = Desk::open(&sandbox);
    let mut driver = desk.driver(&sandbox, "cut", &[name]);
    let target = format!("{name}:{}", tunnels::ECHO);
    for held in ["first", "second"] {
        let opened = driver.ask(json!({ "op": "hold", "target": target, "as": held }));
        assert_eq!(opened["status"], json!(200), "{opened}");
        let said = driver.ask(json!({ "op": "say", "as": held, "text": held }));
        assert_eq!(said["answer"], *held, "{said}");
    }
    let open = || {
        let rows = sandbox.log().rows.into_iter();
        let open = rows.filter(|row| row.outcome == Outcome::Open);
        let numbers = open.filter_map(|row| row.connection.map(|c| c.connection));
        numbers.collect::<Vec<_>>()
    };
    let both = desk.until("two open connections", || {
        Some(open()).filter(|open| open.len() == 2)
    });
    let policy = desk.engine.network_policy("cut").expect("a policy");
    assert_eq!(policy.open, 2);
    desk.engine.cut("cut", both[0]).expect("a cut");
    let gone = driver.ask(json!({ "op": "say", "as": "first", "text": "x" }));
    assert_ne!(gone["answer"], "x", "{gone}");
    let stays = driver.ask(json!({ "op": "say", "as": "second", "text": "stays" }));
    assert_eq!(stays["answer"], "stays", "{stays}");
    let problem = desk.engine.cut("cut", both[0]).expect_err("it is gone");
    assert_eq!(problem.code, "CONNECTION_GONE");
    // It had passed; its row says who ended it.
    desk.until("the row of the cut", || {
        let rows = sandbox.log().rows.into_iter();
        let mut details = rows.filter_map(|row| row.connection);
        details.find(|c| c.connection == both[0] && c.denied == Some(DenyReason::Cut))
    });
    // A cut forbids nothing: the list does that.
    let again = driver.ask(json!({ "op": "connect", "target": target }));
    assert_eq!(again["status"], json!(200), "{again}");
    driver.end();
}
