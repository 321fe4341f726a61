//! setxattr(2), removexattr(2) and their kin: an access list is a mode by another name.

use super::{
    answer::{Answer, Stop},
    caller::{Caller, own_path},
    judged::Judged,
    sys::{remove_attribute, set_attribute},
    walk::{Target, Walk, not_of_the_guard},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{Mode, fstat},
};
use std::{
    ffi::CString,
    os::fd::{AsFd, OwnedFd},
};

/// `XATTR_NAME_MAX` and `XATTR_SIZE_MAX` (linux/limits.h).
const NAME_BYTES: usize = 255;
const VALUE_BYTES: usize = 65536;

/// Whose attribute it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose {
    /// What a path leads to in the end.
    Target,
    /// What a path names, even a symlink.
    Entry,
    /// What a descriptor stands for.
    Descriptor,
}

/// setxattr(2).
pub(super) fn set(caller: &Caller<'_>, judged: &Judged<'_>, whose: Whose) -> Result<Answer, Stop> {
    let name = name(caller)?;
    let length = usize::try_from(caller.arg(3)).unwrap_or(usize::MAX);
    if length > VALUE_BYTES {
        return Err(Errno::E2BIG.into());
    }
    let mut value = vec![0; length];
    if length > 0 && caller.memory(caller.arg(2), &mut value)? < length {
        return Err(Errno::EFAULT.into());
    }
    let pinned = judged_one(caller, judged, whose)?;
    set_attribute(&own_path(pinned.as_fd())?, &name, &value, caller.int(4))?;
    Ok(Answer::DONE)
}

/// removexattr(2).
pub(super) fn remove(
    caller: &Caller<'_>,
    judged: &Judged<'_>,
    whose: Whose,
) -> Result<Answer, Stop> {
    let name = name(caller)?;
    let pinned = judged_one(caller, judged, whose)?;
    remove_attribute(&own_path(pinned.as_fd())?, &name)?;
    Ok(Answer::DONE)
}

fn name(caller: &Caller<'_>) -> Result<CString, Stop> {
    let name = match caller.path(1) {
        Err(Stop::Errno(Errno::ENAMETOOLONG)) => return Err(Errno::ERANGE.into()),
        other => other?,
    };
    if name.is_empty() || name.len() > NAME_BYTES {
        return Err(Errno::ERANGE.into());
    }
    CString::new(name).map_err(|_| Errno::EINVAL.into())
}

/// Pins what is meant, if its permissions may be changed.
fn judged_one(caller: &Caller<'_>, judged: &Judged<'_>, whose: Whose) -> Result<OwnedFd, Stop> {
    // What a list leaves to the owner is not looked for: an ancestor keeps its own.
    const NOTHING: u32 = 0;
    let target = match whose {
        Whose::Target => Walk::new(caller, judged.settings).target(None, &caller.path(0)?)?,
        Whose::Entry => {
            let entry = Walk::new(caller, judged.settings).entry(None, &caller.path(0)?)?;
            let found = entry.stat()?;
            Target::Entry(entry, found)
        }
        Whose::Descriptor => Target::Thing(caller.descriptor(caller.int(0))?),
    };
    match target.without_dots()? {
        Target::Entry(_, None) => Err(Errno::ENOENT.into()),
        Target::Thing(thing) => {
            not_of_the_guard(thing.as_fd())?;
            judged.mode_of_thing(thing.as_fd(), &fstat(&thing)?, NOTHING)?;
            Ok(thing)
        }
        Target::Entry(entry, Some(found)) => {
            judged.mode_of(&entry, &found, NOTHING)?;
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            Ok(openat(
                &entry.dir,
                entry.given()?.as_c_str(),
                flags,
                Mode::empty(),
            )?)
        }
    }
}
