//! The protocol between the engine and `kotak-guard`, and nothing else: the guard's own code
//! lives in the binary. Pure data, so it compiles and is tested on every OS.
pub mod proto;
