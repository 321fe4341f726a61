//! The history written to a file.

use crate::api::{ActivityQuery, ActivityRow, ExportFormat, FileDetail};
use crate::store::row::word;
use crate::store::{Store, StoreError};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const HEADER: [&str; 30] = [
    "id",
    "session",
    "first_ms",
    "last_ms",
    "outcome",
    "action",
    "target",
    "unicode",
    "why",
    "way_out",
    "count",
    "process",
    "pid",
    "executable",
    "command",
    "evidence",
    "route",
    "address",
    "bytes_up",
    "bytes_down",
    "duration_ms",
    "source",
    "pattern",
    "call",
    "error",
    "other",
    "rule",
    "rule_of",
    "sentence",
    "raw",
];

impl Store {
    /// Writes every row of a query to a file, newest first, a page at a time; gives the number of
    /// rows. The file appears whole or not at all, and is for this user alone. The query's
    /// `limit` and `before` do not count.
    ///
    /// # Errors
    /// The history cannot be read, or the file cannot be written.
    pub fn export_activity(
        &self,
        query: &ActivityQuery,
        format: ExportFormat,
        path: &Path,
    ) -> Result<u64, StoreError> {
        let failed = |source| StoreError::Export {
            path: path.to_path_buf(),
            source,
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        // Mode 0600, beside the file that it becomes.
        let file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let mut out = BufWriter::new(&file);
        let mut count = 0;
        if format == ExportFormat::Csv {
            write_csv_line(&mut out, HEADER.map(str::to_owned)).map_err(failed)?;
        }
        let mut query = ActivityQuery {
            limit: super::read::MOST_ROWS,
            before: None,
            ..query.clone()
        };
        loop {
            let page = self.activity(&query)?;
            for row in &page.rows {
                match format {
                    ExportFormat::JsonLines => {
                        serde_json::to_writer(&mut out, row)
                            .map_err(io::Error::from)
                            .and_then(|()| out.write_all(b"\n"))
                            .map_err(failed)?;
                    }
                    ExportFormat::Csv => write_csv_line(&mut out, cells(row)).map_err(failed)?,
                }
                count += 1;
            }
            query.before = page.rows.last().map(|row| row.id);
            if !page.more || query.before.is_none() {
                break;
            }
        }
        out.flush().map_err(failed)?;
        drop(out);
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(count)
    }
}

fn cells(row: &ActivityRow) -> [String; 30] {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let detail = row.connection.as_ref();
    let actor = row.process.as_ref();
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let file = row.file.as_ref();
    let of_file = |cell: fn(&FileDetail) -> &str| file.map(cell).unwrap_or_default().to_owned();
    let allowed = detail.and_then(|detail| detail.allowed.as_ref());
    [
        row.id.to_string(),
        row.session_id.clone(),
        row.at_ms.to_string(),
        row.last_ms.to_string(),
        name(&row.outcome),
        row.action.clone(),
        row.target.clone(),
        text(&row.unicode),
        row.why.clone(),
        text(&row.way_out),
        row.count.to_string(),
        actor.map(|actor| actor.name.clone()).unwrap_or_default(),
        actor.map(|actor| actor.pid.to_string()).unwrap_or_default(),
        actor
            .and_then(|actor| actor.executable.clone())
            .unwrap_or_default(),
        actor.map(|actor| actor.command.clone()).unwrap_or_default(),
        name(&row.evidence),
        detail.map(|detail| name(&detail.route)).unwrap_or_default(),
        detail
            .and_then(|detail| detail.address.clone())
            .unwrap_or_default(),
        number(detail.map(|detail| detail.bytes_up)),
        number(detail.map(|detail| detail.bytes_down)),
        number(detail.and_then(|detail| detail.duration_ms)),
        allowed
            .map(|allowed| name(&allowed.source))
            .unwrap_or_default(),
        allowed
            .map(|allowed| allowed.pattern.clone())
            .unwrap_or_default(),
        of_file(|file| &file.call),
        of_file(|file| &file.error),
        of_file(|file| file.other.as_deref().unwrap_or_default()),
        of_file(|file| file.rule.kind()),
        of_file(|file| file.rule.what().unwrap_or_default()),
        of_file(|file| &file.sentence),
        text(&row.raw),
    ]
}

/// The wire name of a plain enum.
fn name<T: Serialize>(value: &T) -> String {
    word(value).unwrap_or_default()
}

/// One line by RFC 4180. A cell that a spreadsheet would take for a formula gets an apostrophe in
/// front (OWASP, CSV injection): every cell here may hold words of a sandboxed program.
fn write_csv_line<const N: usize>(out: &mut impl Write, cells: [String; N]) -> io::Result<()> {
    for (place, cell) in cells.iter().enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\0'])
            && cell.parse::<i64>().is_err();
        let cell = if formula {
            format!("'{cell}")
        } else {
            cell.clone()
        };
        if cell.contains([',', '"', '\n', '\r', '\'']) {
            write!(out, "\"{}\"", cell.replace('"', "\"\""))?;
        } else {
            out.write_all(cell.as_bytes())?;
        }
    }
    out.write_all(b"\r\n")
}
