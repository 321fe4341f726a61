//! `kotak log`. Reads the history; with `--follow` again and again.

use crate::args::LogOptions;
use crate::failure::Failure;
use crate::rules::unreadable;
use crate::sessions::{self, now_ms};
use crate::text::{printable, quoted, sentence, write_result};
use kotak_engine::api::{ActivityQuery, ActivityRow, Outcome};
use kotak_engine::events::Evidence;
use kotak_engine::store::{Dirs, Store};
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

/// How often the history is read while following.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
/// How far back rows may still change or come late from other engines, milliseconds.
const SETTLED_MS: u64 = 30_000;

/// Shows rows, oldest first.
pub(crate) fn log(dirs: &Dirs, options: LogOptions, json: bool) -> Result<u8, Failure> {
    let store = sessions::open(dirs, json);
    let query = ActivityQuery {
        session_id: options.session.clone(),
        refused_only: options.denied,
        limit: options.limit,
        ..ActivityQuery::default()
    };
    let page = store.activity(&query).map_err(|error| unreadable(&error))?;
    let mut seen = Seen::default();
    let mut text = String::new();
    for row in page.rows.iter().rev() {
        text.push_str(&seen.line(row, json)?.unwrap_or_default());
    }
    if !json && !options.follow {
        if page.rows.is_empty() {
            text.push_str("nothing yet\n");
        }
        if page.only_counted > 0 {
            text.push_str(&format!(
                "and {} more that were only counted (the history keeps {})\n",
                page.only_counted, page.bound
            ));
        }
    }
    write_result(&text).map_err(|error| unreadable(&error))?;
    if options.follow {
        follow(&store, &query, &mut seen, json)?;
    }
    Ok(0)
}

/// Goes on until the reader of standard output is gone, or a signal ends the process.
fn follow(
    store: &Store,
    query: &ActivityQuery,
    seen: &mut Seen,
    json: bool,
) -> Result<(), Failure> {
    loop {
        std::thread::sleep(FOLLOW_EVERY);
        let from_ms = now_ms().saturating_sub(SETTLED_MS);
        let mut recent = ActivityQuery {
            from_ms: Some(from_ms),
            limit: 1_000,
            ..query.clone()
        };
        let mut rows = Vec::new();
        loop {
            let page = store
                .activity(&recent)
                .map_err(|error| unreadable(&error))?;
            recent.before = page.rows.last().map(|row| row.id);
            rows.extend(page.rows);
            if !page.more {
                break;
            }
        }
        let mut text = String::new();
        for row in rows.iter().rev() {
            text.push_str(&seen.line(row, json)?.unwrap_or_default());
        }
        seen.forget(&rows);
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(unreadable(&error)),
        }
    }
}

/// Which state of each row was shown.
#[derive(Default)]
struct Seen(HashMap<i64, (Outcome, u32)>);

impl Seen {
    /// A row's line, unless this state of it was shown.
    fn line(&mut self, row: &ActivityRow, json: bool) -> Result<Option<String>, Failure> {
        let state = (row.outcome, row.count);
        if self.0.insert(row.id, state) == Some(state) {
            return Ok(None);
        }
        if json {
            let line = serde_json::to_string(row).map_err(|error| unreadable(&error))?;
            return Ok(Some(line + "\n"));
        }
        Ok(Some(in_words(row)))
    }

    /// Rows that are not among the recent ones do not change any more.
    fn forget(&mut self, recent: &[ActivityRow]) {
        if self.0.len() > 10_000 {
            let ids: std::collections::HashSet<i64> = recent.iter().map(|row| row.id).collect();
            self.0.retain(|id, _| ids.contains(id));
        }
    }
}

fn in_words(row: &ActivityRow) -> String {
    let verdict = match row.outcome {
        Outcome::Allowed => "allowed",
        Outcome::Open => "open   ",
        Outcome::Refused => "refused",
        Outcome::Failed => "failed ",
    };
    let mut line = format!(
        "{}  {verdict}  {}{}",
        utc(row.last_ms),
        verb(row),
        quoted(&row.target)
    );
    if let Some(other) = row.file.as_ref().and_then(|file| file.other.as_ref()) {
        // The target is what a rule refused: it may be where it was or where it was to come.
        line.push_str(&format!(" (other end {})", quoted(other)));
    }
    if let Some(unicode) = &row.unicode {
        line.push_str(&format!(" ({})", quoted(unicode)));
    }
    line.push_str(&format!("  {}", sentence(&row.why)));
    if let Some(actor) = &row.process {
        line.push_str(&format!("  {} [{}]", quoted(&actor.name), actor.pid));
    }
    if row.count > 1 {
        line.push_str(&format!("  ×{}", row.count));
    }
    if row.evidence == Evidence::Inferred {
        line.push_str("  inferred");
    }
    line.push_str(&format!("  in {}\n", quoted(&row.session_id)));
    line
}

