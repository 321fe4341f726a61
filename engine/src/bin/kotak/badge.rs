//! What a session really is, in one line, made from the launch result (REQ BK-7, UI-3).

use kotak_engine::backend::SandboxBackend;
use kotak_engine::manager::SandboxHandle;
use kotak_engine::spec::NetworkMode;
use std::collections::BTreeMap;

/// The line; `None` when the handle says that nothing runs.
pub(crate) fn badge_line(handle: &SandboxHandle, network: NetworkMode) -> Option<String> {
    let network = match network {
        NetworkMode::Open => "network open",
        NetworkMode::Allowlist => "network allowlist",
        NetworkMode::Ask => "network ask",
        NetworkMode::Off => "network off",
    };
    let what = match handle.backend? {
        SandboxBackend::Microvm => format!("microvm · kernel boundary · {network}"),
        SandboxBackend::Native => format!("native · namespaces, no kernel boundary · {network}"),
        SandboxBackend::None => {
            return Some("kotak: none · not sandboxed: this runs directly on the host".to_owned());
        }
    };
    // A wrapped session without a report of what holds has told nothing, which is not "no gaps".
    let gaps = handle.enforcement.as_ref().map_or_else(
        || "enforcement not reported".to_owned(),
        |enforcement| {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for gap in enforcement.gaps() {
                *counts.entry(gap.code.as_str()).or_default() += 1;
            }
            let names: Vec<String> = counts
                .iter()
                .map(|(code, count)| {
                    if *count == 1 {
                        (*code).to_owned()
                    } else {
                        format!("{code} ×{count}")
                    }
                })
                .collect();
            match counts.values().sum::<usize>() {
                0 => "no gaps".to_owned(),
                1 => format!("1 gap: {}", names.join(", ")),
                count => format!("{count} gaps: {}", names.join(", ")),
            }
        },
    );
    Some(format!("kotak: {what} · {gaps}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kotak_engine::backend::{Aspect, Enforcement, EnforcementRow, Gap, Level};
    use kotak_engine::manager::SandboxState;

    fn handle(backend: Option<SandboxBackend>, gaps: &[&str]) -> SandboxHandle {
        let gaps = gaps
            .iter()
            .map(|code| Gap {
                code: (*code).to_owned(),
                text: "text".to_owned(),
            })
            .collect();
        let row = EnforcementRow {
            aspect: Aspect::Mounts,
            level: Level::Partial,
            detail: "detail".to_owned(),
            gaps,
        };
        SandboxHandle {
            session_id: "s".to_owned(),
            backend,
            state: SandboxState::Warm,
            error: None,
            enforcement: Some(Enforcement { aspects: vec![row] }),
            details: BTreeMap::new(),
        }
    }

    fn line(backend: SandboxBackend, gaps: &[&str]) -> String {
        badge_line(&handle(Some(backend), gaps), NetworkMode::Open).unwrap()
    }

    // REQ BK-7
    #[test]
    fn the_line_names_the_backend_that_runs_and_every_gap() {
        let native = "kotak: native · namespaces, no kernel boundary · network open";
        assert_eq!(
            line(SandboxBackend::Native, &[]),
            format!("{native} · no gaps")
        );
        assert_eq!(
            line(SandboxBackend::Native, &["b", "a", "b"]),
            format!("{native} · 3 gaps: a, b ×2")
        );
        assert_eq!(
            line(SandboxBackend::None, &[]),
            "kotak: none · not sandboxed: this runs directly on the host"
        );
    }

    #[test]
    fn nothing_is_claimed_of_a_sandbox_that_reports_nothing() {
        assert_eq!(badge_line(&handle(None, &[]), NetworkMode::Open), None);
        let mut untold = handle(Some(SandboxBackend::Native), &[]);
        untold.enforcement = None;
        let line = badge_line(&untold, NetworkMode::Off).unwrap();
        assert!(
            line.ends_with("network off · enforcement not reported"),
            "{line}"
        );
    }
}
