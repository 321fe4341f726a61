//! `kotak-guard helper FD`: on the host, for a moment, opens the ports of a sandbox that need a
//! capability there (DNS, 80, 443, 22), and ends.
//!
//! Whoever made a user namespace holds every capability in it (user_namespaces(7)), so an
//! ordinary user can join the one that owns the sandbox's network and bind what the guard inside
//! cannot. The network namespace comes as a descriptor from the guard: no process id is used that
//! could be recycled. Nothing of the sandbox can see this process: it stays in the host's PID and
//! mount namespaces.

use super::sys;
use kotak_guard::{
    proto::{
        HelperAnswer, HelperRequest, HelperStep, LocalNetwork, LowSocket, MAX_LISTENERS,
        PROTOCOL_VERSION, Transport,
    },
    wire::{WireError, recv, send},
};
use nix::{
    errno::Errno,
    net::if_::if_nametoindex,
    sched::{CloneFlags, setns},
    sys::{
        socket::{
            AddressFamily, Backlog, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType,
            SockaddrIn, bind, listen, recv as receive, sendto, setsockopt, socket, sockopt,
        },
        stat::{FileStat, fstat, stat},
    },
};
use std::{
    net::SocketAddrV4,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

/// Serves one request.
pub(crate) fn serve(control: &OwnedFd) -> Result<(), WireError> {
    let Some((request, descriptors)) = recv::<HelperRequest>(control)? else {
        return Ok(());
    };
    match open_all(&request, descriptors) {
        Ok(sockets) => {
            let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
            send(control, &HelperAnswer::Bound, &sockets)
        }
        Err(Failure { step, errno }) => {
            let errno = errno as i32;
            send(control, &HelperAnswer::Failed { step, errno }, &[])
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failure {
    step: HelperStep,
    errno: Errno,
}

fn at(step: HelperStep) -> impl Fn(Errno) -> Failure {
    move |errno| Failure { step, errno }
}

fn open_all(request: &HelperRequest, descriptors: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Failure> {
    let senseless = |errno| at(HelperStep::Request)(errno);
    if request.protocol != PROTOCOL_VERSION || request.sockets.len() > MAX_LISTENERS {
        return Err(senseless(Errno::EPROTO));
    }
    let [network] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| senseless(Errno::EBADF))?;
    let owner = owner_of(&network, libc::CLONE_NEWNET, "/proc/self/ns/net").map_err(|found| {
        let step = if found.found {
            HelperStep::Owner
        } else {
            HelperStep::Request
        };
        at(step)(found.errno)
    })?;
    setns(&owner, CloneFlags::CLONE_NEWUSER).map_err(at(HelperStep::JoinUser))?;
    setns(&network, CloneFlags::CLONE_NEWNET).map_err(at(HelperStep::JoinNetwork))?;
    if let Some(local) = request.local {
        make_local(local).map_err(at(HelperStep::Route))?;
    }
    request
        .sockets
        .iter()
        .map(|wanted| open(*wanted).map_err(at(HelperStep::Bind(wanted.port))))
        .collect()
}

/// Why the owner of a namespace is not had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoOwner {
    /// Whether the namespace is one to ask about.
    pub(super) found: bool,
    pub(super) errno: Errno,
}

/// The user namespace that owns a namespace of this kind (`CLONE_NEW*`). Neither may be this
/// process's own: what follows changes it, and that must never be the host's.
pub(super) fn owner_of(
    namespace: &OwnedFd,
    wanted: libc::c_int,
    own: &str,
) -> Result<OwnedFd, NoOwner> {
    let senseless = |errno| NoOwner {
        found: false,
        errno,
    };
    let kind = sys::namespace_kind(namespace.as_fd()).map_err(senseless)?;
    let own = stat(own).map_err(senseless)?;
    if kind != wanted || same(&own, &fstat(namespace).map_err(senseless)?) {
        return Err(senseless(Errno::EINVAL));
    }
    let owner = sys::owning_user_namespace(namespace.as_fd())
        .map_err(|errno| NoOwner { found: true, errno })?;
    let own = stat("/proc/self/ns/user").map_err(senseless)?;
    if same(&own, &fstat(&owner).map_err(senseless)?) {
        return Err(senseless(Errno::EINVAL));
    }
    Ok(owner)
}

fn same(one: &FileStat, other: &FileStat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn open(wanted: LowSocket) -> Result<OwnedFd, Errno> {
    let kind = match wanted.transport {
        Transport::Tcp => SockType::Stream,
        Transport::Udp => SockType::Datagram,
    };
    let opened = socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, None)?;
    if wanted.transport == Transport::Tcp {
        setsockopt(&opened, sockopt::ReuseAddr, &true)?;
    }
    let address = SockaddrIn::from(SocketAddrV4::new(wanted.address, wanted.port));
    bind(opened.as_raw_fd(), &address)?;
    if wanted.transport == Transport::Tcp {
        listen(&opened, Backlog::MAXCONN)?;
    }
    Ok(opened)
}

/// `ip route replace local ADDRESS/PREFIX dev lo table local`.
fn make_local(network: LocalNetwork) -> Result<(), Errno> {
    if !(8..=32).contains(&network.prefix) {
        return Err(Errno::EINVAL);
    }
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    let message = local_route(network, if_nametoindex("lo")?);
    let kernel = NetlinkAddr::new(0, 0);
    sendto(netlink.as_raw_fd(), &message, &kernel, MsgFlags::empty())?;
    let mut answer = [0; 1024];
    let count = receive(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    acknowledged(answer.get(..count).unwrap_or_default())
}

/// An `RTM_NEWROUTE` message (rtnetlink(7)).
fn local_route(network: LocalNetwork, interface: u32) -> Vec<u8> {
    const HEADER: usize = 16;
    const NLM_F_REQUEST: u16 = 0x1;
    const NLM_F_ACK: u16 = 0x4;
    const NLM_F_REPLACE: u16 = 0x100;
    const NLM_F_CREATE: u16 = 0x400;
    const ATTRIBUTE: u16 = 8;
    let mut body: Vec<u8> = vec![
        2, // AF_INET
        network.prefix,
        0, // source prefix
        0, // type of service
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ];
    body.extend(0u32.to_ne_bytes()); // flags
    for (kind, value) in [
        (libc::RTA_DST, network.address.octets()),
        (libc::RTA_OIF, interface.to_ne_bytes()),
    ] {
        body.extend(ATTRIBUTE.to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
    }
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(libc::RTM_NEWROUTE.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(1u32.to_ne_bytes()); // sequence
    message.extend(0u32.to_ne_bytes()); // port: the kernel fills in
    message.extend(body);
    message
}

/// Reads an `NLMSG_ERROR` message, which with error 0 is the acknowledgement (netlink(7)).
fn acknowledged(answer: &[u8]) -> Result<(), Errno> {
    let number = |from: usize| -> Option<[u8; 4]> { answer.get(from..from + 4)?.try_into().ok() };
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok());
    let error = i32::from(kind.map_or(0, u16::from_ne_bytes)) == libc::NLMSG_ERROR;
    match number(16).map(i32::from_ne_bytes) {
        Some(0) if error => Ok(()),
        Some(negative) if error => Err(Errno::from_raw(negative.saturating_neg())),
        _ => Err(Errno::EPROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn request(sockets: usize) -> HelperRequest {
        let socket = LowSocket {
            transport: Transport::Tcp,
            address: Ipv4Addr::LOCALHOST,
            port: 80,
        };
        HelperRequest {
            protocol: PROTOCOL_VERSION,
            local: None,
            sockets: vec![socket; sockets],
        }
    }

    fn failure(step: HelperStep, errno: Errno) -> Option<Failure> {
        Some(Failure { step, errno })
    }

    #[test]
    fn the_hosts_own_network_is_never_touched() {
        let own = std::fs::File::open("/proc/self/ns/net").unwrap();
        let refused = open_all(&request(1), vec![own.into()]).err();
        assert_eq!(refused, failure(HelperStep::Request, Errno::EINVAL));
        let other = std::fs::File::open("/proc/self/ns/uts").unwrap();
        let refused = open_all(&request(1), vec![other.into()]).err();
        assert_eq!(refused, failure(HelperStep::Request, Errno::EINVAL));
        let file = std::fs::File::open("/dev/null").unwrap();
        let refused = open_all(&request(1), vec![file.into()]).err();
        assert_eq!(refused, failure(HelperStep::Request, Errno::ENOTTY));
        let none = open_all(&request(1), vec![]).err();
        assert_eq!(none, failure(HelperStep::Request, Errno::EBADF));
        let own = std::fs::File::open("/proc/self/ns/net").unwrap();
        let many = open_all(&request(MAX_LISTENERS + 1), vec![own.into()]).err();
        assert_eq!(many, failure(HelperStep::Request, Errno::EPROTO));
    }

    #[test]
    fn the_route_is_the_message_that_the_kernel_documents() {
        let network = LocalNetwork {
            address: Ipv4Addr::new(198, 18, 0, 0),
            prefix: 15,
        };
        let message = local_route(network, 1);
        assert_eq!(message.len(), 16 + 12 + 8 + 8);
        assert_eq!(message[..4], 44u32.to_ne_bytes());
        assert_eq!(message[16..24], [2, 15, 0, 0, 255, 4, 254, 2]);
        assert_eq!(message[32..36], [198, 18, 0, 0]);
        for prefix in [0, 7, 33] {
            let wide = LocalNetwork { prefix, ..network };
            assert_eq!(make_local(wide), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn only_an_acknowledgement_is_one() {
        let answer = |kind: u16, error: i32| {
            let mut bytes = vec![36, 0, 0, 0];
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(error.to_ne_bytes());
            bytes
        };
        assert_eq!(acknowledged(&answer(2, 0)), Ok(()));
        assert_eq!(acknowledged(&answer(2, -libc::EPERM)), Err(Errno::EPERM));
        assert_eq!(acknowledged(&answer(3, 0)), Err(Errno::EPROTO));
        assert_eq!(acknowledged(&[]), Err(Errno::EPROTO));
    }
}
