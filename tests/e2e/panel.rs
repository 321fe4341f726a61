//! What every end-to-end test does: open the panel, start a session, type, look.

use kotak_tests::Stage;
use kotak_tests::desktop::{Desktop, Window};
use serde_json::{Value, json};

/// The panel with its desktop and its home.
pub(crate) struct Panel {
    pub(crate) window: Window,
    pub(crate) stage: Stage,
    pub(crate) desktop: Desktop,
}

/// Calls a command of the engine as the page does, and returns its answer.
const INVOKE: &str = "
    const [command, payload, done] = arguments;
    window.__TAURI_INTERNALS__.invoke(command, payload)
        .then(value => done({ ok: value }), error => done({ error }));
";

impl Panel {
    pub(crate) async fn open() -> Self {
        Self::open_with(&[]).await
    }

    pub(crate) async fn open_with(arguments: &[&str]) -> Self {
        Self::open_at(Stage::new(), arguments, &[]).await
    }

    /// Opens it with a home that was prepared, and more environment variables.
    pub(crate) async fn open_at(
        stage: Stage,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let desktop = Desktop::start();
        let window = Window::open_with(&desktop, stage.home(), arguments, environment).await;
        let panel = Self {
            window,
            stage,
            desktop,
        };
        panel.window.find("[data-testid=status-verdict]").await;
        panel
    }

    /// Calls an engine command; `Err` holds the problem.
    pub(crate) async fn invoke(&self, command: &str, payload: Value) -> Result<Value, Value> {
        let answer = self
            .window
            .client()
            .execute_async(INVOKE, vec![json!(command), payload])
            .await
            .unwrap_or_else(|e| panic!("{command}: {e}"));
        match answer.get("error") {
            Some(error) if !error.is_null() => Err(error.clone()),
            _ => Ok(answer.get("ok").cloned().unwrap_or_default()),
        }
    }

    pub(crate) fn request(&self, backend: &str, line: Option<&str>) -> Value {
        let program = line.map_or_else(
            || json!({ "kind": "shell" }),
            |line| json!({ "kind": "command", "line": line }),
        );
        json!({
            "program": program,
            "cwd": self.stage.work(),
            "backend": backend,
            "network": if backend == "none" { Value::Null } else { json!("open") },
            "mode": "chat",
            "protectedPaths": [],
            "cols": 80,
            "rows": 24,
        })
    }

    /// Starts a session through the engine and shows it; returns its id.
    pub(crate) async fn start(&self, backend: &str, line: Option<&str>) -> String {
        let request = self.request(backend, line);
        let session = self
            .invoke("launch", json!({ "request": request }))
            .await
            .unwrap_or_else(|problem| panic!("{problem}"));
        let id = session["id"].as_str().expect("an id").to_owned();
        self.reveal(&id).await;
        id
    }

    /// Shows a session's pane. Clicks again as long as it is not there: the list moves under the
    /// pointer while sessions come and go.
    pub(crate) async fn reveal(&self, id: &str) {
        let script = format!(
            "if (document.querySelector(\"{}\")) return true; \
             document.querySelector(\"[data-testid=session-row][data-session-id='{id}']\")?.click(); \
             return false;",
            pane(id)
        );
        self.window
            .until(&format!("the pane of {id}"), &script)
            .await;
    }

    /// Waits until a session's terminal runs `program` in its foreground.
    pub(crate) async fn runs(&self, id: &str, program: &str) {
        for _ in 0..1200 {
            let running = self
                .invoke("processes", json!({ "id": id }))
                .await
                .expect("processes");
            let found = running.as_array().is_some_and(|list| {
                list.iter().any(|process| {
                    process["foreground"] == json!(true)
                        && process["command"]
                            .as_str()
                            .is_some_and(|line| line.contains(program))
                })
            });
            if found {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{program} does not run in {id}");
    }

    /// Waits until a pane's session is in `phase`.
    pub(crate) async fn phase(&self, id: &str, phase: &str) {
        let css = format!("{}[data-phase={phase}]", pane(id));
        self.window
            .until(
                &format!("{id} is {phase}"),
                &format!("return !!document.querySelector(\"{css}\")"),
            )
            .await;
    }

    /// Types into a pane's terminal.
    pub(crate) async fn keys(&self, id: &str, keys: &str) {
        let textarea = self
            .window
            .find(&format!("{} .xterm-helper-textarea", pane(id)))
            .await;
        textarea
            .send_keys(keys)
            .await
            .unwrap_or_else(|e| panic!("typing: {e}"));
    }

    /// Types a line and Enter.
    pub(crate) async fn line(&self, id: &str, line: &str) {
        self.keys(id, &format!("{line}\u{e007}")).await;
    }

    /// The rows that a pane shows, as text.
    pub(crate) async fn rows(&self, id: &str) -> String {
        let value = self.window.script(&rows_script(id), Vec::new()).await;
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a pane shows a row that is exactly `row`.
    pub(crate) async fn shows(&self, id: &str, row: &str) {
        let script = format!(
            "const rows = (() => {{ {} }})(); return rows.split('\\n').some(r => r.trimEnd() === {});",
            rows_script(id),
            json!(row)
        );
        self.window
            .until(&format!("the row {row:?}"), &script)
            .await;
    }

    pub(crate) async fn close(self) {
        self.window.close().await;
        drop(self.desktop);
    }
}

/// The selector of a session's pane.
pub(crate) fn pane(id: &str) -> String {
    format!("[data-testid=pane][data-session-id='{id}']")
}

fn rows_script(id: &str) -> String {
    format!(
        "return [...document.querySelectorAll(\"{} .xterm-rows > div\")]\
         .map(row => row.textContent.replace(/\\u00a0/g, ' ')).join('\\n');",
        pane(id)
    )
}

/// Keys of the WebDriver standard, section 17.4.2.
pub(crate) mod key {
    pub(crate) const CONTROL: &str = "\u{e009}";
    pub(crate) const SHIFT: &str = "\u{e008}";
    pub(crate) const RELEASE: &str = "\u{e000}";
    pub(crate) const ENTER: &str = "\u{e007}";
    pub(crate) const ESCAPE: &str = "\u{e00c}";
}

/// Ctrl+Shift+`letter`.
pub(crate) fn chord(letter: char) -> String {
    format!("{}{}{letter}{}", key::CONTROL, key::SHIFT, key::RELEASE)
}

/// Ctrl+`letter`.
pub(crate) fn control(letter: char) -> String {
    format!("{}{letter}{}", key::CONTROL, key::RELEASE)
}
