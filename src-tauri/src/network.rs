//! The commands of the network view: history, rules, grants, questions.

use kotak_engine::api::{
    ActivityPage, ActivityQuery, Answer, AnswerScope, ExecPolicy, Explanation, ExportFormat,
    GrantInfo, NetworkPolicy, NewGrant, NewRule, RuleInfo, SessionGrant, Timeline,
};
use kotak_engine::error::{Fix, Problem};
use kotak_engine::manager::Engine;
use tauri::{AppHandle, State};
use tauri_plugin_dialog::DialogExt;
use tauri_plugin_notification::NotificationExt;

#[tauri::command]
pub(crate) async fn activity(
    engine: State<'_, Engine>,
    query: ActivityQuery,
) -> Result<ActivityPage, Problem> {
    engine.activity(query).await
}

#[tauri::command]
pub(crate) async fn timeline(
    engine: State<'_, Engine>,
    session_id: Option<String>,
    from_ms: u64,
    to_ms: u64,
    steps: u32,
) -> Result<Timeline, Problem> {
    engine.timeline(session_id, from_ms, to_ms, steps).await
}

#[tauri::command]
pub(crate) fn network_policy(
    engine: State<'_, Engine>,
    id: String,
) -> Result<NetworkPolicy, Problem> {
    engine.network_policy(&id)
}

#[tauri::command]
pub(crate) async fn add_rule(
    engine: State<'_, Engine>,
    rule: NewRule,
) -> Result<RuleInfo, Problem> {
    engine.add_rule(rule).await
}

#[tauri::command]
pub(crate) async fn remove_rule(engine: State<'_, Engine>, id: i64) -> Result<(), Problem> {
    engine.remove_rule(id).await
}

#[tauri::command]
pub(crate) fn session_grants(
    engine: State<'_, Engine>,
    id: String,
) -> Result<Vec<SessionGrant>, Problem> {
    engine.session_grants(&id)
}

#[tauri::command]
pub(crate) fn exec_policy(engine: State<'_, Engine>, id: String) -> Result<ExecPolicy, Problem> {
    engine.exec_policy(&id)
}

#[tauri::command]
pub(crate) async fn add_grant(
    engine: State<'_, Engine>,
    grant: NewGrant,
) -> Result<GrantInfo, Problem> {
    engine.add_grant(grant).await
}

#[tauri::command]
pub(crate) async fn revoke_grant(engine: State<'_, Engine>, id: i64) -> Result<(), Problem> {
    engine.revoke_grant(id).await
}

#[tauri::command]
pub(crate) async fn answer_prompt(
    engine: State<'_, Engine>,
    id: String,
    answer: Answer,
    scope: AnswerScope,
) -> Result<Option<RuleInfo>, Problem> {
    engine.answer_prompt(&id, answer, scope).await
}

#[tauri::command]
pub(crate) async fn hold_prompt(engine: State<'_, Engine>, id: String) -> Result<(), Problem> {
    engine.hold_prompt(&id).await
}

#[tauri::command]
pub(crate) fn release_prompt(engine: State<'_, Engine>, id: String) {
    engine.release_prompt(&id);
}

#[tauri::command]
pub(crate) fn test_destination(
    engine: State<'_, Engine>,
    id: String,
    text: String,
) -> Result<Explanation, Problem> {
    engine.test_destination(&id, &text)
}

#[tauri::command]
pub(crate) fn cut_connection(
    engine: State<'_, Engine>,
    id: String,
    connection: u64,
) -> Result<(), Problem> {
    engine.cut(&id, connection)
}

#[tauri::command]
pub(crate) fn mark_seen(engine: State<'_, Engine>, id: String) -> Result<(), Problem> {
    engine.mark_seen(&id)
}

/// Asks where to, and writes the history there; `None` when the dialog was cancelled.
#[tauri::command]
pub(crate) async fn export_activity(
    app: AppHandle,
    engine: State<'_, Engine>,
    query: ActivityQuery,
    format: ExportFormat,
) -> Result<Option<String>, Problem> {
    let (name, ending) = match format {
        ExportFormat::JsonLines => ("kotak-activity.jsonl", "jsonl"),
        ExportFormat::Csv => ("kotak-activity.csv", "csv"),
    };
    let (answer, picked) = tokio::sync::oneshot::channel();
    app.dialog()
        .file()
        .set_file_name(name)
        .add_filter(ending, &[ending])
        .save_file(move |path| {
            // The receiver is gone only when the window is; then nobody waits for the answer.
            let _ = answer.send(path);
        });
    let Some(path) = picked.await.ok().flatten() else {
        return Ok(None);
    };
    let path = path.into_path().map_err(|error| Problem {
        code: "NOT_A_FILE".to_owned(),
        message: "the history cannot be written there".to_owned(),
        causes: vec![error.to_string()],
        fix: Some(Fix::words("choose a folder of this computer")),
    })?;
    let written = path.to_string_lossy().into_owned();
    engine.export_activity(query, format, &written).await?;
    Ok(Some(written))
}

/// A desktop notification. The window asks for it only while it is not focused.
#[tauri::command]
pub(crate) fn notify(app: AppHandle, title: String, body: String) -> Result<(), Problem> {
    app.notification()
        .builder()
        .title(title)
        .body(body)
        .show()
        .map_err(|error| Problem {
            code: "NOT_NOTIFIED".to_owned(),
            message: "the desktop shows no notifications".to_owned(),
            causes: vec![error.to_string()],
            fix: None,
        })
}
