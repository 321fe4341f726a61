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
