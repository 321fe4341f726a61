//! The KVM canary: a minimal virtual machine that runs three instructions of any stock kernel in
//! ring 0 of 64-bit mode: `popcnt`, `cmpxchg16b`, and `int3` through an interrupt table.
//!
//! That `/dev/kvm` opens says little: under nested virtualisation without hardware support the
//! host's kernel emulates guest kernel code, and its emulator does not know these instructions.
//! The guest lives in a forked child, so that one that never ends cannot hold the probe.
//!
//! Reference: Documentation/virt/kvm/api.rst; Intel SDM vol. 3, chapters 4 to 6.

#![expect(
    unsafe_code,
    reason = "KVM ioctls, guest memory, and the guest's own code"
)]

#[path = "kvm_abi.rs"]
mod abi;

use self::abi::{
    API_VERSION, Cpuid, EXIT_HLT, KVM_CREATE_VCPU, KVM_CREATE_VM, KVM_GET_API_VERSION,
    KVM_GET_SREGS, KVM_GET_SUPPORTED_CPUID, KVM_GET_VCPU_MMAP_SIZE, KVM_RUN, KVM_SET_CPUID2,
    KVM_SET_REGS, KVM_SET_SREGS, KVM_SET_USER_MEMORY_REGION, MemoryRegion, Regs, Segment, Sregs,
    Table,
};
use super::child::{ChildAnswer, answer_of_child, errno};
use crate::probe::KvmCanary;
use std::ffi::c_void;
use std::time::Duration;

// Guest physical memory, 64 KiB, identity mapped by one 2 MiB page.
const MEMORY_BYTES: usize = 0x1_0000;
const PML4: usize = 0x1000;
const PDPT: usize = 0x2000;
const PD: usize = 0x3000;
const GDT: usize = 0x4000;
const IDT: usize = 0x5000;
const CODE: usize = 0x6000;
/// What the guest leaves behind; also written in the assembly below.
const RESULT: usize = 0x7000;
const STACK_TOP: u64 = 0xf000;

std::arch::global_asm!(
    ".pushsection .rodata.kotak_canary, \"a\", @progbits",
    ".globl kotak_canary_start, kotak_canary_plain, kotak_canary_break, kotak_canary_fault, kotak_canary_end",
    ".hidden kotak_canary_start, kotak_canary_plain, kotak_canary_break, kotak_canary_fault, kotak_canary_end",
    "kotak_canary_start:",
    "mov byte ptr [0x7000], 1",
    "mov eax, 0xf0f0",
    "popcnt ecx, eax",
    "mov dword ptr [0x7010], ecx",
    "mov byte ptr [0x7000], 2",
    "xor eax, eax",
    "xor edx, edx",
    "mov ebx, 0x600dcafe",
    "xor ecx, ecx",
    "lock cmpxchg16b xmmword ptr [0x7020]",
    "mov byte ptr [0x7000], 3",
    "int3",
    "mov byte ptr [0x7000], 4",
    "hlt",
    // The positive control of the tests: a guest that needs none of the three.
    "kotak_canary_plain:",
    "mov byte ptr [0x7000], 4",
    "mov byte ptr [0x7001], 0x33",
    "mov dword ptr [0x7010], 8",
    "mov dword ptr [0x7020], 0x600dcafe",
    "hlt",
    "kotak_canary_break:",
    "mov byte ptr [0x7001], 0x33",
    "iretq",
    "kotak_canary_fault:",
    "hlt",
    "kotak_canary_end:",
    ".popsection",
);

unsafe extern "C" {
    static kotak_canary_start: u8;
    #[cfg(test)]
    static kotak_canary_plain: u8;
    static kotak_canary_break: u8;
    static kotak_canary_fault: u8;
    static kotak_canary_end: u8;
}

/// Runs the canary.
#[must_use]
pub fn kvm_canary() -> KvmCanary {
    run(|| attempt(Entry::Full).encode())
}

