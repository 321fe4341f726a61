//! Sessions that ask first, what their programs get, and the cards that the window shows.

use kotak_tests::Stage;
use kotak_tests::desktop::picture_dir;
use kotak_tests::net::{World, world};
use kotak_tests::panel::Panel;
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long something may take to appear. A bound, not an expectation.
const PATIENCE: Duration = Duration::from_secs(90);

/// What [`Asking::fetch`] gives of a refusal.
pub(crate) const REFUSED: &str = "curl: (22) The requested URL returned error: 403";

/// The window with its questions.
pub(crate) struct Asking {
    pub(crate) panel: Panel,
    attempts: Cell<u32>,
}

/// A shell that asks first.
pub(crate) struct Session {
    pub(crate) id: String,
    /// Its folder, below the home.
    folder: String,
}

/// A program in a session that tries to reach something.
#[must_use]
pub(crate) struct Attempt {
    /// Where its output is once it is over, below the home.
    output: String,
}

impl Asking {
    /// Opens the window. The stage of the network is there first, for the names to be real.
    pub(crate) async fn open() -> Self {
        Self::open_at(Stage::new()).await
    }

    /// The same with a home that was prepared.
    pub(crate) async fn open_at(stage: Stage) -> Self {
        // The servers are there before anybody asks for them.
        let _ = world();
        stage.write("work/driver.py", include_str!("../egress/driver.py"));
        Self {
            panel: Panel::open_at(stage, &[], &[]).await,
            attempts: Cell::new(0),
        }
    }

    /// Ends the window and opens it again.
    pub(crate) async fn reopen(self) -> Self {
        let attempts = self.attempts;
        let panel = self.panel.reopen().await;
        Self { panel, attempts }
    }

    /// Starts a shell that asks first, in a folder of the home.
    pub(crate) async fn session_in(&self, folder: &str) -> Session {
        let home = self.panel.stage.home();
        std::fs::create_dir_all(home.join(folder)).expect("a folder");
        let mut request = self.panel.request("native", None);
        request["network"] = json!("ask");
        request["cwd"] = json!(home.join(folder));
        let id = self.panel.launch(request).await;
        self.panel.phase(&id, "running").await;
        let folder = folder.to_owned();
        Session { id, folder }
    }

    /// Starts a shell that asks first, in `~/work`.
    pub(crate) async fn session(&self) -> Session {
        self.session_in("work").await
    }

    /// Runs a script behind a session's shell, which stays free for other things. What it prints is
    /// what [`Self::end`] gives.
    pub(crate) async fn run(&self, session: &Session, script: &str) -> Attempt {
        let number = self.attempts.get() + 1;
        self.attempts.set(number);
        let Session { id, folder } = session;
        let stage = &self.panel.stage;
        let authority = std::fs::read_to_string(world().ca_file()).expect("the authority");
        stage.write(&format!("{folder}/ca.crt"), &authority);
        let place = stage.home().join(folder);
        let trust = World::trust(&place.join("ca.crt"));
        let place = place.display();
        // A file that appears whole is one that is done.
        let script = format!(
            "cd '{place}'\n{trust}\n{{ {script}\n}} >out-{number} 2>&1\nmv out-{number} end-{number}\n"
        );
        stage.write(&format!("{folder}/try-{number}.sh"), &script);
        let line = format!("(sh ./try-{number}.sh &)");
        self.panel.reveal(id).await;
        self.panel.line(id, &line).await;
        Attempt {
            output: format!("{folder}/end-{number}"),
        }
    }

    /// Fetches a page of a host over plain HTTP with curl: its end is `hello from HOST`, or the
    /// status of what it got instead.
    pub(crate) async fn fetch(&self, session: &Session, host: &str) -> Attempt {
        let script = format!("curl -sS -m 100 -f http://{host}/ 2>said || tail -n 1 said");
        self.run(session, &script).await
    }

    /// What an attempt printed, once it is over.
    pub(crate) async fn end(&self, attempt: Attempt) -> String {
        let output = || self.panel.stage.read(&attempt.output);
        let end = self.until(&attempt.output, output).await;
        end.trim().to_owned()
    }

    /// Whether an attempt is over.
    pub(crate) fn is_over(&self, attempt: &Attempt) -> bool {
        self.panel.stage.read(&attempt.output).is_some()
    }

