//! Which settings are harmless. What is not named here is refused: git grows settings that run
//! programs, and so do the tools that keep theirs in git's configuration.

use super::parse::Setting;
use super::place::place;
use super::url;

/// What a value may be.
#[derive(Clone, Copy)]
enum Value {
    /// `true`, `yes`, `on`, `1` and their opposites; also no value at all.
    Bool,
    /// As [`Value::Bool`], but not off.
    On,
    /// A boolean, or one of these words.
    BoolOr(&'static [&'static str]),
    /// One of these words.
    Of(&'static [&'static str]),
    /// A number, with a unit or not.
    Number,
    /// Letters, digits, spaces and `.,:+-_*#%=`; no long option.
    Word,
    /// Any text that is neither an option nor of several lines: names, patterns, descriptions.
    Text,
    /// What git may take for a URL.
    Address,
    /// What is put before other URLs.
    Base,
    /// A relative path without `..`.
    Below,
    /// `core.worktree`.
    WorkTree,
}

use Value::{Address, Base, Below, Bool, BoolOr, Number, Of, On, Text, Word, WorkTree};

/// Whether a section has a subsection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sub {
    None,
    Any,
    /// With or without one.
    Either,
}

/// Section, subsection, keys separated by spaces (`*` is every key), value.
type Row = (&'static str, Sub, &'static str, Value);

const REBASE: &[&str] = &["merges", "m", "interactive", "i", "preserve"];

