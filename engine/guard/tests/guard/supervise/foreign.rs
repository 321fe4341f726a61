//! Descriptors from another sandbox or from the host: the rules of this one do not know their paths.

use crate::harness::{Output, Program, User, Workspace, users};
use kotak_guard::proto::{ExecStage, ExitStatus, Rule};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::{
    fs::{self, File},
    io::{IoSlice, Read},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{fs::PermissionsExt, net::UnixStream},
    },
};

fn every_user(test: impl Fn(User)) {
    users().iter().for_each(|user| test(*user));
}

/// Runs Perl with `$fd`, which came over a socket, and a socket as its input.
fn with_received(workspace: &mut Workspace, sent: &File, script: &str) -> Output {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let numbers = [sent.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&numbers)];
    let word = [IoSlice::new(b"x")];
    sendmsg::<()>(ours.as_raw_fd(), &word, &rights, MsgFlags::empty(), None).unwrap();
    let script = format!(
        r"use strict; use warnings; use Fcntl; require POSIX;
          sub errno {{ my ($ok) = @_; print $ok ? 'ok ' : (0 + $!) . ' '; }}
          my ($word, $control) = (chr(0) x 8, chr(0) x 64);
          my $part = pack('PQ', $word, 8);
          my $header = pack('QLLPQPQLL', 0, 0, 0, $part, 1, $control, 64, 0, 0);
          syscall({}, 0, $header, 0) > 0 or die $!;
          my $fd = unpack('L', substr($control, 16, 4));
          chdir('{}') or die;
          {script}",
        libc::SYS_recvmsg,
        workspace.dir.to_str().unwrap(),
    );
    let (mut out, out_writer) = std::io::pipe().unwrap();
    let (mut err, err_writer) = std::io::pipe().unwrap();
    let program = ["perl", "-e", &script];
    let streams = [theirs.as_fd(), out_writer.as_fd(), err_writer.as_fd()];
    let id = workspace.guard.exec(Program::new(&program), &streams);
    drop((out_writer, err_writer, theirs));
    let (mut stdout, mut stderr) = (String::new(), String::new());
    out.read_to_string(&mut stdout).unwrap();
    err.read_to_string(&mut stderr).unwrap();
    Output {
        status: workspace.guard.exited(id),
        stdout,
        stderr,
    }
}

#[test]
fn nothing_is_done_through_a_directory_of_another_sandbox() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |_, _| {});
        let other = workspace.dir.parent().unwrap().join("other");
        fs::create_dir(&other).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(other.join("rc"), "kept").unwrap();
        fs::set_permissions(other.join("rc"), fs::Permissions::from_mode(0o666)).unwrap();
        let sent = File::open(&other).unwrap();
        let mkdirat = libc::SYS_mkdirat;
        for attempt in [
            "sysopen(my $f, qq(/proc/self/fd/$fd/login), O_CREAT|O_WRONLY)",
            "sysopen(my $f, qq(/proc/self/fd/$fd/rc), O_TRUNC|O_WRONLY)",
            &format!("do {{ my $n = 'made'; syscall({mkdirat}, $fd, $n, 0700) == 0 }}"),
            "rename(qq(/proc/self/fd/$fd/rc), qq(/proc/self/fd/$fd/rd))",
            "rename(qq(/proc/self/fd/$fd/rc), 'rc')",
            "unlink(qq(/proc/self/fd/$fd/rc))",
            // O_TMPFILE
            "sysopen(my $f, qq(/proc/self/fd/$fd), 0x410000|O_WRONLY)",
            "link('pre.key', qq(/proc/self/fd/$fd/l))",
            "symlink('x', qq(/proc/self/fd/$fd/l))",
            "chmod(0600, qq(/proc/self/fd/$fd/rc))",
            "chmod(0700, qq(/proc/self/fd/$fd))",
            "truncate(qq(/proc/self/fd/$fd/rc), 0)",
            "do { chdir(qq(/proc/self/fd/$fd)) or die; mkdir('made') }",
            "do { chdir(qq(/proc/self/fd/$fd)) or die; mkdir('../made') }",
        ] {
            let output = with_received(&mut workspace, &sent, &format!("errno({attempt});"));
            assert_eq!(output.stdout, "13 ", "{attempt}: {}", output.stderr);
            let told = workspace.violation();
            assert_eq!(
                told.rule,
                Rule::Undecided("it belongs to another sandbox".to_owned()),
                "{attempt}"
            );
        }
        let names: Vec<_> = fs::read_dir(&other).unwrap().flatten().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(fs::read_to_string(other.join("rc")).unwrap(), "kept");
        let mode = fs::metadata(other.join("rc")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
    });
}

#[test]
fn what_is_of_this_sandbox_or_has_no_place_goes_on() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |_, _| {});
        let null = File::options().write(true).open("/dev/null").unwrap();
        let output = with_received(
            &mut workspace,
            &null,
            "sysopen(my $d, '.', O_RDONLY) or die; my $n = fileno($d);
             errno(mkdir(qq(/proc/self/fd/$n/made)));
             errno(sysopen(my $a, qq(/proc/self/fd/$fd), O_WRONLY));
             pipe(my $r, my $w) or die; my $p = fileno($w);
             errno(sysopen(my $b, qq(/proc/self/fd/$p), O_WRONLY));",
        );
        assert_eq!(output.stdout, "ok ok ok ", "{}", output.stderr);
        assert!(workspace.names().contains("made"));
    });
}

#[test]
fn no_directory_of_the_host_becomes_a_stream() {
    every_user(|user| {
        let mut workspace = Workspace::new(user, |_, _| {});
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        let dir = OwnedFd::from(File::open(&workspace.dir).unwrap());
        for index in 0..3 {
            let mut streams = [null.as_fd(); 3];
            streams[index] = dir.as_fd();
            let id = workspace.guard.exec(Program::new(&["true"]), &streams);
            let told = workspace.guard.failed(id);
            assert_eq!(told, (ExecStage::Session, libc::EBADF));
        }
        let file = File::open(workspace.dir.join("pre.key")).unwrap();
        let streams = [file.as_fd(), null.as_fd(), null.as_fd()];
        let id = workspace.guard.exec(Program::new(&["true"]), &streams);
        assert_eq!(workspace.guard.exited(id), ExitStatus::Code(0));
    });
}
