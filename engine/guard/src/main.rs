//! guard
fn main(){}
