//! The life of a sandbox as a pure state machine (REQ SP, SandboxState).
//!
//! `created → warm → active ⇄ warm → suspended → destroyed`, and `error` from anywhere alive.

use super::SandboxState;
use crate::error::{Coded, Fix};

/// Something that happens to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// The launch succeeded.
    Launched,
    /// A program started.
    ExecStarted,
    /// A program ended.
    ExecEnded,
    /// Everything was frozen.
    Suspended,
    /// Everything goes on.
    Resumed,
    /// The launch failed, or the sandbox broke.
    Broke,
    /// Torn down.
    Destroyed,
}

/// A change that the state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IllegalChange {
    /// Nothing can be done with it any more.
    #[error("the session has ended")]
    Ended,
    /// It must be resumed first.
    #[error("the session is suspended")]
    Suspended,
    /// It was not suspended.
    #[error("the session is not suspended")]
    NotSuspended,
    /// It is not running yet.
    #[error("the session is still starting")]
    Starting,
    /// It runs already.
    #[error("the session has been launched already")]
    Launched,
}

impl Coded for IllegalChange {
    fn code(&self) -> &'static str {
        match self {
            Self::Ended => "SESSION_ENDED",
            Self::Suspended => "SESSION_SUSPENDED",
            Self::NotSuspended => "SESSION_NOT_SUSPENDED",
            Self::Starting => "SESSION_STARTING",
            Self::Launched => "SESSION_LAUNCHED",
        }
    }

    fn fix(&self) -> Option<Fix> {
        Some(Fix::words(match self {
            Self::Ended => "Start a new session.",
            Self::Suspended => "Resume the session first.",
            Self::NotSuspended => "Nothing needs doing: the session runs.",
            Self::Starting => "Wait until the session is ready.",
            Self::Launched => "Use the session that runs, or choose another session id.",
        }))
    }
}

/// State, and how many programs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    state: SandboxState,
    running: u32,
}

impl Default for Life {
    fn default() -> Self {
        Self {
            state: SandboxState::Created,
            running: 0,
        }
    }
}

impl Life {
    /// The state.
    #[must_use]
    pub fn state(self) -> SandboxState {
        self.state
    }

    /// How many programs run.
    #[must_use]
    pub fn running(self) -> u32 {
        self.running
    }

    /// Whether a program may be started now.
    pub fn may_exec(self) -> Result<(), IllegalChange> {
        self.after(Change::ExecStarted).map(|_| ())
    }

    /// The life after a change.
    pub fn after(self, change: Change) -> Result<Self, IllegalChange> {
        use SandboxState::{Active, Created, Destroyed, Error, Suspended, Warm};
        let to = |state| {
            Ok(Self {
                state,
                running: self.running,
            })
        };
        match (self.state, change) {
            // An error is kept: what went wrong stays visible until it is torn down.
            (Error | Destroyed, Change::ExecEnded) => {
                Ok(self.with_running(self.running.saturating_sub(1)))
            }
            (Error, Change::Destroyed) => to(Destroyed),
            (Error | Destroyed, _) => Err(IllegalChange::Ended),
            (_, Change::Destroyed) => to(Destroyed),
            (_, Change::Broke) => to(Error),
            (Created, Change::Launched) => to(Warm),
            (Created, _) => Err(IllegalChange::Starting),
            (_, Change::Launched) => Err(IllegalChange::Launched),
            (Warm | Active, Change::ExecStarted) => Ok(Self {
                state: Active,
                running: self.running.saturating_add(1),
            }),
            (Warm | Active, Change::ExecEnded) => {
                let running = self.running.saturating_sub(1);
                Ok(Self {
                    state: if running == 0 { Warm } else { Active },
                    running,
                })
            }
            (Warm | Active, Change::Suspended) => to(Suspended),
            (Warm | Active, Change::Resumed) => Err(IllegalChange::NotSuspended),
            (Suspended, Change::ExecEnded) => Ok(self.with_running(self.running.saturating_sub(1))),
            (Suspended, Change::Resumed) => to(if self.running == 0 { Warm } else { Active }),
            (Suspended, Change::ExecStarted | Change::Suspended) => Err(IllegalChange::Suspended),
        }
    }

