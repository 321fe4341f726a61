//! System-call filters of native sessions, as classic BPF.

use kotak_guard::proto::BpfInsn;

/// Architectures with a system-call table here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeccompArch {
    /// x86-64.
    X86_64,
    /// AArch64, little-endian.
    Aarch64,
}

impl SeccompArch {
    /// The architecture named as `std::env::consts::ARCH` names it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }
}

/// The programs that every exec child loads, in order.
#[must_use]
pub fn seccomp_program(_arch: SeccompArch) -> Vec<Vec<BpfInsn>> {
    Vec::new()
}
