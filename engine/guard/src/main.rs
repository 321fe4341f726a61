//! guard
fn main() {}
