//! `kotak grants`. The engine that runs a session, whichever it is, follows within half a second,
//! and says what came of it.

use crate::args::{GrantsAction, GrantsOptions, WhatOptions};
use crate::failure::Failure;
use crate::rules::{current_workspace, session_workspace, unreadable, workspace_id};
use crate::sessions;
use crate::text::{quoted, sentence, write_result};
use kotak_engine::api::{GrantInfo, GrantUse, NewGrant};
use kotak_engine::error::{Coded, Fix, Problem};
use kotak_engine::manager::{look_at_folder, look_at_sockets};
use kotak_engine::spec::{Grant, GrantKind};
use kotak_engine::store::{Dirs, GrantStart, Store};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long the engine of a session may take to open a grant.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at what it says.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A grant with what became of it, as `--json` writes it.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    grant: &'a GrantInfo,
    sessions: Vec<&'a GrantUse>,
}

/// Lists, makes or revokes grants.
pub(crate) fn grants(dirs: &Dirs, options: GrantsOptions, json: bool) -> Result<u8, Failure> {
    let store = sessions::open(dirs, json);
    let (grants, uses) = match options.action {
        GrantsAction::List(of) => {
            let session = of.session;
            let workspace = of.workspace.map(workspace_id).transpose()?;
            let mut all = store.grants(None).map_err(|error| unreadable(&error))?;
            let uses = uses(&store)?;
            all.retain(|grant| match (&workspace, &session) {
                (Some(workspace), _) => grant.workspace == *workspace,
                (None, Some(session)) => {
                    let own = grant.session_id.as_ref() == Some(session);
                    let used =
                        |each: &GrantUse| each.grant == grant.id && each.session_id == *session;
                    own || uses.iter().any(used)
                }
                (None, None) => true,
            });
            (all, uses)
        }
        GrantsAction::Add {
            what,
            workspace,
            session,
        } => {
            let grant = what.grant()?;
            if let (Grant::Exec(_), Some(session)) = (&grant, &session) {
                return Err(not_widened(session));
            }
            look_at_sockets(dirs, std::slice::from_ref(&grant)).map_err(Failure::usage)?;
            let workspace = match (&session, workspace) {
                (Some(session), _) => own_walls(&store, session)?,
                (None, Some(folder)) => workspace_id(folder)?,
                (None, None) => current_workspace()?,
            };
            if let Grant::Exec(folder) = &grant {
                look_at_folder(dirs, folder, &workspace).map_err(Failure::usage)?;
            }
            let start = GrantStart {
                grant,
                session_id: session.clone(),
                workspace,
            };
            let added = store
                .add_grant(start)
                .map_err(|error| Failure::refused(&error))?;
            let used = match session {
                Some(session) => vec![opened(&store, &added, &session)?],
                None => Vec::new(),
            };
            (vec![added], used)
        }
        GrantsAction::Remove { id } => {
            let removed = store
                .remove_grant(id)
                .map_err(|error| Failure::refused(&error))?;
            (vec![removed.ok_or_else(|| no_grant(id))?], Vec::new())
        }
    };
    write_result(&show(&grants, &uses, json)?).map_err(|error| unreadable(&error))?;
    Ok(0)
}

fn uses(store: &Store) -> Result<Vec<GrantUse>, Failure> {
    store.grant_uses().map_err(|error| unreadable(&error))
}

/// The workspace of a running session that has a network of its own.
fn own_walls(store: &Store, session: &str) -> Result<String, Failure> {
    let workspace = session_workspace(store, session)?;
    let network = store.session_network(session);
    match network.map_err(|error| unreadable(&error))? {
        Some(_) => Ok(workspace),
        None => Err(Failure::usage(Problem {
            code: "GRANTS_WITH_OPEN_NETWORK".to_owned(),
            message: format!("the session {session} has no network of its own"),
            causes: Vec::new(),
            fix: Some(Fix::words(
                "Start it in a sandbox with --network allowlist, ask or off. Under an open network \
                 the session's loopback is this computer's: ports need no forward there.",
            )),
        })),
    }
}

