//! Connections and refusals over time.

use super::read::{CONNECTIONS, number};
use crate::api::{RefusedHost, Timeline};
use crate::egress::journal::FLOOD_SLOT_MS;
use crate::store::row::millis;
use rusqlite::{Connection, params};
use std::collections::HashMap;

/// Most steps of a timeline.
const MOST_STEPS: u32 = 2_000;
/// Hosts that are listed.
const HOSTS: usize = 20;

/// The window of a timeline, in equal steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    from_ms: u64,
    step_ms: u64,
    steps: usize,
}

impl Window {
    fn new(from_ms: u64, to_ms: u64, steps: u32) -> Self {
        let steps = steps.clamp(1, MOST_STEPS);
        let span = to_ms.saturating_sub(from_ms).max(1);
        Self {
            from_ms,
            step_ms: span.div_ceil(u64::from(steps)).max(1),
            steps: usize::try_from(steps).unwrap_or(1),
        }
    }

    /// The first millisecond after the window.
    fn end_ms(self) -> u64 {
        let steps = u64::try_from(self.steps).unwrap_or(u64::MAX);
        self.from_ms
            .saturating_add(self.step_ms.saturating_mul(steps))
    }

    fn step(self, at_ms: u64) -> Option<usize> {
        let since = at_ms.checked_sub(self.from_ms)?;
        usize::try_from(since / self.step_ms)
            .ok()
            .filter(|step| *step < self.steps)
    }

    /// Spreads a count evenly over the time in which it came, and calls `add` with what falls
    /// into each step.
    fn spread(self, at_ms: u64, last_ms: u64, count: u64, mut add: impl FnMut(usize, u64)) {
        let span = last_ms.saturating_sub(at_ms);
        if count <= 1 || span == 0 {
            if let Some(step) = self.step(at_ms) {
                add(step, count);
            }
            return;
        }
        // Event k of n comes at `at + span * k / (n - 1)`: the first at the beginning, the last
        // at the end. How many came before a time follows from that.
        let before = |time: u64| -> u64 {
            let Some(since) = time.checked_sub(at_ms).filter(|since| *since > 0) else {
                return 0;
            };
            if since > span {
                return count;
            }
            let steps = u128::from(since) * u128::from(count - 1);
            u64::try_from(steps.div_ceil(u128::from(span)))
                .unwrap_or(u64::MAX)
                .min(count)
        };
        let first = at_ms.max(self.from_ms);
        let Some(mut step) = self.step(first) else {
            return;
        };
        let mut counted = before(first);
        while step < self.steps && counted < count {
            let steps = u64::try_from(step + 1).unwrap_or(u64::MAX);
            let end = self
                .from_ms
                .saturating_add(self.step_ms.saturating_mul(steps));
            let until = before(end);
            if until > counted {
                add(step, until - counted);
            }
            counted = until;
            step += 1;
        }
    }
}

fn bump(steps: &mut [u32], step: usize, count: u64) {
    if let Some(slot) = steps.get_mut(step) {
        *slot = slot.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }
}

