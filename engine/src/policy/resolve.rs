//! From a checked spec and the host to a policy.

use super::{HostContext, HostFs, Policy, PolicyError};
use crate::spec::ValidSpec;

/// Resolves a spec on this host.
///
/// # Errors
/// When the spec cannot be honoured here; each by name, with a fix.
pub fn resolve(
    _spec: &ValidSpec,
    context: &HostContext,
    _host: &dyn HostFs,
) -> Result<Policy, PolicyError> {
    Err(PolicyError::Home {
        path: context.home.clone(),
        reason: "not resolved yet",
    })
}