/// Waits until the session's engine has opened it; what it could not open is not kept.
fn opened(store: &Store, grant: &GrantInfo, session: &str) -> Result<GrantUse, Failure> {
    let began = Instant::now();
    let problem = loop {
        let found = uses(store)?
            .into_iter()
            .find(|each| each.grant == grant.id && each.session_id == session);
        match found {
            Some(GrantUse {
                problem: Some(problem),
                ..
            }) => break problem,
            Some(used) => return Ok(used),
            None if began.elapsed() > PATIENCE => {
                break Problem {
                    code: "ENGINE_SILENT".to_owned(),
                    message: format!("the engine of the session {session} does not answer"),
                    causes: Vec::new(),
                    fix: Some(Fix::words("Look whether the session still runs.")),
                };
            }
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    store
        .remove_grant(grant.id)
        .map_err(|error| Failure::refused(&error))?;
    Err(Failure::usage(problem))
}

/// The sandbox of a running session takes no further folder (landlock(7)).
fn not_widened(session: &str) -> Failure {
    Failure::usage(Problem {
        code: "EXEC_GRANT_NEEDS_START".to_owned(),
        message: format!("the sandbox of the running session {session} cannot be widened"),
        causes: Vec::new(),
        fix: Some(Fix::words(
            "Leave --session out: the folder is approved for the workspace then, and holds for every \
             session that starts there. In the window it can be approved for one session, which is \
             started anew for it.",
        )),
    })
}

fn no_grant(id: i64) -> Failure {
    Failure::usage(Problem {
        code: "NO_SUCH_GRANT".to_owned(),
        message: format!("there is no grant {id}"),
        causes: Vec::new(),
        fix: Some(Fix::command("Look at the list.", "kotak grants list")),
    })
}

fn show(grants: &[GrantInfo], uses: &[GrantUse], json: bool) -> Result<String, Failure> {
    let of = |grant: &GrantInfo| {
        let used = uses.iter().filter(|each| each.grant == grant.id);
        used.collect::<Vec<_>>()
    };
    if json {
        let shown: Vec<_> = grants
            .iter()
            .map(|grant| Shown {
                grant,
                sessions: of(grant),
            })
            .collect();
        let text = serde_json::to_string_pretty(&shown).map_err(|error| unreadable(&error))?;
        return Ok(text + "\n");
    }
    if grants.is_empty() {
        return Ok("no grants yet\n".to_owned());
    }
    let width = grants.iter().map(|grant| grant.id.to_string().len()).max();
    let width = width.unwrap_or(1);
    let mut text = String::new();
    for grant in grants {
        text.push_str(&format!(
            "{:>width$}  {}\n",
            grant.id,
            sentence(&grant.words)
        ));
        for used in of(grant) {
            let standing = match (&used.inside, &used.problem) {
                (_, Some(problem)) if grant.kind == GrantKind::Exec => {
                    format!("not in force: {} [{}]", problem.message, problem.code)
                }
                (_, Some(problem)) => format!("not open: {} [{}]", problem.message, problem.code),
                (Some(_), None) if grant.kind == GrantKind::Exec => "in force".to_owned(),
                (Some(at), None) => format!("open at {at}{}", hint(grant)),
                (None, None) => continue,
            };
            let session = quoted(&used.session_id);
            let standing = sentence(&standing);
            text.push_str(&format!("{:width$}  · {session}: {standing}\n", ""));
        }
    }
    Ok(text)
}

/// How programs that run already find it.
fn hint(grant: &GrantInfo) -> &'static str {
    match grant.grant() {
        Some(Grant::Socket(kotak_engine::spec::SocketName::SshAgent)) => {
            ", which SSH_AUTH_SOCK has to name"
        }
        _ => "",
    }
}

/// A folder as it is given on the command line, from the root.
fn whole_path(folder: String) -> Result<String, Failure> {
    let whole = std::path::absolute(&folder).map_err(|error| unreadable(&error))?;
    Ok(whole.to_string_lossy().into_owned())
}

impl WhatOptions {
    fn grant(self) -> Result<Grant, Failure> {
        // Exactly one is given: clap sees to it.
        let kinds = [
            (GrantKind::PortIn, self.forward_in),
            (GrantKind::PortOut, self.forward_out),
            (GrantKind::Exec, self.exec.map(whole_path).transpose()?),
        ];
        let given = kinds
            .into_iter()
            .find_map(|(kind, what)| Some((kind, what?)));
        let (kind, what) =
            given.unwrap_or_else(|| (GrantKind::Socket, self.socket.unwrap_or_default()));
        let new = NewGrant {
            kind,
            what,
            session_id: None,
            workspace: None,
        };
        new.checked()
            .map_err(|error| Failure::usage(error.problem()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn store(root: &Path) -> Store {
        let dirs = Dirs {
            state: root.join("state"),
            run: root.join("run"),
            config: root.join("config"),
            cache: root.join("cache"),
        };
        Store::open(&dirs).0
    }

    #[test]
    fn the_list_says_what_is_granted_where_and_what_became_of_it() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let grant = |kind, what: &str| {
            let new = NewGrant {
                kind,
                what: what.to_owned(),
                session_id: None,
                workspace: None,
            };
            let start = GrantStart {
                grant: new.checked().unwrap(),
                session_id: None,
                workspace: "/w".to_owned(),
            };
            store.add_grant(start).unwrap()
        };
        let all = [
            grant(GrantKind::PortIn, "3000:8080"),
            grant(GrantKind::Socket, "ssh-agent"),
            grant(GrantKind::Exec, "/w/target"),
        ];
        let taken = Problem {
            code: "HOST_PORT_TAKEN".to_owned(),
            message: "port 8080 of this computer is taken".to_owned(),
            causes: Vec::new(),
            fix: None,
        };
        store.grant_used(all[0].id, "s", Err(taken));
        store.grant_used(all[1].id, "s", Ok("/run/x".to_owned()));
        store.grant_used(all[2].id, "s", Ok("/w/target".to_owned()));
        let uses = store.grant_uses().unwrap();
        assert_eq!(
            show(&all, &uses, false).unwrap(),
            "1  port 3000 inside, opened as 127.0.0.1:8080 of this computer, for every session \
             that starts in /w\n   · s: not open: port 8080 of this computer is taken \
             [HOST_PORT_TAKEN]\n2  your ssh agent, for every session that starts in /w\n   · s: \
             open at /run/x, which SSH_AUTH_SOCK has to name\n3  programs in /w/target may run, for \
             every session that starts in /w\n   · s: in force\n"
        );
        assert_eq!(show(&[], &[], false).unwrap(), "no grants yet\n");
    }
}
