//! kotak
fn main(){}
