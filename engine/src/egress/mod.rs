//! Egress: what a session may reach, decided by one pure function and enforced by a pair of
//! proxies of its own (REQ EG-1…12).
//!
//! | module | what | touches the host |
//! |---|---|---|
//! | [`address`] | the address guard: what is no part of the public network | no |
//! | [`rules`] | the rules of one session as a value, indexed | no |
//! | [`ask`] | the questions to the operator, and who waits for their answers | no |
//! | [`decide`] | one verdict for one request: allow with its source, deny with its reason, or ask | no |
//! | [`explain`] | a decision and its way out, in words | no |
//! | [`journal`] | what happened, on its way to the history | no |
//! | [`session`] | the network of one session: judges, asks, puts down | no |
//! | [`gate`] | what the proxies ask of the session, and tell it | no |
//! | [`pair`] | the HTTP and SOCKS5 proxies, DNS and transparent listeners of a session | sockets |
//! | [`http`], [`socks5`], [`dns`], `transparent` | the ways in | sockets |
//! | [`tls`] | the server name of a ClientHello | no |
//! | [`dial`], [`resolve`], [`stream`] | the way out, the streams | sockets |
//! | [`forward`] | a port or a socket that was granted | sockets |
//! | [`pool`] | names and their addresses inside | no |
//!
//! Every route (HTTP, SOCKS5, transparent, DNS) makes an [`gate::Attempt`] and puts it to the
//! session's [`gate::Gate`]; none decides anything by itself. What a grant opens stands beside
//! them: it leads to one place, and is no route to any other.

mod accepting;
pub mod address;
pub mod ask;
mod baseline;
pub mod decide;
pub mod dial;
pub mod dns;
pub mod explain;
mod first_bytes;
pub mod forward;
pub mod gate;
pub mod http;
mod index;
pub mod journal;
pub mod limits;
pub mod pair;
pub mod pool;
mod relay;
pub mod resolve;
pub mod rules;
pub mod session;
mod slots;
pub mod socks5;
pub mod stream;
mod ticket;
pub mod tls;
mod transparent;
#[cfg(test)]
mod wire_tests;

pub use crate::policy::{HTTP_PORT, SOCKS_PORT};
