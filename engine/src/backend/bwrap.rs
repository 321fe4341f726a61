//! The bubblewrap plan generator.

use super::{NativePlan, PlanError, PlanFacts};
use crate::policy::Policy;

/// The launch plan of a native session.
///
/// # Errors
/// When bubblewrap cannot do what the policy demands.
pub fn native_plan(_policy: &Policy, facts: &PlanFacts) -> Result<NativePlan, PlanError> {
    Err(PlanError::BubblewrapTooOld {
        found: facts.bwrap_version,
        needed: facts.bwrap_version,
    })
}