/// A session's timeline; of all sessions without one.
pub(in crate::store) fn timeline(
    connection: &Connection,
    session: Option<&str>,
    from_ms: u64,
    to_ms: u64,
    steps: u32,
) -> rusqlite::Result<Timeline> {
    let window = Window::new(from_ms, to_ms, steps);
    let mut allowed = vec![0; window.steps];
    let mut refused = vec![0; window.steps];
    let mut files = vec![0; window.steps];
    let mut hosts: HashMap<String, RefusedHost> = HashMap::new();
    let mut statement = connection.prepare_cached(
        "SELECT at_ms, last_ms, outcome, target, unicode, why, count, connection IS NULL
         FROM activity WHERE (?1 IS NULL OR session_id = ?1) AND last_ms >= ?2 AND at_ms < ?3
         ORDER BY id",
    )?;
    let mut rows = statement.query(params![
        session,
        millis(window.from_ms),
        millis(window.end_ms())
    ])?;
    while let Some(row) = rows.next()? {
        let (at_ms, last_ms, count) = (number(row, 0)?, number(row, 1)?, number(row, 6)?);
        let outcome: String = row.get(2)?;
        if row.get(7)? {
            window.spread(at_ms, last_ms, count, |step, count| {
                bump(&mut files, step, count);
            });
            continue;
        }
        if outcome != "refused" {
            // A connection counts when it begins; how long it lasted is no matter here.
            window.spread(at_ms, at_ms, count, |step, count| {
                bump(&mut allowed, step, count);
            });
            continue;
        }
        let target: String = row.get(3)?;
        let host = hosts.entry(target.clone()).or_insert_with(|| RefusedHost {
            target,
            unicode: None,
            count: 0,
            steps: vec![0; window.steps],
            why: String::new(),
        });
        host.unicode = row.get(4)?;
        host.why = row.get(5)?;
        let sum = &mut host.count;
        let own = &mut host.steps;
        window.spread(at_ms, last_ms, count, |step, count| {
            bump(&mut refused, step, count);
            bump(own, step, count);
            *sum = sum.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        });
    }
    let mut statement = connection.prepare_cached(&format!(
        "SELECT slot_ms, outcome, sum(count), {CONNECTIONS} AS connections FROM activity_flood
         WHERE (?1 IS NULL OR session_id = ?1) AND slot_ms >= ?2 AND slot_ms < ?3
         GROUP BY slot_ms, outcome, connections"
    ))?;
    let first_slot = window.from_ms.saturating_sub(FLOOD_SLOT_MS - 1);
    let mut rows = statement.query(params![
        session,
        millis(first_slot),
        millis(window.end_ms())
    ])?;
    while let Some(row) = rows.next()? {
        let (slot_ms, count) = (number(row, 0)?, number(row, 2)?);
        let outcome: String = row.get(1)?;
        let steps = if !row.get::<_, bool>(3)? {
            &mut files
        } else if outcome == "refused" {
            &mut refused
        } else {
            &mut allowed
        };
        window.spread(
            slot_ms,
            slot_ms + FLOOD_SLOT_MS - 1,
            count,
            |step, count| {
                bump(steps, step, count);
            },
        );
    }
    let mut hosts: Vec<RefusedHost> = hosts.into_values().filter(|host| host.count > 0).collect();
    hosts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.target.cmp(&b.target)));
    hosts.truncate(HOSTS);
    Ok(Timeline {
        from_ms: window.from_ms,
        step_ms: window.step_ms,
        allowed,
        refused,
        files,
        hosts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What lies in the window whole is counted whole, and nothing is counted twice.
        #[test]
        fn a_spread_count_keeps_its_sum(
            at in 0_u64..5_000, span in 0_u64..5_000, count in 1_u64..10_000, steps in 1_u32..200,
        ) {
            let whole = Window::new(0, 10_001, steps);
            let mut sum = 0;
            whole.spread(at, at + span, count, |_, part| sum += part);
            prop_assert_eq!(sum, count);
            // Two halves of the time hold the same as the whole.
            let halves = [Window::new(0, 5_000, 1), Window::new(5_000, 10_000, 1)];
            let mut parts = 0;
            for half in halves {
                half.spread(at, at + span, count, |_, part| parts += part);
            }
            prop_assert!(parts <= count);
            if at + span < 10_000 {
                prop_assert_eq!(parts, count);
            }
        }
    }

    #[test]
    fn a_count_is_spread_evenly_and_cut_at_the_window() {
        let window = Window::new(1_000, 5_000, 4);
        let mut steps = [0; 4];
        window.spread(0, 6_000, 7, |step, count| steps[step] += count);
        assert_eq!(steps, [1, 1, 1, 1]);
        let mut steps = [0; 4];
        window.spread(2_500, 2_500, 9, |step, count| steps[step] += count);
        assert_eq!(steps, [0, 9, 0, 0]);
        window.spread(0, 999, 9, |step, _| panic!("{step}"));
        window.spread(5_000, 9_000, 9, |step, _| panic!("{step}"));
    }
}
