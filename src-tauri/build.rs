//! Declares the application's own commands, so that a window may call only what its capability
//! lists (tauri-build `AppManifest`), and checks that the UI was built.

fn main() {
    let index = std::path::Path::new("../ui/dist/index.html");
    println!("cargo:rerun-if-changed=../ui/dist");
    assert!(
        index.exists(),
        "the window's UI is not built: run `make run`, or `npm ci && npm run build` in ui/"
    );
    let attributes = tauri_build::Attributes::new()
        .app_manifest(tauri_build::AppManifest::new().commands(COMMANDS));
    if let Err(error) = tauri_build::try_build(attributes) {
        eprintln!("{error:#}");
        std::process::exit(1);
    }
}

const COMMANDS: &[&str] = &[
    "snapshot",
    "subscribe",
    "probe_again",
    "report_text",
    "preview",
    "launch",
    "restart",
    "write_input",
    "read_output",
    "resize",
    "suspend",
    "resume",
    "processes",
    "close",
    "dismiss",
    "folder_info",
    "pick_folder",
    "save_layout",
    "set_settings",
    "open_link",
    "read_clipboard",
    "write_clipboard",
    "activity",
    "timeline",
    "network_policy",
    "add_rule",
    "remove_rule",
    "session_grants",
    "exec_policy",
    "add_grant",
    "revoke_grant",
    "answer_prompt",
    "hold_prompt",
    "release_prompt",
    "test_destination",
    "cut_connection",
    "export_activity",
    "mark_seen",
    "notify",
    "quit",
    "keep_open",
];
