//! Frames over a Unix stream socket, with descriptors (unix(7), `SCM_RIGHTS`).
//!
//! Two forms share one code path: [`send`] and [`recv`] block, for the engine; [`Sender`] and
//! [`Receiver`] never do, for the guard's event loop.
#![expect(
    unsafe_code,
    reason = "sendmsg(2) and recvmsg(2) with control messages"
)]

use super::{Assembler, WireError, decode, encode};
use crate::proto::MAX_FRAME_FDS;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::VecDeque,
    io,
    mem::{size_of, zeroed},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

/// Words of control data for [`MAX_FRAME_FDS`] descriptors and the header before them; `u64`
/// words, because `cmsghdr` must be aligned. The header is at most three words long.
const CONTROL_WORDS: usize = 3 + (MAX_FRAME_FDS * size_of::<RawFd>()).div_ceil(size_of::<u64>());

/// What one turn of [`Receiver::poll`] brought.
#[derive(Debug)]
pub enum Received<T> {
    /// A whole message and the descriptors that came with it.
    Message(T, Vec<OwnedFd>),
    /// Nothing more to read for now.
    Pending,
    /// The other side is gone, at the end of a frame.
    Closed,
}

/// Reads messages; keeps what has arrived of the next one.
#[derive(Debug, Default)]
pub struct Receiver {
    assembler: Assembler,
    descriptors: Vec<OwnedFd>,
    buffer: Vec<u8>,
}

impl Receiver {
    /// Reads as far as it can without waiting.
    ///
    /// # Errors
    /// Any [`WireError`]; the stream cannot be used after one.
    pub fn poll<T: DeserializeOwned>(
        &mut self,
        socket: &impl AsFd,
    ) -> Result<Received<T>, WireError> {
        self.advance(socket, libc::MSG_DONTWAIT)
    }

    /// Waits for the next message; `None` when the other side is gone.
    ///
    /// # Errors
    /// Any [`WireError`]; the stream cannot be used after one.
    pub fn recv<T: DeserializeOwned>(
        &mut self,
        socket: &impl AsFd,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, WireError> {
        loop {
            match self.advance(socket, 0)? {
                Received::Message(message, descriptors) => {
                    return Ok(Some((message, descriptors)));
                }
                Received::Closed => return Ok(None),
                // Only a socket that was made non-blocking comes here.
                Received::Pending => wait_readable(socket)?,
            }
        }
    }

    fn advance<T: DeserializeOwned>(
        &mut self,
        socket: &impl AsFd,
        flags: libc::c_int,
    ) -> Result<Received<T>, WireError> {
        loop {
            // A frame without a body is complete with its header, so at least one byte is
            // always wanted here.
            self.buffer.resize(self.assembler.wanted(), 0);
            let at_boundary = self.assembler.at_boundary();
            let (count, descriptors) =
                match receive(socket.as_fd().as_raw_fd(), &mut self.buffer, flags) {
                    Ok(read) => read,
                    Err(WireError::Socket(error)) => match error.raw_os_error() {
                        Some(libc::EINTR) => continue,
                        Some(libc::EAGAIN) => return Ok(Received::Pending),
                        // The other side closed with our bytes unread.
                        Some(libc::ECONNRESET) if at_boundary => return Ok(Received::Closed),
                        Some(libc::ECONNRESET) => return Err(WireError::Truncated),
                        _ => return Err(WireError::Socket(error)),
                    },
                    Err(error) => return Err(error),
                };
            if count == 0 {
                return if at_boundary {
                    Ok(Received::Closed)
                } else {
                    Err(WireError::Truncated)
                };
            }
            if !descriptors.is_empty() {
                if !at_boundary {
                    return Err(WireError::StrayDescriptors);
                }
                self.descriptors = descriptors;
            }
            if let (_, Some(body)) = self.assembler.push(&self.buffer[..count])? {
                let descriptors = std::mem::take(&mut self.descriptors);
                return Ok(Received::Message(decode(&body)?, descriptors));
            }
        }
    }
}

/// Queues messages and writes as much as the socket takes.
#[derive(Debug, Default)]
pub struct Sender {
    queue: VecDeque<Outgoing>,
    queued_bytes: usize,
}

#[derive(Debug)]
struct Outgoing {
    frame: Vec<u8>,
    written: usize,
    descriptors: Vec<OwnedFd>,
}

impl Sender {
    /// Puts a message at the end of the queue. Its descriptors are closed here once they are
    /// on their way.
    ///
    /// # Errors
    /// As [`encode`], and [`WireError::TooManyDescriptors`].
    pub fn queue<T: Serialize>(
        &mut self,
        message: &T,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), WireError> {
        if descriptors.len() > MAX_FRAME_FDS {
            return Err(WireError::TooManyDescriptors);
        }
        let frame = encode(message)?;
        self.queued_bytes += frame.len();
        self.queue.push_back(Outgoing {
            frame,
            written: 0,
            descriptors,
        });
        Ok(())
    }

