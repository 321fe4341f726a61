//! Values that are one of a few names.

use clap::ValueEnum;
use kotak_engine::backend::{Bridge, BridgeChoice};
use kotak_engine::spec::{Mode, NetworkMode};

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ModeName {
    Chat,
    Review,
    Plan,
    Orchestrate,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Chat => Self::Chat,
            ModeName::Review => Self::Review,
            ModeName::Plan => Self::Plan,
            ModeName::Orchestrate => Self::Orchestrate,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BridgeName {
    /// The guard's listeners, or socat where they cannot be handed over
    Auto,
    /// Only the guard's listeners: nothing stands between
    Guard,
    /// Only socat: two processes stand between
    Socat,
}

impl From<BridgeName> for BridgeChoice {
    fn from(name: BridgeName) -> Self {
        match name {
            BridgeName::Auto => Self::Auto,
            BridgeName::Guard => Self::Only(Bridge::Guard),
            BridgeName::Socat => Self::Only(Bridge::Socat),
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Network {
    Open,
    Allowlist,
    Ask,
    Off,
}

impl From<Network> for NetworkMode {
    fn from(name: Network) -> Self {
        match name {
            Network::Open => Self::Open,
            Network::Allowlist => Self::Allowlist,
            Network::Ask => Self::Ask,
            Network::Off => Self::Off,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    /// `$HOME` and the working directory writable, secrets hidden, network open
    Terminal,
    /// The standard dispatch of an agent: the binds or the spec, and no new .env, *.key and *.pem
    /// files; refused where that cannot be enforced
    Dispatch,
}
