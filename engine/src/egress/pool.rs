//! Private addresses for names: what DNS inside answers, and what the transparent listeners take
//! back (REQ EG-1).

use crate::backend::POOL;
use crate::spec::HostName;
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pool's network, as the plan routes it inside.
pub const NETWORK: Ipv4Addr = POOL.0;
/// Bits of the pool's network part.
pub const PREFIX: u8 = POOL.1;
/// The first address that is given to a name; those before it are for the namespace's own use.
pub const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 0);
/// Most names at once: up to 198.19.255.255.
const MOST: u32 = (1 << (32 - PREFIX as u32)) - 256;

/// The names of one session and their addresses.
#[derive(Debug)]
pub struct Pool {
    capacity: u32,
    hold: Duration,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<HostName, u32>,
    by_number: HashMap<u32, Entry>,
    /// Numbers that no connection holds, by their last use, oldest first.
    by_use: BTreeMap<u64, u32>,
    uses: u64,
    /// Entries that were looked at to find a free one.
    #[cfg(test)]
    looks: u64,
}

#[derive(Debug)]
struct Entry {
    name: HostName,
    last_use: u64,
    at: Instant,
    connections: u32,
}

impl Pool {
    /// A pool of `capacity` names. An address that was told is given to no other name for `hold`,
    /// for so long it may be remembered inside.
    #[must_use]
    pub fn new(capacity: u32, hold: Duration) -> Self {
        Self {
            capacity: capacity.clamp(1, MOST),
            hold,
            table: Mutex::default(),
        }
    }

    /// Whether an address is one of the pool, given to a name or not.
    #[must_use]
    pub fn contains(address: Ipv4Addr) -> bool {
        address.to_bits() >> (32 - u32::from(PREFIX))
            == NETWORK.to_bits() >> (32 - u32::from(PREFIX))
    }

    /// The address of a name; `None` while all are in use.
    #[must_use]
    pub fn address_of(&self, name: &HostName, now: Instant) -> Option<Ipv4Addr> {
        let mut table = self.table();
        let number = match table.by_name.get(name) {
            Some(&number) => number,
            None => {
                let number = self.free_number(&mut table, now)?;
                table.by_name.insert(name.clone(), number);
                let entry = Entry {
                    name: name.clone(),
                    last_use: 0,
                    at: now,
                    connections: 0,
                };
                table.by_number.insert(number, entry);
                number
            }
        };
        table.touch(number, now);
        Some(Ipv4Addr::from_bits(FIRST.to_bits() + number))
    }

    /// The name of an address. While the lease lives the address stays the name's.
    #[must_use]
    pub fn name_of(self: &Arc<Self>, address: Ipv4Addr, now: Instant) -> Option<Lease> {
        let number = address.to_bits().checked_sub(FIRST.to_bits())?;
        let mut table = self.table();
        table.touch(number, now);
        let entry = table.by_number.get_mut(&number)?;
        entry.connections += 1;
        let (name, last_use) = (entry.name.clone(), entry.last_use);
        table.by_use.remove(&last_use);
        Some(Lease {
            name,
            number,
            pool: Arc::clone(self),
        })
    }

