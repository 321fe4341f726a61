//! Policies of whole specs on a fake host, by theme.

mod binds;
mod exec;
mod files;
mod protected;
mod refused;
mod secrets;
mod terminal;

use super::super::fake::{FakeFs, context, path};
use super::super::{Link, Mask};
use super::*;
use crate::backend::Gap;
use crate::error::Coded;
use crate::spec::{Mode, SandboxSpec, TerminalFiles, TerminalRequest};
use std::path::PathBuf;

fn terminal_request(cwd: &str, mode: Mode, network: Option<NetworkMode>) -> TerminalRequest {
    TerminalRequest {
        mode,
        network,
        ..TerminalRequest::plain("s", "w", PathBuf::from(cwd))
    }
}

fn terminal_spec(cwd: &str, mode: Mode, network: Option<NetworkMode>) -> ValidSpec {
    ValidSpec::terminal(&terminal_request(cwd, mode, network)).unwrap()
}

fn terminal(host: &FakeFs, cwd: &str) -> Result<Policy, PolicyError> {
    resolve(&terminal_spec(cwd, Mode::Chat, None), &context(), host)
}

fn binds_spec(fields: &str) -> ValidSpec {
    let text = format!(r#"{{"sessionId": "s", "workspaceId": "w", {fields}}}"#);
    SandboxSpec::from_json(&text).unwrap().validate().unwrap()
}

fn binds(host: &FakeFs, fields: &str) -> Result<Policy, PolicyError> {
    resolve(&binds_spec(fields), &context(), host)
}

fn code(result: Result<Policy, PolicyError>) -> &'static str {
    let error = result.unwrap_err();
    assert!(error.fix().is_some(), "{error} has no fix");
    error.code()
}

fn bind<'a>(policy: &'a Policy, at: &str) -> Option<&'a Bind> {
    policy.binds.iter().find(|bind| bind.path == path(at))
}

fn how(policy: &Policy, at: &str) -> Option<(Access, BindRole)> {
    bind(policy, at).map(|bind| (bind.access, bind.role))
}

fn mask<'a>(policy: &'a Policy, at: &str) -> Option<&'a Mask> {
    policy.masks.iter().find(|mask| mask.path == path(at))
}

fn gap(policy: &Policy, kind: GapKind) -> Option<&str> {
    named(&policy.gaps, kind)
}

/// What would be missing without the guard's supervisor.
fn unsupervised(policy: &Policy, kind: GapKind) -> Option<&str> {
    named(&policy.unsupervised_gaps, kind)
}

fn named(gaps: &[Gap], kind: GapKind) -> Option<&str> {
    gaps.iter()
        .find(|gap| gap.code == kind.code())
        .map(|gap| gap.text.as_str())
}

const HELD: Option<(Access, BindRole)> = Some((Access::Read, BindRole::Protected));

const PINNED: Option<(Access, BindRole)> = Some((Access::Write, BindRole::Pinned));

fn with_code() -> FakeFs {
    let mut host = FakeFs::debian();
    host.dir("/home/u/code");
    host
}
