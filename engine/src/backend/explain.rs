//! What may be done with one path in a session, and which rule says so. Pure: the policy, and the
//! host's file system through [`HostFs`] for the symlinks on the way.

use super::supervised::file_rules;
use crate::policy::{Access, Bind, BindRole, ExecPolicy, HostFs, Policy, leads_to};
use crate::spec::AbsPath;
use kotak_guard::judge::rules::{Deed, Rules, Verdict};
use kotak_guard::proto::{FileRules, Rule};
use serde::Serialize;

/// What may be done with a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathExplanation {
    /// As asked.
    pub path: String,
    /// Where it leads, when that is another place.
    pub leads_to: Option<String>,
    /// Whether something stands there on the host.
    pub exists: bool,
    /// Reading it.
    pub read: PathAnswer,
    /// Changing its content.
    pub write: PathAnswer,
    /// Making it, or putting something else in its place.
    pub create: PathAnswer,
    /// Running it as a program.
    pub execute: PathAnswer,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathAnswer {
    /// Whether the sandbox lets it pass; the file's own permissions count besides.
    pub allowed: bool,
    /// Which rule says so, in words.
    pub why: String,
}

fn yes(why: impl Into<String>) -> PathAnswer {
    PathAnswer {
        allowed: true,
        why: why.into(),
    }
}

fn no(why: impl Into<String>) -> PathAnswer {
    PathAnswer {
        allowed: false,
        why: why.into(),
    }
}

