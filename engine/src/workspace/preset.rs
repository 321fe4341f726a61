//! Agents that can be started by name.

use crate::api::Preset;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Id (also the program's name) and label.
const KNOWN: [(&str, &str); 3] = [
    ("claude", "Claude Code"),
    ("codex", "Codex"),
    ("gemini", "Gemini CLI"),
];

/// Every preset, with where its program is on the engine's PATH.
#[must_use]
pub fn presets() -> Vec<Preset> {
    presets_on(std::env::var_os("PATH").as_deref())
}

fn presets_on(path: Option<&OsStr>) -> Vec<Preset> {
    KNOWN
        .iter()
        .map(|(id, label)| Preset {
            id: (*id).to_owned(),
            label: (*label).to_owned(),
            path: path.and_then(|path| program_on(path, id)),
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
