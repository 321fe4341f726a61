//! Set-ups that cannot be supervised are refused, and nothing runs.

use crate::harness::{User, Workspace, users};
use kotak_guard::proto::{BpfInsn, Role, Setup};

fn every_user(test: impl Fn(User)) {
    users().iter().for_each(|user| test(*user));
}

fn refusal(user: User, change: impl FnOnce(&mut Setup)) -> Option<(String, String)> {
    let refused = Workspace::try_new(user, |_, _| {}, change).err();
    refused.map(|check| (check.name, check.detail))
}

fn answer(k: u32) -> BpfInsn {
    BpfInsn {
        code: 0x06,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Lets one call wait and no other.
fn only(call: libc::c_long) -> Vec<BpfInsn> {
    let insn = |code, jf, k| BpfInsn { code, jt: 0, jf, k };
    vec![
        insn(0x20, 0, 0),
        insn(0x15, 1, u32::try_from(call).unwrap()),
        answer(libc::SECCOMP_RET_USER_NOTIF),
        answer(libc::SECCOMP_RET_ALLOW),
    ]
}

#[test]
fn a_set_up_whose_rules_cannot_hold_is_refused_by_name() {
    every_user(|user| {
        assert_eq!(refusal(user, |_| {}), None);
        let detail = |change: &dyn Fn(&mut Setup)| {
            let (name, detail) = refusal(user, change).unwrap();
            assert_eq!(name, "files");
            detail
        };
        let none = detail(&|setup| setup.seccomp = vec![vec![answer(libc::SECCOMP_RET_ALLOW)]]);
        assert!(none.contains("no seccomp program"), "{none}");
        let ruleless = detail(&|setup| setup.files = None);
        assert!(ruleless.contains("no rules"), "{ruleless}");
        let early = detail(&|setup| {
            setup.seccomp.push(vec![answer(libc::SECCOMP_RET_ALLOW)]);
            setup.seccomp.push(only(libc::SYS_openat));
        });
        assert!(early.contains("only the last"), "{early}");
        let glob = detail(&|setup| {
            let rules = setup.files.as_mut().unwrap();
            rules.names.push("[".to_owned());
        });
        assert!(glob.contains("no pattern"), "{glob}");
        let nowhere = detail(&|setup| match &mut setup.role {
            Role::Native(expect) => expect.private.clear(),
            Role::Host => {}
        });
        assert!(nowhere.contains("no private directory"), "{nowhere}");
    });
}

#[test]
fn a_program_that_lets_names_through_is_found_out_by_the_trial() {
    every_user(|user| {
        let (name, detail) = refusal(user, |setup| {
            setup.seccomp = vec![only(libc::SYS_execve)];
        })
        .unwrap();
        assert_eq!(name, "files");
        assert!(detail.contains("was made in the trial"), "{detail}");
    });
}
