//! `kotak-guard native FD` is PID 1 of a native sandbox; `kotak-guard host FD` watches over a
//! session without one. FD is the control socket, inherited from the engine.
//!
//! One thread, one event loop: nothing here may wait for the engine, the payload or a file
//! system while there are processes to reap.

#[cfg(target_os = "linux")]
mod guard;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    guard::run()
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("kotak-guard: this program is for Linux");
    std::process::ExitCode::from(2)
}