    fn with_running(self, running: u32) -> Self {
        Self { running, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SandboxState::{Active, Created, Destroyed, Error, Suspended, Warm};

    const CHANGES: [Change; 7] = [
        Change::Launched,
        Change::ExecStarted,
        Change::ExecEnded,
        Change::Suspended,
        Change::Resumed,
        Change::Broke,
        Change::Destroyed,
    ];

    /// Every state, every change: the state that follows, or the refusal.
    #[test]
    fn every_transition_is_as_written_down() {
        type Row = (
            SandboxState,
            u32,
            [Result<(SandboxState, u32), IllegalChange>; 7],
        );
        let starting = Err(IllegalChange::Starting);
        let launched = Err(IllegalChange::Launched);
        let thawed = Err(IllegalChange::NotSuspended);
        let frozen = Err(IllegalChange::Suspended);
        let ended = Err(IllegalChange::Ended);
        // launched, exec started, exec ended, suspended, resumed, broke, destroyed
        let table: [Row; 9] = [
            (
                Created,
                0,
                [
                    Ok((Warm, 0)),
                    starting,
                    starting,
                    starting,
                    starting,
                    Ok((Error, 0)),
                    Ok((Destroyed, 0)),
                ],
            ),
            (
                Warm,
                0,
                [
                    launched,
                    Ok((Active, 1)),
                    Ok((Warm, 0)),
                    Ok((Suspended, 0)),
                    thawed,
                    Ok((Error, 0)),
                    Ok((Destroyed, 0)),
                ],
            ),
            (
                Active,
                1,
                [
                    launched,
                    Ok((Active, 2)),
                    Ok((Warm, 0)),
                    Ok((Suspended, 1)),
                    thawed,
                    Ok((Error, 1)),
                    Ok((Destroyed, 1)),
                ],
            ),
            (
                Active,
                2,
                [
                    launched,
                    Ok((Active, 3)),
                    Ok((Active, 1)),
                    Ok((Suspended, 2)),
                    thawed,
                    Ok((Error, 2)),
                    Ok((Destroyed, 2)),
                ],
            ),
            (
                Suspended,
                0,
                [
                    launched,
                    frozen,
                    Ok((Suspended, 0)),
                    frozen,
                    Ok((Warm, 0)),
                    Ok((Error, 0)),
                    Ok((Destroyed, 0)),
                ],
            ),
            (
                Suspended,
                1,
                [
                    launched,
                    frozen,
                    Ok((Suspended, 0)),
                    frozen,
                    Ok((Active, 1)),
                    Ok((Error, 1)),
                    Ok((Destroyed, 1)),
                ],
            ),
            (
                Error,
                1,
                [
                    ended,
                    ended,
                    Ok((Error, 0)),
                    ended,
                    ended,
                    ended,
                    Ok((Destroyed, 1)),
                ],
            ),
            (
                Destroyed,
                1,
                [ended, ended, Ok((Destroyed, 0)), ended, ended, ended, ended],
            ),
            (
                Destroyed,
                0,
                [ended, ended, Ok((Destroyed, 0)), ended, ended, ended, ended],
            ),
        ];
        for (state, running, row) in table {
            for (change, expected) in CHANGES.into_iter().zip(row) {
                let life = Life { state, running };
                let got = life.after(change).map(|life| (life.state, life.running));
                assert_eq!(got, expected, "{life:?} {change:?}");
            }
        }
    }

    #[test]
    fn a_program_that_ends_while_suspended_leaves_it_suspended_and_warm_after() {
        let mut life = Life::default();
        for change in [
            Change::Launched,
            Change::ExecStarted,
            Change::Suspended,
            Change::ExecEnded,
        ] {
            life = life.after(change).unwrap();
        }
        assert_eq!(life.state(), Suspended);
        assert_eq!(life.after(Change::Resumed).unwrap().state(), Warm);
    }
}
