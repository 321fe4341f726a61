//! Proof from inside that this is the sandbox which the engine asked for. A launcher that runs
//! the guard anywhere else is caught here, before any payload.

use super::sys;
use kotak_guard::proto::{Check, Expectation, FileCheck, MountCheck, Namespace};
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, open},
    sys::{
        prctl,
        stat::{Mode, fstat, lstat},
        statfs::{PROC_SUPER_MAGIC, statfs},
        statvfs::{FsFlags, fstatvfs},
    },
    unistd::{AccessFlags, faccessat},
};
use std::{
    ffi::OsStr,
    fs,
    io::Read,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
};

/// What was found, and the effective capabilities among it.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) passed: Vec<Check>,
    pub(crate) cap_eff: u64,
}

/// A check with its finding.
pub(crate) fn check(name: &str, detail: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        detail: detail.into(),
    }
}

/// Checks in order that this process is where it should be; the first that does not hold is the
/// error. Nothing else may be done before.
pub(crate) fn verify_place(expect: &Expectation) -> Result<Verified, Check> {
    let mut passed = vec![pid_namespace()?];
    for namespace in &expect.unshared {
        passed.push(namespace_differs(*namespace, &expect.outer)?);
    }
    for namespace in &expect.shared {
        passed.push(namespace_equals(*namespace, &expect.outer)?);
    }
    let (capabilities, cap_eff) = capabilities()?;
    passed.push(capabilities);
    passed.push(no_new_privileges()?);
    if expect.loopback_only {
        passed.push(loopback_only()?);
    }
    Ok(Verified { passed, cap_eff })
}

/// The same for what must be seen here, and what must not.
pub(crate) fn verify_paths(expect: &Expectation) -> Result<Vec<Check>, Check> {
    let mut passed = Vec::new();
    passed.extend(every("mount", &expect.mounts, mount)?);
    passed.extend(every("unreadable", &expect.unreadable, |path| {
        unreadable(path)
    })?);
    passed.extend(every("unwritable", &expect.unwritable, |path| {
        unwritable(path)
    })?);
    passed.extend(every("absent", &expect.absent, |path| absent(path))?);
    passed.extend(every("content", &expect.contents, content)?);
    Ok(passed)
}

/// One line for many checks of a kind: a report of thousands would help nobody.
fn every<T>(
    name: &str,
    list: &[T],
    mut test: impl FnMut(&T) -> Result<(), String>,
) -> Result<Option<Check>, Check> {
    for item in list {
        test(item).map_err(|detail| check(name, detail))?;
    }
    Ok((!list.is_empty()).then(|| check(name, format!("{} as expected", list.len()))))
}

fn shown(path: &[u8]) -> std::path::Display<'_> {
    Path::new(OsStr::from_bytes(path)).display()
}

fn pid_namespace() -> Result<Check, Check> {
    const NAME: &str = "pid-namespace";
    let own = std::process::id();
    if own != 1 {
        return Err(check(NAME, format!("the guard is process {own}, not 1")));
    }
    let kind = statfs("/proc").map_err(|errno| check(NAME, format!("/proc: {errno}")))?;
    if kind.filesystem_type() != PROC_SUPER_MAGIC {
        return Err(check(NAME, "/proc is not procfs"));
    }
    match fs::read_link("/proc/self") {
        Ok(target) if target == Path::new("1") => Ok(check(NAME, "the guard is process 1")),
        Ok(target) => Err(check(
            NAME,
            format!(
                "/proc belongs to another PID namespace, where this is {}",
                target.display()
            ),
        )),
        Err(error) => Err(check(NAME, format!("/proc/self: {error}"))),
    }
}

fn namespace_inode(namespace: Namespace) -> Result<u64, Check> {
    let path = format!("/proc/self/ns/{}", namespace.proc_name());
    fs::metadata(&path)
        .map(|found| found.ino())
        .map_err(|error| check("namespace", format!("{path}: {error}")))
}

fn outer_inode(namespace: Namespace, outer: &[(Namespace, u64)]) -> Result<u64, Check> {
    outer
        .iter()
        .find(|(kind, _)| *kind == namespace)
        .map(|(_, inode)| *inode)
        .ok_or_else(|| {
            check(
                "namespace",
                format!("no outer {} namespace to compare", namespace.proc_name()),
            )
        })
}

fn namespace_differs(namespace: Namespace, outer: &[(Namespace, u64)]) -> Result<Check, Check> {
    let name = namespace.proc_name();
    if namespace_inode(namespace)? == outer_inode(namespace, outer)? {
        return Err(check(
            "namespace",
            format!("the {name} namespace is the host's"),
        ));
    }
    Ok(check("namespace", format!("{name} is its own")))
}

fn namespace_equals(namespace: Namespace, outer: &[(Namespace, u64)]) -> Result<Check, Check> {
    let name = namespace.proc_name();
    if namespace_inode(namespace)? != outer_inode(namespace, outer)? {
        return Err(check(
            "namespace",
            format!("the {name} namespace is not the host's"),
        ));
    }
    Ok(check(
        "namespace",
        format!("{name} is shared with the host, as asked"),
    ))
}

