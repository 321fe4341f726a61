//! Builds the guard as a static binary and tells where it is and what its hash is, so that the
//! engine carries it inside (`src/process/guard_image.rs`).
//!
//! The guard is built by a cargo of its own, with its own flags and target directory: it is
//! static and does not unwind, whatever the engine is built with.

use sha2::{Digest, Sha256};
use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

/// What the guard is made of, from the engine's directory.
const SOURCES: [&str; 4] = [
    "guard/src",
    "guard/Cargo.toml",
    "../Cargo.toml",
    "../Cargo.lock",
];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    // The guard runs on Linux; elsewhere there is nothing to carry.
    if env::var_os("CARGO_CFG_TARGET_OS").is_none_or(|os| os != "linux") {
        return ExitCode::SUCCESS;
    }
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn embed() -> Result<(), String> {
    let target = text_variable("TARGET")?;
    let directory = path_variable("OUT_DIR")?.join("guard");
    // What this cargo needs, the engine's cargo has fetched: the guard is its dependency too.
    // Only where that does not hold may it look further.
    if let Err(offline) = build(&target, &directory, Fetch::Never) {
        build(&target, &directory, Fetch::Missing)
            .map_err(|online| format!("{online} (and offline: {offline})"))?;
    }
    let guard = directory.join(&target).join("guard").join("kotak-guard");
    let image = fs::read(&guard).map_err(|error| format!("{}: {error}", guard.display()))?;
    let mut digest = String::new();
    for byte in Sha256::digest(&image) {
        write!(digest, "{byte:02x}").map_err(|error| error.to_string())?;
    }
    println!("cargo::rustc-env=KOTAK_GUARD_PATH={}", guard.display());
    println!("cargo::rustc-env=KOTAK_GUARD_SHA256={digest}");
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fetch {
    Never,
    Missing,
}

fn build(target: &str, directory: &Path, fetch: Fetch) -> Result<(), String> {
    let workspace = path_variable("CARGO_MANIFEST_DIR")?.join("..");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(workspace)
        .args(["build", "--quiet", "--locked"])
        .args([
            "--package",
            "kotak-guard",
            "--bin",
            "kotak-guard",
            "--profile",
            "guard",
        ])
        .args(["--target", target, "--target-dir"])
        .arg(directory)
        .stdin(Stdio::null());
    if fetch == Fetch::Never {
        command.arg("--offline");
    }
    for (name, _) in env::vars_os().filter(|(name, _)| belongs_to_the_outer_build(name)) {
        command.env_remove(name);
    }
    command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    let output = command
        .output()
        .map_err(|error| format!("cargo for the guard: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    // A directive is one line.
    Err(format!(
        "the guard cannot be built: {}",
        text.trim().replace('\n', " | ")
    ))
}

/// Variables by which the outer cargo, clippy or a coverage tool would change how the guard is
/// built. The job server and the ways to reach a registry stay.
fn belongs_to_the_outer_build(name: &OsString) -> bool {
    const KEPT: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_MAKEFLAGS",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
    ];
    let Some(name) = name.to_str() else {
        return false;
    };
    match name {
        "RUSTFLAGS" | "RUSTC_WORKSPACE_WRAPPER" | "CLIPPY_ARGS" | "CLIPPY_CONF_DIR" => true,
        name => name.starts_with("CARGO_") && !KEPT.iter().any(|prefix| name.starts_with(prefix)),
    }
}

fn text_variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn path_variable(name: &str) -> Result<PathBuf, String> {
    env::var_os(name)
        .map(PathBuf::from)
        .ok_or_else(|| format!("{name} is not set"))
}
