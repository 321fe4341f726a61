//! `kotak rules`. Running sessions, of any engine, follow within half a second.

use crate::args::{RulesAction, RulesOptions};
use crate::explain::no_session;
use crate::failure::Failure;
use crate::launch;
use crate::sessions;
use crate::text::{sentence, write_result};
use kotak_engine::api::{RuleInfo, RuleOrigin};
use kotak_engine::error::{Fix, Problem};
use kotak_engine::spec::{HostPattern, WorkspaceId};
use kotak_engine::store::{Dirs, RuleFilter, RuleStart, Store};
use kotak_engine::workspace::workspace_of;
use std::path::PathBuf;

/// Lists, makes or removes rules.
pub(crate) fn rules(dirs: &Dirs, options: RulesOptions, json: bool) -> Result<u8, Failure> {
    let store = sessions::open(dirs, json);
    let shown = match options.action {
        RulesAction::List(of) => {
            let filter = RuleFilter {
                workspace: of.workspace.map(workspace_id).transpose()?,
                session_id: of.session,
            };
            let found = store.rules(&filter).map_err(|error| unreadable(&error))?;
            show(&found, json)?
        }
        RulesAction::Add {
            pattern,
            deny,
            workspace,
            session,
        } => {
            let pattern = HostPattern::parse(&pattern).map_err(|error| Failure::refused(&error))?;
            let workspace = match (&session, workspace) {
                (Some(session), _) => session_workspace(&store, session)?,
                (None, Some(folder)) => workspace_id(folder)?,
                (None, None) => current_workspace()?,
            };
            let start = RuleStart {
                pattern: pattern.to_string(),
                allow: !deny,
                session_id: session,
                workspace,
                origin: RuleOrigin::Operator,
            };
            let rule = store
                .add_rule(start)
                .map_err(|error| Failure::refused(&error))?;
            show_one(&rule, json)?
        }
        RulesAction::Remove { id } => {
            let removed = store
                .remove_rule(id)
                .map_err(|error| Failure::refused(&error))?;
            let rule = removed.ok_or_else(|| no_rule(id))?;
            show_one(&rule, json)?
        }
    };
    write_result(&shown).map_err(|error| unreadable(&error))?;
    Ok(0)
}

fn no_rule(id: i64) -> Failure {
    Failure::usage(Problem {
        code: "NO_SUCH_RULE".to_owned(),
        message: format!("there is no rule {id}"),
        causes: Vec::new(),
        fix: Some(Fix::command("Look at the list.", "kotak rules list")),
    })
}

/// The workspace of a session that runs: a rule or a grant for one that has ended would never hold.
pub(crate) fn session_workspace(store: &Store, id: &str) -> Result<String, Failure> {
    let session = store.session(id).map_err(|error| unreadable(&error))?;
    let session = session.ok_or_else(|| Failure::usage(no_session(id)))?;
    if session.ended_at_ms.is_some() {
        return Err(Failure::usage(Problem {
            code: "SESSION_ENDED".to_owned(),
            message: format!("the session {id} has ended"),
            causes: Vec::new(),
            fix: Some(Fix::words("Make it for the workspace with --workspace.")),
        }));
    }
    let network = store
        .session_network(id)
        .map_err(|error| unreadable(&error))?;
    Ok(network.map_or_else(
        || WorkspaceId::of_folder(&session.workspace),
        |network| network.workspace,
    ))
}

pub(crate) fn workspace_id(folder: PathBuf) -> Result<String, Failure> {
    let folder = launch::directory(Some(folder))?;
    let absolute = std::path::absolute(&folder).map_err(|error| unreadable(&error))?;
    Ok(WorkspaceId::of_folder(&workspace_of(
        &absolute.to_string_lossy(),
    )))
}

/// The workspace that the current directory is of.
pub(crate) fn current_workspace() -> Result<String, Failure> {
    workspace_id(launch::directory(None)?)
}

/// The store cannot be read, or its answer not be shown.
pub(crate) fn unreadable(error: &dyn std::error::Error) -> Failure {
    Failure::engine("HISTORY_UNREADABLE", "cannot read the history", error)
}

fn show(rules: &[RuleInfo], json: bool) -> Result<String, Failure> {
    if json {
        let text = serde_json::to_string_pretty(rules).map_err(|error| unreadable(&error))?;
        return Ok(text + "\n");
    }
    if rules.is_empty() {
        return Ok("no rules yet\n".to_owned());
    }
    let width = rules.iter().map(|rule| rule.id.to_string().len()).max();
    let width = width.unwrap_or(1);
    Ok(rules
        .iter()
        .map(|rule| format!("{:>width$}  {}\n", rule.id, sentence(&rule.words)))
        .collect())
}

fn show_one(rule: &RuleInfo, json: bool) -> Result<String, Failure> {
    if json {
        let text = serde_json::to_string_pretty(rule).map_err(|error| unreadable(&error))?;
        return Ok(text + "\n");
    }
    show(std::slice::from_ref(rule), false)
}