fn run(work: fn() -> [u8; ANSWER_BYTES]) -> KvmCanary {
    // SAFETY: `attempt` makes system calls and touches its own stack and mappings only; it
    // neither allocates nor panics.
    match unsafe { answer_of_child(Duration::from_secs(2), work) } {
        ChildAnswer::Answer(bytes) => Answer::decode(bytes).outcome(),
        ChildAnswer::TimedOut => KvmCanary::TimedOut,
        ChildAnswer::Died(status) => KvmCanary::Crashed(format!("wait status {status:#x}")),
        ChildAnswer::Failed(errno) => KvmCanary::Crashed(format!("errno {errno}")),
    }
}

/// Where the guest starts.
#[derive(Clone, Copy)]
enum Entry {
    Full,
    #[cfg(test)]
    Plain,
    #[cfg(test)]
    Fault,
}

const ANSWER_BYTES: usize = 16;

/// What the child has to say, in a form that crosses a pipe.
#[derive(Clone, Copy)]
struct Answer {
    /// Index into [`STEPS`].
    step: u8,
    /// How far the guest came.
    marker: u8,
    /// The guest's results are right.
    right: bool,
    errno: i32,
    exit_reason: u32,
    suberror: u32,
}

const STEPS: [&str; 11] = [
    "open",
    "KVM_GET_API_VERSION",
    "KVM_CREATE_VM",
    "mmap",
    "KVM_SET_USER_MEMORY_REGION",
    "KVM_CREATE_VCPU",
    "KVM_SET_CPUID2",
    "KVM_GET_SREGS",
    "KVM_SET_SREGS",
    "KVM_SET_REGS",
    "KVM_RUN",
];
const OPEN: u8 = 0;
const VERSION: u8 = 1;
const CREATE_VM: u8 = 2;
const MAP: u8 = 3;
const SET_MEMORY: u8 = 4;
const CREATE_VCPU: u8 = 5;
const SET_CPUID: u8 = 6;
const GET_SREGS: u8 = 7;
const SET_SREGS: u8 = 8;
const SET_REGS: u8 = 9;
const RUN: u8 = 10;

impl Answer {
    fn failed(step: u8, errno: i32) -> Self {
        Self {
            step,
            marker: 0,
            right: false,
            errno,
            exit_reason: 0,
            suberror: 0,
        }
    }

    fn encode(self) -> [u8; ANSWER_BYTES] {
        let [e0, e1, e2, e3] = self.errno.to_le_bytes();
        let [r0, r1, r2, r3] = self.exit_reason.to_le_bytes();
        let [s0, s1, s2, s3] = self.suberror.to_le_bytes();
        let right = u8::from(self.right);
        [
            self.step,
            self.marker,
            right,
            0,
            e0,
            e1,
            e2,
            e3,
            r0,
            r1,
            r2,
            r3,
            s0,
            s1,
            s2,
            s3,
        ]
    }

    fn decode(bytes: [u8; ANSWER_BYTES]) -> Self {
        let [
            step,
            marker,
            right,
            _,
            e0,
            e1,
            e2,
            e3,
            r0,
            r1,
            r2,
            r3,
            s0,
            s1,
            s2,
            s3,
        ] = bytes;
        Self {
            step,
            marker,
            right: right == 1,
            errno: i32::from_le_bytes([e0, e1, e2, e3]),
            exit_reason: u32::from_le_bytes([r0, r1, r2, r3]),
            suberror: u32::from_le_bytes([s0, s1, s2, s3]),
        }
    }

    fn outcome(self) -> KvmCanary {
        match (self.step, self.errno) {
            (OPEN, libc::ENOENT | libc::ENODEV | libc::ENXIO) => KvmCanary::NoDevice,
            (OPEN, libc::EACCES | libc::EPERM) => KvmCanary::Denied,
            (OPEN, errno) => KvmCanary::OpenFailed(errno),
            (VERSION, version) => KvmCanary::WrongVersion(version),
            (RUN, 0) if self.exit_reason == EXIT_HLT && self.right => KvmCanary::Works,
            (RUN, 0) => KvmCanary::Emulated {
                at: match self.marker {
                    0 => "mov",
                    1 => "popcnt",
                    2 => "cmpxchg16b",
                    3 => "int3",
                    _ => "hlt",
                },
                exit: exit_words(self.exit_reason, self.suberror),
            },
            (step, errno) => KvmCanary::SetupFailed {
                step: STEPS
                    .get(usize::from(step))
                    .copied()
                    .unwrap_or("unknown step"),
                errno,
            },
        }
    }
}

