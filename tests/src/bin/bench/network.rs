//! A new connection and the throughput: direct, through Kotak, through its socat bridge, and through
//! npm's `@anthropic-ai/sandbox-runtime` in a sandbox of its own. One client, one server, one run.

use crate::network_client;
use kotak_tests::Stage;
use kotak_tests::net::world;
use serde_json::Value;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

/// A new connection through Kotak against a direct one: at most.
const TARGET_NEW: f64 = 2.0;
/// A new connection through the socat bridge against one through Kotak: at least.
const TARGET_BRIDGE: f64 = 5.0;
/// Throughput through Kotak, GB/s: at least.
const TARGET_FLOW: f64 = 1.0;

/// One way to the server.
struct Measured {
    name: &'static str,
    /// Median of a new connection, microseconds.
    new: f64,
    /// GB/s.
    flow: f64,
}

pub(crate) fn measure() -> Result<(), Box<dyn Error>> {
    let host = world().name("bench.example.net");
    let stage = Stage::new();
    // Inside a sandbox only the working directory is sure to be seen.
    let client = stage.work().join("bench");
    std::fs::copy(std::env::current_exe()?, &client)?;
    let client = client.display().to_string();
    let direct = run(
        "direct",
        Command::new(&client).args([network_client::NAME, host]),
    )?;
    println!("Network, medians (new connection: a byte there and back):");
    tell(&direct, &direct);
    let ours = kotak("through Kotak", &stage, host, &client, &[])?;
    tell(&ours, &direct);
    let bridge = kotak(
        "through the socat bridge",
        &stage,
        host,
        &client,
        &["--bridge", "socat"],
    )?;
    tell(&bridge, &direct);
    println!(
        "  new connection: Kotak / direct {:.2} (target at most {TARGET_NEW}), bridge / Kotak {:.1} \
         (target at least {TARGET_BRIDGE}); throughput {:.2} GB/s (target at least {TARGET_FLOW})",
        ours.new / direct.new,
        bridge.new / ours.new,
        ours.flow,
    );
    match std::env::var_os("KOTAK_BENCH_SRT") {
        None => println!("  sandbox-runtime is not installed: `make bench` does it"),
        Some(program) => {
            let peer = sandbox_runtime(Path::new(&program), &stage, host, &client)?;
            tell(&peer, &direct);
            println!(
                "  sandbox-runtime / Kotak: new connection {:.1}, throughput {:.2}",
                peer.new / ours.new,
                peer.flow / ours.flow,
            );
        }
    }
    Ok(())
}

fn tell(measured: &Measured, direct: &Measured) {
    println!(
        "  {}: new connection {:.0} µs ({:.2} of direct), {:.2} GB/s ({:.2} of direct)",
        measured.name,
        measured.new,
        measured.new / direct.new,
        measured.flow,
        measured.flow / direct.flow,
    );
}

fn kotak(
    name: &'static str,
    stage: &Stage,
    host: &str,
    client: &str,
    extra: &[&str],
) -> Result<Measured, Box<dyn Error>> {
    let call = stage.kotak();
    let call = call
        .args(["run", "--backend", "native", "--profile", "terminal"])
        .args(["--network", "allowlist", "--allow", host])
        .args(extra)
        .args(["--", client, network_client::NAME, host]);
    run(name, &mut call.command())
}

fn sandbox_runtime(
    program: &Path,
    stage: &Stage,
    host: &str,
    client: &str,
) -> Result<Measured, Box<dyn Error>> {
    let settings = serde_json::json!({
        "network": { "allowedDomains": [host], "deniedDomains": [] },
        "filesystem": { "denyRead": [], "allowWrite": ["."], "denyWrite": [] },
    });
    let file = stage.work().join("srt-settings.json");
    std::fs::write(&file, settings.to_string())?;
    let line = format!("{client} {} {host}", network_client::NAME);
    let mut command = Command::new(program);
    command.arg("-s").arg(file).args(["-c", &line]);
    command.current_dir(stage.work()).env("HOME", stage.home());
    run("through sandbox-runtime", &mut command)
}

fn run(name: &'static str, command: &mut Command) -> Result<Measured, Box<dyn Error>> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with('{'));
    let result: Option<Value> = line.and_then(|line| serde_json::from_str(line).ok());
    let number = |key: &str| result.as_ref().and_then(|result| result[key].as_f64());
    let (Some(new), Some(bytes), Some(seconds)) =
        (number("newMicros"), number("bytes"), number("seconds"))
    else {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}: {text}{said}", output.status).into());
    };
    let flow = bytes / seconds / 1e9;
    Ok(Measured { name, new, flow })
}