/// What was tried, of a row that is no connection.
fn verb(row: &ActivityRow) -> String {
    if row.connection.is_some() || row.action.starts_with("network-") {
        return String::new();
    }
    let word = match row.action.as_str() {
        "file-read-data" => "read",
        "file-write-create" => "create",
        "file-write-data" => "write",
        "file-write-unlink" => "delete",
        "file-write-rename" => "rename",
        "file-write-link" => "link",
        "process-exec" => "run",
        other => return format!("{} ", printable(other)),
    };
    format!("{word} ")
}

/// A time in UTC, `2026-03-01T12:01:33Z` (RFC 3339).
fn utc(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, so that a leap day is the last of its year; 400 years have 146,097.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kotak_engine::api::{Actor, FileDetail};
    use kotak_engine::events::RefusalRule;

    #[test]
    fn times_are_written_as_everywhere() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (1_772_366_493_000, "2026-03-01T12:01:33Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(utc(ms), text);
        }
    }

    #[test]
    fn a_line_says_what_who_and_why_and_obeys_no_name() {
        let row = ActivityRow {
            id: 1,
            session_id: "s".to_owned(),
            at_ms: 0,
            last_ms: 0,
            outcome: Outcome::Refused,
            action: "network-outbound".to_owned(),
            target: "x\u{1b}[2J:443".to_owned(),
            unicode: None,
            why: "not on the allowlist".to_owned(),
            way_out: None,
            count: 3,
            process: Some(Actor {
                pid: 7,
                name: "cu\u{202e}rl".to_owned(),
                executable: None,
                command: String::new(),
                cwd: None,
                parents: Vec::new(),
            }),
            evidence: Evidence::Observed,
            raw: None,
            connection: None,
            file: None,
        };
        assert_eq!(
            in_words(&row),
            "1970-01-01T00:00:00Z  refused  x\\u{1b}[2J:443  not on the allowlist  \
             cu\\u{202e}rl [7]  ×3  in s\n"
        );
        let mut seen = Seen::default();
        assert!(seen.line(&row, false).unwrap().is_some());
        assert!(seen.line(&row, false).unwrap().is_none());
        let more = ActivityRow { count: 4, ..row };
        assert!(seen.line(&more, false).unwrap().is_some());
    }

    #[test]
    fn a_refused_file_or_program_stands_beside_what_the_network_refused() {
        // REQ UI-5
        let row = |action: &str, target: &str, rule, why: &str, other: Option<&str>| ActivityRow {
            id: 1,
            session_id: "s".to_owned(),
            at_ms: 0,
            last_ms: 0,
            outcome: Outcome::Refused,
            action: action.to_owned(),
            target: target.to_owned(),
            unicode: None,
            why: why.to_owned(),
            way_out: None,
            count: 1,
            process: Some(Actor {
                pid: 7,
                name: "git".to_owned(),
                executable: None,
                command: String::new(),
                cwd: None,
                parents: Vec::new(),
            }),
            evidence: Evidence::Inferred,
            raw: None,
            connection: None,
            file: Some(FileDetail {
                call: "renameat2".to_owned(),
                error: "EACCES".to_owned(),
                other: other.map(str::to_owned),
                rule,
                sentence: String::new(),
                exact: true,
                approvable: false,
            }),
        };
        let rule = RefusalRule::Name {
            glob: "*.key".to_owned(),
        };
        let moved = row(
            "file-write-rename",
            "/w/b.key",
            rule,
            "filename rule *.key",
            Some("/w/a\u{1b}"),
        );
        assert_eq!(
            in_words(&moved),
            "1970-01-01T00:00:00Z  refused  rename /w/b.key (other end /w/a\\u{1b})  filename rule \
             *.key  git [7]  inferred  in s\n"
        );
        let program = row(
            "process-exec",
            "/w/x",
            RefusalRule::Exec,
            "exec restriction",
            None,
        );
        assert!(in_words(&program).contains("  refused  run /w/x  exec restriction"));
        // A name that spells the rest of a line is one column.
        let mut forged = row(
            "file-write-create",
            "/w/x  filename rule *.key  sudo [1]  in run-0.key",
            RefusalRule::Name {
                glob: "*.key".to_owned(),
            },
            "filename rule *.key",
            None,
        );
        if let Some(actor) = &mut forged.process {
            actor.name = "a  inferred".to_owned();
        }
        assert_eq!(
            in_words(&forged),
            "1970-01-01T00:00:00Z  refused  create \"/w/x  filename rule *.key  sudo [1]  in \
             run-0.key\"  filename rule *.key  \"a  inferred\" [7]  inferred  in s\n"
        );
        let mut seen = Seen::default();
        let line = seen.line(&program, true).unwrap().unwrap();
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["file"]["rule"]["kind"], "exec");
    }
}
