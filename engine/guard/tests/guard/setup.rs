//! What the guard verifies before anything runs. REQ BK-7, PR-7, TM-3.

use crate::harness::{
    BINARY, Flags, Guard, Place, Program, User, expectation, host_setup, marker, native_setup,
    shared_directory, users,
};
use kotak_guard::{
    proto::{
        BpfInsn, Event, ExitStatus, Expectation, LandlockPlan, MountCheck, Namespace, Request,
        Setup,
    },
    wire::encode,
};
use std::{
    fs,
    io::Write,
    os::{
        fd::AsFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::{MetadataExt, PermissionsExt, symlink},
            net::{SocketAddr, UnixListener},
        },
    },
    path::Path,
    process::Command,
};

/// The name of the check that refuses, or `None` when the guard is ready.
fn refusal(place: &Place, setup: Setup) -> Option<String> {
    Guard::start_with(place, setup)
        .err()
        .map(|check| check.name)
}

fn refusal_of(place: &Place, change: impl FnOnce(&mut Expectation)) -> Option<String> {
    let mut expect = expectation();
    change(&mut expect);
    refusal(place, native_setup(expect))
}

#[test]
fn a_sandbox_as_expected_is_ready_and_says_what_was_seen() {
    for user in users() {
        let place = Place::Native(*user, Flags::default());
        let (_guard, report) = Guard::start_with(&place, native_setup(expectation())).unwrap();
        assert_eq!(report.cap_eff, 0);
        assert!(!report.signals_scoped && !report.abstract_unix_scoped);
        let names: Vec<&str> = report
            .passed
            .iter()
            .map(|check| check.name.as_str())
            .collect();
        for name in [
            "pid-namespace",
            "namespace",
            "capabilities",
            "no-new-privileges",
            "loopback-only",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
    }
}

#[test]
fn scopes_are_in_force_or_their_lack_is_told_or_refused() {
    for user in users() {
        let place = Place::Native(*user, Flags::default());
        let with = |required| Setup {
            landlock: LandlockPlan {
                scope_abstract_unix: true,
                scope_signal: true,
                required,
            },
            ..native_setup(expectation())
        };
        let (_guard, report) = Guard::start_with(&place, with(false)).unwrap();
        // Which of the two is right depends on the kernel of this machine.
        let scopes = report.landlock_abi >= 6;
        assert_eq!(
            (report.signals_scoped, report.abstract_unix_scoped),
            (scopes, scopes)
        );
        let strict = refusal(&place, with(true));
        assert_eq!(strict.as_deref(), (!scopes).then_some("landlock"));
    }
}

#[test]
fn outside_a_sandbox_the_guard_refuses_and_runs_nothing() {
    let witness = std::env::temp_dir().join(marker());
    let witness = witness.to_str().unwrap();
    let null = fs::File::open("/dev/null").unwrap();
    let touch = ["touch", witness];

    let mut command = Command::new(BINARY);
    command.args(["native", "13"]);
    let mut guard = Guard::spawn_command(command);
    guard.send(&Request::Setup(Box::new(native_setup(expectation()))), &[]);
    guard.exec(Program::new(&touch), &[null.as_fd(); 3]);
    let (event, _) = guard.receive().unwrap();
    assert!(matches!(event, Event::Refused(check) if check.name == "pid-namespace"));
    assert!(guard.receive().is_none());
    assert_eq!(guard.wait().code(), Some(120));
    assert!(!Path::new(witness).exists());

    // Positive control: where the guard is ready, the same request runs.
    let mut guard = Guard::start(&Place::Host);
    let id = guard.exec(Program::new(&touch), &[null.as_fd(); 3]);
    assert_eq!(guard.exited(id), ExitStatus::Code(0));
    fs::remove_file(witness).unwrap();
}

#[test]
fn a_namespace_that_should_be_its_own_or_the_hosts_is_checked() {
    for user in users() {
        let shared = Flags {
            unshare_net: false,
            ..Flags::default()
        };
        let shared = Place::Native(*user, shared);
        assert_eq!(refusal_of(&shared, |_| {}).as_deref(), Some("namespace"));
        let share = |expect: &mut Expectation| {
            expect
                .unshared
                .retain(|namespace| *namespace != Namespace::Network);
            expect.shared.push(Namespace::Network);
            expect.loopback_only = false;
        };
        assert_eq!(refusal_of(&shared, share), None);
        let own = Place::Native(*user, Flags::default());
        assert_eq!(refusal_of(&own, share).as_deref(), Some("namespace"));
        let unknown = |expect: &mut Expectation| expect.outer.clear();
        assert_eq!(refusal_of(&own, unknown).as_deref(), Some("namespace"));
    }
}

#[test]
fn a_capability_is_refused() {
    for user in users() {
        let with = Place::Native(*user, Flags::with("--cap-add CAP_NET_RAW"));
        assert_eq!(refusal_of(&with, |_| {}).as_deref(), Some("capabilities"));
    }
}

#[test]
fn a_mount_of_something_else_is_refused() {
    let directory = shared_directory();
    let bound = directory.to_str().unwrap().to_owned();
    let found = fs::metadata(&directory).unwrap();
    let expected = |dev, ino, writable| {
        let path = bound.clone().into_bytes();
        move |expect: &mut Expectation| {
            expect.mounts.push(MountCheck {
                path,
                dev,
                ino,
                writable,
            });
        }
    };
    let (dev, ino) = (found.dev(), found.ino());
    for user in users() {
        let writable = Place::Native(*user, Flags::with(&format!("--bind {bound} {bound}")));
        let read_only = Place::Native(*user, Flags::with(&format!("--ro-bind {bound} {bound}")));
        assert_eq!(refusal_of(&writable, expected(dev, ino, true)), None);
        assert_eq!(refusal_of(&read_only, expected(dev, ino, false)), None);
        let mount = Some("mount");
        assert_eq!(
            refusal_of(&writable, expected(dev, ino + 1, true)).as_deref(),
            mount
        );
        assert_eq!(
            refusal_of(&writable, expected(dev + 1, ino, true)).as_deref(),
            mount
        );
        assert_eq!(
            refusal_of(&writable, expected(dev, ino, false)).as_deref(),
            mount
        );
        assert_eq!(
            refusal_of(&read_only, expected(dev, ino, true)).as_deref(),
            mount
        );
    }
    fs::remove_dir(directory).unwrap();
}

#[test]
fn a_source_swapped_for_a_symlink_is_refused() {
    let directory = shared_directory();
    let (source, decoy) = (directory.join("source"), directory.join("decoy"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&decoy).unwrap();
    let found = fs::metadata(&source).unwrap();
    let path = source.to_str().unwrap().to_owned();
    let check = MountCheck {
        path: path.clone().into_bytes(),
        dev: found.dev(),
        ino: found.ino(),
        writable: true,
    };
    let place = |user| Place::Native(user, Flags::with(&format!("--bind {path} {path}")));
    for user in users() {
        assert_eq!(
            refusal_of(&place(*user), |expect| expect.mounts.push(check.clone())),
            None
        );
    }
    fs::rename(&source, directory.join("moved")).unwrap();
    symlink(&decoy, &source).unwrap();
    for user in users() {
        // bubblewrap follows the link; what it mounted is not what was checked.
        let mut guard = Guard::spawn(&place(*user));
        let mut expect = expectation();
        expect.mounts.push(check.clone());
        assert_eq!(
            guard.set_up(native_setup(expect)).unwrap_err().name,
            "mount"
        );
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_secret_that_can_be_read_is_refused() {
    let directory = shared_directory();
    let (file, folder) = (directory.join("key"), directory.join("keys"));
    fs::write(&file, "secret").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(&folder).unwrap();
    let [bound, file, folder] =
        [&directory, &file, &folder].map(|path| path.to_str().unwrap().to_owned());
    let masks = format!(
        "--ro-bind {bound} {bound} --ro-bind /dev/null {file} \
         --perms 0000 --tmpfs {folder} --remount-ro {folder}"
    );
    for user in users() {
        let masked = Place::Native(*user, Flags::with(&masks));
        let bare = Place::Native(*user, Flags::with(&format!("--ro-bind {bound} {bound}")));
        let both = |expect: &mut Expectation| {
            expect.unreadable = vec![file.clone().into_bytes(), folder.clone().into_bytes()];
        };
        assert_eq!(refusal_of(&masked, both), None);
        for path in [&file, &folder] {
            let one = |expect: &mut Expectation| {
                expect.unreadable = vec![path.clone().into_bytes()];
            };
            assert_eq!(refusal_of(&bare, one).as_deref(), Some("unreadable"));
        }
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_mask_that_is_not_there_or_leads_in_a_circle_is_refused_with_the_error() {
    let directory = shared_directory();
    let (key, circle) = (directory.join("key"), directory.join("circle"));
    fs::write(&key, "secret").unwrap();
    symlink("circle", &circle).unwrap();
    let bound = directory.to_str().unwrap();
    let masked = format!(
        "--ro-bind {bound} {bound} --ro-bind /dev/null {}",
        key.display()
    );
    for user in users() {
        let place = Place::Native(*user, Flags::with(&masked));
        let finding = |path: &Path| {
            let mut expect = expectation();
            expect.unreadable = vec![path.to_str().unwrap().into()];
            Guard::start_with(&place, native_setup(expect)).err()
        };
        for (path, errno) in [
            (directory.join("gone"), "ENOENT"),
            (circle.clone(), "ELOOP"),
        ] {
            let check = finding(&path).unwrap();
            assert_eq!(check.name, "unreadable");
            assert!(check.detail.contains(errno), "{check:?}");
        }
        assert_eq!(finding(&key), None, "the control failed");
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_path_that_should_not_be_writable_or_there_is_refused() {
    let directory = shared_directory();
    let file = directory.join("file");
    fs::write(&file, "x").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let [bound, file] = [&directory, &file].map(|path| path.to_str().unwrap().to_owned());
    let new = format!("{bound}/not/yet");
    for user in users() {
        let writable = Place::Native(*user, Flags::with(&format!("--bind {bound} {bound}")));
        let read_only = Place::Native(*user, Flags::with(&format!("--ro-bind {bound} {bound}")));
        let all = [&bound, &file, &new];
        for path in all {
            let one = |expect: &mut Expectation| expect.unwritable.push(path.clone().into_bytes());
            assert_eq!(
                refusal_of(&writable, one).as_deref(),
                Some("unwritable"),
                "{path}"
            );
            assert_eq!(refusal_of(&read_only, one), None, "{path}");
        }
        let hidden = Place::Native(*user, Flags::default());
        let gone = |expect: &mut Expectation| expect.absent.push(file.clone().into_bytes());
        assert_eq!(refusal_of(&writable, gone).as_deref(), Some("absent"));
        assert_eq!(refusal_of(&hidden, gone), None);
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn root_without_read_only_kernel_settings_is_refused() {
    for user in users() {
        // A second procfs covers the read-only /proc/sys of the first.
        let place = Place::Native(*user, Flags::with("--proc /proc"));
        let expected = match user {
            // Owner of the files, capabilities or not.
            User::Root => Some("unwritable"),
            User::Ordinary => None,
        };
        assert_eq!(refusal_of(&place, |_| {}).as_deref(), expected);
    }
}

#[test]
fn a_set_up_of_another_version_or_role_is_refused() {
    let newer = Setup {
        protocol: 999,
        ..host_setup()
    };
    assert_eq!(refusal(&Place::Host, newer).as_deref(), Some("protocol"));
    let native = native_setup(expectation());
    assert_eq!(refusal(&Place::Host, native).as_deref(), Some("role"));
    let plan = LandlockPlan {
        scope_signal: true,
        ..LandlockPlan::default()
    };
    let confined = Setup {
        landlock: plan,
        ..host_setup()
    };
    assert_eq!(refusal(&Place::Host, confined).as_deref(), Some("role"));
    let native = Place::Native(users()[0], Flags::default());
    assert_eq!(refusal(&native, host_setup()).as_deref(), Some("role"));

    let mut guard = Guard::spawn(&Place::Host);
    guard.send(&Request::Freeze, &[]);
    let (event, _) = guard.receive().unwrap();
    assert!(matches!(event, Event::Refused(check) if check.name == "protocol"));
}

#[test]
fn a_second_set_up_or_a_broken_frame_ends_the_session() {
    for bytes in [
        encode(&Request::Setup(Box::new(host_setup()))).unwrap(),
        vec![0xff; 8],
        vec![1, 0, 0, 0, 0xff],
    ] {
        let mut guard = Guard::start(&Place::Host);
        let id = guard.exec_silent(&["sleep", "1000"]);
        let (sleeper, _) = guard.started(id);
        guard.socket.as_ref().unwrap().write_all(&bytes).unwrap();
        while guard.receive().is_some() {}
        assert_eq!(guard.wait().code(), Some(121));
        assert!(!Path::new(&format!("/proc/{sleeper}")).exists());
    }
}

#[test]
fn a_seccomp_program_that_the_kernel_does_not_take_is_refused() {
    let answer = |k| {
        vec![BpfInsn {
            code: 0x06,
            jt: 0,
            jf: 0,
            k,
        }]
    };
    for user in users() {
        let place = Place::Native(*user, Flags::default());
        let with = |seccomp| Setup {
            seccomp,
            ..native_setup(expectation())
        };
        let nonsense = vec![BpfInsn {
            code: 0xffff,
            jt: 0,
            jf: 0,
            k: 0,
        }];
        let allow = answer(libc::SECCOMP_RET_ALLOW);
        assert_eq!(
            refusal(&place, with(vec![allow.clone(), allow.clone()])),
            None
        );
        for bad in [nonsense, vec![], answer(libc::SECCOMP_RET_KILL_PROCESS)] {
            let programs = vec![allow.clone(), bad];
            assert_eq!(refusal(&place, with(programs)).as_deref(), Some("seccomp"));
        }
    }
}

#[test]
fn an_abstract_socket_of_the_host_is_closed_by_the_scope() {
    let name = marker();
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let connect = format!(
        r#"use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;
           print connect($s, pack("S a*", AF_UNIX, "\0{name}")) ? "open" : "errno ".($!+0)"#
    );
    for user in users() {
        let place = Place::Native(
            *user,
            Flags {
                unshare_net: false,
                ..Flags::default()
            },
        );
        let mut setup = native_setup(expectation());
        setup.role = match setup.role {
            kotak_guard::proto::Role::Native(mut expect) => {
                expect
                    .unshared
                    .retain(|namespace| *namespace != Namespace::Network);
                expect.loopback_only = false;
                kotak_guard::proto::Role::Native(expect)
            }
            host @ kotak_guard::proto::Role::Host => host,
        };
        let (mut guard, _) = Guard::start_with(&place, setup.clone()).unwrap();
        // Positive control: without the scope it is open.
        assert_eq!(guard.run(&["perl", "-e", &connect]).stdout, "open");
        setup.landlock.scope_abstract_unix = true;
        let (mut guard, report) = Guard::start_with(&place, setup).unwrap();
        let expected = if report.abstract_unix_scoped {
            "errno 1"
        } else {
            "open"
        };
        assert_eq!(guard.run(&["perl", "-e", &connect]).stdout, expected);
    }
}
