//! What holds of every report, whatever was observed.

use super::fake::{FakeHost, found, native, ready, runner_failed, text};
use super::trial_tests::FAILURES;
use super::*;
use crate::backend::{BackendChoice, ClientDefault, SandboxBackend, select};
use proptest::prelude::*;
use std::path::PathBuf;

fn any_host() -> impl Strategy<Value = FakeHost> {
    let tool = prop_oneof![
        Just(ToolSearch::Missing),
        Just(found("/usr/bin/bwrap")),
        Just(ToolSearch::Refused(vec![RefusedTool {
            path: PathBuf::from("/x/bwrap"),
            why: Distrust::RelativeEntry,
        }])),
    ];
    let trial = prop_oneof![
        (0usize..12).prop_map(ready),
        (0..FAILURES.len()).prop_map(|index| runner_failed(FAILURES[index].stderr)),
        "[ -~\n]{0,60}".prop_map(|stderr| runner_failed(&stderr)),
        Just(TrialOutcome::Timeout),
        Just(TrialOutcome::NoLauncher),
        Just(TrialOutcome::SpawnFailed("x".to_owned())),
    ];
    let os = prop_oneof![
        6 => Just(Os::Linux),
        1 => Just(Os::Macos),
        1 => Just(Os::Windows),
    ];
    let userns = prop_oneof![
        Just(UserNamespaceTrial::Works),
        (1i32..40).prop_map(UserNamespaceTrial::Refused),
        (1i32..40).prop_map(UserNamespaceTrial::Powerless),
        (1i32..40).prop_map(UserNamespaceTrial::NotTried),
    ];
    let uid = prop_oneof![Just(0u32), Just(1000u32)];
    (
        os,
        tool.clone(),
        tool,
        trial,
        userns,
        uid,
        0..FAILURES.len(),
        any::<bool>(),
    )
        .prop_map(
            |(os, bwrap, socat, trial, user_namespace, uid, facts, mac_tool)| {
                FakeHost::debian().but(FAILURES[facts].facts).but(|host| {
                    host.os = os;
                    host.tools.insert("bwrap", bwrap);
                    host.tools.insert("socat", socat);
                    host.trial = trial;
                    host.user_namespace = user_namespace;
                    host.uid = uid;
                    if mac_tool {
                        host.files.insert("/usr/bin/sandbox-exec", text(""));
                    }
                })
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // REQ PR-6, PR-7, BK-6, SW-3
    #[test]
    fn every_report_is_consistent(host in any_host(), off: bool) {
        let switch = if off { Switch::Off } else { Switch::On };
        let report = probe(&host, switch);
        let native = native(&report).clone();

        // Exactly one of the three lines, one line long.
        let starts = [
            "agent sandbox ON — ",
            "no OS-native agent sandbox on this host — ",
            "agent sandbox DISABLED by --sandbox off",
        ];
        let matching = starts.iter().filter(|start| report.verdict.line.starts_with(**start));
        prop_assert_eq!(matching.count(), 1);
        prop_assert_eq!(report.verdict.line.lines().count(), 1);
        let state = match (off, native.available) {
            (true, _) => VerdictState::Disabled,
            (false, true) => VerdictState::On,
            (false, false) => VerdictState::Unavailable,
        };
        prop_assert_eq!(report.verdict.state, state);

        // Available means a trial that held, and no problem.
        for entry in &report.backends {
            prop_assert_eq!(entry.available, entry.problem.is_none());
        }
        if native.available {
            prop_assert!(matches!(host.trial, TrialOutcome::Ready(_)));
        }

        // Nothing that is missing goes unexplained, and no fix offers to switch the sandbox off.
        for row in &report.rows {
            prop_assert!(row.status != RowStatus::Missing || row.cause.is_some(), "{:?}", row);
        }
        let fixes = report.rows.iter().filter_map(|row| row.fix.as_ref()).chain(
            report.backends.iter().filter_map(|entry| entry.problem.as_ref()?.fix.as_ref()),
        );
        for fix in fixes {
            prop_assert!(!format!("{fix:?}").contains("--sandbox"), "{:?}", fix);
        }

        // `auto` never ends at `none`.
        for client in [ClientDefault::Terminal, ClientDefault::Command] {
            if let Ok(got) = select(Some(BackendChoice::Auto), client, &report, switch) {
                prop_assert_ne!(got.backend, SandboxBackend::None);
            }
        }

        // The text says all of it.
        let text = report_text(&report);
        prop_assert!(text.starts_with(&report.verdict.line));
        for row in &report.rows {
            prop_assert!(text.contains(&row.label) && text.contains(row.detail.trim_end()));
        }
    }
}
