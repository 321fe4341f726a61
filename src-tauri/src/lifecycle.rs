//! The window's life: one instance, state kept, closing asked for, sessions ended at the end.

use crate::stream::Stream;
use crate::{commands, network};
use kotak_engine::api::UiEvent;
use kotak_engine::manager::Engine;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tauri::{AppHandle, Manager, RunEvent, WebviewUrl, WebviewWindowBuilder, WindowEvent};

/// Set while a request to close waits for the window's answer. A second request closes for good:
/// a window that does not answer must not be unclosable.
struct CloseAsked(AtomicBool);

/// Runs the application until its window is closed.
///
/// # Errors
/// When the window system is not there or refuses a window.
pub(crate) fn run(engine: Engine, folder: Option<&Path>) -> Result<(), Box<dyn std::error::Error>> {
    let stream = Stream::new();
    let folder = folder.map(|folder| folder.to_string_lossy().into_owned());
    let app = tauri::Builder::default()
        .plugin(tauri_plugin_single_instance::init(|app, arguments, cwd| {
            activate(app, &arguments, &cwd);
        }))
        .plugin(tauri_plugin_window_state::Builder::new().build())
        .plugin(tauri_plugin_clipboard_manager::init())
        .plugin(tauri_plugin_dialog::init())
        .plugin(tauri_plugin_notification::init())
        .plugin(tauri_plugin_opener::init())
        .manage(engine)
        .manage(stream)
        .manage(CloseAsked(AtomicBool::new(false)))
        .invoke_handler(tauri::generate_handler![
            commands::snapshot,
            commands::subscribe,
            commands::probe_again,
            commands::report_text,
            commands::preview,
            commands::launch,
            commands::restart,
            commands::write_input,
            commands::read_output,
            commands::resize,
            commands::suspend,
            commands::resume,
            commands::processes,
            commands::close,
            commands::dismiss,
            commands::folder_info,
            commands::pick_folder,
            commands::save_layout,
            commands::set_settings,
            commands::open_link,
            commands::read_clipboard,
            commands::write_clipboard,
            network::activity,
            network::timeline,
            network::network_policy,
            network::add_rule,
            network::remove_rule,
            network::session_grants,
            network::exec_policy,
            network::add_grant,
            network::revoke_grant,
            network::answer_prompt,
            network::hold_prompt,
            network::release_prompt,
            network::test_destination,
            network::cut_connection,
            network::export_activity,
            network::mark_seen,
            network::notify,
            commands::quit,
            commands::keep_open,
        ])
        .setup(move |app| {
            WebviewWindowBuilder::new(app, "main", WebviewUrl::App("index.html".into()))
                .title("Kotak")
                .inner_size(1360.0, 860.0)
                .min_inner_size(720.0, 480.0)
                .on_navigation(is_own_page)
                .build()?;
            if let Some(cwd) = folder {
                app.state::<Stream>()
                    .send(UiEvent::Activated { cwd: Some(cwd) });
            }
            Ok(())
        })
        .build(tauri::generate_context!())?;
    app.run(|app, event| match event {
        RunEvent::WindowEvent {
            label,
            event: WindowEvent::CloseRequested { api, .. },
            ..
        } if label == "main" && ask_before_close(app) => api.prevent_close(),
        RunEvent::Exit => {
            let engine = app.state::<Engine>().inner().clone();
            tauri::async_runtime::block_on(engine.shutdown());
            // Everything is written, the plugins' state too: they are told of the end first.
            #[cfg(target_os = "linux")]
            kotak_engine::sys::exit::exit_now(0);
        }
        _ => {}
    });
    Ok(())
}

/// Only the embedded page may ever be shown: a link in terminal output cannot navigate the window.
fn is_own_page(url: &tauri::Url) -> bool {
    url.scheme() == "tauri" || url.host_str() == Some("tauri.localhost")
}

/// Whether closing has to wait for the person's answer.
fn ask_before_close(app: &AppHandle) -> bool {
    let engine = app.state::<Engine>();
    let snapshot = engine.snapshot();
    let live = snapshot
        .sessions
        .iter()
        .any(kotak_engine::api::SessionInfo::is_live);
    let first_request = !app.state::<CloseAsked>().0.swap(true, Ordering::SeqCst);
    let ask = live && snapshot.settings.confirm_close && first_request;
    if ask {
        app.state::<Stream>().send(UiEvent::CloseRequested);
    }
    ask
}

/// The window answered "keep working": the next request asks again.
pub(crate) fn close_refused(app: &AppHandle) {
    app.state::<CloseAsked>().0.store(false, Ordering::SeqCst);
}

/// A second start brings the first one's window to the front and hands over its folder.
fn activate(app: &AppHandle, arguments: &[String], cwd: &str) {
    if let Some(window) = app.get_webview_window("main") {
        for outcome in [window.unminimize(), window.show(), window.set_focus()] {
            if let Err(error) = outcome {
                tracing::warn!(%error, "the window could not be brought to the front");
            }
        }
    }
    let folder = arguments
        .iter()
        .skip(1)
        .find(|argument| !argument.starts_with('-') && !matches!(argument.as_str(), "on" | "off"))
        .map(|folder| Path::new(cwd).join(folder).to_string_lossy().into_owned());
    app.state::<Stream>()
        .send(UiEvent::Activated { cwd: folder });
}
