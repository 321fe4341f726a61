//! What the engine and `kotak-guard` share: their protocol, and how the kernel's socket tables
//! read. The guard's own code lives in the binary. The messages and their framing are pure data, so they compile and are
//! tested on every OS; the socket itself exists on Linux only.
pub mod proto;
pub mod table;
pub mod wire;
