//! Agents that can be started by name.

use crate::api::Preset;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What is known of an agent.
struct Agent {
    /// Also the program's name.
    id: &'static str,
    label: &'static str,
    /// Below the home directory: where it keeps sessions, caches and its login.
    state: &'static str,
    /// Inside its state: settings by which it runs programs or takes orders. An agent in a
    /// sandbox that could write these would plant orders for the next one outside.
    orders: &'static [&'static str],
}

const KNOWN: [Agent; 3] = [
    Agent {
        id: "claude",
        label: "Claude Code",
        state: ".claude",
        orders: &[
            "settings.json",
            "settings.local.json",
            "hooks",
            "plugins",
            "commands",
            "agents",
            "skills",
            "CLAUDE.md",
        ],
    },
    Agent {
        id: "codex",
        label: "Codex",
        state: ".codex",
        orders: &[
            "config.toml",
            "hooks",
            "hooks.json",
            "prompts",
            "rules",
            "skills",
            "AGENTS.md",
        ],
    },
    Agent {
        id: "gemini",
        label: "Gemini CLI",
        state: ".gemini",
        orders: &[
            "settings.json",
            "extensions",
            "commands",
            "policies",
            "GEMINI.md",
            ".env",
        ],
    },
];

/// Where an agent keeps its own state, and what of it stays protected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentState {
    /// Directories to hold writable in every mode (REQ SP `runnerStateDirs`); those that exist.
    pub dirs: Vec<PathBuf>,
    /// Never writable, although inside (REQ SP `protectedPaths`).
    pub protected: Vec<PathBuf>,
}

/// The state of the preset `id` below `home`; nothing when it has none yet.
#[must_use]
pub fn agent_state(id: &str, home: &Path) -> AgentState {
    let Some(agent) = KNOWN.iter().find(|agent| agent.id == id) else {
        return AgentState::default();
    };
    let dir = home.join(agent.state);
    if !dir.is_dir() {
        return AgentState::default();
    }
    let protected = agent.orders.iter().map(|name| dir.join(name)).collect();
    AgentState {
        dirs: vec![dir],
        protected,
    }
}

/// Every preset, with where its program is on the engine's PATH.
#[must_use]
pub fn presets() -> Vec<Preset> {
    presets_on(std::env::var_os("PATH").as_deref())
}

fn presets_on(path: Option<&OsStr>) -> Vec<Preset> {
    KNOWN
        .iter()
        .map(|agent| Preset {
            id: agent.id.to_owned(),
            label: agent.label.to_owned(),
            path: path.and_then(|path| program_on(path, agent.id)),
        })
        .collect()
}

/// The first executable of that name. Relative entries of PATH are passed over: they mean another
/// program in every folder.
fn program_on(path: &OsStr, name: &str) -> Option<String> {
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|program| {
            fs::metadata(program)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
        .and_then(|program| program.to_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_writes_its_state_but_not_its_orders() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(agent_state("claude", home.path()), AgentState::default());
        let dir = home.path().join(".claude");
        fs::create_dir(&dir).unwrap();
        let state = agent_state("claude", home.path());
        assert_eq!(state.dirs, std::slice::from_ref(&dir));
        for order in ["settings.json", "hooks", "CLAUDE.md"] {
            assert!(state.protected.contains(&dir.join(order)), "{order}");
        }
        assert_eq!(agent_state("vim", home.path()), AgentState::default());
    }

    #[test]
    fn an_executable_on_path_is_found_and_other_files_are_not() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (root.path().join("first"), root.path().join("second"));
        for (dir, mode) in [(&first, 0o644), (&second, 0o755)] {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("codex"), "#!/bin/sh\n").unwrap();
            fs::set_permissions(dir.join("codex"), fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = std::env::join_paths([&first, &second]).unwrap();
        let found: Vec<_> = presets_on(Some(&path))
            .into_iter()
            .map(|preset| (preset.id, preset.path))
            .collect();
        let program = second.join("codex").to_str().unwrap().to_owned();
        assert_eq!(
            found,
            [
                ("claude".to_owned(), None),
                ("codex".to_owned(), Some(program)),
                ("gemini".to_owned(), None)
            ]
        );
        assert!(presets_on(None).iter().all(|preset| preset.path.is_none()));
    }
}
