//! The user's shell.

use crate::error::{Coded, Fix};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The shell that is named cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the shell {} (from {source_name}) is not an executable file", path.display())]
pub struct ShellError {
    /// What is named.
    pub path: PathBuf,
    /// `SHELL`, or the user database.
    pub source_name: &'static str,
}

impl Coded for ShellError {
    fn code(&self) -> &'static str {
        "SHELL_NOT_FOUND"
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(
            "Set SHELL to a shell that is installed, for example /bin/sh.",
        ))
    }
}

/// The shell in `SHELL`, else the user database's, else `/bin/sh`. One that is named and cannot
/// be run is an error: another shell would be a surprise.
pub fn login_shell() -> Result<PathBuf, ShellError> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .ok()
        .flatten();
    chosen(std::env::var_os("SHELL"), user.map(|user| user.shell))
}

fn chosen(variable: Option<OsString>, database: Option<PathBuf>) -> Result<PathBuf, ShellError> {
    let (path, source_name) = match (variable, database) {
        (Some(shell), _) if !shell.is_empty() => (PathBuf::from(shell), "SHELL"),
        (_, Some(shell)) if !shell.as_os_str().is_empty() => (shell, "the user database"),
        (_, _) => (PathBuf::from("/bin/sh"), "the system's default"),
    };
    let runs = path.is_absolute()
        && fs::metadata(&path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if runs {
        Ok(path)
    } else {
        Err(ShellError { path, source_name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_wins_over_the_user_database_and_the_database_over_the_default() {
        let sh = Ok(PathBuf::from("/bin/sh"));
        assert_eq!(chosen(Some("/bin/sh".into()), Some("/nowhere".into())), sh);
        assert_eq!(chosen(Some("".into()), Some("/bin/sh".into())), sh);
        assert_eq!(chosen(None, None), sh);
    }

    #[test]
    fn a_shell_that_is_missing_relative_or_no_program_is_refused() {
        for shell in ["/nowhere/zsh", "bash", "/etc/passwd", "/bin"] {
            let error = chosen(Some(shell.into()), Some("/bin/sh".into())).unwrap_err();
            assert_eq!(
                (error.code(), error.path),
                ("SHELL_NOT_FOUND", PathBuf::from(shell))
            );
        }
    }
}
