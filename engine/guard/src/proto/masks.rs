//! What the protocol says about masks that are put back while a session runs.

use serde::{Deserialize, Serialize};

/// Engine to the helper of masks (`kotak-guard masks FD`): the guard's program in a fourth mode, on
/// the host. It joins the user namespace that owns the sandbox's mount namespace, and so may mount
/// there what the guard inside may not (user_namespaces(7), ioctl_ns(2)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaskRequest {
    /// First, once, with the mount namespace as its one descriptor. The helper joins it, makes one
    /// mask of each kind and mounts neither. Answered by [`MaskAnswer::Joined`].
    Join {
        /// Must equal [`super::PROTOCOL_VERSION`].
        protocol: u32,
    },
    /// Hide whatever is at this absolute path inside, unless a mask does; where a symbolic link
    /// stands on the way, the link.
    Hide {
        /// Followed through no symbolic link.
        path: Vec<u8>,
    },
}

/// Helper of masks to engine; one for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaskAnswer {
    /// It is in the sandbox, and masks can be made.
    Joined,
    /// Nothing is there that a program inside could come to.
    Missing,
    /// A mask was there already.
    AlreadyHidden,
    /// It could be seen, and a mask hides it now: looked at again by its path.
    Hidden,
    /// It is not hidden, or that is not known.
    Failed {
        /// What failed.
        step: MaskStep,
        /// errno(3).
        errno: i32,
    },
}

/// A step of the helper of masks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaskStep {
    /// The request makes no sense, or its descriptor is no mount namespace of a sandbox.
    Request,
    /// Finding the user namespace that owns the mount namespace (Linux 4.9).
    Owner,
    /// Joining that user namespace. EPERM when it does not belong to this user, as under a
    /// bubblewrap installed setuid root.
    JoinUser,
    /// Joining the mount namespace.
    JoinMounts,
    /// Making a mask, not mounted yet (Linux 5.12).
    Make,
    /// Opening the path.
    Open,
    /// Mounting the mask.
    Mount,
    /// Looking again: what is there is not the mask.
    Verify,
}