/// What stands at a path inside.
enum Shown<'a> {
    /// The host's own.
    Bind(&'a Bind),
    /// In memory, the session's alone.
    Private(&'a AbsPath),
    /// Hidden.
    Mask(&'a AbsPath),
    /// The sandbox's own `/proc`, `/dev` or `/run/kotak`.
    Own(&'static str),
    /// Not there.
    Nothing,
}

/// Explains a path under a policy.
#[must_use]
pub fn explain_path(policy: &Policy, host: &dyn HostFs, path: &AbsPath) -> PathExplanation {
    let (real, exists) = leads_to(host, path);
    let shown = shown(policy, &real);
    let (read, mut write, mut create) = match &shown {
        Shown::Nothing => {
            let why = "nothing of the host is there inside";
            (
                no(why),
                no(why),
                no("it would lie in the read-only root of the sandbox"),
            )
        }
        Shown::Own(place) => {
            let why = format!("{place} is the sandbox's own");
            (yes(&why), no(&why), no(why))
        }
        Shown::Mask(at) => {
            let why = format!("{at} is hidden from every sandbox");
            (no(&why), no(&why), no(why))
        }
        Shown::Private(at) => {
            let why = format!("{at} is in memory, private to the session");
            (yes(&why), yes(&why), yes(why))
        }
        Shown::Bind(bind) => {
            let given = reason(bind);
            match bind.access {
                Access::Read => (yes(&given), no(&given), no(given)),
                Access::Write => (yes(&given), yes(&given), yes(given)),
            }
        }
    };
    let judged = [(&mut write, Deed::Write), (&mut create, Deed::MakeFile)];
    match file_rules(policy) {
        Some(rules) => {
            for (answer, deed) in judged {
                // A rule of the guard's comes before the mount's refusal.
                match judge(&rules, &real, deed) {
                    Verdict::Allow => {}
                    Verdict::Content(_) if answer.allowed => {
                        answer.why = "with harmless content only: git acts by it".to_owned();
                    }
                    Verdict::Content(_) => {}
                    Verdict::Refuse(rule) => *answer = no(words(&rule)),
                }
            }
        }
        None => {
            for (answer, _) in judged {
                if answer.allowed
                    && let (Shown::Bind(_), Some(lack)) = (&shown, policy.lack())
                {
                    answer.why = format!(
                        "{}; rules about names do not hold here: {}",
                        answer.why,
                        lack.reason()
                    );
                }
            }
        }
    }
    let execute = execute(policy.exec(), &shown, &real);
    PathExplanation {
        path: path.to_string(),
        leads_to: (real != *path).then(|| real.to_string()),
        exists,
        read,
        write,
        create,
        execute,
    }
}

/// As the guard judges it when it happens.
fn judge(rules: &FileRules, path: &AbsPath, deed: Deed) -> Verdict {
    match Rules::new(rules) {
        Ok(rules) => rules.verdict(path.as_bytes(), deed),
        // The guard refuses such rules, and with them the session.
        Err(error) => Verdict::Refuse(Rule::Undecided(error.to_string())),
    }
}

fn shown<'a>(policy: &'a Policy, path: &AbsPath) -> Shown<'a> {
    for (own, text) in [
        (b"/proc".as_slice(), "/proc"),
        (b"/dev", "/dev"),
        (b"/run/kotak", "/run/kotak"),
    ] {
        if AbsPath::new(own).is_ok_and(|own| path.is_within(&own)) {
            return Shown::Own(text);
        }
    }
    let here = std::iter::once(path.clone());
    for at in here.chain(path.ancestors()) {
        // What stands on another is looked for first.
        if let Some(mask) = policy.masks.iter().find(|mask| mask.path == at) {
            return Shown::Mask(&mask.path);
        }
        if let Some(bind) = policy.binds.iter().find(|bind| bind.path == at) {
            return Shown::Bind(bind);
        }
        if let Some(dir) = policy.private.iter().find(|dir| dir.path == at) {
            return Shown::Private(&dir.path);
        }
    }
    Shown::Nothing
}

fn reason(bind: &Bind) -> String {
    let path = &bind.path;
    match (bind.role, bind.access) {
        (BindRole::System, _) => format!("{path} belongs to the system, and is read-only"),
        (BindRole::Protected, _) => format!("{path} is protected, and held read-only"),
        (BindRole::Home | BindRole::Workdir, Access::Write) => {
            format!("{path} is the session's to write")
        }
        (BindRole::Listed, Access::Write) => format!("{path} is bound writable"),
        (BindRole::Listed, Access::Read) => format!("{path} is bound read-only"),
        (BindRole::RunnerState, _) => format!("{path} is where the runner keeps its state"),
        (BindRole::Repository, Access::Write) => {
            format!("{path} is the repository that the session works in")
        }
        (BindRole::Home | BindRole::Workdir | BindRole::Repository, Access::Read) => {
            format!("{path} is read-only in this mode")
        }
        (BindRole::Pinned, _) => format!("{path} lies in a folder that can be written"),
    }
}

/// The rule in words.
fn words(rule: &Rule) -> String {
    let text = |bytes: &[u8]| match AbsPath::new(bytes) {
        Ok(path) => path.to_string(),
        Err(_) => String::from_utf8_lossy(bytes).escape_debug().to_string(),
    };
    match rule {
        Rule::Name(glob) => format!("the filename rule {glob} forbids it"),
        Rule::Protected(at) => format!("{} is protected, whether it exists or not", text(at)),
        Rule::Ancestor(at) => format!("the protected path {} lies below it", text(at)),
        Rule::Anywhere(name) => format!("{} is protected wherever it is", text(name)),
        Rule::Git(reason) => format!("git would run programs by it: {reason}"),
        Rule::HardLink => "it is another name of a protected file".to_owned(),
        Rule::Exec => "programs may not run there".to_owned(),
        Rule::Secret(at) => format!("{} is hidden from every sandbox", text(at)),
        Rule::Undecided(reason) => format!("it cannot be judged: {reason}"),
    }
}

fn execute(exec: Option<&ExecPolicy>, shown: &Shown<'_>, path: &AbsPath) -> PathAnswer {
    match shown {
        Shown::Nothing => return no("nothing of the host is there inside"),
        Shown::Mask(at) => return no(format!("{at} is hidden from every sandbox")),
        Shown::Bind(_) | Shown::Private(_) | Shown::Own(_) => {}
    }
    let Some(exec) = exec else {
        return yes("the session has no exec restriction");
    };
    if exec.denied.contains(path) {
        return no("it is one of the programs that never run under the exec restriction");
    }
    let tree = exec.allowed.iter().find(|tree| path.is_within(tree));
    match tree {
        Some(tree) if exec.grants.contains(tree) => {
            yes(format!("programs in {tree} may run, as you granted"))
        }
        Some(tree) => yes(format!("programs in {tree} may run: it cannot be written")),
        None => no(match shown {
            Shown::Bind(bind) if bind.role == BindRole::Protected => {
                "the exec restriction: an earlier session may have written it (an interpreter can \
                 still read it as a script)"
            }
            _ => {
                "the exec restriction: programs run only from where nothing can be written, and \
                 from what you granted (an interpreter can still read it as a script)"
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::fake::{FakeFs, context, path};
    use crate::policy::{HostContext, resolve};
    use crate::spec::{ExecRestriction, SandboxSpec};

    fn host() -> FakeFs {
        let mut host = FakeFs::debian();
        host.git_dir("/home/u/code/.git")
            .file("/home/u/code/a.txt", "")
            .file("/home/u/code/old.key", "")
            .dir("/home/u/code/target")
            .dir("/data/ro")
            .dir("/data/rw/tools")
            .file("/usr/bin/sudo", "")
            .file("/usr/bin/sh", "")
            .link("/home/u/code/out", "/data/ro/x");
        host
    }

    fn spec(restriction: ExecRestriction, grants: &[&str]) -> SandboxSpec {
        let text = r#"{"sessionId": "s", "workspaceId": "w", "bindMounts":
            [{"hostPath": "/home/u/code"}, {"hostPath": "/data/rw"}, {"hostPath": "/data/ro", "readOnly": true}],
            "protectedPaths": ["/data/rw/tools"]}"#;
        SandboxSpec {
            exec_restriction: restriction,
            exec_grant_roots: grants.iter().map(|path| (*path).to_owned()).collect(),
            ..SandboxSpec::from_json(text).unwrap()
        }
    }

    fn dispatch(context: &HostContext) -> Policy {
        let spec = spec(ExecRestriction::Writable, &["/home/u/code/target"]);
        resolve(&spec.validate_dispatch().unwrap(), context, &host()).unwrap()
    }

    /// Read, write, create, execute.
    fn answers(policy: &Policy, at: &str) -> [bool; 4] {
        let found = explain_path(policy, &host(), &path(at));
        for answer in [&found.read, &found.write, &found.create, &found.execute] {
            assert!(!answer.why.is_empty(), "{found:?}");
        }
        [found.read, found.write, found.create, found.execute].map(|answer| answer.allowed)
    }

    #[test]
    fn each_kind_of_path_has_its_answers() {
        // REQ BW-5, BW-6, SP-1
        let policy = dispatch(&context());
        for (at, expected) in [
            ("/home/u/code/a.txt", [true, true, true, false]),
            ("/home/u/code/new.txt", [true, true, true, false]),
            ("/home/u/code/target/prog", [true, true, true, true]),
            ("/home/u/code/old.key", [true, false, false, false]),
            ("/home/u/code/sub/.ENV", [true, false, false, false]),
            (
                "/home/u/code/node_modules/x/t.pem",
                [true, true, true, false],
            ),
            (
                "/home/u/code/.vscode/tasks.json",
                [true, false, false, false],
            ),
            ("/home/u/code/sub/.envrc", [true, false, false, false]),
            (
                "/home/u/code/.git/hooks/pre-commit",
                [true, false, false, false],
            ),
            ("/data/rw/tools/lint", [true, false, false, true]),
            (
                "/home/u/code/new/.git/hooks/pre-commit",
                [true, false, false, false],
            ),
            ("/data/ro/x", [true, false, false, true]),
            ("/home/u/code/out", [true, false, false, true]),
            ("/usr/bin/sh", [true, false, false, true]),
            ("/usr/bin/sudo", [true, false, false, false]),
            ("/tmp/x", [true, true, true, false]),
            ("/home/u/notes", [true, true, true, false]),
            ("/srv/x", [false, false, false, false]),
            ("/proc/1/mem", [true, false, false, false]),
        ] {
            assert_eq!(answers(&policy, at), expected, "{at}");
        }
    }

    #[test]
    fn whatever_a_policy_holds_can_neither_be_made_nor_changed() {
        // REQ SP-1: by the same judge as the guard's.
        let policy = dispatch(&context());
        assert!(policy.files().protected.len() > 7);
        for held in &policy.files().protected {
            for at in [held.clone(), held.join("below")] {
                let found = explain_path(&policy, &host(), &at);
                assert!(!found.create.allowed && !found.write.allowed, "{found:?}");
            }
        }
    }

    #[test]
    fn the_rule_is_named_and_a_symlink_is_followed() {
        let policy = dispatch(&context());
        let of = |at: &str| explain_path(&policy, &host(), &path(at));
        for (at, part) in [
            ("/home/u/code/x.key", "filename rule *.key"),
            ("/home/u/code/.vscode", "/home/u/code/.vscode is protected"),
            ("/home/u/code/a/.idea/x", ".idea is protected wherever"),
            ("/home/u/code/n/.git/hooks/post-merge", "git would run"),
        ] {
            let found = of(at);
            assert!(found.create.why.contains(part), "{at}: {found:?}");
        }
        assert!(of("/home/u/code/new/.git").create.why.contains("harmless"));
        let link = of("/home/u/code/out");
        assert_eq!(link.leads_to.as_deref(), Some("/data/ro/x"));
        assert!(link.write.why.contains("bound read-only"), "{link:?}");
    }

    #[test]
    fn without_rules_and_restriction_only_the_mounts_answer() {
        let plain = spec(ExecRestriction::Off, &[]).validate().unwrap();
        let policy = resolve(&plain, &context(), &host()).unwrap();
        assert_eq!(answers(&policy, "/home/u/code/x.key"), [true; 4]);
        assert_eq!(
            answers(&policy, "/home/u/code/.vscode/x"),
            [true, false, false, true]
        );
        let mut old = context();
        old.facts.seccomp_notify = false;
        let policy = resolve(&plain, &old, &host()).unwrap();
        let found = explain_path(&policy, &host(), &path("/home/u/code/.vscode/x"));
        assert!(found.create.allowed, "{found:?}");
        assert!(found.create.why.contains("do not hold here"), "{found:?}");
    }
}
