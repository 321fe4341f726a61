//! Plans of policies on a fake host, by theme.

mod enforcement;
mod mounts;
mod network;
mod stages;

use super::*;
use crate::backend::{Aspect, Bridge, Level, NOT_CONFIRMED, SeccompArch, WayIn, confirm, unmet};
use crate::error::Coded;
use crate::golden;
use crate::policy::fake::{FakeFs, context, path};
use crate::policy::{GapKind, HostContext, HostFs, resolve};
use crate::spec::{Mode, SandboxSpec, TerminalRequest, ValidSpec};
use kotak_guard::proto::{Check, ReadyReport};
use proptest::prelude::*;
use std::path::PathBuf;

fn facts() -> PlanFacts {
    let kinds = [
        Namespace::Cgroup,
        Namespace::Ipc,
        Namespace::Mount,
        Namespace::Network,
        Namespace::Pid,
        Namespace::User,
        Namespace::Uts,
    ];
    PlanFacts {
        bwrap_path: path("/usr/bin/bwrap"),
        bwrap_version: (0, 8, 0),
        arch: SeccompArch::X86_64,
        landlock_abi: 7,
        namespaces: (100..)
            .zip(kinds)
            .map(|(inode, kind)| (kind, inode))
            .collect(),
    }
}

fn terminal_policy(host: &FakeFs, cwd: &str, mode: Mode, network: NetworkMode) -> Policy {
    let request = TerminalRequest {
        mode,
        network: Some(network),
        ..TerminalRequest::plain("s", "w", PathBuf::from(cwd))
    };
    resolve(&ValidSpec::terminal(&request).unwrap(), &context(), host).unwrap()
}

fn binds_policy(host: &FakeFs, context: &HostContext, fields: &str) -> Policy {
    let text = format!(r#"{{"sessionId": "s", "workspaceId": "w", {fields}}}"#);
    let spec = SandboxSpec::from_json(&text).unwrap().validate().unwrap();
    resolve(&spec, context, host).unwrap()
}

/// A home with a bit of everything.
fn home() -> FakeFs {
    let mut host = FakeFs::debian();
    host.dir("/home/u/.ssh")
        .file("/home/u/.config/gh/hosts.yml", "")
        .file("/home/u/.netrc", "");
    host.file("/home/u/.bashrc", "")
        .dir("/home/u/.local/bin")
        .git_dir("/home/u/code/.git");
    host.dir("/home/u/.local/state/kotak");
    host
}

fn terminal_plan() -> NativePlan {
    let policy = terminal_policy(&home(), "/home/u/code", Mode::Chat, NetworkMode::Open);
    native_plan(&policy, &facts()).unwrap()
}

fn expectation(plan: &NativePlan) -> &Expectation {
    match &plan.setup.role {
        Role::Native(expect) => expect,
        Role::Host => panic!("not native"),
    }
}

/// What an argument list mounts, in order.
fn mounts(block: &ArgBlock) -> Vec<(String, AbsPath)> {
    let mut all = Vec::new();
    let mut args = block.args.iter();
    while let Some(option) = args.next() {
        let option = String::from_utf8(option.clone()).unwrap();
        let operands = match option.as_str() {
            "--bind" | "--ro-bind" | "--dev-bind" | "--symlink" | "--ro-bind-data" => 2,
            "--tmpfs" | "--remount-ro" | "--proc" | "--dev" | "--perms" | "--chdir"
            | "--cap-drop" | "--cap-add" | "--json-status-fd" => 1,
            _ => 0,
        };
        let operands: Vec<_> = args.by_ref().take(operands).collect();
        if let ("--bind" | "--ro-bind" | "--symlink" | "--tmpfs" | "--proc" | "--dev", Some(last)) =
            (option.as_str(), operands.last())
        {
            all.push((option, AbsPath::new(last).unwrap()));
        }
    }
    all
}
