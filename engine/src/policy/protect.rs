//! The mandatory write-deny set (REQ SP): what a program inside could plant for the host to run
//! later. Held read-only inside every writable root.

use super::HostContext;
use super::secrets::{XDG, absolute};
use crate::spec::AbsPath;

/// Below the home directory.
const HOME: [&str; 53] = [
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".config/zsh",
    ".config/fish",
    ".kshrc",
    ".mkshrc",
    ".shrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".config/nushell",
    ".pam_environment",
    ".xprofile",
    ".xsessionrc",
    ".xsession",
    ".xinitrc",
    ".config/environment.d",
    ".config/plasma-workspace",
    ".gitconfig",
    ".config/git",
    ".config/direnv",
    ".direnvrc",
    ".vscode",
    ".idea",
    ".claude",
    ".codex",
    ".gemini",
    ".mcp.json",
    ".envrc",
    ".config/autostart",
    ".config/systemd/user",
    ".local/share/systemd/user",
    "Library/LaunchAgents",
    ".ssh",
    ".config/containers",
    // Completions and configuration that shells run when they start or complete.
    ".bash_completion",
    ".local/share/bash-completion",
    ".local/share/fish/vendor_conf.d",
    // Programs that a desktop starts at login, or on a call over its bus.
    ".config/openbox",
    ".config/labwc/autostart",
    ".kde/Autostart",
    ".local/share/dbus-1/services",
    // Programs that docker runs, already to list its commands.
    ".docker/cli-plugins",
];

/// Of one user or of the system, wherever a writable root may hold them.
const SYSTEM: [&str; 3] = ["/var/spool/cron", "/etc/crontab", "/etc/cron.*"];

/// Names that are protected wherever the search meets them in a writable root.
pub(crate) const ANYWHERE: [&str; 7] = [
    ".vscode",
    ".idea",
    ".claude",
    ".codex",
    ".gemini",
    ".mcp.json",
    ".envrc",
];

/// Directories in which an agent keeps its settings; a runner state directory may re-open them.
pub(super) const AGENT_DIRS: [&str; 3] = [".claude", ".codex", ".gemini"];

/// The mandatory write-deny set for this user, without what the search finds; paths and globs.
pub(super) fn mandatory(context: &HostContext) -> Vec<AbsPath> {
    let mut paths: Vec<AbsPath> = context
        .homes()
        .flat_map(|home| HOME.iter().map(|below| home.join(below)))
        .collect();
    for (name, usual) in XDG {
        if let Some(base) = absolute(context, name) {
            let moved = HOME.iter().filter_map(|below| below.strip_prefix(usual));
            paths.extend(moved.map(|below| base.join(below)));
        }
    }
    paths.extend(absolute(context, "GIT_CONFIG_GLOBAL"));
    if let Some(zsh) = absolute(context, "ZDOTDIR") {
        let names = [".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"];
        paths.extend(names.map(|name| zsh.join(name)));
    }
    paths.extend(SYSTEM.iter().map(|path| AbsPath::root().join(path)));
    paths.extend(context.path_dirs());
    paths.extend(context.kotak.binaries.iter().cloned());
    let mut seen = std::collections::BTreeSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    paths
}

#[cfg(test)]
mod tests {
    use super::super::fake::{context, path};
    use super::*;

    #[test]
    fn the_set_holds_every_entry_of_the_requirement() {
        let all = mandatory(&context());
        for below in [
            ".profile",
            ".bashrc",
            ".zshrc",
            ".config/fish",
            ".gitconfig",
            ".config/git",
            ".vscode",
            ".idea",
            ".claude",
            ".codex",
            ".gemini",
            ".mcp.json",
            ".envrc",
            ".config/autostart",
            ".config/systemd/user",
            "Library/LaunchAgents",
            ".ssh",
            ".cargo/bin/kotak",
            ".bash_completion",
            ".local/share/bash-completion",
            ".local/share/fish/vendor_conf.d",
            ".config/openbox",
            ".config/labwc/autostart",
            ".kde/Autostart",
            ".local/share/dbus-1/services",
            ".docker/cli-plugins",
        ] {
            assert!(all.contains(&path("/home/u").join(below)), "{below}");
        }
        assert!(all.contains(&path("/var/spool/cron")));
    }

    #[test]
    fn absolute_path_directories_and_moved_settings_are_held() {
        let mut moved = context();
        moved.env.push((b"ZDOTDIR".to_vec(), b"/home/u/z".to_vec()));
        moved
            .env
            .push((b"XDG_CONFIG_HOME".to_vec(), b"/cfg".to_vec()));
        moved
            .env
            .push((b"XDG_DATA_HOME".to_vec(), b"/data".to_vec()));
        moved.passwd_home = Some(path("/home/real"));
        let all = mandatory(&moved);
        for expected in [
            "/home/u/.local/bin",
            "/usr/bin",
            "/home/u/z/.zshrc",
            "/cfg/git",
            "/data/systemd/user",
            "/data/dbus-1/services",
            "/cfg/openbox",
            "/home/real/.bashrc",
        ] {
            assert!(all.contains(&path(expected)), "{expected}");
        }
    }
}
