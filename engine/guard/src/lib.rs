//! What the engine and `kotak-guard` share: their protocol, how the kernel's socket tables read,
//! and what the file rules say. The guard's own code lives in the binary. The messages and their framing are pure data, so they compile and are
//! tested on every OS; the socket itself exists on Linux only.
pub mod judge;
pub mod proto;
pub mod table;
pub mod wire;