    async fn until<T>(&self, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = probe() {
                return found;
            }
            if began.elapsed() > PATIENCE {
                self.picture("failed").await;
                panic!("not reached: {what}; shown: {:?}", self.shown().await);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Waits for the unfolded card of a host and port; its question's id.
    pub(crate) async fn card(&self, target: &str) -> String {
        let script = format!(
            "const card = [...document.querySelectorAll('[data-testid=prompt-card]')] \
               .find(card => card.querySelector('.host')?.textContent === {}); \
             return card?.dataset.prompt ?? '';",
            json!(target)
        );
        let id = self
            .panel
            .window
            .until(&format!("a card of {target}"), &script)
            .await;
        id.as_str().expect("an id").to_owned()
    }

    /// What the cards and the folded questions say.
    pub(crate) async fn shown(&self) -> Vec<String> {
        let script = "return [...document.querySelectorAll('[data-prompt]')] \
                      .map(card => card.textContent.replace(/\\s+/g, ' ').trim());";
        let value = self.panel.window.script(script, Vec::new()).await;
        serde_json::from_value(value).expect("texts")
    }

    /// Asserts that no question is shown, neither one that waits nor one that was missed.
    #[track_caller]
    pub(crate) fn nothing_is_asked(&self) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let shown = self.shown().await;
            assert!(shown.is_empty(), "at {place}: {shown:#?}");
        }
    }

    /// Presses an answer of a card, again as long as it stands: one that comes too early is ignored.
    pub(crate) async fn answer(&self, prompt: &str, answer: &str) {
        let css = format!("[data-testid=prompt-card][data-prompt='{prompt}']");
        let stands = format!("return !!document.querySelector(\"{css}\")");
        let began = Instant::now();
        loop {
            let button = format!("{css} [data-answer={answer}]");
            let found = self.panel.window.client();
            // A button that is gone by now was pressed before.
            if let Ok(button) = found.find(fantoccini::Locator::Css(&button)).await {
                let _ = button.click().await;
            }
            for _ in 0..20 {
                if self.panel.window.script(&stands, Vec::new()).await != json!(true) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
            assert!(began.elapsed() < PATIENCE, "{answer} was not taken");
        }
    }

    /// Waits for a card and answers it.
    pub(crate) async fn answer_for(&self, target: &str, answer: &str) {
        let prompt = self.card(target).await;
        self.answer(&prompt, answer).await;
    }

    /// Chooses how far the answer of the open card reaches.
    pub(crate) async fn scope(&self, label: &str) {
        let script = format!(
            "const label = [...document.querySelectorAll('[data-testid=prompt-card] label')] \
               .find(label => label.textContent.trim() === {}); \
             label?.click(); return !!label;",
            json!(label)
        );
        self.panel
            .window
            .until(&format!("the scope {label}"), &script)
            .await;
    }

    /// The patterns of the rules that are stored.
    pub(crate) async fn rules(&self) -> Vec<String> {
        let snapshot = self.panel.invoke("snapshot", json!({})).await;
        let snapshot = snapshot.expect("a snapshot");
        let rules = snapshot["rules"].as_array().cloned().unwrap_or_default();
        let text = |rule: &Value| {
            let verdict = if rule["allow"] == json!(true) {
                "allow"
            } else {
                "deny"
            };
            let pattern = rule["pattern"].as_str().unwrap_or_default();
            format!("{verdict} {pattern}")
        };
        rules.iter().map(text).collect()
    }

    /// Opens a view of the inspector.
    pub(crate) async fn view(&self, name: &str) {
        let script = format!(
            "const tab = [...document.querySelectorAll('[role=tab]')] \
               .find(tab => tab.textContent.trim() === '{name}'); \
             tab?.click(); return tab?.getAttribute('aria-selected') === 'true';"
        );
        self.panel
            .window
            .until(&format!("the view {name}"), &script)
            .await;
    }

    /// Waits until a row of the activity feed holds all these parts.
    pub(crate) async fn activity(&self, parts: &[&str]) {
        let script = "return [...document.querySelectorAll('aside [data-row]')] \
                      .map(row => row.textContent.replace(/\\s+/g, ' ').trim());";
        let began = Instant::now();
        loop {
            let rows = self.panel.window.script(script, Vec::new()).await;
            let rows: Vec<String> = serde_json::from_value(rows).expect("texts");
            let is_it = |row: &String| parts.iter().all(|part| row.contains(part));
            if rows.iter().any(is_it) {
                return;
            }
            let patient = began.elapsed() < PATIENCE;
            assert!(patient, "no row of the feed with {parts:?}: {rows:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Keeps pictures of the window, dark and light.
    pub(crate) async fn picture(&self, name: &str) {
        let dir = picture_dir();
        for theme in ["light", "dark"] {
            self.panel.theme(theme).await;
            let path = dir.join(format!("{name}-{theme}.png"));
            self.panel.desktop.picture(&path);
        }
    }

    /// Ends the window.
    pub(crate) async fn close(self) {
        self.panel.close().await;
    }
}
