//! The protocol between the engine and `kotak-guard`, and nothing else: the guard's own code
//! lives in the binary. The messages and their framing are pure data, so they compile and are
//! tested on every OS; the socket itself exists on Linux only.
pub mod proto;
pub mod wire;
