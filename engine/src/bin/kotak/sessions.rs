//! `kotak sessions`. Reads the history; nothing is probed or launched.

use crate::args::SessionsOptions;
use crate::failure::{self, Failure};
use crate::text::{quoted, sentence, write_result};
use kotak_engine::manager::SandboxState;
use kotak_engine::store::{Dirs, SessionRecord, Store};
use std::time::{SystemTime, UNIX_EPOCH};

/// Lists the newest sessions of all engines of this user.
pub(crate) fn list(dirs: &Dirs, options: SessionsOptions, json: bool) -> Result<u8, Failure> {
    let store = open(dirs, json);
    let sessions = store.sessions(options.limit).map_err(|error| {
        Failure::engine("HISTORY_UNREADABLE", "cannot read the history", &error)
    })?;
    let text = if json {
        serde_json::to_string_pretty(&sessions).map_err(|error| {
            Failure::engine("HISTORY_UNREADABLE", "cannot show the history", &error)
        })? + "\n"
    } else {
        table(&sessions, now_ms())
    };
    write_result(&text).map_err(|error| {
        Failure::engine("HISTORY_UNREADABLE", "cannot show the history", &error)
    })?;
    Ok(0)
}

/// The store; what is wrong with it is said.
pub(crate) fn open(dirs: &Dirs, json: bool) -> Store {
    let (store, problems) = Store::open(dirs);
    for problem in &problems {
        failure::report(problem, json);
    }
    store
}

fn table(sessions: &[SessionRecord], now_ms: u64) -> String {
    if sessions.is_empty() {
        return "no sessions yet\n".to_owned();
    }
    let header = ["STARTED", "BACKEND", "ENDED", "PROGRAM", "FOLDER"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(header)
        .chain(sessions.iter().map(|session| {
            [
                age(now_ms.saturating_sub(session.started_at_ms)),
                session
                    .backend
                    .map_or("-", |backend| backend.name())
                    .to_owned(),
                outcome(session),
                sentence(&session.program),
                quoted(&session.cwd),
            ]
        }))
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row.get(column).map_or(0, |cell| cell.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2), width(3).min(40)];
    let mut text = String::new();
    for [started, backend, ended, program, folder] in &rows {
        let [a, b, c, d] = widths;
        text.push_str(&format!(
            "{started:a$}  {backend:b$}  {ended:c$}  {program:d$}  {folder}\n"
        ));
    }
    text
}

fn outcome(session: &SessionRecord) -> String {
    match (&session.error_code, session.signal, session.exit_code) {
        (Some(code), _, _) => code.clone(),
        (None, Some(signal), _) => format!("signal {signal}"),
        (None, None, Some(code)) => format!("exit {code}"),
        (None, None, None) => match session.state {
            SandboxState::Created => "starting".to_owned(),
            SandboxState::Warm | SandboxState::Active => "running".to_owned(),
            SandboxState::Suspended => "suspended".to_owned(),
            SandboxState::Destroyed => "closed".to_owned(),
            SandboxState::Error => "error".to_owned(),
        },
    }
}

fn age(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..60 => format!("{seconds} s ago"),
        seconds @ 60..3600 => format!("{} min ago", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kotak_engine::backend::SandboxBackend;

    fn record() -> SessionRecord {
        SessionRecord {
            id: "a".to_owned(),
            workspace: "/w".to_owned(),
            title: "sh".to_owned(),
            cwd: "/w/\u{1b}[31m".to_owned(),
            program: "sh -c true".to_owned(),
            backend: Some(SandboxBackend::Native),
            requested_backend: None,
            network: None,
            state: SandboxState::Destroyed,
            error_code: None,
            error_message: None,
            exit_code: Some(7),
            signal: None,
            started_at_ms: 0,
            ended_at_ms: Some(5),
            engine_pid: 1,
        }
    }

    #[test]
    fn the_table_shows_how_each_session_ended_and_obeys_no_folder_name() {
        let unlaunched = SessionRecord {
            backend: None,
            exit_code: None,
            error_code: Some("BWRAP_FAILED".to_owned()),
            ..record()
        };
        let killed = SessionRecord {
            signal: Some(9),
            exit_code: Some(137),
            ..record()
        };
        let running = SessionRecord {
            state: SandboxState::Active,
            exit_code: None,
            ended_at_ms: None,
            ..record()
        };
        assert_eq!(
            table(&[record(), unlaunched, killed, running], 90_000),
            "STARTED    BACKEND  ENDED         PROGRAM     FOLDER\n\
             1 min ago  native   exit 7        sh -c true  /w/\\u{1b}[31m\n\
             1 min ago  -        BWRAP_FAILED  sh -c true  /w/\\u{1b}[31m\n\
             1 min ago  native   signal 9      sh -c true  /w/\\u{1b}[31m\n\
             1 min ago  native   running       sh -c true  /w/\\u{1b}[31m\n"
        );
        assert_eq!(table(&[], 0), "no sessions yet\n");
    }
}