    /// Bytes that are not written yet.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Whether everything is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Writes what the socket takes without waiting.
    ///
    /// # Errors
    /// [`WireError::Socket`], with `EPIPE` when the other side is gone.
    pub fn flush(&mut self, socket: &impl AsFd) -> Result<(), WireError> {
        while let Some(next) = self.queue.front_mut() {
            let descriptors: Vec<RawFd> = next.descriptors.iter().map(AsRawFd::as_raw_fd).collect();
            let piece = &next.frame[next.written..];
            match transmit(
                socket.as_fd().as_raw_fd(),
                piece,
                &descriptors,
                libc::MSG_DONTWAIT,
            ) {
                Ok(count) => {
                    // They travel with the first byte, and only once.
                    next.descriptors.clear();
                    next.written += count;
                    self.queued_bytes -= count;
                    if next.written == next.frame.len() {
                        self.queue.pop_front();
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => return Ok(()),
                    _ => return Err(WireError::Socket(error)),
                },
            }
        }
        Ok(())
    }
}

/// Writes one message with its descriptors, waiting as long as the other side does not read.
///
/// # Errors
/// As [`encode`]; [`WireError::TooManyDescriptors`]; [`WireError::Socket`], with `EPIPE` when
/// the other side is gone.
pub fn send<T: Serialize>(
    socket: &impl AsFd,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), WireError> {
    if descriptors.len() > MAX_FRAME_FDS {
        return Err(WireError::TooManyDescriptors);
    }
    let frame = encode(message)?;
    let mut descriptors: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let mut written = 0;
    while written < frame.len() {
        match transmit(
            socket.as_fd().as_raw_fd(),
            &frame[written..],
            &descriptors,
            0,
        ) {
            Ok(count) => {
                descriptors.clear();
                written += count;
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => wait_for(socket, libc::POLLOUT)?,
                _ => return Err(WireError::Socket(error)),
            },
        }
    }
    Ok(())
}

/// Waits for one message on a socket of which nothing was read before; `None` when the other
/// side is gone. A [`Receiver`] does the same for a stream of them.
///
/// # Errors
/// Any [`WireError`].
pub fn recv<T: DeserializeOwned>(
    socket: &impl AsFd,
) -> Result<Option<(T, Vec<OwnedFd>)>, WireError> {
    Receiver::default().recv(socket)
}

fn wait_readable(socket: &impl AsFd) -> Result<(), WireError> {
    wait_for(socket, libc::POLLIN)
}

fn wait_for(socket: &impl AsFd, events: libc::c_short) -> Result<(), WireError> {
    let mut entry = libc::pollfd {
        fd: socket.as_fd().as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: `entry` is one valid pollfd for the length of the call.
    if unsafe { libc::poll(&raw mut entry, 1, -1) } < 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(WireError::Socket(error));
        }
    }
    Ok(())
}

/// Bytes of descriptors in a control message, as the kernel counts them.
fn payload_bytes(descriptors: usize) -> u32 {
    u32::try_from(descriptors * size_of::<RawFd>()).unwrap_or(u32::MAX)
}

fn transmit(
    socket: RawFd,
    bytes: &[u8],
    descriptors: &[RawFd],
    flags: libc::c_int,
) -> io::Result<usize> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all-zero is a valid msghdr: no name, no control data, no parts.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if !descriptors.is_empty() {
        let payload = payload_bytes(descriptors.len());
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE only computes.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as usize;
        if header.msg_controllen > size_of::<[u64; CONTROL_WORDS]>() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the control buffer is aligned and holds CMSG_SPACE(payload) bytes, so the
        // first header is inside it.
        let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
        // SAFETY: `first` points to a cmsghdr inside `control`, see above.
        let message = unsafe { &mut *first };
        message.cmsg_level = libc::SOL_SOCKET;
        message.cmsg_type = libc::SCM_RIGHTS;
        // SAFETY: CMSG_LEN only computes.
        message.cmsg_len = unsafe { libc::CMSG_LEN(payload) } as usize;
        // SAFETY: the data of the first header is inside `control`.
        let data = unsafe { libc::CMSG_DATA(first) };
        // SAFETY: `data` has room for `payload` bytes, and `descriptors` holds that many.
        unsafe { ptr::copy_nonoverlapping(descriptors.as_ptr().cast(), data, payload as usize) };
    }
    // SAFETY: `header` points to `part` and `control`, which outlive the call.
    let sent = unsafe { libc::sendmsg(socket, &raw const header, flags | libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn receive(
    socket: RawFd,
    buffer: &mut [u8],
    flags: libc::c_int,
) -> Result<(usize, Vec<OwnedFd>), WireError> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE only computes.
    let space = unsafe { libc::CMSG_SPACE(payload_bytes(MAX_FRAME_FDS)) } as usize;
    header.msg_controllen = space.min(size_of::<[u64; CONTROL_WORDS]>());
    // SAFETY: `header` points to `part` and `control`, which outlive the call and are as long
    // as it says.
    let count = unsafe { libc::recvmsg(socket, &raw mut header, flags | libc::MSG_CMSG_CLOEXEC) };
    let count =
        usize::try_from(count).map_err(|_| WireError::Socket(io::Error::last_os_error()))?;
    // Owned at once, so that every error below closes them.
    let descriptors = received_descriptors(&header);
    if header.msg_flags & libc::MSG_CTRUNC != 0 {
        // Either there was no room, or the kernel did not let them through (a security module).
        return Err(if descriptors.len() < MAX_FRAME_FDS {
            WireError::DescriptorsWithheld
        } else {
            WireError::TooManyDescriptors
        });
    }
    Ok((count, descriptors))
}

fn received_descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut found = Vec::new();
    // SAFETY: recvmsg filled `header`; its control pointer and length are valid.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give null or a header inside the buffer.
        let message = unsafe { &*next };
        if message.cmsg_level == libc::SOL_SOCKET && message.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: CMSG_LEN only computes.
            let overhead = unsafe { libc::CMSG_LEN(0) } as usize;
            let count = message.cmsg_len.saturating_sub(overhead) / size_of::<RawFd>();
            // SAFETY: the data of a header that the kernel wrote.
            let data: *const RawFd = unsafe { libc::CMSG_DATA(next) }.cast();
            for index in 0..count {
                // SAFETY: the kernel wrote `count` descriptors here.
                let place = unsafe { data.add(index) };
                // SAFETY: as above; the place need not be aligned.
                let descriptor = unsafe { place.read_unaligned() };
                // SAFETY: the kernel has just opened it for us, and nobody else owns it.
                found.push(unsafe { OwnedFd::from_raw_fd(descriptor) });
            }
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Event, Exec, Request, Stdio};
    use std::{
        fs::File,
        io::{Read, Write},
        os::unix::net::UnixStream,
    };

