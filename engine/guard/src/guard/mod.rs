//! The guard itself.

mod connect;
mod connectors;
mod everybody;
mod exec;
mod freeze;
mod helper;
mod masks;
mod processes;
mod restrict;
mod session;
mod setup;
mod sockets;
mod supervise;
mod sys;
mod sys_mount;
mod verify;

use kotak_guard::{
    proto::{Event, Request},
    wire::{Receiver, WireError, send},
};
use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::{chdir, setsid},
};
use session::{End, Session};
use setup::{Life, prepare};
use std::{
    ffi::OsString,
    os::fd::{AsRawFd, OwnedFd},
    process::ExitCode,
};
use verify::check;

/// Exit codes, for whoever looks at the launcher's status.
const REFUSED: u8 = 120;
const ENGINE_GONE: u8 = 121;
const MISUSED: u8 = 122;

/// Signals of a terminal or a service manager that must not end the watcher of a session. As
/// PID 1 the guard ignores them anyhow.
const OUTLIVED: [Signal; 12] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGPIPE,
    Signal::SIGALRM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGXCPU,
];

/// Everything a guard does.
pub(crate) fn run() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.next_if(|word| word == "connect").is_some() {
        return connect::run(words);
    }
    let Some((mode, number)) = arguments(words) else {
        eprintln!("kotak-guard: usage: kotak-guard native|host|helper|masks DESCRIPTOR");
        return ExitCode::from(MISUSED);
    };
    let (control, signals) = match take_over(number) {
        Ok(taken) => taken,
        Err(errno) => {
            eprintln!("kotak-guard: descriptor {number}: {errno}");
            return ExitCode::from(MISUSED);
        }
    };
    let served = match mode {
        Mode::Life(life) => serve(life, control, signals),
        Mode::Helper => helper::serve(&control).map(|()| ExitCode::SUCCESS),
        Mode::Masks => masks::serve(&control).map(|()| ExitCode::SUCCESS),
    };
    match served {
        Ok(code) => code,
        Err(error) => {
            eprintln!("kotak-guard: {error}");
            ExitCode::from(ENGINE_GONE)
        }
    }
}

/// What the command line asks for, when it is to serve an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// To guard a session.
    Life(Life),
    /// To open ports in a sandbox's network.
    Helper,
    /// To put masks back into a sandbox.
    Masks,
}

fn arguments(mut words: impl Iterator<Item = OsString>) -> Option<(Mode, i32)> {
    let mode = match words.next()?.to_str()? {
        "native" => Mode::Life(Life::Native),
        "host" => Mode::Life(Life::Host),
        "helper" => Mode::Helper,
        "masks" => Mode::Masks,
        _ => return None,
    };
    let number = words
        .next()?
        .to_str()?
        .parse()
        .ok()
        .filter(|number| *number > 2)?;
    words.next().is_none().then_some((mode, number))
}

/// Takes the control socket, closes whatever else was inherited, leaves the terminal and the
/// directory of the engine and turns SIGCHLD into something to poll.
fn take_over(number: i32) -> Result<(OwnedFd, SignalFd), Errno> {
    let control = sys::inherited_descriptor(number)?;
    let above = control.as_raw_fd().unsigned_abs();
    sys::close_range(3, above - 1)?;
    sys::close_range(above + 1, u32::MAX)?;
    // Run by a descriptor, it would be listed under the number of that.
    prctl::set_name(c"kotak-guard")?;
    // Stay in nobody's way: no directory is kept busy.
    chdir("/")?;
    match setsid() {
        // EPERM: it leads a process group of its own already.
        Ok(_) | Err(Errno::EPERM) => {}
        Err(errno) => return Err(errno),
    }
    for signal in OUTLIVED {
        sys::ignore_signal(signal as i32);
    }
    sys::default_signal(Signal::SIGCHLD as i32);
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_set_mask()?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    Ok((control, signals))
}

fn serve(life: Life, control: OwnedFd, signals: SignalFd) -> Result<ExitCode, WireError> {
    let mut receiver = Receiver::default();
    let Some((first, descriptors)) = receiver.recv::<Request>(&control)? else {
        return Ok(ExitCode::from(ENGINE_GONE));
    };
    drop(descriptors);
    let prepared = match first {
        Request::Setup(setup) => prepare(life, &setup),
        Request::Exec(_)
        | Request::Signal(_)
        | Request::Freeze
        | Request::Thaw
        | Request::Processes { .. }
        | Request::WhoConnects { .. }
        | Request::Connect { .. }
        | Request::Listen { .. }
        | Request::Shutdown { .. } => Err(check("protocol", "the first message is no set-up")),
    };
    let ready = match prepared {
        Ok(ready) => ready,
        Err(found) => {
            send(&control, &Event::Refused(found), &[])?;
            return Ok(ExitCode::from(REFUSED));
        }
    };
    Ok(
        match Session::new(control, receiver, signals, ready)?.run() {
            End::Orderly => ExitCode::SUCCESS,
            End::EngineGone => ExitCode::from(ENGINE_GONE),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Option<(Mode, i32)> {
        arguments(words.iter().map(OsString::from))
    }

    #[test]
    fn the_command_line_is_a_role_and_a_descriptor() {
        let native = Mode::Life(Life::Native);
        assert_eq!(parsed(&["native", "13"]), Some((native, 13)));
        assert_eq!(parsed(&["host", "3"]), Some((Mode::Life(Life::Host), 3)));
        assert_eq!(parsed(&["helper", "13"]), Some((Mode::Helper, 13)));
        assert_eq!(parsed(&["masks", "13"]), Some((Mode::Masks, 13)));
        for wrong in [
            &[][..],
            &["native"],
            &["native", "2"],
            &["native", "x"],
            &["other", "3"],
        ] {
            assert_eq!(parsed(wrong), None);
        }
        assert_eq!(parsed(&["native", "3", "4"]), None);
    }
}