    /// A number that no name has: a new one, or that of the name that was used longest ago, when
    /// no connection is open to it and no answer with it can still be remembered.
    fn free_number(&self, table: &mut Table, now: Instant) -> Option<u32> {
        let taken = u32::try_from(table.by_number.len()).ok()?;
        if taken < self.capacity {
            return Some(taken);
        }
        // Only the oldest: when it is too young, all are. A full table is asked for each new name.
        let oldest = *table.by_use.first_key_value()?.1;
        let entry = table.look(oldest)?;
        if now.saturating_duration_since(entry.at) < self.hold {
            return None;
        }
        if let Some(entry) = table.by_number.remove(&oldest) {
            table.by_name.remove(&entry.name);
            table.by_use.remove(&entry.last_use);
        }
        Some(oldest)
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn touch(&mut self, number: u32, now: Instant) {
        if let Some(entry) = self.by_number.get_mut(&number) {
            self.by_use.remove(&entry.last_use);
            self.uses += 1;
            entry.last_use = self.uses;
            entry.at = now;
            if entry.connections == 0 {
                self.by_use.insert(self.uses, number);
            }
        }
    }

    fn look(&mut self, number: u32) -> Option<&Entry> {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        self.by_number.get(&number)
    }
}

/// An address in use by a connection.
#[derive(Debug)]
pub struct Lease {
    name: HostName,
    number: u32,
    pool: Arc<Pool>,
}

impl Lease {
    /// The name that the address was given to.
    #[must_use]
    pub fn name(&self) -> &HostName {
        &self.name
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut table = self.pool.table();
        if let Some(entry) = table.by_number.get_mut(&self.number) {
            entry.connections = entry.connections.saturating_sub(1);
            if entry.connections == 0 {
                // Where it stood by its last use: a connection that ends is none.
                let last_use = entry.last_use;
                table.by_use.insert(last_use, self.number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST, MOST, Pool};
    use crate::spec::{Host, HostName};
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const HOLD: Duration = Duration::from_secs(30);

    fn name(text: &str) -> HostName {
        match Host::parse(text).unwrap() {
            Host::Name(name) => name,
            Host::Ip(_) => panic!("{text} is an address"),
        }
    }

    #[test]
    fn a_name_keeps_its_address_and_the_address_leads_back() {
        let pool = Arc::new(Pool::new(4, HOLD));
        let now = Instant::now();
        let first = pool.address_of(&name("a.example"), now).unwrap();
        let second = pool.address_of(&name("b.example"), now).unwrap();
        assert_eq!(first, FIRST);
        assert_ne!(first, second);
        assert_eq!(pool.address_of(&name("a.example"), now), Some(first));
        assert_eq!(
            pool.name_of(second, now).unwrap().name(),
            &name("b.example")
        );
        assert!(pool.name_of(Ipv4Addr::new(198, 18, 1, 9), now).is_none());
        assert!(pool.name_of(Ipv4Addr::new(10, 0, 0, 1), now).is_none());
    }

    #[test]
    fn a_full_pool_takes_the_oldest_address_but_none_in_use_and_none_just_told() {
        let pool = Arc::new(Pool::new(2, HOLD));
        let start = Instant::now();
        let first = pool.address_of(&name("a.example"), start).unwrap();
        let second = pool.address_of(&name("b.example"), start).unwrap();
        assert_eq!(
            pool.address_of(&name("c.example"), start),
            None,
            "both may be remembered"
        );
        let later = start + HOLD;
        let lease = pool.name_of(first, start).unwrap();
        assert_eq!(pool.address_of(&name("c.example"), later), Some(second));
        assert_eq!(lease.name(), &name("a.example"));
        let last = later + HOLD;
        assert_eq!(
            pool.address_of(&name("d.example"), last),
            Some(second),
            "a.example is in use"
        );
        drop(lease);
        assert_eq!(pool.address_of(&name("e.example"), last), Some(first));
    }

    #[test]
    fn a_full_pool_is_not_searched() {
        const NAMES: u32 = 1000;
        let pool = Arc::new(Pool::new(NAMES, HOLD));
        let start = Instant::now();
        let addresses: Vec<_> = (0..NAMES)
            .map(|number| {
                let name = name(&format!("n{number}.example"));
                pool.address_of(&name, start).unwrap()
            })
            .collect();
        let looks = || pool.table().looks;
        assert_eq!(looks(), 0);
        // All are young.
        for number in 0..100 {
            let one = name(&format!("young{number}.example"));
            assert_eq!(pool.address_of(&one, start), None);
        }
        assert_eq!(looks(), 100);
        // All but the last are in use.
        let (last, others) = addresses.split_last().unwrap();
        let leases: Vec<_> = others
            .iter()
            .map(|&address| pool.name_of(address, start).unwrap())
            .collect();
        let later = start + HOLD;
        assert_eq!(pool.address_of(&name("old.example"), later), Some(*last));
        assert_eq!(looks(), 101);
        assert_eq!(pool.address_of(&name("none.example"), later), None);
        // Two connections hold an address until both have ended.
        let twice = pool.name_of(others[0], start).unwrap();
        drop(leases);
        assert_eq!(pool.address_of(&name("b.example"), later), Some(others[1]));
        drop(twice);
        let next = pool.address_of(&name("c.example"), later);
        assert_eq!(next, Some(others[2]), "the first was used later");
        assert_eq!(looks(), 104);
    }

    #[test]
    fn the_pool_lies_within_its_network() {
        assert!(Pool::contains(FIRST));
        assert!(Pool::contains(Ipv4Addr::from_bits(
            FIRST.to_bits() + MOST - 1
        )));
        assert_eq!(
            Ipv4Addr::from_bits(FIRST.to_bits() + MOST - 1),
            Ipv4Addr::new(198, 19, 255, 255)
        );
        assert!(!Pool::contains(Ipv4Addr::new(198, 20, 0, 0)));
        assert!(!Pool::contains(Ipv4Addr::new(198, 17, 255, 255)));
    }
}
