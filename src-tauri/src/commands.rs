//! The commands that the window may call, one per method of the UI's `Backend` interface.

use crate::link::web_link;
use crate::stream::Stream;
use kotak_engine::api::{
    FolderInfo, LaunchPreview, LaunchRequest, OutputChunk, RunningProcess, SessionInfo, Settings,
    Snapshot, UiEvent,
};
use kotak_engine::error::{Fix, Problem};
use kotak_engine::manager::Engine;
use kotak_engine::probe::{HostReport, report_text as host_report_text};
use tauri::ipc::{Channel, InvokeBody, Request, Response};
use tauri::{AppHandle, State};
use tauri_plugin_clipboard_manager::ClipboardExt;
use tauri_plugin_dialog::DialogExt;
use tauri_plugin_opener::OpenerExt;

/// Header that names the session of a raw input request.
const SESSION_HEADER: &str = "kotak-session";

#[tauri::command]
pub(crate) async fn snapshot(engine: State<'_, Engine>) -> Result<Snapshot, Problem> {
    let engine = engine.inner().clone();
    off_the_runtime(move || engine.snapshot()).await
}

#[tauri::command]
pub(crate) fn subscribe(
    app: AppHandle,
    engine: State<'_, Engine>,
    stream: State<'_, Stream>,
    channel: Channel<Vec<UiEvent>>,
) {
    // A window that starts over knows of no question that the former one was asked.
    crate::lifecycle::close_refused(&app);
    stream.subscribe(&engine, channel);
}

#[tauri::command]
pub(crate) async fn probe_again(engine: State<'_, Engine>) -> Result<HostReport, Problem> {
    Ok(engine.probe_again().await.as_ref().clone())
}

#[tauri::command]
pub(crate) fn report_text(engine: State<'_, Engine>) -> String {
    host_report_text(&engine.host())
}

#[tauri::command]
pub(crate) async fn preview(
    engine: State<'_, Engine>,
    request: LaunchRequest,
) -> Result<LaunchPreview, Problem> {
    Ok(engine.preview(&request).await)
}

#[tauri::command]
pub(crate) async fn launch(
    engine: State<'_, Engine>,
    request: LaunchRequest,
) -> Result<SessionInfo, Problem> {
    engine.launch(request).await
}

#[tauri::command]
pub(crate) async fn restart(engine: State<'_, Engine>, id: String) -> Result<SessionInfo, Problem> {
    engine.restart(&id).await
}

/// The body is the raw bytes; the session stands in a header, so that keystrokes and pastes are
/// never encoded as JSON number arrays.
#[tauri::command]
pub(crate) async fn write_input(
    engine: State<'_, Engine>,
    request: Request<'_>,
) -> Result<(), Problem> {
    let id = request
        .headers()
        .get(SESSION_HEADER)
        .and_then(|value| value.to_str().ok())
        .ok_or_else(|| malformed("terminal input without a session"))?;
    match request.body() {
        InvokeBody::Raw(bytes) => engine.write_input(id, bytes).await,
        InvokeBody::Json(_) => Err(malformed("terminal input that is not raw bytes")),
    }
}

/// Answers with the 24-byte header of [`OutputChunk`] and then the bytes.
#[tauri::command]
pub(crate) async fn read_output(
    engine: State<'_, Engine>,
    id: String,
    from: u64,
) -> Result<Response, Problem> {
    let chunk = engine.read_output(&id, from).await?;
    Ok(Response::new(encode(&chunk)))
}

#[tauri::command]
pub(crate) fn resize(
    engine: State<'_, Engine>,
    id: String,
    cols: u16,
    rows: u16,
) -> Result<(), Problem> {
    engine.resize(&id, cols, rows)
}

#[tauri::command]
pub(crate) async fn suspend(engine: State<'_, Engine>, id: String) -> Result<SessionInfo, Problem> {
    engine.suspend(&id).await
}

#[tauri::command]
pub(crate) async fn resume(engine: State<'_, Engine>, id: String) -> Result<SessionInfo, Problem> {
    engine.resume(&id).await
}

#[tauri::command]
pub(crate) async fn processes(
    engine: State<'_, Engine>,
    id: String,
) -> Result<Vec<RunningProcess>, Problem> {
    engine.processes(&id).await
}

#[tauri::command]
pub(crate) async fn close(engine: State<'_, Engine>, id: String) -> Result<(), Problem> {
    engine.close(&id).await
}

