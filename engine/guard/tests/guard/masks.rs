//! Masks that are put back into a running sandbox.

use super::harness::{
    BINARY, Flags, Guard, Place, User, expectation, fix_descriptors, native_setup,
    shared_directory, users,
};
use kotak_guard::{
    proto::{Event, MaskAnswer, MaskRequest, MaskStep, PROTOCOL_VERSION, Request, Setup},
    wire::{recv, send},
};
use std::{
    fs,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    path::Path,
    process::{Child, Command},
};

/// A helper of the sandbox's user.
struct Helper {
    socket: UnixStream,
    child: Child,
}

impl Helper {
    fn start(user: User) -> Self {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let mut command = match user {
            User::Ordinary if nix::unistd::Uid::effective().is_root() => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
                command.arg(BINARY);
                command
            }
            User::Root | User::Ordinary => Command::new(BINARY),
        };
        command.args(["masks", "13"]);
        fix_descriptors(&mut command, &[(theirs.as_fd(), 13)]);
        let child = command.spawn().unwrap();
        Self { socket, child }
    }

    fn ask(&self, request: &MaskRequest, descriptors: &[BorrowedFd<'_>]) -> MaskAnswer {
        send(&self.socket, request, descriptors).unwrap();
        recv::<MaskAnswer>(&self.socket).unwrap().unwrap().0
    }

    fn join(&self, mounts: &OwnedFd) -> MaskAnswer {
        let protocol = PROTOCOL_VERSION;
        self.ask(&MaskRequest::Join { protocol }, &[mounts.as_fd()])
    }

    fn hide(&self, path: &Path) -> MaskAnswer {
        let path = path.as_os_str().as_bytes().to_vec();
        self.ask(&MaskRequest::Hide { path }, &[])
    }

    fn hang_up(mut self) {
        drop(self.socket);
        assert!(self.child.wait().unwrap().success());
    }
}

/// A guard of a sandbox that sees `dir`, and its mount namespace.
fn started(user: User, dir: &Path) -> (Guard, OwnedFd) {
    let bind = format!("--bind {0} {0}", dir.display());
    let mut guard = Guard::spawn(&Place::Native(user, Flags::with(&bind)));
    let setup = Setup {
        hand_over_mounts: true,
        ..native_setup(expectation())
    };
    guard.send(&Request::Setup(Box::new(setup)), &[]);
    let ((), descriptors) = guard.expect(|event| match event {
        Event::Ready(_) => Some(()),
        Event::Refused(check) => panic!("{check:?}"),
        _ => None,
    });
    let [mounts] = <[OwnedFd; 1]>::try_from(descriptors).unwrap();
    (guard, mounts)
}

#[test]
fn whatever_the_host_puts_there_is_hidden_inside_and_nowhere_else() {
    for user in users() {
        let dir = shared_directory();
        let at = |name: &str| dir.join(name);
        fs::write(at("file"), "secret").unwrap();
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/file"), "secret").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("folder", at("way")).unwrap();
        fs::write(at("plain"), "plain").unwrap();
        let (mut guard, mounts) = started(*user, &dir);
        let helper = Helper::start(*user);
        assert_eq!(helper.join(&mounts), MaskAnswer::Joined, "{user:?}");
        let mut can_read = |name: &str| {
            let path = at(name).display().to_string();
            guard.run(&["/bin/cat", &path]).status == kotak_guard::proto::ExitStatus::Code(0)
        };
        for name in ["link", "way/file", "folder/file", "file"] {
            assert!(can_read(name), "{user:?} {name}: the control failed");
            let hide = match name {
                "folder/file" => at("folder"),
                name => at(name),
            };
            assert_eq!(helper.hide(&hide), MaskAnswer::Hidden, "{user:?} {name}");
            assert!(!can_read(name), "{user:?} {name}");
        }
        assert_eq!(helper.hide(&at("file")), MaskAnswer::AlreadyHidden);
        assert_eq!(helper.hide(&at("folder")), MaskAnswer::AlreadyHidden);
        assert_eq!(helper.hide(&at("none")), MaskAnswer::Missing);
        // Saved again.
        fs::write(at("new"), "newer").unwrap();
        fs::rename(at("new"), at("file")).unwrap();
        assert!(can_read("file"), "{user:?}: the control failed");
        assert_eq!(helper.hide(&at("file")), MaskAnswer::Hidden);
        assert!(!can_read("file"), "{user:?}");
        assert!(can_read("plain"), "{user:?}");
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "newer");
        assert_eq!(fs::read_to_string(at("way/file")).unwrap(), "secret");
        helper.hang_up();
        // The masks stay without it.
        assert!(!can_read("file"), "{user:?}");
        fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = shared_directory();
    let (_guard, mounts) = started(User::Ordinary, &dir);
    let refused = |answer: MaskAnswer| {
        let MaskAnswer::Failed { step, .. } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(step, MaskStep::Request);
    };
    // Nothing is hidden by who has not joined.
    refused(Helper::start(User::Ordinary).hide(&dir));
    let helper = Helper::start(User::Ordinary);
    assert_eq!(helper.join(&mounts), MaskAnswer::Joined);
    refused(helper.join(&mounts));
    for path in ["", "/", "relative"] {
        refused(helper.hide(Path::new(path)));
    }
    assert_eq!(helper.hide(&dir.join("none")), MaskAnswer::Missing);
    fs::remove_dir_all(&dir).unwrap();
}
