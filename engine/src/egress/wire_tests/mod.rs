//! The ways in and out over real sockets of the loopback network, with a gate and a resolver of
//! the tests' own. The address guard is on; the loopback address passes it by exception only.

mod address;
mod dns;
mod ends;
mod hello;
mod http;
mod http_body;
mod limits;
mod one_verdict;
mod peers;
mod rig;
mod sessions;
mod socks5;
mod throughput;
mod transparent;
