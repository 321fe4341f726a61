//! The KVM canary is written for `x86_64`; elsewhere it does not run.

use crate::probe::KvmCanary;

/// Always [`KvmCanary::NotChecked`].
#[must_use]
pub fn kvm_canary() -> KvmCanary {
    KvmCanary::NotChecked
}