#[tauri::command]
pub(crate) async fn dismiss(engine: State<'_, Engine>, id: String) -> Result<(), Problem> {
    engine.dismiss(&id).await
}

#[tauri::command]
pub(crate) async fn folder_info(
    engine: State<'_, Engine>,
    path: String,
) -> Result<FolderInfo, Problem> {
    let engine = engine.inner().clone();
    off_the_runtime(move || engine.folder_info(&path)).await
}

#[tauri::command]
pub(crate) async fn pick_folder(app: AppHandle) -> Option<String> {
    let (answer, picked) = tokio::sync::oneshot::channel();
    app.dialog().file().pick_folder(move |folder| {
        // The receiver is gone only when the window is; then nobody waits for the answer.
        let _ = answer.send(folder);
    });
    picked.await.ok().flatten().map(|folder| folder.to_string())
}

#[tauri::command]
pub(crate) fn save_layout(engine: State<'_, Engine>, layout: String) -> Result<(), Problem> {
    engine.save_layout(layout)
}

#[tauri::command]
pub(crate) async fn set_settings(
    engine: State<'_, Engine>,
    settings: Settings,
) -> Result<Settings, Problem> {
    let engine = engine.inner().clone();
    off_the_runtime(move || engine.set_settings(settings)).await?
}

#[tauri::command]
pub(crate) fn open_link(app: AppHandle, url: String) -> Result<(), Problem> {
    let url = web_link(&url)?;
    app.opener()
        .open_url(url.as_str(), None::<&str>)
        .map_err(|error| Problem {
            code: "LINK_NOT_OPENED".to_owned(),
            message: format!("no program opened {url}"),
            causes: vec![error.to_string()],
            fix: Some(Fix::words("copy the address into a browser")),
        })
}

#[tauri::command]
pub(crate) async fn read_clipboard(app: AppHandle) -> Result<String, Problem> {
    app.clipboard()
        .read_text()
        .map_err(|error| clipboard("read", &error))
}

#[tauri::command]
pub(crate) async fn write_clipboard(app: AppHandle, text: String) -> Result<(), Problem> {
    app.clipboard()
        .write_text(text)
        .map_err(|error| clipboard("written", &error))
}

/// Ends every session, then the application. The window asks before it calls this.
#[tauri::command]
pub(crate) async fn quit(app: AppHandle, engine: State<'_, Engine>) -> Result<(), Problem> {
    engine.shutdown().await;
    app.exit(0);
    Ok(())
}

/// The person chose to keep working.
#[tauri::command]
pub(crate) fn keep_open(app: AppHandle) {
    crate::lifecycle::close_refused(&app);
}

/// Runs what waits for the file system or the database where it holds up nobody else.
async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tauri::async_runtime::spawn_blocking(work)
        .await
        .map_err(|error| Problem {
            code: "COMMAND_FAILED".to_owned(),
            message: "the panel's engine could not answer".to_owned(),
            causes: vec![error.to_string()],
            fix: None,
        })
}

fn malformed(message: &str) -> Problem {
    Problem {
        code: "MALFORMED_REQUEST".to_owned(),
        message: message.to_owned(),
        causes: Vec::new(),
        fix: None,
    }
}

fn clipboard(verb: &str, error: &dyn std::error::Error) -> Problem {
    Problem {
        code: "CLIPBOARD_UNAVAILABLE".to_owned(),
        message: format!("the clipboard could not be {verb}"),
        causes: vec![error.to_string()],
        fix: None,
    }
}

fn encode(chunk: &OutputChunk) -> Vec<u8> {
    let flags = u64::from(chunk.ended) | u64::from(chunk.truncated) << 1;
    let mut bytes = Vec::with_capacity(24 + chunk.bytes.len());
    for word in [chunk.offset, chunk.head, flags] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&chunk.bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{OutputChunk, encode};

    #[test]
    fn a_chunk_travels_with_its_header() {
        let chunk = OutputChunk {
            offset: 0x0102,
            head: 0x0304,
            ended: true,
            truncated: true,
            bytes: b"abc".to_vec(),
        };
        let bytes = encode(&chunk);
        assert_eq!(bytes.len(), 27);
        assert_eq!(&bytes[..8], &[2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[8..16], &[4, 3, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[16..24], &[3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[24..], b"abc");
    }
}