    fn exec(size: usize) -> Request {
        Request::Exec(Box::new(Exec {
            id: 5,
            argv: vec![vec![b'x'; size]],
            cwd: b"/".to_vec(),
            env: vec![],
            stdio: Stdio::Pipes,
            service: false,
        }))
    }

    fn is_cloexec(fd: &OwnedFd) -> bool {
        let flags = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_GETFD).unwrap();
        flags & libc::FD_CLOEXEC != 0
    }

    #[test]
    fn descriptors_arrive_with_their_own_frame_and_close_on_exec() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&here, &Request::Freeze, &[]).unwrap();
        send(&here, &exec(10), &[writer.as_fd()]).unwrap();
        send(&here, &Request::Thaw, &[]).unwrap();
        drop(writer);
        let mut receiver = Receiver::default();
        let mut next = || receiver.recv::<Request>(&there).unwrap().unwrap();
        assert!(matches!(next(), (Request::Freeze, none) if none.is_empty()));
        let (message, mut descriptors) = next();
        assert_eq!(message, exec(10));
        assert!(matches!(next(), (Request::Thaw, none) if none.is_empty()));
        assert_eq!(descriptors.len(), 1);
        assert!(is_cloexec(&descriptors[0]));
        let mut received = File::from(descriptors.remove(0));
        received.write_all(b"through").unwrap();
        drop(received);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn the_end_of_the_stream_is_told_from_a_broken_frame() {
        let (here, there) = UnixStream::pair().unwrap();
        send(&here, &Event::Bye, &[]).unwrap();
        drop(here);
        let mut receiver = Receiver::default();
        assert!(receiver.recv::<Event>(&there).unwrap().is_some());
        assert!(receiver.recv::<Event>(&there).unwrap().is_none());

        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(&[9, 0, 0, 0, 1]).unwrap();
        drop(here);
        assert!(matches!(recv::<Event>(&there), Err(WireError::Truncated)));
    }

    #[test]
    fn more_descriptors_than_allowed_are_refused_and_closed() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let many = [writer.as_fd(); MAX_FRAME_FDS + 1];
        assert!(matches!(
            send(&here, &Request::Freeze, &many),
            Err(WireError::TooManyDescriptors)
        ));
        // Past our own sender, by the bare system call.
        let frame = encode(&Request::Freeze).unwrap();
        let raw = [writer.as_raw_fd(); MAX_FRAME_FDS + 1];
        transmit(here.as_raw_fd(), &frame, &raw, 0).unwrap();
        drop(writer);
        assert!(matches!(
            recv::<Request>(&there),
            Err(WireError::TooManyDescriptors)
        ));
        // All copies are closed: the pipe has no writer left.
        assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn descriptors_in_the_middle_of_a_frame_are_refused() {
        let (here, there) = UnixStream::pair().unwrap();
        let frame = encode(&exec(10)).unwrap();
        transmit(here.as_raw_fd(), &frame[..4], &[], 0).unwrap();
        transmit(here.as_raw_fd(), &frame[4..], &[here.as_raw_fd()], 0).unwrap();
        assert!(matches!(
            recv::<Request>(&there),
            Err(WireError::StrayDescriptors)
        ));
    }

    #[test]
    fn a_reader_that_stalls_does_not_block_the_sender() {
        let (here, there) = UnixStream::pair().unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        let mut sender = Sender::default();
        sender
            .queue(&exec(3_000_000), vec![OwnedFd::from(writer)])
            .unwrap();
        sender.queue(&Request::Thaw, vec![]).unwrap();
        sender.flush(&here).unwrap();
        assert!(!sender.is_empty());
        let mut receiver = Receiver::default();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            sender.flush(&here).unwrap();
            match receiver.poll::<Request>(&there).unwrap() {
                Received::Message(message, descriptors) => seen.push((message, descriptors.len())),
                Received::Pending => {}
                Received::Closed => panic!("closed"),
            }
        }
        assert_eq!(seen, [(exec(3_000_000), 1), (Request::Thaw, 0)]);
        assert_eq!(sender.queued_bytes(), 0);
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error_and_no_signal() {
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        assert!(matches!(
            send(&here, &Request::Freeze, &[]),
            Err(WireError::Socket(error)) if error.raw_os_error() == Some(libc::EPIPE)
        ));
    }
}
