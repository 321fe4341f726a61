//! The report as plain text, for `kotak probe` and "Copy report". Pure.

use super::report::{HostReport, RowStatus};
use std::fmt::Write as _;

/// Columns of the aligned text: labels are padded to the longest.
const STATUS_WIDTH: usize = 8;

/// The whole report, aligned; ends with a newline.
#[must_use]
pub fn report_text(report: &HostReport) -> String {
    let mut text = String::new();
    line(&mut text, &report.verdict.line);
    line(&mut text, "");
    line(&mut text, "Backends");
    let width = report
        .backends
        .iter()
        .map(|entry| entry.backend.name().len())
        .max()
        .unwrap_or(0);
    for entry in &report.backends {
        let state = if entry.available {
            "available"
        } else {
            "not available"
        };
        line(
            &mut text,
            &format!(
                "  {:width$}  {state:13}  {}",
                entry.backend.name(),
                entry.note
            ),
        );
        let indent = " ".repeat(width + 4);
        if let Some(problem) = &entry.problem {
            line(
                &mut text,
                &format!("{indent}{} ({})", problem.message, problem.code),
            );
            for cause in &problem.causes {
                line(&mut text, &format!("{indent}- {cause}"));
            }
            if let Some(fix) = &problem.fix {
                fix_lines(&mut text, &indent, fix);
            }
        }
    }
    line(&mut text, "");
    line(&mut text, "Capabilities");
    let width = report
        .rows
        .iter()
        .map(|row| row.label.chars().count())
        .max()
        .unwrap_or(0);
    for row in &report.rows {
        let status = status_word(row.status);
        line(
            &mut text,
            &format!(
                "  {status:STATUS_WIDTH$}{:width$}  {}",
                row.label, row.detail
            ),
        );
        let indent = " ".repeat(STATUS_WIDTH + width + 4);
        line(&mut text, &format!("{indent}for: {}", row.enables));
        if let Some(cause) = &row.cause {
            line(&mut text, &format!("{indent}why: {cause}"));
        }
        if let Some(fix) = &row.fix {
            fix_lines(&mut text, &indent, fix);
        }
    }
    line(&mut text, "");
    line(&mut text, &format!("probed in {} ms", report.duration_ms));
    text
}

fn fix_lines(text: &mut String, indent: &str, fix: &crate::error::Fix) {
    line(text, &format!("{indent}fix: {}", fix.text));
    if let Some(command) = &fix.command {
        line(text, &format!("{indent}     $ {command}"));
    }
}

fn status_word(status: RowStatus) -> &'static str {
    match status {
        RowStatus::Ok => "ok",
        RowStatus::Partial => "partial",
        RowStatus::Missing => "missing",
        RowStatus::Info => "info",
    }
}

fn line(text: &mut String, words: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", words.trim_end());
}
