//! The real guard, driven over its real protocol, on the host and in real sandboxes.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test that is how a failure is told"
)]

mod end;
mod exec;
mod forwards;
mod freeze;
mod harness;
mod masks;
mod network;
mod protection;
mod setup;
mod supervise;
mod terminal;
