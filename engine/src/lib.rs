//! The sandbox engine of Kotak.
//!
//! Data flows one way: `spec → ValidSpec → Policy → LaunchPlan → process → Event → store → api`.
//! A stage may use earlier stages, never later ones; only [`manager`] composes them.
//!
//! | module | what | touches the host |
//! |---|---|---|
//! | [`spec`] | `SandboxSpec` and its validation into `ValidSpec` | no |
//! | [`probe`] | `HostReport`: what this machine can do, and why not | facts only, through traits |
//! | [`policy`] | `Policy`: what a session may do | only through `HostFs` |
//! | [`backend`] | `LaunchPlan` generators: bubblewrap, seccomp | no |
//! | [`egress`] | the decision, the proxies, ask first | sockets |
//! | [`desk`] | the local socket by which engines share questions | a socket of its own |
//! | [`process`] | spawning, the guard link, PTYs | yes |
//! | [`events`] | what happens to a session | no |
//! | [`store`] | SQLite, settings, logs | files of its own |
//! | [`manager`] | `SandboxPort`, `SandboxManager`, the session state machine | composes |
//! | [`api`] | what the window and the command see | no |
//! | [`workspace`] | facts about folders, presets on PATH | reads only |
//! | [`sys`] | the only unsafe code | yes |

pub mod api;
pub mod backend;
pub mod desk;
pub mod egress;
pub mod error;
pub mod events;
#[cfg(test)]
pub(crate) mod golden;
pub mod manager;
pub mod policy;
pub mod probe;
pub mod process;
pub mod spec;
pub mod store;
pub mod sys;
pub mod workspace;