fn capabilities() -> Result<(Check, u64), Check> {
    const NAME: &str = "capabilities";
    let status = fs::read_to_string("/proc/self/status")
        .map_err(|error| check(NAME, format!("/proc/self/status: {error}")))?;
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        match capability_set(&status, set) {
            Some(0) => {}
            Some(held) => return Err(check(NAME, format!("{set} is {held:016x}, not empty"))),
            None => {
                return Err(check(
                    NAME,
                    format!("/proc/self/status does not tell {set}"),
                ));
            }
        }
    }
    Ok((check(NAME, "none held"), 0))
}

fn capability_set(status: &str, set: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(set)?.strip_prefix(':'))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn no_new_privileges() -> Result<Check, Check> {
    const NAME: &str = "no-new-privileges";
    match prctl::get_no_new_privs() {
        Ok(true) => Ok(check(NAME, "set")),
        Ok(false) => Err(check(NAME, "not set")),
        Err(errno) => Err(check(NAME, errno.to_string())),
    }
}

fn mount(expected: &MountCheck) -> Result<(), String> {
    let path = expected.path.as_slice();
    let at = |errno: Errno| format!("{}: {errno}", shown(path));
    // The final component itself: a symlink put there has another inode.
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let pinned = open(path, flags, Mode::empty()).map_err(at)?;
    let found = fstat(&pinned).map_err(at)?;
    if (found.st_dev, found.st_ino) != (expected.dev, expected.ino) {
        return Err(format!(
            "{} is not what was checked outside: device {} inode {}, expected {} {}",
            shown(path),
            found.st_dev,
            found.st_ino,
            expected.dev,
            expected.ino
        ));
    }
    let read_only = fstatvfs(&pinned)
        .map_err(at)?
        .flags()
        .contains(FsFlags::ST_RDONLY);
    match (expected.writable, read_only) {
        (true, false) | (false, true) => Ok(()),
        (true, true) => Err(format!("{} is read-only", shown(path))),
        (false, false) => Err(format!("{} is writable", shown(path))),
    }
}

/// Never waits (FIFO, terminal) and never takes a terminal.
const HARMLESS: OFlag = OFlag::O_NONBLOCK
    .union(OFlag::O_NOCTTY)
    .union(OFlag::O_CLOEXEC);

/// Only a refusal of access proves a mask: a device behind a mount without devices, or a directory
/// without permissions (open(2), both EACCES). A path that is missing or leads in a circle hides
/// nothing that is put there later.
fn unreadable(path: &[u8]) -> Result<(), String> {
    match open(path, OFlag::O_RDONLY | HARMLESS, Mode::empty()) {
        Ok(_) => Err(format!("{} can be opened for reading", shown(path))),
        Err(Errno::EACCES | Errno::EPERM) => Ok(()),
        Err(errno) => Err(not_refused(path, errno)),
    }
}

fn not_refused(path: &[u8], errno: Errno) -> String {
    format!("{} is not refused but fails: {errno}", shown(path))
}

fn unwritable(path: &[u8]) -> Result<(), String> {
    let found = match fs::metadata(OsStr::from_bytes(path)) {
        Ok(found) => found,
        Err(error) => {
            return match Errno::from_raw(error.raw_os_error().unwrap_or_default()) {
                // It is not there: then nobody may be able to put it there.
                Errno::ENOENT | Errno::ENOTDIR => {
                    let parent = Path::new(OsStr::from_bytes(path)).parent();
                    match parent {
                        Some(parent) => unwritable(parent.as_os_str().as_bytes()),
                        None => Ok(()),
                    }
                }
                // Out of reach behind a directory that may not be entered.
                Errno::EACCES | Errno::EPERM => Ok(()),
                errno => Err(not_refused(path, errno)),
            };
        }
    };
    // access(2) looks at the permission bits of a device and not at its mount, so of the device
    // that masks a file only the attempt to open it tells.
    let by_mount = found.is_file() || found.is_dir();
    if by_mount && faccessat(AT_FDCWD, path, AccessFlags::W_OK, AtFlags::AT_EACCESS).is_ok() {
        return Err(format!("{} is writable", shown(path)));
    }
    let attempt = if found.is_dir() {
        OFlag::O_TMPFILE
    } else {
        OFlag::empty()
    };
    match open(path, attempt | OFlag::O_WRONLY | HARMLESS, Mode::empty()) {
        Ok(_) => Err(format!("{} can be opened for writing", shown(path))),
        Err(Errno::EROFS | Errno::EACCES | Errno::EPERM) => Ok(()),
        Err(errno) => Err(not_refused(path, errno)),
    }
}

fn absent(path: &[u8]) -> Result<(), String> {
    match lstat(path) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
        Err(errno) => Err(format!(
            "whether {} exists cannot be told: {errno}",
            shown(path)
        )),
        Ok(_) => Err(format!("{} exists", shown(path))),
    }
}

fn content(expected: &FileCheck) -> Result<(), String> {
    let path = OsStr::from_bytes(&expected.path);
    // One byte more than it should be tells a longer file.
    let most = u64::try_from(expected.content.len()).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut found))
        .map_err(|error| format!("{}: {error}", shown(&expected.path)))?;
    if found != expected.content {
        return Err(format!("{} holds something else", shown(&expected.path)));
    }
    Ok(())
}

