//! End to end: the real window on a virtual display, driven through WebDriver, with real shells in
//! real sandboxes behind it. One test at a time: each has its own display, bus and home.

mod badges;
mod flood;
mod panel;
mod survival;
mod terminal;
