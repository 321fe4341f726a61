//! The whole selection table (REQ BK-5, BK-6, SW-2..4, TM-1).

use super::*;
use crate::probe::{BackendReport, HostFacts, HostVerdict, Platform, VerdictState};
use proptest::prelude::*;

const CHOICES: [Option<BackendChoice>; 5] = [
    None,
    Some(BackendChoice::Microvm),
    Some(BackendChoice::Native),
    Some(BackendChoice::None),
    Some(BackendChoice::Auto),
];
const CLIENTS: [ClientDefault; 2] = [ClientDefault::Terminal, ClientDefault::Command];
const SWITCHES: [Switch; 2] = [Switch::On, Switch::Off];

fn report(microvm: bool, native: bool) -> HostReport {
    let entry = |backend, available, reason: &str, fix: Fix| BackendReport {
        backend,
        available,
        requires_install: false,
        note: "note".to_owned(),
        problem: (!available).then(|| Problem {
            code: "X".to_owned(),
            message: reason.to_owned(),
            causes: vec![format!("{reason}, in detail")],
            fix: Some(fix),
        }),
    };
    HostReport {
        verdict: HostVerdict {
            state: VerdictState::On,
            line: String::new(),
        },
        backends: vec![
            entry(
                SandboxBackend::Microvm,
                microvm,
                "no KVM",
                Fix::words("enable KVM"),
            ),
            entry(
                SandboxBackend::Native,
                native,
                "no bwrap",
                Fix::command("install", "apt-get x"),
            ),
            entry(SandboxBackend::None, true, "", Fix::words("")),
        ],
        rows: Vec::new(),
        platform: Platform {
            os: "linux".to_owned(),
            name: String::new(),
            kernel: String::new(),
            arch: String::new(),
            wsl: None,
            container: None,
        },
        facts: HostFacts::default(),
        probed_at_ms: 0,
        duration_ms: 0,
    }
}

/// What must come out, written as the requirements say it, not as the code does.
fn wanted(
    choice: Option<BackendChoice>,
    client: ClientDefault,
    switch: Switch,
    microvm: bool,
    native: bool,
) -> Result<(SandboxBackend, bool), &'static str> {
    let auto = match (microvm, native) {
        (true, _) => Ok((SandboxBackend::Microvm, false)),
        (false, true) => Ok((SandboxBackend::Native, true)),
        (false, false) => Err("BACKEND_UNAVAILABLE"),
    };
    match choice {
        Some(BackendChoice::Microvm) if microvm => Ok((SandboxBackend::Microvm, false)),
        Some(BackendChoice::Microvm) => Err("MICROVM_UNAVAILABLE"),
        Some(BackendChoice::Native) if native => Ok((SandboxBackend::Native, false)),
        Some(BackendChoice::Native) => Err("NATIVE_UNAVAILABLE"),
        Some(BackendChoice::None) => Ok((SandboxBackend::None, false)),
        Some(BackendChoice::Auto) => auto,
        None if client == ClientDefault::Terminal => Ok((SandboxBackend::None, false)),
        None if switch == Switch::On => auto,
        None => Ok((SandboxBackend::None, true)),
    }
}

