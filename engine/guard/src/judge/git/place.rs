//! Where in a repository a path lies (gitrepository-layout(5)).

/// What a path is to git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GitPlace {
    /// Nothing that makes git act.
    NotGit,
    /// Outside every `.git`, with a name of which bare repositories are made (`HEAD`, `config`,
    /// `commondir`, `objects`, `refs`, `hooks` and what lies below it). Git takes a directory for
    /// a repository when it holds `HEAD` and either `objects` and `refs` or `commondir`; then what
    /// lies there counts as if the directory were called `.git`.
    MaybeBare,
    /// `.git` itself: a directory, or a file that [`gitlink`](super::gitlink) judges.
    Gitlink,
    /// The directory of hooks itself.
    HooksDir,
    /// A file `*.sample` in it, which git does not run; `git init` makes those.
    HookSample,
    /// Anything else in it.
    Hook,
    /// `config` or `config.worktree`, which [`config_at`](super::config_at) judges.
    Config,
    /// `commondir` of a linked work tree, which [`commondir`](super::commondir) judges.
    Commondir,
    /// What can make git act and no present git writes: `commondir` elsewhere, and remotes that
    /// are files.
    Never,
    /// Objects, references and their logs. In those of a submodule, which may be the end of
    /// another's name, what makes git act is judged all the same.
    Data,
    /// Anything else in a git directory.
    Inside,
}

impl GitPlace {
    /// Whether it lies below a component `.git` or is one: [`symlink`](super::symlink) says
    /// which symlinks can be made here.
    #[must_use]
    pub fn is_git(self) -> bool {
        !matches!(self, Self::NotGit | Self::MaybeBare)
    }
}

/// What the path with these components is to git. They may be those below a root, or all of an
/// absolute path; none of them is `.` or `..`. Whatever a file system without regard to case takes
/// for `.git` or `hooks` is taken for it.
#[must_use]
pub fn place(components: &[&[u8]]) -> GitPlace {
    let found = components.iter().position(|name| is(name, ".git"));
    match found.and_then(|at| components.get(at + 1..)) {
        Some(below) => git_dir(below, Around::Repository, Data::Certain),
        None => outside(components),
    }
}

/// What kind of directory of git a path is followed in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    /// `.git`
    Repository,
    /// `modules/NAME`, and whatever lies below: the names of submodules have slashes.
    Module,
    /// `worktrees/NAME`
    Worktree,
    /// Any other.
    Unknown,
}

/// Whether what is called `refs`, `logs` or `objects` is data and nothing else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    /// No git directory of git's own making lies in it. One that is called `.git` is judged anew,
    /// and one that is not as a bare repository.
    Certain,
    /// Below `modules/`: a submodule may be called `a/refs`, and then this is its git directory.
    Doubtful,
}

/// A path below a git directory.
fn git_dir(below: &[&[u8]], around: Around, data: Data) -> GitPlace {
    let [first, rest @ ..] = below else {
        return match around {
            Around::Repository => GitPlace::Gitlink,
            Around::Module | Around::Worktree | Around::Unknown => GitPlace::Inside,
        };
    };
    // Exemptions hold for the exact name only, restrictions for whatever may be taken for it.
    match (*first, rest) {
        (b"refs" | b"logs" | b"objects", _) if around != Around::Unknown => {
            return match data {
                Data::Certain => certain_data(rest),
                Data::Doubtful => doubtful_data(rest),
            };
        }
        // No submodule or work tree: a repository there.
        (b"modules", [name, rest @ ..]) if is(name, ".git") => {
            return git_dir(rest, Around::Repository, Data::Doubtful);
        }
        (b"worktrees", [name, rest @ ..]) if is(name, ".git") => {
            return git_dir(rest, Around::Repository, data);
        }
        (b"modules", [_name, rest @ ..]) if around != Around::Unknown => {
            return git_dir(rest, Around::Module, Data::Doubtful);
        }
        (b"worktrees", [_name, rest @ ..]) if around != Around::Unknown => {
            return git_dir(rest, Around::Worktree, data);
        }
        _ => {}
    }
    let last = rest.is_empty();
    if is(first, "hooks") {
        hooks(rest)
    } else if is(first, ".git") {
        git_dir(rest, Around::Repository, data)
    } else if last && (is(first, "config") || is(first, "config.worktree")) {
        GitPlace::Config
    } else if last && is(first, "commondir") {
        match around {
            Around::Worktree => GitPlace::Commondir,
            Around::Repository | Around::Module | Around::Unknown => GitPlace::Never,
        }
    } else if !last && (is(first, "remotes") || is(first, "branches")) {
        GitPlace::Never
    } else {
        // More of a submodule's name, or a directory that git does not take for one of its own.
        let around = match around {
            Around::Module => Around::Module,
            Around::Repository | Around::Worktree | Around::Unknown => Around::Unknown,
        };
        git_dir(rest, around, data)
    }
}

