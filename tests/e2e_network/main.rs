//! The network in the real window (REQ EG-9, UI-4, UI-5, UI-8, UI-9): real programs in real
//! sandboxes ask, a person answers in the window, and real servers tell what passed. In a network
//! namespace of its own, from which nothing can leave. One test at a time: each has its own
//! display, bus and home.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot be set up fails, and says why"
)]

mod answers;
mod history;
mod names;
mod questions;
mod timing;
