//! Which process wrote a row, so that a later one can tell whether it still runs.

use std::fs;

/// An engine process, told apart from any later process with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineId {
    /// Process id in its own namespace.
    pub(super) pid: u32,
    /// `<boot id>/<pid namespace>/<start time in clock ticks>`; empty where `/proc` has none.
    pub(super) start: String,
}

/// What is known about the process behind an [`EngineId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// It runs.
    Running,
    /// It is gone for certain.
    Gone,
    /// It cannot be seen from here: another PID namespace, or no `/proc`.
    Unknown,
}

impl EngineId {
    /// This process.
    pub(super) fn current() -> Self {
        let pid = std::process::id();
        let start = match (boot_id(), pid_namespace(), start_ticks(pid)) {
            (Some(boot), Some(namespace), Some(ticks)) => format!("{boot}/{namespace}/{ticks}"),
            _ => String::new(),
        };
        Self { pid, start }
    }

    /// Whether that process still runs, as far as `observer` can see.
    pub(super) fn life(&self, observer: &Self) -> Life {
        let mut own = observer.start.split('/');
        let mut other = self.start.split('/');
        let (Some(own_boot), Some(own_namespace)) = (own.next(), own.next()) else {
            return Life::Unknown;
        };
        let (Some(boot), Some(namespace), Some(ticks)) = (other.next(), other.next(), other.next())
        else {
            return Life::Unknown;
        };
        if boot != own_boot {
            return Life::Gone;
        }
        if namespace != own_namespace {
            return Life::Unknown;
        }
        match start_ticks(self.pid) {
            Some(found) if found == ticks => Life::Running,
            Some(_) | None => Life::Gone,
        }
    }
}

fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// The inode of the PID namespace, as `pid:[4026531836]` names it.
fn pid_namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    let text = link.to_str()?;
    Some(
        text.trim_start_matches("pid:[")
            .trim_end_matches(']')
            .to_owned(),
    )
}

/// Field 22 of `/proc/PID/stat`. The command name before it may hold spaces and parentheses, so
/// fields are counted from the last closing one. A zombie has ended for this purpose.
fn start_ticks(pid: u32) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_another_start_time_or_boot_is_gone() {
        let own = EngineId::current();
        assert_eq!(own.life(&own), Life::Running);
        let reused = EngineId {
            start: format!("{}9", own.start),
            ..own.clone()
        };
        assert_eq!(reused.life(&own), Life::Gone);
        let (_, rest) = own.start.split_once('/').unwrap();
        let rebooted = EngineId {
            start: format!("other-boot/{rest}"),
            ..own.clone()
        };
        assert_eq!(rebooted.life(&own), Life::Gone);
    }

    #[test]
    fn a_process_of_another_pid_namespace_is_not_judged() {
        let own = EngineId::current();
        let mut parts = own.start.split('/');
        let boot = parts.next().unwrap();
        let elsewhere = EngineId {
            pid: own.pid,
            start: format!("{boot}/1/1"),
        };
        assert_eq!(elsewhere.life(&own), Life::Unknown);
        let untold = EngineId {
            pid: own.pid,
            start: String::new(),
        };
        assert_eq!(untold.life(&own), Life::Unknown);
    }

    #[test]
    fn an_ended_child_is_gone() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let own = EngineId::current();
        let ticks = start_ticks(child.id()).unwrap();
        let (prefix, _) = own.start.rsplit_once('/').unwrap();
        let id = EngineId {
            pid: child.id(),
            start: format!("{prefix}/{ticks}"),
        };
        assert_eq!(id.life(&own), Life::Running);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(id.life(&own), Life::Gone);
    }
}