/// A path below `hooks`.
fn hooks(below: &[&[u8]]) -> GitPlace {
    match below {
        [] => GitPlace::HooksDir,
        [name] if name.ends_with(b".sample") => GitPlace::HookSample,
        _ => GitPlace::Hook,
    }
}

/// A path below `refs`, `logs` or `objects`. Git puts no `.git` there, as no reference has a
/// component that begins with a dot (git-check-ref-format(1)); but it would use one.
fn certain_data(below: &[&[u8]]) -> GitPlace {
    let nested = below.iter().position(|name| is(name, ".git"));
    match nested.and_then(|at| below.get(at + 1..)) {
        Some(rest) => git_dir(rest, Around::Repository, Data::Certain),
        None => GitPlace::Data,
    }
}

/// A path below `refs`, `logs` or `objects` that may be the end of a submodule's name. What makes
/// git act is judged by its name at every depth, so a submodule has no branch called `hooks`. But
/// `remotes` stays data, which every clone has in `refs`.
fn doubtful_data(below: &[&[u8]]) -> GitPlace {
    let [first, rest @ ..] = below else {
        return GitPlace::Data;
    };
    let last = rest.is_empty();
    if is(first, "hooks") {
        hooks(rest)
    } else if is(first, ".git") {
        git_dir(rest, Around::Repository, Data::Doubtful)
    } else if last && (is(first, "config") || is(first, "config.worktree")) {
        GitPlace::Config
    } else if last && is(first, "commondir") {
        GitPlace::Never
    } else {
        doubtful_data(rest)
    }
}

/// A path with no `.git` in it.
fn outside(components: &[&[u8]]) -> GitPlace {
    let part = |name: &&[u8]| {
        [
            "head",
            "config",
            "config.worktree",
            "commondir",
            "objects",
            "refs",
        ]
        .iter()
        .any(|part| is(name, part))
    };
    if components.last().is_some_and(part) || components.iter().any(|name| is(name, "hooks")) {
        GitPlace::MaybeBare
    } else {
        GitPlace::NotGit
    }
}

/// Whether a path, as a `.git` file may name it, ends in a git directory: `.git`, then any number
/// of `worktrees/NAME` and `modules/NAME`, where the name of a module may have slashes. [`place`]
/// knows what lies in each of these.
pub(super) fn target(path: &[u8]) -> Result<(), String> {
    if path.iter().any(u8::is_ascii_control) {
        return Err("the path holds a control character".to_owned());
    }
    let components: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    // The first, as for `place`: a second one could lie among the references.
    let first = components.iter().position(|name| is(name, ".git"));
    let Some(at) = first.filter(|at| components.get(*at) == Some(&b".git".as_slice())) else {
        return Err("the path does not lead below a directory `.git`".to_owned());
    };
    let mut below = components.get(at + 1..).unwrap_or_default();
    while let [kind @ (b"worktrees" | b"modules"), name, rest @ ..] = below {
        if !is_plain(name) {
            return Err("the path is not a plain one below `.git`".to_owned());
        }
        below = rest;
        // The rest of the module's name.
        while *kind == b"modules"
            && let [name, rest @ ..] = below
            && !matches!(*name, b"worktrees" | b"modules")
            && is_plain(name)
            && !is_reserved(name)
        {
            below = rest;
        }
    }
    if below.is_empty() {
        return Ok(());
    }
    Err("the path below `.git` is neither `worktrees/NAME` nor `modules/NAME`".to_owned())
}

fn is_plain(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !is(name, ".git")
}

/// Names that mean something in a git directory, and so are no part of a submodule's name.
fn is_reserved(name: &[u8]) -> bool {
    [
        "refs",
        "logs",
        "objects",
        "hooks",
        "config",
        "config.worktree",
        "commondir",
        "remotes",
        "branches",
        "modules",
        "worktrees",
    ]
    .iter()
    .any(|reserved| is(name, reserved))
}

/// Whether a file system could take `name` for `wanted` (lower case): without regard to case, and
/// to the characters that ext4, APFS and HFS+ ignore in names.
fn is(name: &[u8], wanted: &str) -> bool {
    if name.is_ascii() {
        return name.eq_ignore_ascii_case(wanted.as_bytes());
    }
    let Ok(text) = std::str::from_utf8(name) else {
        return false;
    };
    let folded = text
        .chars()
        .filter(|c| !is_ignorable(*c))
        .flat_map(char::to_lowercase)
        // The long s has no other lower case; the Kelvin sign becomes `k` above.
        .map(|c| if c == '\u{17f}' { 's' } else { c });
    folded.eq(wanted.chars())
}

/// Default_Ignorable_Code_Point of the Unicode Character Database.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
