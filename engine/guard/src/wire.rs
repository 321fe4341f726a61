//! Frames: how [`crate::proto`] messages stand on the control socket.
//!
//! A frame is a little-endian `u32` length and that many bytes of postcard. This module turns
//! messages into frames and any stream of bytes back into messages or a typed error; the
//! socket, with the descriptors that travel along, is in [`socket`].

#[cfg(target_os = "linux")]
pub mod socket;

#[cfg(target_os = "linux")]
pub use socket::{Received, Receiver, Sender, recv, send};

use crate::proto::MAX_FRAME_BYTES;
use serde::{Serialize, de::DeserializeOwned};

/// Bytes of the length in front of each frame.
const HEADER_BYTES: usize = 4;

/// A body grows by at most this much before the bytes for it have really arrived, so that a
/// length alone cannot make the reader allocate.
const GROWTH_BYTES: usize = 64 * 1024;

/// Why the stream cannot go on. Every one of these ends the session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// the message is longer than a frame may be
    #[error("a frame of {bytes} bytes is longer than the limit of {MAX_FRAME_BYTES}")]
    TooLong {
        /// What the message or the length field asks for.
        bytes: u64,
    },
    /// the body is no message
    #[error("the frame holds no valid message")]
    Malformed(#[source] postcard::Error),
    /// the body holds a message and then something else
    #[error("{bytes} bytes are left after the message in a frame")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// the message could not be put into bytes
    #[error("the message cannot be encoded")]
    Unencodable(#[source] postcard::Error),
    /// the other side went away in the middle of a frame
    #[error("the stream ended in the middle of a frame")]
    Truncated,
    /// more descriptors than the protocol allows
    #[error("more than {} descriptors with one frame", crate::proto::MAX_FRAME_FDS)]
    TooManyDescriptors,
    /// a security module of the kernel, or a limit, kept descriptors back
    #[error("the system did not let descriptors through")]
    DescriptorsWithheld,
    /// descriptors came where none may stand
    #[error("descriptors came with the middle of a frame")]
    StrayDescriptors,
    /// the socket failed
    #[error("the control socket failed")]
    Socket(#[source] std::io::Error),
}

/// The frame of one message.
///
/// # Errors
/// [`WireError::TooLong`] past the limit, [`WireError::Unencodable`] if postcard refuses.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    let body = postcard::to_allocvec(message).map_err(WireError::Unencodable)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length <= MAX_FRAME_BYTES)
        .ok_or(WireError::TooLong {
            bytes: body.len() as u64,
        })?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// The message in the body of a frame: all of the body, and nothing but it.
///
/// # Errors
/// [`WireError::Malformed`] or [`WireError::Trailing`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    let (message, rest) = postcard::take_from_bytes(body).map_err(WireError::Malformed)?;
    if rest.is_empty() {
        Ok(message)
    } else {
        Err(WireError::Trailing { bytes: rest.len() })
    }
}

/// Puts frames together from pieces of any size.
#[derive(Debug, Default)]
pub struct Assembler {
    header: [u8; HEADER_BYTES],
    header_filled: usize,
    body: Vec<u8>,
    /// Known once the header is complete.
    length: Option<usize>,
}

impl Assembler {
    /// How many bytes to read next at most. Reading no more than this keeps every read inside
    /// one frame, which is what ties descriptors to the frame they came with.
    #[must_use]
    pub fn wanted(&self) -> usize {
        match self.length {
            None => HEADER_BYTES - self.header_filled,
            Some(length) => (length - self.body.len()).min(GROWTH_BYTES),
        }
    }

    /// Whether no byte of a frame has arrived yet.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.length.is_none() && self.header_filled == 0
    }

    /// Takes what it can from the front of `bytes`; gives how many it took and the body that
    /// these completed, if they did.
    ///
    /// # Errors
    /// [`WireError::TooLong`] as soon as the length field says so.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), WireError> {
        let mut taken = 0;
        if self.length.is_none() {
            let piece = &bytes[..bytes.len().min(HEADER_BYTES - self.header_filled)];
            self.header[self.header_filled..self.header_filled + piece.len()]
                .copy_from_slice(piece);
            self.header_filled += piece.len();
            taken += piece.len();
            if self.header_filled < HEADER_BYTES {
                return Ok((taken, None));
            }
            let length = u32::from_le_bytes(self.header);
            if length > MAX_FRAME_BYTES {
                return Err(WireError::TooLong {
                    bytes: u64::from(length),
                });
            }
            self.length = Some(length as usize);
        }
        let length = self.length.unwrap_or_default();
        let rest = &bytes[taken..];
        let piece = &rest[..rest.len().min(length - self.body.len())];
        self.body.extend_from_slice(piece);
        taken += piece.len();
        if self.body.len() < length {
            return Ok((taken, None));
        }
        self.length = None;
        self.header_filled = 0;
        Ok((taken, Some(std::mem::take(&mut self.body))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{
        BpfInsn, Connection, Event, Exec, ExitStatus, LandlockPlan, ListenAt, Process, Request,
        Role, Setup, Signal, SignalTarget, Stdio, Transport,
    };
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..40)
    }

    fn requests() -> impl Strategy<Value = Request> {
        prop_oneof![
            Just(Request::Freeze),
            Just(Request::Thaw),
            any::<u64>().prop_map(|token| Request::Processes { token }),
            (any::<u64>(), any::<u16>()).prop_map(|(token, port)| Request::Connect { token, port }),
            (any::<u64>(), bytes()).prop_map(|(token, path)| Request::Listen {
                token,
                at: ListenAt::Path(path)
            }),
            (any::<u64>(), any::<[u8; 16]>(), any::<u16>()).prop_map(|(token, address, port)| {
                Request::WhoConnects {
                    token,
                    connection: Connection {
                        transport: Transport::Tcp,
                        client: (address, port).into(),
                        server: None,
                    },
                }
            }),
            any::<u32>().prop_map(|grace_ms| Request::Shutdown { grace_ms }),
            (any::<i32>(), any::<u64>()).prop_map(|(signal, id)| Request::Signal(Signal {
                signal,
                to: SignalTarget::Foreground(id)
            })),
            (
                any::<u64>(),
                proptest::collection::vec(bytes(), 0..6),
                bytes(),
                proptest::collection::vec((bytes(), bytes()), 0..6),
                any::<(u16, u16)>()
            )
                .prop_map(|(id, argv, cwd, env, (cols, rows))| Request::Exec(
                    Box::new(Exec {
                        id,
                        argv,
                        cwd,
                        env,
                        stdio: Stdio::Pty { cols, rows },
                        service: cols % 2 == 0,
                    })
                )),
            proptest::collection::vec(any::<(u16, u8, u8, u32)>(), 0..30).prop_map(|program| {
                Request::Setup(Box::new(Setup {
                    protocol: 1,
                    role: Role::Host,
                    landlock: LandlockPlan::default(),
                    seccomp: vec![
                        program
                            .into_iter()
                            .map(|(code, jt, jf, k)| BpfInsn { code, jt, jf, k })
                            .collect(),
                    ],
                    files: None,
                    exec: None,
                    loopback: None,
                    hand_over_mounts: true,
                }))
            }),
        ]
    }

    /// Every body that a stream holds, fed in pieces of the given sizes.
    fn bodies(stream: &[u8], sizes: &[usize]) -> Result<Vec<Vec<u8>>, WireError> {
        let mut assembler = Assembler::default();
        let mut found = Vec::new();
        let mut sizes = sizes.iter().copied().cycle();
        let mut at = 0;
        while at < stream.len() {
            let size = sizes.next().unwrap_or(1).max(1).min(stream.len() - at);
            let (taken, body) = assembler.push(&stream[at..at + size])?;
            found.extend(body);
            at += taken;
        }
        Ok(found)
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same_wherever_it_is_split(
            messages in proptest::collection::vec(requests(), 1..5),
            sizes in proptest::collection::vec(1usize..50, 1..8),
        ) {
            let mut stream = Vec::new();
            for message in &messages {
                stream.extend(encode(message).unwrap());
            }
            let decoded: Vec<Request> = bodies(&stream, &sizes)
                .unwrap()
                .iter()
                .map(|body| decode(body).unwrap())
                .collect();
            prop_assert_eq!(decoded, messages);
        }

        #[test]
        fn any_bytes_give_messages_or_a_typed_error(
            stream in proptest::collection::vec(any::<u8>(), 0..400),
            sizes in proptest::collection::vec(1usize..50, 1..8),
        ) {
            if let Ok(found) = bodies(&stream, &sizes) {
                for body in found {
                    // Either is right; reaching the end without a panic is what is tested.
                    let _ = decode::<Request>(&body);
                    let _ = decode::<Event>(&body);
                }
            }
        }

        #[test]
        fn a_damaged_body_gives_a_message_or_a_typed_error(
            message in requests(),
            at in any::<prop::sample::Index>(),
            value in any::<u8>(),
        ) {
            let mut body = encode(&message).unwrap().split_off(HEADER_BYTES);
            let at = at.index(body.len());
            body[at] = value;
            if let Ok(decoded) = decode::<Request>(&body) {
                // What decodes has one meaning: it survives another round.
                let again = encode(&decoded).unwrap().split_off(HEADER_BYTES);
                prop_assert_eq!(decode::<Request>(&again).unwrap(), decoded);
            }
        }
    }

    #[test]
    fn a_length_past_the_limit_is_refused_from_the_header_alone() {
        let mut assembler = Assembler::default();
        let length = MAX_FRAME_BYTES + 1;
        let refused = assembler.push(&length.to_le_bytes());
        assert!(matches!(refused, Err(WireError::TooLong { bytes }) if bytes == u64::from(length)));
        // Positive control: the limit itself is taken.
        let mut assembler = Assembler::default();
        assert!(matches!(
            assembler.push(&MAX_FRAME_BYTES.to_le_bytes()),
            Ok((4, None))
        ));
    }

    #[test]
    fn a_length_alone_allocates_nothing() {
        let mut assembler = Assembler::default();
        assembler.push(&MAX_FRAME_BYTES.to_le_bytes()).unwrap();
        assembler.push(&[0; 10]).unwrap();
        assert!(assembler.body.capacity() <= GROWTH_BYTES);
        assert_eq!(assembler.wanted(), GROWTH_BYTES);
    }

    #[test]
    fn a_claimed_element_count_does_not_allocate_for_elements_that_are_not_there() {
        // Event::Processes with a list that claims 2^32 - 1 entries and holds none.
        let empty = Event::Processes {
            token: 0,
            list: Vec::new(),
        };
        let mut body = encode(&empty).unwrap().split_off(HEADER_BYTES);
        assert_eq!(body.pop(), Some(0));
        body.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(matches!(
            decode::<Event>(&body),
            Err(WireError::Malformed(_))
        ));
    }

    #[test]
    fn a_message_longer_than_a_frame_is_refused_by_the_sender() {
        let argv = vec![vec![0; MAX_FRAME_BYTES as usize]];
        let exec = Exec {
            id: 1,
            argv,
            cwd: vec![],
            env: vec![],
            stdio: Stdio::Pipes,
            service: false,
        };
        assert!(matches!(
            encode(&Request::Exec(Box::new(exec))),
            Err(WireError::TooLong { .. })
        ));
    }

    #[test]
    fn bytes_after_the_message_are_refused() {
        let mut body = encode(&Event::Bye).unwrap().split_off(HEADER_BYTES);
        assert_eq!(decode::<Event>(&body).unwrap(), Event::Bye);
        body.push(0);
        assert!(matches!(
            decode::<Event>(&body),
            Err(WireError::Trailing { bytes: 1 })
        ));
    }

    #[test]
    fn an_empty_body_is_no_message() {
        assert!(matches!(decode::<Event>(&[]), Err(WireError::Malformed(_))));
    }

    #[test]
    fn events_come_back_as_they_were() {
        let events = [
            Event::Exited {
                id: 7,
                status: ExitStatus::Signal(9),
            },
            Event::Processes {
                token: 3,
                list: vec![Process {
                    pid: 2,
                    ppid: 1,
                    pgid: 2,
                    sid: 2,
                    tpgid: -1,
                    state: 'S',
                    comm: "sh".into(),
                    argv: vec!["sh".into(), "-c".into()],
                }],
            },
        ];
        for event in events {
            let body = encode(&event).unwrap().split_off(HEADER_BYTES);
            assert_eq!(decode::<Event>(&body).unwrap(), event);
        }
    }
}
