//! Floods: no byte lost, memory bounded, the keyboard still answers.

use kotak_tests::panel::{Panel, control, pane};
use serde_json::json;

/// CRC-32 (ISO 3309), bit by bit: slow, but plainly the standard's.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

#[tokio::test(flavor = "multi_thread")]
async fn three_million_lines_reach_the_terminal_unchanged() {
    const LINES: u32 = 3_000_000;
    let panel = Panel::open().await;
    let id = panel.start("native", Some(&format!("seq 1 {LINES}"))).await;
    let expected = (1..=LINES).map(|n| format!("{n}\r\n"));
    let bytes: u64 = expected.clone().map(|line| line.len() as u64).sum();
    let crc = crc32(expected.flat_map(String::into_bytes));
    show_about(&panel).await;
    panel.phase(&id, "ended").await;
    panel
        .window
        .until(
            "every byte reached the terminal",
            &format!(
                "const check = document.querySelector('[data-testid=output-check]'); \
                 return !!check && Number(check.dataset.bytes) >= {bytes};"
            ),
        )
        .await;
    let seen = panel
        .window
        .script(
            "const check = document.querySelector('[data-testid=output-check]'); \
             return [Number(check.dataset.bytes), check.dataset.crc];",
            Vec::new(),
        )
        .await;
    assert_eq!(seen, json!([bytes, format!("{crc:08x}")]));
    panel.close().await;
}

/// Waits until the terminal has drawn that many bytes since the page was loaded; how many it has,
/// and their CRC-32.
async fn drawn(panel: &Panel, bytes: u64) -> serde_json::Value {
    let what = format!("{bytes} bytes reached the terminal");
    let check = "const check = document.querySelector('[data-testid=output-check]');";
    let enough = format!("{check} return !!check && Number(check.dataset.bytes) >= {bytes};");
    panel.window.until(&what, &enough).await;
    let script = format!("{check} return [Number(check.dataset.bytes), check.dataset.crc];");
    panel.window.script(&script, Vec::new()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_during_a_flood_loses_no_byte() {
    // Less than what the engine keeps for a window that comes back: 4 MiB.
    const LINES: u32 = 450_000;
    const BEFORE: u32 = 100_000;
    let panel = Panel::open().await;
    panel.stage.write(
        "work/flood.sh",
        &format!(
            "seq 1 {BEFORE}; while [ ! -e go ]; do sleep 0.02; done; seq {} {LINES}\n",
            BEFORE + 1
        ),
    );
    let bytes_of = |last: u32| {
        (1..=last)
            .map(|n| format!("{n}\r\n").len() as u64)
            .sum::<u64>()
    };
    let crc = crc32((1..=LINES).flat_map(|n| format!("{n}\r\n").into_bytes()));
    let id = panel.start("native", Some("sh flood.sh")).await;
    show_about(&panel).await;
    let first = drawn(&panel, bytes_of(BEFORE)).await;
    assert_eq!(first[0], json!(bytes_of(BEFORE)), "the control failed");
    panel.stage.write("work/go", "");
    drawn(&panel, bytes_of(BEFORE) + 1).await;
    for _ in 0..2 {
        panel.window.client().refresh().await.expect("a reload");
        panel.reveal(&id).await;
    }
    show_about(&panel).await;
    panel.phase(&id, "ended").await;
    let seen = drawn(&panel, bytes_of(LINES)).await;
    assert_eq!(seen, json!([bytes_of(LINES), format!("{crc:08x}")]));
    panel.close().await;
}

async fn show_about(panel: &Panel) {
    panel.window.until("the inspector's About tab", "
        if (document.querySelector('[data-testid=output-check]')) return true;
        const tab = [...document.querySelectorAll('[role=tab]')].find(t => t.textContent.trim() === 'About');
        if (tab) tab.click();
        return false;
    ").await;
}

/// Resident memory of the panel and its web processes, in MiB.
fn resident_mib(panel_pid: i32) -> u64 {
    let mut total = 0;
    let mut pending = vec![panel_pid];
    while let Some(pid) = pending.pop() {
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let pages: u64 = statm
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or_default();
        total += pages * 4 / 1024;
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if comm.contains("kotak") || comm.contains("WebKit") {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            pending.extend(
                children
                    .unwrap_or_default()
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            );
        }
    }
    total
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_keeps_memory_bounded_and_the_interrupt_key_answers() {
    let panel = Panel::open().await;
    let id = panel.start("native", None).await;
    panel.phase(&id, "running").await;
    panel.line(&id, "echo rea''dy").await;
    panel.shows(&id, "ready").await;
    let pid = panel.window.panel_pid();
    let before = resident_mib(pid);
    panel.line(&id, "yes").await;
    panel.window.until("the flood", &format!(
        "return document.querySelector(\"{} .xterm-rows\").textContent.startsWith('yyyyyy')", pane(&id))).await;
    // Let it run long enough that an unbounded queue would show: yes writes gigabytes a second.
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let after = resident_mib(pid);
    let asked = std::time::Instant::now();
    panel.keys(&id, &control('c')).await;
    panel.line(&id, "echo back-$((1+1))").await;
    panel.shows(&id, "back-2").await;
    println!(
        "Ctrl-C during `yes`: the next command's answer after {:?}",
        asked.elapsed()
    );
    println!("resident before {before} MiB, after 10 s of flood {after} MiB");
    assert!(
        after < before + 400,
        "memory grew from {before} to {after} MiB"
    );
    panel.close().await;
}
