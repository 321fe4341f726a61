//! The fixed lists of the policy, ready to be asked (REQ EG-5, EG-6).

use super::address::{RangeKind, check};
use super::decide::{Allowed, DenyReason, Source};
use super::index::Index;
use crate::api::ListEntry;
use crate::policy::{
    BASELINE_ALLOWED_DOMAINS, BASELINE_DENIED_DOMAINS, DeniedHost, GITHUB_DOMAINS,
};
use crate::spec::{Host, HostPattern};
use std::collections::HashMap;
use std::sync::LazyLock;

struct Entry {
    pattern: HostPattern,
    source: Source,
    label: &'static str,
}

struct Baseline {
    entries: Vec<Entry>,
    index: Index,
}

static ALLOWED: LazyLock<Baseline> = LazyLock::new(|| {
    let baseline = BASELINE_ALLOWED_DOMAINS
        .iter()
        .map(|group| (Source::Baseline, group));
    let entries: Vec<Entry> = baseline
        .chain([(Source::Github, &GITHUB_DOMAINS)])
        .flat_map(|(source, group)| group.domains.iter().map(move |text| (source, group, text)))
        .filter_map(|(source, group, text)| {
            // All of them are patterns, by a test; one that was not would allow nothing.
            let pattern = HostPattern::parse(text).ok()?;
            let label = group.label;
            Some(Entry {
                pattern,
                source,
                label,
            })
        })
        .collect();
    let index = Index::new(entries.iter().map(|entry| &entry.pattern));
    Baseline { entries, index }
});

static DENIED: LazyLock<HashMap<&'static str, DeniedHost>> = LazyLock::new(|| {
    BASELINE_DENIED_DOMAINS
        .iter()
        .flat_map(|group| group.domains.iter().map(|name| (*name, group.kind)))
        .collect()
});

/// The entry of the baseline or of GitHub that lets a destination pass.
pub(super) fn allows(host: &Host, port: u16) -> Option<Allowed> {
    let entry = ALLOWED.entries.get(ALLOWED.index.first(host, port)?)?;
    Some(Allowed {
        source: entry.source,
        pattern: entry.pattern.to_string(),
        rule: None,
    })
}

/// The ports on which the baseline and GitHub cover a host; `None` is every port.
pub(super) fn ports(host: &Host) -> Vec<Option<u16>> {
    ALLOWED.index.ports(host)
}

/// The group of an entry, for people.
pub(super) fn label(pattern: &str) -> Option<&'static str> {
    ALLOWED
        .entries
        .iter()
        .find(|entry| entry.pattern.to_string() == pattern)
        .map(|entry| entry.label)
}

/// Why the fixed denylist refuses a host, when it does. A name counts with all below it; an
/// address also inside an IPv6 address that stands for it.
pub(super) fn denied(host: &Host) -> Option<DenyReason> {
    match host {
        Host::Ip(address) => match check(*address) {
            Err(range) if range.kind == RangeKind::Metadata => Some(DenyReason::Metadata),
            Err(_) | Ok(()) => None,
        },
        Host::Name(name) => {
            let mut rest = Some(name.as_str());
            while let Some(suffix) = rest {
                if let Some(kind) = DENIED.get(suffix) {
                    return Some(reason(*kind));
                }
                rest = suffix.split_once('.').map(|(_, parent)| parent);
            }
            None
        }
    }
}

fn reason(kind: DeniedHost) -> DenyReason {
    match kind {
        DeniedHost::Metadata => DenyReason::Metadata,
        DeniedHost::Telemetry => DenyReason::Telemetry,
    }
}

/// All that the baseline and GitHub allow, in the order of the decision.
pub(super) fn allowed_entries() -> impl Iterator<Item = ListEntry> {
    ALLOWED.entries.iter().map(|entry| ListEntry {
        pattern: entry.pattern.to_string(),
        source: entry.source,
        group: entry.label.to_owned(),
        rule: None,
    })
}

/// The fixed denylist.
pub(super) fn denied_entries() -> impl Iterator<Item = ListEntry> {
    BASELINE_DENIED_DOMAINS.iter().flat_map(|group| {
        let names = group.domains.iter().map(move |name| {
            (
                (*name).to_owned(),
                format!("{}, with all below", group.label),
            )
        });
        let addresses = group
            .addresses
            .iter()
            .map(move |address| (address.to_string(), group.label.to_owned()));
        names.chain(addresses).map(|(pattern, group)| ListEntry {
            pattern,
            source: Source::Baseline,
            group,
            rule: None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    #[test]
    fn every_entry_of_the_lists_is_compiled_and_found_again() {
        let listed: usize = BASELINE_ALLOWED_DOMAINS
            .iter()
            .chain([&GITHUB_DOMAINS])
            .map(|group| group.domains.len())
            .sum();
        assert_eq!(ALLOWED.entries.len(), listed);
        for entry in allowed_entries() {
            let text = entry.pattern.replace('*', "x");
            let allowed = allows(&host(&text), 443).unwrap();
            assert_eq!(allowed.pattern, entry.pattern);
            assert_eq!(allowed.source, entry.source);
            assert_eq!(label(&allowed.pattern), Some(entry.group.as_str()));
        }
        assert_eq!(allows(&host("example.com"), 443), None);
        assert_eq!(label("example.com"), None);
    }

    #[test]
    fn every_entry_of_the_denylist_is_denied_with_all_below_it() {
        for group in BASELINE_DENIED_DOMAINS {
            for name in group.domains {
                let wanted = Some(reason(group.kind));
                assert_eq!(denied(&host(name)), wanted, "{name}");
                assert_eq!(denied(&host(&format!("a.b.{name}"))), wanted, "{name}");
                assert_eq!(denied(&host(&format!("x{name}"))), None, "{name}");
                assert_eq!(denied(&host(&format!("{name}.example"))), None, "{name}");
            }
            for address in group.addresses {
                assert_eq!(
                    denied(&Host::Ip(*address)),
                    Some(reason(group.kind)),
                    "{address}"
                );
            }
        }
        assert_eq!(
            denied(&host("64:ff9b::a9fe:a9fe")),
            Some(DenyReason::Metadata)
        );
        assert_eq!(denied(&host("10.0.0.1")), None);
        assert_eq!(denied(&host("93.184.216.34")), None);
        let listed: usize = BASELINE_DENIED_DOMAINS
            .iter()
            .map(|group| group.domains.len() + group.addresses.len())
            .sum();
        assert_eq!(denied_entries().count(), listed);
    }
}