fn exit_words(reason: u32, suberror: u32) -> String {
    match reason {
        EXIT_HLT => "the guest took a fault".to_owned(),
        8 => "the guest shut down (triple fault)".to_owned(),
        9 => "the processor refused to enter the guest".to_owned(),
        17 if suberror == 1 => "internal error: emulation failure".to_owned(),
        17 => format!("internal error {suberror}"),
        other => format!("exit reason {other}"),
    }
}

/// Makes the machine and runs it to its first exit. Async-signal-safe.
fn attempt(entry: Entry) -> Answer {
    // SAFETY: a constant string.
    let kvm = unsafe { libc::open(c"/dev/kvm".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if kvm < 0 {
        return Answer::failed(OPEN, errno());
    }
    match build_and_run(kvm, entry) {
        Ok(answer) | Err(answer) => answer,
    }
    // The child's exit closes every descriptor and mapping.
}

fn build_and_run(kvm: i32, entry: Entry) -> Result<Answer, Answer> {
    let version = ioctl(kvm, KVM_GET_API_VERSION, std::ptr::null_mut(), VERSION)?;
    if version != API_VERSION {
        return Err(Answer::failed(VERSION, version));
    }
    let vm = ioctl(kvm, KVM_CREATE_VM, std::ptr::null_mut(), CREATE_VM)?;
    let memory = map(-1, MEMORY_BYTES)?;
    // SAFETY: just mapped, zeroed, of this length, and nobody else knows of it.
    let guest = unsafe { std::slice::from_raw_parts_mut(memory, MEMORY_BYTES) };
    let rip = fill(guest, entry);
    let mut region = MemoryRegion {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: MEMORY_BYTES as u64,
        userspace_addr: memory as u64,
    };
    ioctl(
        vm,
        KVM_SET_USER_MEMORY_REGION,
        (&raw mut region).cast(),
        SET_MEMORY,
    )?;
    let vcpu = ioctl(vm, KVM_CREATE_VCPU, std::ptr::null_mut(), CREATE_VCPU)?;

    let mut cpuid = Cpuid {
        entries: 256,
        padding: 0,
        entry: [[0; 10]; 256],
    };
    ioctl(
        kvm,
        KVM_GET_SUPPORTED_CPUID,
        (&raw mut cpuid).cast(),
        SET_CPUID,
    )?;
    ioctl(vcpu, KVM_SET_CPUID2, (&raw mut cpuid).cast(), SET_CPUID)?;

    let mut sregs = Sregs::default();
    ioctl(vcpu, KVM_GET_SREGS, (&raw mut sregs).cast(), GET_SREGS)?;
    long_mode(&mut sregs);
    ioctl(vcpu, KVM_SET_SREGS, (&raw mut sregs).cast(), SET_SREGS)?;
    let mut regs = Regs {
        rip,
        rflags: 2,
        ..Regs::default()
    };
    regs.general[6] = STACK_TOP;
    ioctl(vcpu, KVM_SET_REGS, (&raw mut regs).cast(), SET_REGS)?;

    let run_bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, std::ptr::null_mut(), MAP)?;
    let run = map(vcpu, usize::try_from(run_bytes).unwrap_or(0))?;
    loop {
        match ioctl(vcpu, KVM_RUN, std::ptr::null_mut(), RUN) {
            Err(answer) if answer.errno == libc::EINTR => {}
            Err(answer) => return Err(answer),
            Ok(_) => break,
        }
    }
    let result = &guest[RESULT..];
    let popcnt = u32::from_le_bytes([result[0x10], result[0x11], result[0x12], result[0x13]]);
    let swapped = u32::from_le_bytes([result[0x20], result[0x21], result[0x22], result[0x23]]);
    Ok(Answer {
        step: RUN,
        marker: result[0],
        right: result[0] == 4 && result[1] == 0x33 && popcnt == 8 && swapped == 0x600d_cafe,
        errno: 0,
        exit_reason: run_word(run, 8),
        suberror: run_word(run, 32),
    })
}

/// A word of `struct kvm_run`: `exit_reason` at 8, the exit's own data from 32.
fn run_word(run: *mut u8, offset: usize) -> u32 {
    // SAFETY: `struct kvm_run` is at least a page long, and the offset is below 64.
    let word = unsafe { run.add(offset) };
    // SAFETY: inside the mapping, aligned to 4, and the kernel does not write while no vCPU runs.
    unsafe { word.cast::<u32>().read_volatile() }
}

/// Page tables, descriptor tables, code. Returns where to start.
fn fill(guest: &mut [u8], entry: Entry) -> u64 {
    put(guest, PML4, PDPT as u64 | 3);
    put(guest, PDPT, PD as u64 | 3);
    put(guest, PD, 0x83);
    put(guest, GDT + 8, 0x00af_9b00_0000_ffff);
    put(guest, GDT + 16, 0x00cf_9300_0000_ffff);

    let start = &raw const kotak_canary_start as usize;
    let at = |label: *const u8| CODE + (label as usize - start);
    let length = at(&raw const kotak_canary_end) - CODE;
    for (index, byte) in guest[CODE..CODE + length].iter_mut().enumerate() {
        // SAFETY: between the start and the end label of the same section.
        let source = unsafe { (&raw const kotak_canary_start).add(index) };
        // SAFETY: a readable byte of that section.
        *byte = unsafe { source.read() };
    }
    let fault = at(&raw const kotak_canary_fault) as u64;
    let breakpoint = at(&raw const kotak_canary_break) as u64;
    for vector in 0..32usize {
        let handler = if vector == 3 { breakpoint } else { fault };
        // Interrupt gate, present, selector 8; all handlers lie below 64 KiB.
        put(
            guest,
            IDT + vector * 16,
            (handler & 0xffff) | (8 << 16) | (0x8e00 << 32),
        );
    }
    match entry {
        Entry::Full => CODE as u64,
        #[cfg(test)]
        Entry::Plain => at(&raw const kotak_canary_plain) as u64,
        #[cfg(test)]
        Entry::Fault => fault,
    }
}

fn put(guest: &mut [u8], at: usize, value: u64) {
    guest[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn long_mode(sregs: &mut Sregs) {
    let data = Segment {
        limit: 0xffff_ffff,
        selector: 0x10,
        kind: 3,
        present: 1,
        db: 1,
        s: 1,
        g: 1,
        ..Segment::default()
    };
    sregs.cs = Segment {
        selector: 8,
        kind: 11,
        db: 0,
        l: 1,
        ..data
    };
    for segment in [
        &mut sregs.ds,
        &mut sregs.es,
        &mut sregs.fs,
        &mut sregs.gs,
        &mut sregs.ss,
    ] {
        *segment = data;
    }
    sregs.tr = Segment {
        limit: 0x67,
        kind: 11,
        present: 1,
        ..Segment::default()
    };
    sregs.ldt = Segment {
        unusable: 1,
        ..Segment::default()
    };
    sregs.gdt = Table {
        base: GDT as u64,
        limit: 0x17,
        padding: [0; 3],
    };
    sregs.idt = Table {
        base: IDT as u64,
        limit: 0x1ff,
        padding: [0; 3],
    };
    sregs.cr0 = 0x8005_0033; // PE MP ET NE WP AM PG
    sregs.cr3 = PML4 as u64;
    sregs.cr4 = 0x20; // PAE
    sregs.efer = 0x500; // LME LMA
}

/// One ioctl whose argument is null or points to the structure that belongs to the request.
fn ioctl(fd: i32, request: libc::c_ulong, argument: *mut c_void, step: u8) -> Result<i32, Answer> {
    // SAFETY: callers pair each request with a live structure of its type, or null where the
    // request takes none; the layouts are asserted above.
    let result = unsafe { libc::ioctl(fd, request, argument) };
    if result < 0 {
        Err(Answer::failed(step, errno()))
    } else {
        Ok(result)
    }
}

/// Maps anonymous memory (`fd` -1) or a vCPU's run area.
fn map(fd: i32, bytes: usize) -> Result<*mut u8, Answer> {
    let flags = if fd < 0 {
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS
    } else {
        libc::MAP_SHARED
    };
    // SAFETY: a fresh mapping; the kernel chooses where.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            fd,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        Err(Answer::failed(MAP, errno()))
    } else {
        Ok(address.cast())
    }
}

#[cfg(test)]
#[path = "kvm_tests.rs"]
mod tests;
