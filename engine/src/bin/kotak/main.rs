//! kotak
fn main() {}
