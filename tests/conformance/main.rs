//! Conformance of the native backend on the real kernel: one attempt after another, each with the
//! right result and a positive control. Runs as root inside an outer namespace and as an ordinary
//! user; `make test` does both. See `docs/security.md` for the promise each test shows.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot be set up fails, and says why"
)]

mod binds;
mod environment;
mod host_edits;
mod input;
mod lifecycle;
mod network;
mod processes;
mod races;
mod reads;
mod repositories;
mod sessions;
mod sockets;
mod storage;
mod tools;
mod writes;
