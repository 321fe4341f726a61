//! Patterns by what they cover, so that a decision does not walk a list.

use crate::spec::{Host, HostPattern};
use std::collections::HashMap;

/// Finds which of many patterns cover a host, by a few look-ups for each of its labels.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// By [`HostPattern::host_part`].
    slots: HashMap<String, Vec<Slot>>,
    wildcards: bool,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    order: usize,
    port: Option<u16>,
}

impl Index {
    /// Indexes patterns; each is known by its place.
    pub(super) fn new<'a>(patterns: impl IntoIterator<Item = &'a HostPattern>) -> Self {
        let mut index = Self::default();
        for (order, pattern) in patterns.into_iter().enumerate() {
            let port = pattern.port();
            index.wildcards |= pattern.host().is_none();
            index
                .slots
                .entry(pattern.host_part())
                .or_default()
                .push(Slot { order, port });
        }
        index
    }

    /// The place of the first pattern that covers a host on a port.
    pub(super) fn first(&self, host: &Host, port: u16) -> Option<usize> {
        let mut first = None;
        self.visit(host, |slot| {
            let covers = slot.port.is_none_or(|own| own == port);
            if covers && first.is_none_or(|found| slot.order < found) {
                first = Some(slot.order);
            }
        });
        first
    }

    /// The ports on which patterns cover a host; `None` among them is every port.
    pub(super) fn ports(&self, host: &Host) -> Vec<Option<u16>> {
        let mut ports = Vec::new();
        self.visit(host, |slot| ports.push(slot.port));
        ports
    }

    /// Calls for every pattern that covers a host on some port.
    fn visit(&self, host: &Host, mut call: impl FnMut(Slot)) {
        if self.slots.is_empty() {
            return;
        }
        let mut look = |key: &str| {
            for slot in self.slots.get(key).into_iter().flatten() {
                call(*slot);
            }
        };
        let name = match host {
            // Patterns are canonical; a host that was made of an address by hand may not be.
            Host::Ip(address) => return look(&address.to_canonical().to_string()),
            Host::Name(name) => name.as_str(),
        };
        look(name);
        if !self.wildcards {
            return;
        }
        // Every pattern with one `*` that covers the name has one of these two keys for one of
        // the dots in it.
        let mut key = String::with_capacity(name.len() + 2);
        let mut label = 0;
        for (dot, _) in name.match_indices('.') {
            let (Some(head), Some(tail)) = (name.get(..label), name.get(dot..)) else {
                return;
            };
            key.clear();
            key.push('*');
            key.push_str(tail);
            look(&key);
            if !head.is_empty() {
                key.insert_str(0, head);
                look(&key);
            }
            label = dot + 1;
        }
    }
}
