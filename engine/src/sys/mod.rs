//! The only unsafe code of the engine: thin, audited wrappers over system calls.

#[cfg(unix)]
pub mod async_fd;
#[cfg(target_os = "linux")]
pub mod child;
#[cfg(unix)]
pub mod exit;
#[cfg(target_os = "linux")]
#[cfg_attr(target_arch = "x86_64", path = "kvm_x86_64.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "kvm_other.rs")]
pub mod kvm;
#[cfg(target_os = "linux")]
pub mod landlock;
#[cfg(unix)]
pub mod pty;
#[cfg(target_os = "linux")]
pub mod seccomp;
#[cfg(target_os = "linux")]
pub mod spawn;
#[cfg(unix)]
pub mod tty;
#[cfg(target_os = "linux")]
pub mod userns;
#[cfg(target_os = "linux")]
mod vfork;
