//! The real guard, driven over its real protocol, on the host and in real sandboxes.
#![cfg(target_os = "linux")]

mod end;
mod exec;
mod freeze;
mod harness;
mod protection;
mod setup;
mod terminal;