// REQ BK-5, BK-6, SW-2, SW-3, SW-4, TM-1
#[test]
fn every_choice_client_switch_and_availability_selects_as_required() {
    let mut cases = 0;
    for choice in CHOICES {
        for client in CLIENTS {
            for switch in SWITCHES {
                for (microvm, native) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    let got = select(choice, client, &report(microvm, native), switch);
                    let got = match &got {
                        Ok(selection) => Ok((selection.backend, selection.notice.is_some())),
                        Err(error) => Err(error.code()),
                    };
                    assert_eq!(
                        got,
                        wanted(choice, client, switch, microvm, native),
                        "{choice:?} {client:?} {switch:?} microvm={microvm} native={native}"
                    );
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 80);
}

// REQ BK-6
#[test]
fn an_explicit_microvm_fails_loudly_with_the_missing_precondition_and_its_fix() {
    let error = select(
        Some(BackendChoice::Microvm),
        ClientDefault::Terminal,
        &report(false, true),
        Switch::On,
    )
    .expect_err("no microVM");
    let problem = error.problem();
    assert_eq!(problem.code, "MICROVM_UNAVAILABLE");
    assert_eq!(problem.causes, ["no KVM", "no KVM, in detail"]);
    assert_eq!(problem.fix, Some(Fix::words("enable KVM")));
}

// REQ BK-6
#[test]
fn auto_falls_from_microvm_to_native_with_a_log_line_that_says_why() {
    let selection = select(
        Some(BackendChoice::Auto),
        ClientDefault::Command,
        &report(false, true),
        Switch::On,
    )
    .expect("native");
    assert_eq!(
        selection.notice.as_deref(),
        Some("no microVM for this session, native is used instead: no KVM")
    );
}

#[test]
fn auto_without_any_backend_names_both_reasons_and_the_nearer_fix() {
    let problem = select(
        Some(BackendChoice::Auto),
        ClientDefault::Command,
        &report(false, false),
        Switch::On,
    )
    .expect_err("nothing")
    .problem();
    assert_eq!(problem.code, "BACKEND_UNAVAILABLE");
    assert_eq!(
        problem.causes,
        [
            "no bwrap",
            "no bwrap, in detail",
            "no KVM",
            "no KVM, in detail"
        ]
    );
    assert_eq!(problem.fix, Some(Fix::command("install", "apt-get x")));
}

#[test]
fn a_report_that_does_not_speak_of_a_backend_does_not_offer_it() {
    let mut empty = report(true, true);
    empty.backends.clear();
    for choice in [
        BackendChoice::Microvm,
        BackendChoice::Native,
        BackendChoice::Auto,
    ] {
        assert!(select(Some(choice), ClientDefault::Terminal, &empty, Switch::On).is_err());
    }
}

// REQ BK-2: stored names; REQ SW-4: typed names.
#[test]
fn stored_names_are_read_leniently_and_typed_names_are_not() {
    for (stored, backend) in [
        (None, SandboxBackend::None),
        (Some("docker"), SandboxBackend::Native),
        (Some("native"), SandboxBackend::Native),
        (Some("microvm"), SandboxBackend::Microvm),
        (Some("none"), SandboxBackend::None),
        (Some("auto"), SandboxBackend::None),
        (Some(""), SandboxBackend::None),
        (Some("Native"), SandboxBackend::None),
        (Some("podman"), SandboxBackend::None),
    ] {
        assert_eq!(SandboxBackend::from_name(stored), backend, "{stored:?}");
    }
    for typed in ["docker", "", "Native", "podman", "null"] {
        assert!(typed.parse::<BackendChoice>().is_err(), "{typed}");
    }
    assert_eq!("auto".parse(), Ok(BackendChoice::Auto));
}

proptest! {
    // REQ BK-6
    #[test]
    fn auto_and_explicit_backends_never_end_at_none(
        choice in 0usize..3, client in 0usize..2, switch in 0usize..2,
        microvm: bool, native: bool,
    ) {
        let choice = [BackendChoice::Auto, BackendChoice::Native, BackendChoice::Microvm][choice];
        let got = select(Some(choice), CLIENTS[client], &report(microvm, native), SWITCHES[switch]);
        if let Ok(selection) = got {
            prop_assert_ne!(selection.backend, SandboxBackend::None);
            prop_assert!(report(microvm, native).backend(selection.backend).is_some_and(|b| b.available));
        }
    }

    // REQ SW-3: the switch changes nothing for a named backend.
    #[test]
    fn the_switch_changes_nothing_for_a_named_choice(
        choice in 1usize..5, client in 0usize..2, microvm: bool, native: bool,
    ) {
        let host = report(microvm, native);
        prop_assert_eq!(
            select(CHOICES[choice], CLIENTS[client], &host, Switch::On),
            select(CHOICES[choice], CLIENTS[client], &host, Switch::Off)
        );
    }
}
