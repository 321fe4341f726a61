//! `make bench`: what a launch costs against plain bubblewrap with the same mounts, how fast the
//! terminal in the real window is, what the guard costs real work, and what a connection through the session's proxy costs against
//! a direct one and against others. Prints medians beside their targets; judges nothing.

mod guard;
mod launch;
mod network;
mod network_client;
mod plain;
mod window;

use std::error::Error;
use std::time::Duration;

/// Launches that a median is taken of.
const ROUNDS: u32 = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let what = std::env::args().nth(1);
    if what.as_deref() == Some(network_client::NAME) {
        return network_client::run();
    }
    // Few rounds serve a profiler.
    let rounds = match std::env::args().nth(2) {
        Some(rounds) => rounds.parse()?,
        None => ROUNDS,
    };
    let wanted = |name: &str| what.as_deref().is_none_or(|what| what == name);
    let runtime = tokio::runtime::Runtime::new()?;
    if wanted("launch") {
        runtime.block_on(launch::measure(rounds))?;
    }
    if wanted("window") {
        runtime.block_on(window::measure())?;
    }
    if wanted("guard") {
        guard::measure(rounds)?;
    }
    // Only in a network of its own, which `make bench` gives it.
    if what.as_deref() == Some("network") {
        network::measure()?;
    }
    Ok(())
}

/// The middle of the samples.
fn median(samples: &[Duration]) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted
        .get(sorted.len() / 2)
        .copied()
        .unwrap_or(Duration::ZERO)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