const HARMLESS: &[Row] = &[
    ("advice", Sub::None, "*", Bool),
    ("am", Sub::None, "keepcr threeway messageid", Bool),
    ("apply", Sub::None, "whitespace ignorewhitespace", Word),
    ("author", Sub::None, "name email", Text),
    ("blame", Sub::None, "ignorerevsfile", Below),
    (
        "blame",
        Sub::None,
        "blankboundary markignoredlines markunblamablelines showemail showroot",
        Bool,
    ),
    ("blame", Sub::None, "coloring date", Word),
    (
        "branch",
        Sub::None,
        "autosetupmerge autosetuprebase sort",
        Word,
    ),
    ("branch", Sub::Any, "remote pushremote", Address),
    (
        "branch",
        Sub::Any,
        "merge description vscode-merge-base github-pr-owner-number gh-merge-base",
        Text,
    ),
    ("branch", Sub::Any, "rebase", BoolOr(REBASE)),
    (
        "checkout",
        Sub::None,
        "defaultremote guess workers thresholdforparallelism",
        Word,
    ),
    ("color", Sub::Either, "*", Word),
    ("column", Sub::None, "*", Word),
    (
        "commit",
        Sub::None,
        "gpgsign status verbose",
        BoolOr(&["2"]),
    ),
    ("commit", Sub::None, "cleanup", Word),
    ("commitgraph", Sub::None, "*", Word),
    ("committer", Sub::None, "name email", Text),
    (
        "core",
        Sub::None,
        "repositoryformatversion bigfilethreshold compression loosecompression \
         packedgitlimit packedgitwindowsize deltabasecachelimit maxtreedepth",
        Number,
    ),
    (
        "core",
        Sub::None,
        "bare filemode symlinks ignorecase precomposeunicode trustctime preloadindex \
         splitindex quotepath sparsecheckout sparsecheckoutcone commitgraph \
         multipackindex warnambiguousrefs longpaths fscache fsyncobjectfiles",
        Bool,
    ),
    // Off, git would check out names that such a file system takes for `.git`.
    ("core", Sub::None, "protecthfs protectntfs", On),
    ("core", Sub::None, "logallrefupdates", BoolOr(&["always"])),
    ("core", Sub::None, "autocrlf", BoolOr(&["input"])),
    ("core", Sub::None, "safecrlf", BoolOr(&["warn"])),
    ("core", Sub::None, "eol", Of(&["lf", "crlf", "native"])),
    ("core", Sub::None, "hidedotfiles", BoolOr(&["dotgitonly"])),
    ("core", Sub::None, "untrackedcache", BoolOr(&["keep"])),
    // Writable by all, hooks could be put there by whoever has an account.
    (
        "core",
        Sub::None,
        "sharedrepository",
        BoolOr(&["umask", "group"]),
    ),
    (
        "core",
        Sub::None,
        "abbrev checkstat commentchar fsync fsyncmethod whitespace",
        Word,
    ),
    ("core", Sub::None, "worktree", WorkTree),
    (
        "diff",
        Sub::None,
        "algorithm autorefreshindex colormoved colormovedws context dirstat \
         ignoresubmodules indentheuristic interhunkcontext mnemonicprefix noprefix \
         relative renamelimit renames statgraphwidth statnamewidth submodule \
         suppressblankempty wserrorhighlight",
        Word,
    ),
    (
        "extensions",
        Sub::None,
        "noop preciousobjects relativeworktrees worktreeconfig",
        Bool,
    ),
    (
        "extensions",
        Sub::None,
        "objectformat compatobjectformat",
        Of(&["sha1", "sha256"]),
    ),
    (
        "extensions",
        Sub::None,
        "refstorage",
        Of(&["files", "reftable"]),
    ),
    ("extensions", Sub::None, "partialclone", Address),
    ("feature", Sub::None, "experimental manyfiles", Bool),
    (
        "fetch",
        Sub::None,
        "all fsckobjects negotiationalgorithm output parallel prune prunetags \
         recursesubmodules showforcedupdates unpacklimit writecommitgraph",
        Word,
    ),
    (
        "gc",
        Sub::None,
        "aggressivedepth aggressivewindow auto autodetach autopacklimit \
         bigpackthreshold cruftpacks logexpiry maxcruftsize packrefs pruneexpire \
         worktreepruneexpire writecommitgraph",
        Word,
    ),
    (
        "gc",
        Sub::Either,
        "reflogexpire reflogexpireunreachable",
        Word,
    ),
    (
        "grep",
        Sub::None,
        "column extendedregexp fallbacktonoindex fullname linenumber patterntype \
         threads",
        Word,
    ),
    ("i18n", Sub::None, "commitencoding logoutputencoding", Word),
    (
        "index",
        Sub::None,
        "recordendofindexentries recordoffsettable skiphash sparse threads version",
        Word,
    ),
    (
        "init",
        Sub::None,
        "defaultbranch defaultobjectformat defaultrefformat",
        Text,
    ),
    ("interactive", Sub::None, "singlekey", Bool),
    ("lfs", Sub::None, "repositoryformatversion", Number),
    (
        "lfs",
        Sub::Any,
        "access",
        Of(&["none", "basic", "private", "negotiate"]),
    ),
    ("lfs", Sub::Any, "locksverify", Bool),
    (
        "log",
        Sub::None,
        "abbrevcommit follow mailmap showroot",
        Bool,
    ),
    (
        "log",
        Sub::None,
        "date decorate diffmerges graphcolors initialdecorationset",
        Word,
    ),
    ("maintenance", Sub::None, "auto autodetach strategy", Word),
    ("maintenance", Sub::Any, "enabled schedule", Word),
    (
        "merge",
        Sub::None,
        "autostash branchdesc conflictstyle defaulttoupstream directoryrenames ff log \
         renamelimit renames renormalize stat verbosity",
        Word,
    ),
    (
        "notes",
        Sub::None,
        "displayref rewritemode rewriteref",
        Text,
    ),
    (
        "pack",
        Sub::None,
        "compression depth deltacachelimit deltacachesize packsizelimit threads \
         usebitmaps usepathwalk usesparse window windowmemory writebitmaphashcache",
        Word,
    ),
    ("pull", Sub::None, "rebase", BoolOr(REBASE)),
    ("pull", Sub::None, "ff", BoolOr(&["only"])),
    (
        "push",
        Sub::None,
        "autosetupremote default followtags negotiate recursesubmodules usebitmaps \
         useforceifincludes",
        Word,
    ),
    (
        "rebase",
        Sub::None,
        "abbreviatecommands autosquash autostash backend forkpoint maxlabellength \
         missingcommitscheck rebasemerges reschedulefailedexec stat updaterefs",
        Word,
    ),
    ("remote", Sub::None, "pushdefault", Address),
    ("remote", Sub::Any, "url pushurl", Address),
    ("remote", Sub::Any, "fetch push partialclonefilter", Text),
    (
        "remote",
        Sub::Any,
        "mirror promisor prune prunetags skipdefaultupdate skipfetchall",
        Bool,
    ),
    ("remote", Sub::Any, "followremotehead gh-resolved", Text),
    ("remote", Sub::Any, "tagopt", Of(&["--tags", "--no-tags"])),
    ("rerere", Sub::None, "autoupdate enabled", Bool),
    ("sparse", Sub::None, "expectfilesoutsideofpatterns", Bool),
    (
        "stash",
        Sub::None,
        "showincludeuntracked showpatch showstat",
        Bool,
    ),
    (
        "status",
        Sub::None,
        "aheadbehind branch displaycommentprefix relativepaths renamelimit renames \
         short showstash showuntrackedfiles submodulesummary",
        Word,
    ),
    (
        "submodule",
        Sub::None,
        "active fetchjobs propagatebranches recurse",
        Text,
    ),
    (
        "submodule",
        Sub::None,
        "alternateerrorstrategy alternatelocation",
        Word,
    ),
    ("submodule", Sub::Any, "active", Bool),
    (
        "submodule",
        Sub::Any,
        "branch fetchrecursesubmodules ignore",
        Text,
    ),
    // `!` and a command is the fifth.
    (
        "submodule",
        Sub::Any,
        "update",
        Of(&["checkout", "merge", "none", "rebase"]),
    ),
    ("submodule", Sub::Any, "url", Address),
    ("tag", Sub::None, "gpgsign forcesignannotated", Bool),
    ("tag", Sub::None, "sort", Word),
    ("transfer", Sub::None, "fsckobjects", Bool),
    ("url", Sub::Any, "insteadof pushinsteadof", Base),
    ("user", Sub::None, "email name signingkey", Text),
    ("user", Sub::None, "useconfigonly", Bool),
    ("versionsort", Sub::None, "suffix", Word),
    ("worktree", Sub::None, "guessremote userelativepaths", Bool),
];

