//! End to end: the real window on a virtual display, driven through WebDriver, with real shells in
//! real sandboxes behind it. One test at a time: each has its own display, bus and home.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot be set up fails, and says why"
)]

mod badges;
mod files;
mod flood;
mod log;
mod survival;
mod terminal;
