//! `kotak explain`: what would happen, and why. Nothing is resolved, connected to or launched.

use crate::args::{ExplainOptions, ExplainPathOptions, Explained};
use crate::failure::Failure;
use crate::rules::{current_workspace, unreadable};
use crate::run::checked_spec;
use crate::sessions;
use crate::text::{quoted, sentence, write_result};
use kotak_engine::api::{ExplainedVerdict, Explanation};
use kotak_engine::backend::{PathExplanation, SandboxBackend};
use kotak_engine::egress::explain::explain as explain_host;
use kotak_engine::egress::rules::{Restriction, RuleSet};
use kotak_engine::error::{Fix, Problem};
use kotak_engine::manager::{explain_path_of, operator_rules};
use kotak_engine::spec::{AbsPath, HostPattern};
use kotak_engine::store::{Dirs, RuleFilter, SessionNetworkRecord, Store};

/// Explains; 0 when it would pass, 1 when not (also when the operator would be asked).
pub(crate) fn explain(dirs: &Dirs, options: ExplainOptions, json: bool) -> Result<u8, Failure> {
    let (name, session) = match options.what {
        Explained::Host { name, session } => (name, session),
        Explained::Path(options) => return explain_path(dirs, *options, json),
    };
    let store = sessions::open(dirs, json);
    let rules = match session {
        Some(session) => session_rules(&store, &session)?,
        None => workspace_rules(&store)?,
    };
    let explanation = explain_host(&name, &rules);
    let text = if json {
        serde_json::to_string_pretty(&explanation).map_err(|error| unreadable(&error))? + "\n"
    } else {
        in_words(&explanation)
    };
    write_result(&text).map_err(|error| unreadable(&error))?;
    Ok(match explanation.verdict {
        ExplainedVerdict::Allow => 0,
        ExplainedVerdict::Deny | ExplainedVerdict::Ask => 1,
    })
}

/// Explains a path; 0 when it could be written, 1 when not.
fn explain_path(dirs: &Dirs, mut options: ExplainPathOptions, json: bool) -> Result<u8, Failure> {
    let path = std::path::absolute(&options.path)
        .ok()
        .and_then(|path| AbsPath::from_path(&path).ok())
        .ok_or_else(|| Failure::usage(not_a_path(&options.path)))?;
    let mut basis = None;
    if let Some(session) = &options.session {
        let store = sessions::open(dirs, json);
        let known = store.session(session).map_err(|error| unreadable(&error))?;
        let Some(record) = known else {
            return Err(Failure::usage(no_session(session)));
        };
        if record.backend == Some(SandboxBackend::None) {
            return Err(Failure::usage(not_sandboxed(session)));
        }
        basis = Some(format!(
            "as a terminal in {}; the session's own mode, binds and rules are not kept",
            record.cwd
        ));
        options.cwd = Some(record.cwd.into());
    }
    let spec = checked_spec(options.into_run())?;
    let explanation =
        explain_path_of(dirs.clone(), &spec, &path).map_err(Failure::launch_refused)?;
    let text = if json {
        serde_json::to_string_pretty(&explanation).map_err(|error| unreadable(&error))? + "\n"
    } else {
        path_in_words(&explanation, basis.as_deref())
    };
    write_result(&text).map_err(|error| unreadable(&error))?;
    Ok(u8::from(
        !explanation.write.allowed || !explanation.create.allowed,
    ))
}

fn path_in_words(explanation: &PathExplanation, basis: Option<&str>) -> String {
    let mut text = format!("{}\n", quoted(&explanation.path));
    if let Some(basis) = basis {
        text.push_str(&format!("  told: {}\n", sentence(basis)));
    }
    if let Some(real) = &explanation.leads_to {
        text.push_str(&format!("  leads to: {}\n", quoted(real)));
    }
    for (what, answer) in [
        ("read", &explanation.read),
        ("write", &explanation.write),
        ("create", &explanation.create),
        ("execute", &explanation.execute),
    ] {
        let verdict = if answer.allowed { "yes" } else { "no" };
        let why = sentence(&answer.why);
        text.push_str(&format!("  {what:<8} {verdict:<4} {why}\n"));
    }
    text
}

