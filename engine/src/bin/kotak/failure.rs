//! Errors as the command shows them, and its exit codes.

use crate::text::printable;
use kotak_engine::error::{Coded, Problem};
use std::io::Write;

/// Wrong usage, a malformed spec, a path that cannot be used.
const USAGE: u8 = 2;
/// The backend is not available.
pub(crate) const UNAVAILABLE: u8 = 3;
/// The sandbox could not be launched.
const LAUNCH: u8 = 4;
/// The engine failed, or the sandbox broke.
const ENGINE: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Something that Kotak itself has to say, never how a program ended.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) problem: Box<Problem>,
    pub(crate) exit: u8,
}

impl Failure {
    /// What was asked for cannot be done as asked.
    pub(crate) fn usage(problem: Problem) -> Self {
        Self {
            problem: Box::new(problem),
            exit: USAGE,
        }
    }

    /// The same, from a typed error.
    pub(crate) fn refused(error: &impl Coded) -> Self {
        Self::usage(error.problem())
    }

    /// The shell does not exist.
    pub(crate) fn not_found(error: &impl Coded) -> Self {
        Self {
            problem: Box::new(error.problem()),
            exit: NOT_FOUND,
        }
    }

    /// A launch was refused before anything ran.
    pub(crate) fn launch_refused(problem: Problem) -> Self {
        let exit = match problem.code.as_str() {
            "MICROVM_UNAVAILABLE" | "NATIVE_UNAVAILABLE" | "BACKEND_UNAVAILABLE" => UNAVAILABLE,
            code if is_launch_code(code) => LAUNCH,
            _ => USAGE,
        };
        Self {
            problem: Box::new(problem),
            exit,
        }
    }

    /// A launch broke; no program ran.
    pub(crate) fn launch_broke(problem: Problem) -> Self {
        Self {
            problem: Box::new(problem),
            exit: LAUNCH,
        }
    }

    /// The program was not started.
    pub(crate) fn not_started(problem: Problem) -> Self {
        let exit = match problem.code.as_str() {
            "PROGRAM_NOT_FOUND" => NOT_FOUND,
            "PROGRAM_NOT_EXECUTABLE" => NOT_EXECUTABLE,
            "COMMAND_LINE_INVALID" => USAGE,
            _ => LAUNCH,
        };
        Self {
            problem: Box::new(problem),
            exit,
        }
    }

    /// The sandbox broke, or was ended by somebody else, while the program ran.
    pub(crate) fn broke(problem: Problem) -> Self {
        Self {
            problem: Box::new(problem),
            exit: ENGINE,
        }
    }

    /// The engine failed.
    pub(crate) fn engine(code: &str, message: &str, cause: &dyn std::error::Error) -> Self {
        let mut causes = vec![cause.to_string()];
        let mut source = cause.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        let problem = Problem {
            code: code.to_owned(),
            message: message.to_owned(),
            causes,
            fix: None,
        };
        Self {
            problem: Box::new(problem),
            exit: ENGINE,
        }
    }

    /// Writes it to standard error.
    pub(crate) fn report(&self, json: bool) {
        report(&self.problem, json);
    }
}

/// Codes of a launch that failed on its way, not of a request that was wrong.
fn is_launch_code(code: &str) -> bool {
    matches!(
        code,
        "BWRAP_MISSING"
            | "BWRAP_FAILED"
            | "GUARD_REFUSED"
            | "LAUNCH_TIMEOUT"
            | "SOURCE_CHANGED"
            | "SPAWN_FAILED"
            | "WATCHER_FAILED"
            | "PROCESS_LIMIT"
            | "TOO_MANY_OPEN_FILES"
            | "OUT_OF_MEMORY"
            | "KERNEL_TOO_OLD"
    )
}

/// Writes a problem to standard error: `kotak: <message> [CODE]`, its causes, and what mends it.
pub(crate) fn report(problem: &Problem, json: bool) {
    let text = if json {
        serde_json::to_string(problem).unwrap_or_default() + "\n"
    } else {
        in_words(problem)
    };
    // There is nowhere else to say it.
    let _written = std::io::stderr().write_all(text.as_bytes());
}

fn in_words(problem: &Problem) -> String {
    let mut text = format!(
        "kotak: {} [{}]\n",
        printable(&problem.message),
        problem.code
    );
    for cause in &problem.causes {
        text.push_str(&format!("  cause: {}\n", printable(cause)));
    }
    if let Some(fix) = &problem.fix {
        text.push_str(&format!("  fix: {}\n", printable(&fix.text)));
        for line in fix.command.iter().flat_map(|command| command.lines()) {
            text.push_str(&format!("  fix: $ {}\n", printable(line)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kotak_engine::error::Fix;

    #[test]
    fn a_problem_shows_message_code_causes_and_fix() {
        let problem = Problem {
            code: "BWRAP_FAILED".to_owned(),
            message: "cannot\u{1b}[2J build".to_owned(),
            causes: vec!["one".to_owned()],
            fix: Some(Fix::command("Do this.", "a b\nc")),
        };
        assert_eq!(
            in_words(&problem),
            "kotak: cannot\\u{1b}[2J build [BWRAP_FAILED]\n  cause: one\n  fix: Do this.\n  \
             fix: $ a b\n  fix: $ c\n"
        );
    }

    #[test]
    fn exit_codes_follow_what_failed() {
        let problem = |code: &str| Problem {
            code: code.to_owned(),
            message: String::new(),
            causes: vec![],
            fix: None,
        };
        assert_eq!(
            Failure::launch_refused(problem("NATIVE_UNAVAILABLE")).exit,
            3
        );
        assert_eq!(Failure::launch_refused(problem("BWRAP_MISSING")).exit, 4);
        assert_eq!(Failure::launch_refused(problem("WORKDIR_TOO_WIDE")).exit, 2);
        assert_eq!(Failure::not_started(problem("PROGRAM_NOT_FOUND")).exit, 127);
        assert_eq!(
            Failure::not_started(problem("PROGRAM_NOT_EXECUTABLE")).exit,
            126
        );
        assert_eq!(Failure::not_started(problem("NO_FREE_PTY")).exit, 4);
        assert_eq!(Failure::broke(problem("GUARD_LOST")).exit, 125);
    }
}
