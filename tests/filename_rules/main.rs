//! Rules for the names of files on the real kernel (REQ BW-5, SP-1): raw system calls, each with
//! the errno that it gets inside, nothing new on the host, one violation that names the action, the
//! path and the program, and the same call without the rule, which succeeds. As root inside an outer
//! namespace and as an ordinary user; `make test` does both.
//!
//! `KOTAK_RACE_SECONDS` is how long each race runs: 2 when not given.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot be set up fails, and says why"
)]

mod cases;
mod change;
mod create;
mod entry;
mod guard;
mod links;
mod native;
mod places;
mod protected;
mod races;
mod repositories;