fn not_a_path(path: &std::path::Path) -> Problem {
    Problem {
        code: "SPEC_PATH_INVALID".to_owned(),
        message: format!("\"{}\" is not usable as a path", path.display()),
        causes: Vec::new(),
        fix: Some(Fix::words("Name a file or a folder, existing or not.")),
    }
}

fn not_sandboxed(session: &str) -> Problem {
    Problem {
        code: "NOT_SANDBOXED".to_owned(),
        message: format!("session {session} runs directly on this computer"),
        causes: Vec::new(),
        fix: Some(Fix::words(
            "It may do with files whatever you may; nothing is judged or seen.",
        )),
    }
}

/// What a session with an allowlist would have in the current directory.
fn workspace_rules(store: &Store) -> Result<RuleSet, Failure> {
    let workspace = current_workspace()?;
    let known = store
        .rules(&RuleFilter::default())
        .map_err(|error| unreadable(&error))?;
    let operator = operator_rules(&known, "", &workspace);
    Ok(RuleSet::new(Restriction::Allowlist, Vec::new(), operator))
}

fn session_rules(store: &Store, session: &str) -> Result<RuleSet, Failure> {
    let launched = store
        .session_network(session)
        .map_err(|error| unreadable(&error))?;
    let Some(SessionNetworkRecord {
        mode,
        allowlist,
        workspace,
    }) = launched
    else {
        let known = store.session(session).map_err(|error| unreadable(&error))?;
        return Err(Failure::usage(match known {
            Some(_) => not_observed(session),
            None => no_session(session),
        }));
    };
    let Some(restriction) = Restriction::of(mode) else {
        return Err(Failure::usage(not_observed(session)));
    };
    let known = store
        .rules(&RuleFilter::default())
        .map_err(|error| unreadable(&error))?;
    let spec = allowlist
        .iter()
        .map(|entry| HostPattern::parse(entry).map_err(|error| unreadable(&error)))
        .collect::<Result<_, _>>()?;
    let operator = operator_rules(&known, session, &workspace);
    Ok(RuleSet::new(restriction, spec, operator))
}

fn not_observed(session: &str) -> Problem {
    Problem {
        code: "NETWORK_NOT_OBSERVED".to_owned(),
        message: format!("the network of session {session} is not restricted"),
        causes: Vec::new(),
        fix: Some(Fix::words(
            "Such a session reaches whatever this computer reaches; nothing is judged or seen.",
        )),
    }
}

/// No session of this id is in the history.
pub(crate) fn no_session(session: &str) -> Problem {
    Problem {
        code: "NO_SUCH_SESSION".to_owned(),
        message: format!("there is no session {session}"),
        causes: Vec::new(),
        fix: Some(Fix::command(
            "Look at the list of sessions.",
            "kotak sessions --json",
        )),
    }
}

fn in_words(explanation: &Explanation) -> String {
    let verdict = match explanation.verdict {
        ExplainedVerdict::Allow => "would be allowed",
        ExplainedVerdict::Deny => "would be refused",
        ExplainedVerdict::Ask => "would be asked about",
    };
    let mut text = format!("{} {verdict}\n", quoted(&explanation.target));
    if let Some(unicode) = &explanation.unicode {
        text.push_str(&format!("  reads: {}\n", quoted(unicode)));
    }
    text.push_str(&format!("  why: {}\n", sentence(&explanation.why)));
    if let Some(way_out) = &explanation.way_out {
        text.push_str(&format!("  way out: {}\n", sentence(way_out)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_is_words_and_obeys_no_name() {
        let rules = RuleSet::new(Restriction::Ask, Vec::new(), Vec::new());
        let text = in_words(&explain_host("new.example.net:8443", &rules));
        assert!(
            text.starts_with("new.example.net:8443 would be asked about\n  why: "),
            "{text}"
        );
        let hostile = in_words(&explain_host("a\u{1b}[2J\u{202e}.com", &rules));
        assert!(hostile.contains("would be refused"), "{hostile}");
        assert!(!hostile.contains('\u{1b}') && !hostile.contains('\u{202e}'));
        let forged = in_words(&explain_host("a.com would be allowed", &rules));
        assert!(
            forged.starts_with("\"a.com would be allowed\" would be refused\n"),
            "{forged}"
        );
    }
}