/// Why a setting is refused, where more can be said than that it is unknown: section, keys as
/// above, what git does with it.
const HARMFUL: &[(&str, &str, &str)] = &[
    (
        "core",
        "hookspath",
        "is a directory of programs that git runs",
    ),
    (
        "core",
        "fsmonitor sshcommand editor pager gitproxy askpass alternaterefscommand",
        "is a program that git runs",
    ),
    (
        "core",
        "attributesfile excludesfile",
        "makes git read settings from elsewhere",
    ),
    (
        "alias",
        "*",
        "makes a command of git another one, or a program",
    ),
    ("browser", "*", "is a program that git runs"),
    (
        "credential",
        "*",
        "can be a program, or send passwords elsewhere",
    ),
    (
        "diff",
        "command external guitool textconv tool",
        "is a program that git runs",
    ),
    ("difftool", "*", "can be a program that git runs"),
    ("filter", "*", "is a program that git runs"),
    ("gc", "recentobjectshook", "is a program that git runs"),
    (
        "gpg",
        "*",
        "can be a program that git runs, or change what it trusts",
    ),
    ("guitool", "*", "is a program that git runs"),
    ("hook", "*", "is a program that git runs"),
    ("http", "*", "can send passwords elsewhere, or read files"),
    ("imap", "*", "can be a program that git runs"),
    ("include", "*", "makes git read settings from elsewhere"),
    ("includeif", "*", "makes git read settings from elsewhere"),
    (
        "init",
        "templatedir",
        "is a directory of hooks that git copies",
    ),
    ("instaweb", "*", "can be a program that git runs"),
    ("interactive", "difffilter", "is a program that git runs"),
    ("man", "*", "can be a program that git runs"),
    ("merge", "driver guitool tool", "is a program that git runs"),
    ("mergetool", "*", "can be a program that git runs"),
    ("pager", "*", "can be a program that git runs"),
    ("protocol", "*", "can let URLs start programs"),
    (
        "receive",
        "*",
        "can make git run programs, or change files, when someone pushes",
    ),
    (
        "remote",
        "receivepack uploadpack vcs",
        "is a program that git runs",
    ),
    ("sendemail", "*", "can be a program that git runs"),
    ("sequence", "editor", "is a program that git runs"),
    ("ssh", "*", "changes how git starts ssh"),
    ("tar", "*", "is a program that git runs"),
    ("trailer", "*", "can be a program that git runs"),
    ("uploadpack", "*", "can be a program that git runs"),
    ("web", "*", "is a program that git runs"),
];

