//! The terminal of the real window: 100 MB through it, and Ctrl-C in the middle of that.

use kotak_tests::Stage;
use kotak_tests::desktop::{Desktop, Window};
use serde_json::{Value, json};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

const MEGABYTES: u64 = 100;
/// How long the slowest machine may take before the bench gives up.
const PATIENCE: Duration = Duration::from_secs(300);

/// Measures both.
pub(crate) async fn measure() -> Result<(), Box<dyn Error>> {
    let desktop = Desktop::start();
    let stage = Stage::new();
    let bytes = write_text(&stage)?;
    let window = Window::open(&desktop, stage.home(), &[]).await;
    window.find("[data-testid=status-verdict]").await;

    println!("The terminal in the real window:");
    let id = start(&window, &stage, "cat big.txt").await?;
    let began = Instant::now();
    let parsed = format!(
        "const check = document.querySelector('[data-testid=output-check]'); \
         if (!check) {{ \
           const tab = [...document.querySelectorAll('[role=tab]')] \
             .find(tab => tab.textContent.trim() === 'About'); \
           if (tab) tab.click(); \
           return false; \
         }} \
         return Number(check.dataset.bytes) >= {bytes};"
    );
    wait_for(&window, "the whole file", &parsed).await?;
    let rate = (bytes as f64) / 1e6 / began.elapsed().as_secs_f64();
    println!("  {MEGABYTES} MB of text by cat: {rate:.1} MB/s (target at least 7)");
    call(&window, "dismiss", json!({ "id": id })).await?;

    let trap = "sh -c \"trap 'echo inter\"\"rupted' INT; cat big.txt big.txt big.txt\"";
    let id = start(&window, &stage, trap).await?;
    let pane = format!("[data-testid=pane][data-session-id='{id}']");
    let shows = |text: &str| {
        format!(
            "return [...document.querySelectorAll(\"{pane} .xterm-rows > div\")] \
             .some(row => row.textContent.includes('{text}'));"
        )
    };
    wait_for(&window, "the flood", &shows("lorem")).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let keys = window.find(&format!("{pane} .xterm-helper-textarea")).await;
    let asked = Instant::now();
    keys.send_keys("\u{e009}c\u{e000}").await?;
    wait_for(&window, "the answer to Ctrl-C", &shows("interrupted")).await?;
    println!(
        "  Ctrl-C in the middle of it: {} ms (target at most 250)",
        asked.elapsed().as_millis()
    );
    window.close().await;
    Ok(())
}

/// Lines of 64 characters, so that wrapping plays no part. A terminal gets each line's end as two
/// bytes; returns how many bytes it will see.
fn write_text(stage: &Stage) -> Result<u64, Box<dyn Error>> {
    const LINE: &[u8; 64] = b"lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do\n";
    let lines = MEGABYTES * 1_000_000 / 64;
    let mut file = BufWriter::new(File::create(stage.work().join("big.txt"))?);
    for _ in 0..lines {
        file.write_all(LINE)?;
    }
    file.flush()?;
    Ok(lines * 65)
}

/// Launches a command line in a native session, shows it, and returns its id.
async fn start(window: &Window, stage: &Stage, line: &str) -> Result<String, Box<dyn Error>> {
    let request = json!({
        "program": { "kind": "command", "line": line },
        "cwd": stage.work(),
        "backend": "native",
        "network": "open",
        "mode": "chat",
        "protectedPaths": [],
        "cols": 120,
        "rows": 40,
    });
    let session = call(window, "launch", json!({ "request": request })).await?;
    let id = session
        .get("id")
        .and_then(Value::as_str)
        .ok_or("a session without an id")?
        .to_owned();
    window
        .click(&format!(
            "[data-testid=session-row][data-session-id='{id}']"
        ))
        .await;
    Ok(id)
}

/// Calls a command of the engine as the page does.
async fn call(window: &Window, command: &str, payload: Value) -> Result<Value, Box<dyn Error>> {
    let script = "const [command, payload, done] = arguments; \
                  window.__TAURI_INTERNALS__.invoke(command, payload) \
                  .then(value => done({ ok: value }), error => done({ error }));";
    let answer = window
        .client()
        .execute_async(script, vec![json!(command), payload])
        .await?;
    match answer.get("error") {
        Some(error) if !error.is_null() => Err(format!("{command}: {error}").into()),
        _ => Ok(answer.get("ok").cloned().unwrap_or_default()),
    }
}

async fn wait_for(window: &Window, what: &str, script: &str) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    while window.script(script, Vec::new()).await != Value::Bool(true) {
        if began.elapsed() > PATIENCE {
            return Err(format!("not reached: {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
