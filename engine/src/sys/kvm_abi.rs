//! What of linux/kvm.h the canary uses, for `x86_64` (Documentation/virt/kvm/api.rst).

use std::mem::size_of;

// Request numbers of linux/kvm.h.
pub(super) const KVM_GET_API_VERSION: libc::c_ulong = 0xae00;
pub(super) const KVM_CREATE_VM: libc::c_ulong = 0xae01;
pub(super) const KVM_GET_VCPU_MMAP_SIZE: libc::c_ulong = 0xae04;
pub(super) const KVM_GET_SUPPORTED_CPUID: libc::c_ulong = 0xc008_ae05;
pub(super) const KVM_CREATE_VCPU: libc::c_ulong = 0xae41;
pub(super) const KVM_SET_USER_MEMORY_REGION: libc::c_ulong = 0x4020_ae46;
pub(super) const KVM_RUN: libc::c_ulong = 0xae80;
pub(super) const KVM_SET_REGS: libc::c_ulong = 0x4090_ae82;
pub(super) const KVM_GET_SREGS: libc::c_ulong = 0x8138_ae83;
pub(super) const KVM_SET_SREGS: libc::c_ulong = 0x4138_ae84;
pub(super) const KVM_SET_CPUID2: libc::c_ulong = 0x4008_ae90;

pub(super) const API_VERSION: i32 = 12;
pub(super) const EXIT_HLT: u32 = 5;

/// `struct kvm_userspace_memory_region`.
#[repr(C)]
pub(super) struct MemoryRegion {
    pub(super) slot: u32,
    pub(super) flags: u32,
    pub(super) guest_phys_addr: u64,
    pub(super) memory_size: u64,
    pub(super) userspace_addr: u64,
}

/// `struct kvm_regs`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Regs {
    /// rax rbx rcx rdx rsi rdi rsp rbp r8..r15
    pub(super) general: [u64; 16],
    pub(super) rip: u64,
    pub(super) rflags: u64,
}

/// `struct kvm_segment`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Segment {
    pub(super) base: u64,
    pub(super) limit: u32,
    pub(super) selector: u16,
    pub(super) kind: u8,
    pub(super) present: u8,
    pub(super) dpl: u8,
    pub(super) db: u8,
    pub(super) s: u8,
    pub(super) l: u8,
    pub(super) g: u8,
    pub(super) avl: u8,
    pub(super) unusable: u8,
    pub(super) padding: u8,
}

/// `struct kvm_dtable`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Table {
    pub(super) base: u64,
    pub(super) limit: u16,
    pub(super) padding: [u16; 3],
}

/// `struct kvm_sregs`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Sregs {
    pub(super) cs: Segment,
    pub(super) ds: Segment,
    pub(super) es: Segment,
    pub(super) fs: Segment,
    pub(super) gs: Segment,
    pub(super) ss: Segment,
    pub(super) tr: Segment,
    pub(super) ldt: Segment,
    pub(super) gdt: Table,
    pub(super) idt: Table,
    pub(super) cr0: u64,
    pub(super) cr2: u64,
    pub(super) cr3: u64,
    pub(super) cr4: u64,
    pub(super) cr8: u64,
    pub(super) efer: u64,
    pub(super) apic_base: u64,
    pub(super) interrupt_bitmap: [u64; 4],
}

/// `struct kvm_cpuid2` with room for what any processor says.
#[repr(C)]
pub(super) struct Cpuid {
    pub(super) entries: u32,
    pub(super) padding: u32,
    pub(super) entry: [[u32; 10]; 256],
}

const _: () = assert!(size_of::<Regs>() == 144);
const _: () = assert!(size_of::<Sregs>() == 312);
const _: () = assert!(size_of::<MemoryRegion>() == 32);
