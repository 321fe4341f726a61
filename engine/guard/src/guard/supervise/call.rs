//! Which call it is, and where its arguments stand.

use super::{
    Evidence,
    answer::{Answer, Refusal, Stop, undecided},
    attribute::{self, Whose},
    caller::Caller,
    exec::{Foreseen, GOES_ON, Programs},
    journal::Journal,
    judged::Judged,
    make,
    open::{self, Wish},
    staging::Staging,
    tree::{self, Pair},
    violation,
    waiting::Waiting,
};
use kotak_guard::proto::{FileAction, Rule};

/// What a call is carried out with.
pub(super) struct Parts<'a> {
    pub(super) judged: Judged<'a>,
    pub(super) staging: &'a mut Staging,
    pub(super) waiting: &'a mut Waiting,
    pub(super) programs: Option<&'a Programs>,
    pub(super) journal: &'a Journal,
}

/// Calls that have the same numbers wherever the guard runs, by their names.
macro_rules! calls {
    ($($name:ident)*) => {
        /// The name of a system call that may wait.
        pub(super) fn name(number: i64) -> &'static str {
            $(if number == libc::$name {
                return &stringify!($name)[4..];
            })*
            #[cfg(target_arch = "x86_64")]
            if let Some(name) = older::name(number) {
                return name;
            }
            "system call"
        }
    };
}

calls! {
    SYS_openat SYS_truncate SYS_renameat SYS_renameat2 SYS_linkat SYS_symlinkat SYS_mknodat
    SYS_mkdirat SYS_unlinkat SYS_bind SYS_close SYS_fchmod SYS_fchmodat SYS_fchmodat2 SYS_execve
    SYS_execveat SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr
    SYS_fremovexattr
}

/// Does what the caller asked for, if the rules let it.
pub(super) fn carry_out(caller: &Caller<'_>, parts: &mut Parts<'_>) -> Result<Answer, Stop> {
    let judged = parts.judged;
    match caller.call.number {
        libc::SYS_openat => open_at(
            caller,
            parts,
            Wish {
                dir: Some(0),
                path: 1,
                flags: caller.int(2),
                mode: caller.word(3),
            },
        ),
        libc::SYS_truncate => open::truncate(caller, &judged),
        libc::SYS_renameat => tree::rename(caller, &judged, AT, 0),
        libc::SYS_renameat2 => tree::rename(caller, &judged, AT, caller.word(4)),
        libc::SYS_linkat => tree::link(caller, &judged, AT, caller.int(4)),
        libc::SYS_symlinkat => make::symlink(caller, &judged, 0, Some(1), 2),
        libc::SYS_mknodat => make::node_of(caller, &judged, Some(0), 1),
        libc::SYS_mkdirat => make::directory(caller, &judged, Some(0), 1),
        libc::SYS_unlinkat => tree::remove(caller, &judged, Some(0), 1, caller.int(2)),
        libc::SYS_bind => make::bind(caller, &judged),
        libc::SYS_close => parts.staging.close(caller, &judged),
        libc::SYS_fchmod => make::mode_of_descriptor(caller, &judged),
        // Without flags: the kernel's call has none.
        libc::SYS_fchmodat => make::mode(caller, &judged, Some(0), 1, 0),
        libc::SYS_fchmodat2 => make::mode(caller, &judged, Some(0), 1, caller.int(3)),
        libc::SYS_setxattr => attribute::set(caller, &judged, Whose::Target),
        libc::SYS_lsetxattr => attribute::set(caller, &judged, Whose::Entry),
        libc::SYS_fsetxattr => attribute::set(caller, &judged, Whose::Descriptor),
        libc::SYS_removexattr => attribute::remove(caller, &judged, Whose::Target),
        libc::SYS_lremovexattr => attribute::remove(caller, &judged, Whose::Entry),
        libc::SYS_fremovexattr => attribute::remove(caller, &judged, Whose::Descriptor),
        libc::SYS_execve => run(caller, parts, None, 0),
        libc::SYS_execveat => run(caller, parts, Some(0), 1),
        #[cfg(target_arch = "x86_64")]
        number => older::carry_out(caller, parts, number),
        #[cfg(not(target_arch = "x86_64"))]
        _ => Err(unknown()),
    }
}

/// A refusal since something could not be found out, with what is known of the call all the same.
pub(super) fn completed(caller: &Caller<'_>, refusal: Refusal) -> Refusal {
    if !matches!(refusal.rule, Rule::Undecided(_)) || !refusal.path.is_empty() {
        return refusal;
    }
    Refusal {
        action: action(caller),
        path: caller.meant(),
        ..refusal
    }
}

