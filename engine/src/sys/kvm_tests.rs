//! The canary's own tests.

use super::*;

/// Machines can be made here, so that the guest's own result means something.
fn machines_can_be_made() -> bool {
    match kvm_canary() {
        KvmCanary::NoDevice
        | KvmCanary::Denied
        | KvmCanary::OpenFailed(_)
        | KvmCanary::WrongVersion(_)
        | KvmCanary::SetupFailed { .. } => false,
        KvmCanary::Works | KvmCanary::Emulated { .. } | KvmCanary::TimedOut => true,
        outcome @ (KvmCanary::NotChecked | KvmCanary::Crashed(_)) => panic!("{outcome:?}"),
    }
}

#[test]
fn the_outcome_agrees_with_whether_the_device_can_be_opened() {
    let open = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    let outcome = kvm_canary();
    let closed = matches!(
        outcome,
        KvmCanary::NoDevice | KvmCanary::Denied | KvmCanary::OpenFailed(_)
    );
    assert_eq!(open.is_err(), closed, "{outcome:?}");
}

#[test]
fn a_guest_that_needs_none_of_the_instructions_halts_as_it_should() {
    if machines_can_be_made() {
        assert_eq!(run(|| attempt(Entry::Plain).encode()), KvmCanary::Works);
    }
}

#[test]
fn a_guest_that_halts_without_its_results_is_not_taken_for_a_working_one() {
    if machines_can_be_made() {
        let exit = "the guest took a fault".to_owned();
        let wanted = KvmCanary::Emulated { at: "mov", exit };
        assert_eq!(run(|| attempt(Entry::Fault).encode()), wanted);
    }
}

#[test]
fn every_way_to_fail_has_its_own_outcome() {
    let outcome = |step, errno| Answer::failed(step, errno).outcome();
    assert_eq!(outcome(OPEN, libc::ENOENT), KvmCanary::NoDevice);
    assert_eq!(outcome(OPEN, libc::EACCES), KvmCanary::Denied);
    assert_eq!(
        outcome(OPEN, libc::EBUSY),
        KvmCanary::OpenFailed(libc::EBUSY)
    );
    assert_eq!(outcome(VERSION, 11), KvmCanary::WrongVersion(11));
    assert_eq!(
        outcome(CREATE_VCPU, libc::ENOMEM),
        KvmCanary::SetupFailed {
            step: "KVM_CREATE_VCPU",
            errno: libc::ENOMEM
        }
    );
    let ran = |marker, right, exit_reason, suberror| {
        Answer {
            step: RUN,
            marker,
            right,
            errno: 0,
            exit_reason,
            suberror,
        }
        .outcome()
    };
    assert_eq!(ran(4, true, EXIT_HLT, 0), KvmCanary::Works);
    assert_eq!(
        ran(1, false, 17, 1),
        KvmCanary::Emulated {
            at: "popcnt",
            exit: "internal error: emulation failure".to_owned()
        }
    );
    assert_eq!(
        ran(3, false, 8, 0),
        KvmCanary::Emulated {
            at: "int3",
            exit: "the guest shut down (triple fault)".to_owned()
        }
    );
}

#[test]
fn answers_cross_the_pipe_unchanged() {
    let answer = Answer {
        step: 10,
        marker: 3,
        right: true,
        errno: -5,
        exit_reason: 17,
        suberror: 9,
    };
    let bytes = answer.encode();
    assert_eq!(Answer::decode(bytes).encode(), bytes);
    assert_eq!(Answer::decode(bytes).errno, -5);
    assert_eq!(Answer::decode(bytes).suberror, 9);
}
