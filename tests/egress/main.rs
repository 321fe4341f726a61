//! Egress on real sockets (REQ EG-1…12): real clients inside the real sandbox, real servers at
//! addresses of a public range in a network namespace of the tests' own, so that the address guard
//! stays on and nothing leaves the machine. Runs as root and as an ordinary user; `make test` does
//! both.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot be set up fails, and says why"
)]

mod abuse;
mod addresses;
mod ask;
mod bridges;
mod clients;
mod desk;
mod direct;
mod forwards;
mod hostile;
mod http;
mod ignores;
mod isolation;
mod lists;
mod load;
mod memory;
mod property;
mod rules;
mod sandbox;
mod terminal;
mod tls;
mod tools;
mod tunnels;