/// Whether a setting is harmless in a configuration at `at`.
///
/// # Errors
/// Why not, as a sentence that names the setting.
pub(super) fn judge(setting: &Setting, at: &[&[u8]]) -> Result<(), String> {
    let named = |keys: &str| keys.split(' ').any(|key| key == "*" || key == setting.key);
    let rows = HARMLESS.iter().filter(|(section, sub, keys, _)| {
        let fits = match sub {
            Sub::None => setting.subsection.is_none(),
            Sub::Any => setting.subsection.is_some(),
            Sub::Either => true,
        };
        *section == setting.section && fits && named(keys)
    });
    let mut refusal = None;
    for (.., value) in rows {
        match allowed(*value, setting, at) {
            Ok(()) => return Ok(()),
            Err(reason) => refusal = Some(reason),
        }
    }
    let known = || {
        HARMFUL
            .iter()
            .find(|(section, keys, _)| *section == setting.section && named(keys))
            .map(|(_, _, reason)| *reason)
    };
    let reason = refusal
        .or_else(known)
        .unwrap_or("is not among the settings that are known to be harmless");
    Err(format!("`{}` {reason}", setting.name()))
}

/// Whether the value of `setting` is of this kind.
fn allowed(kind: Value, setting: &Setting, at: &[&[u8]]) -> Result<(), &'static str> {
    let Some(value) = setting.value.as_deref() else {
        return match kind {
            Bool | On | BoolOr(_) => Ok(()),
            Of(_) | Number | Word | Text | Address | Base | Below | WorkTree => Err("has no value"),
        };
    };
    let one_of = |words: &[&str]| {
        let mut words = words.iter();
        words.any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
    };
    let on = ["true", "yes", "on", "1"];
    let off = ["false", "no", "off", "0", ""];
    let line = !value.iter().any(u8::is_ascii_control);
    let fits = match kind {
        Bool => one_of(&on) || one_of(&off),
        On => one_of(&on),
        BoolOr(words) => one_of(&on) || one_of(&off) || one_of(words),
        Of(words) => words.iter().any(|word| value == word.as_bytes()),
        Number => {
            let digits = value.strip_prefix(b"-").unwrap_or(value);
            let digits = digits
                .strip_suffix(b"k")
                .or_else(|| digits.strip_suffix(b"m"))
                .or_else(|| digits.strip_suffix(b"g"))
                .unwrap_or(digits);
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        }
        Word => {
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".,:+-_*#%= ".contains(byte);
            value.iter().all(plain) && !value.starts_with(b"--")
        }
        Text => line && !value.starts_with(b"-"),
        Address => return url::address(value),
        Base => return url::base(setting.subsection.as_deref().unwrap_or_default()),
        Below => {
            line && !value.starts_with(b"-")
                && value
                    .split(|byte| *byte == b'/')
                    .all(|part| !matches!(part, b"" | b"." | b"..") && !part.starts_with(b"~"))
        }
        WorkTree => return work_tree(value, at),
    };
    fits.then_some(())
        .ok_or("has a value that is not known to be harmless")
}

/// The work tree of a submodule: git writes `../../../PATH` into `.git/modules/NAME/config`.
/// Anywhere else it could make git write where the user did not ask it to.
fn work_tree(value: &[u8], at: &[&[u8]]) -> Result<(), &'static str> {
    let elsewhere = "lets git write outside the repository's own work tree";
    let first = at.iter().position(|name| *name == b".git");
    let Some(first) = first.filter(|first| at.get(first + 1) == Some(&b"modules".as_slice()))
    else {
        return Err(elsewhere);
    };
    let parts: Vec<&[u8]> = value.split(|byte| *byte == b'/').collect();
    let up = parts.iter().take_while(|part| **part == b"..").count();
    // The directory of the configuration lies this deep in the outermost work tree.
    let deep = at.len().saturating_sub(first + 1);
    let down = parts.get(up..).unwrap_or_default();
    let plain = |part: &&[u8]| {
        !matches!(*part, b"" | b"." | b"..") && !part.iter().any(u8::is_ascii_control)
    };
    (up == deep && !down.is_empty() && down.iter().all(plain) && !place(down).is_git())
        .then_some(())
        .ok_or(elsewhere)
}