/// What a call does to files.
fn action(caller: &Caller<'_>) -> FileAction {
    let opens = |flags: i32| {
        if flags & libc::O_CREAT != 0 {
            FileAction::Create
        } else {
            FileAction::WriteData
        }
    };
    match name(caller.call.number) {
        "openat" => opens(caller.int(2)),
        "open" => opens(caller.int(1)),
        "creat" | "mkdir" | "mkdirat" | "mknod" | "mknodat" | "symlink" | "symlinkat" | "bind" => {
            FileAction::Create
        }
        "rename" | "renameat" | "renameat2" => FileAction::Rename,
        "link" | "linkat" => FileAction::Link,
        "unlink" | "unlinkat" | "rmdir" => FileAction::Unlink,
        "execve" | "execveat" => FileAction::Exec,
        _ => FileAction::WriteData,
    }
}

/// The program lets a call wait that the guard does not know: they do not belong together.
fn unknown() -> Stop {
    undecided("the guard does not know this system call")
}

/// Both ends with a directory each.
const AT: Pair = Pair {
    old_dir: Some(0),
    old: 1,
    new_dir: Some(2),
    new: 3,
};

fn open_at(caller: &Caller<'_>, parts: &mut Parts<'_>, wish: Wish) -> Result<Answer, Stop> {
    open::open(caller, &parts.judged, parts.staging, parts.waiting, wish)
}

/// Only looks; but for a program that never runs, the kernel decides.
fn run(
    caller: &Caller<'_>,
    parts: &mut Parts<'_>,
    dir: Option<usize>,
    path: usize,
) -> Result<Answer, Stop> {
    let Some(programs) = parts.programs else {
        return Ok(GOES_ON);
    };
    match programs.foresee(caller, &parts.judged, dir, path) {
        Ok(Foreseen::WillBeRefused(Stop::Refused(refusal))) => {
            let violation = violation(caller, *refusal, Evidence::Inferred);
            parts.journal.record(violation);
            Ok(GOES_ON)
        }
        Err(Stop::Refused(refusal)) if refusal.rule == Rule::Exec => Err(Stop::Refused(refusal)),
        Err(Stop::Gone) => Err(Stop::Gone),
        Ok(_) | Err(_) => Ok(GOES_ON),
    }
}

/// Calls that only x86-64 has, without directory descriptors.
#[cfg(target_arch = "x86_64")]
mod older {
    use super::{Answer, Caller, Pair, Parts, Stop, Wish, make, open_at, tree, unknown};

    const PLAIN: Pair = Pair {
        old_dir: None,
        old: 0,
        new_dir: None,
        new: 1,
    };

    pub(super) fn name(number: i64) -> Option<&'static str> {
        Some(match number {
            libc::SYS_open => "open",
            libc::SYS_creat => "creat",
            libc::SYS_rename => "rename",
            libc::SYS_link => "link",
            libc::SYS_symlink => "symlink",
            libc::SYS_mknod => "mknod",
            libc::SYS_mkdir => "mkdir",
            libc::SYS_unlink => "unlink",
            libc::SYS_rmdir => "rmdir",
            libc::SYS_chmod => "chmod",
            _ => return None,
        })
    }

    pub(super) fn carry_out(
        caller: &Caller<'_>,
        parts: &mut Parts<'_>,
        number: i64,
    ) -> Result<Answer, Stop> {
        let judged = parts.judged;
        let wish = |flags, mode| Wish {
            dir: None,
            path: 0,
            flags,
            mode,
        };
        match number {
            libc::SYS_open => open_at(caller, parts, wish(caller.int(1), caller.word(2))),
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                open_at(caller, parts, wish(flags, caller.word(1)))
            }
            libc::SYS_rename => tree::rename(caller, &judged, PLAIN, 0),
            libc::SYS_link => tree::link(caller, &judged, PLAIN, 0),
            libc::SYS_symlink => make::symlink(caller, &judged, 0, None, 1),
            libc::SYS_mknod => make::node_of(caller, &judged, None, 0),
            libc::SYS_mkdir => make::directory(caller, &judged, None, 0),
            libc::SYS_unlink => tree::remove(caller, &judged, None, 0, 0),
            libc::SYS_rmdir => tree::remove(caller, &judged, None, 0, libc::AT_REMOVEDIR),
            libc::SYS_chmod => make::mode(caller, &judged, None, 0, 0),
            _ => Err(unknown()),
        }
    }
}