fn loopback_only() -> Result<Check, Check> {
    const NAME: &str = "loopback-only";
    let table = fs::read("/proc/self/net/dev")
        .map_err(|error| check(NAME, format!("/proc/self/net/dev: {error}")))?;
    let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))
        .map_err(|error| check(NAME, format!("loopback does not work: {error}")))?;
    for name in interfaces(&table) {
        // The kernel puts tunnel devices that are down into every network namespace.
        let up = sys::interface_is_up(socket.as_fd(), name)
            .map_err(|errno| check(NAME, format!("{}: {errno}", shown(name))))?;
        if name != b"lo" && up {
            return Err(check(NAME, format!("interface {} is up", shown(name))));
        }
    }
    Ok(check(NAME, "no other interface is up"))
}

/// The names in `/proc/net/dev`: two lines of heading, then `name: counters`.
fn interfaces(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    table
        .split(|byte| *byte == b'\n')
        .skip(2)
        .filter_map(|line| {
            let colon = line.iter().rposition(|byte| *byte == b':')?;
            Some(line[..colon].trim_ascii())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_by_name() {
        let table = b"Inter-| Receive\n face |bytes\n    lo: 1 2 3\nenp0s1: 0 0\n veth:x: 1\n";
        let names: Vec<&[u8]> = interfaces(table).collect();
        assert_eq!(names, [&b"lo"[..], b"enp0s1", b"veth:x"]);
    }

    #[test]
    fn capability_sets_are_read_as_hexadecimal() {
        let status = "Name:\tx\nCapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
        assert_eq!(capability_set(status, "CapInh"), Some(0));
        assert_eq!(capability_set(status, "CapEff"), Some(0x1ff_ffff_ffff));
        assert_eq!(capability_set(status, "CapAmb"), None);
    }

    #[test]
    fn a_readable_path_is_told_from_one_that_is_not() {
        assert!(unreadable(b"/proc/self/status").is_err());
        assert!(unreadable(b"/proc").is_err());
        // Write-only, and the kernel holds user 0 to it too.
        assert_eq!(unreadable(b"/proc/sys/vm/compact_memory"), Ok(()));
    }

    #[test]
    fn a_path_that_is_missing_or_leads_nowhere_proves_no_mask_and_the_error_is_named() {
        let dir = std::env::temp_dir().join(format!("kotak-guard-loop-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let circle = dir.join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        let circle = circle.as_os_str().as_bytes();
        for (path, errno) in [
            (b"/nonexistent/x".as_slice(), "ENOENT"),
            (b"/proc/self/status/x", "ENOTDIR"),
            (circle, "ELOOP"),
        ] {
            let refused = unreadable(path).unwrap_err();
            assert!(refused.contains(errno), "{refused}");
        }
        let refused = unwritable(circle).unwrap_err();
        assert!(refused.contains("ELOOP"), "{refused}");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_path_that_can_be_written_or_made_is_writable() {
        let file = std::env::temp_dir().join(format!("kotak-guard-{}", std::process::id()));
        fs::write(&file, b"x").unwrap();
        let missing = file.with_extension("missing").join("below");
        assert!(unwritable(file.as_os_str().as_bytes()).is_err());
        assert!(unwritable(std::env::temp_dir().as_os_str().as_bytes()).is_err());
        // Missing, but anybody could make it.
        assert!(unwritable(missing.as_os_str().as_bytes()).is_err());
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn only_what_is_surely_missing_is_absent() {
        assert!(absent(b"/nonexistent/x").is_ok());
        assert!(absent(b"/proc/self/status/x").is_ok());
        assert!(absent(b"/proc").is_err());
    }

    #[test]
    fn a_file_must_hold_exactly_what_it_should() {
        let file = std::env::temp_dir().join(format!("kotak-content-{}", std::process::id()));
        fs::write(&file, b"12345").unwrap();
        let holds = |text: &[u8]| {
            content(&FileCheck {
                path: file.as_os_str().as_bytes().to_vec(),
                content: text.to_vec(),
            })
            .is_ok()
        };
        assert!(holds(b"12345"));
        for other in [&b"1234"[..], b"123456", b"12340", b""] {
            assert!(!holds(other));
        }
        fs::remove_file(&file).unwrap();
        assert!(!holds(b"12345"));
    }

    #[test]
    fn a_mount_is_checked_by_inode_and_by_writability() {
        let path = std::env::temp_dir();
        let found = fs::metadata(&path).unwrap();
        let expected = |dev, ino, writable| MountCheck {
            path: path.as_os_str().as_bytes().to_vec(),
            dev,
            ino,
            writable,
        };
        assert_eq!(mount(&expected(found.dev(), found.ino(), true)), Ok(()));
        assert!(mount(&expected(found.dev(), found.ino() + 1, true)).is_err());
        assert!(mount(&expected(found.dev() + 1, found.ino(), true)).is_err());
        assert!(mount(&expected(found.dev(), found.ino(), false)).is_err());
    }
}
