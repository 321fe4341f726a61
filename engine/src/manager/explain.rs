//! What a session of a spec could do with a path, without launching one (`kotak explain path`).

use super::host::HostView;
use crate::backend::{PathExplanation, explain_path};
use crate::error::{Coded, Problem};
use crate::policy::resolve;
use crate::probe::{SystemProbe, TrialOutcome, TrialRequest, TrialRunner, kernel_facts};
use crate::spec::{AbsPath, ValidSpec};
use crate::store::Dirs;
use std::sync::Arc;

/// Explains a path under a native session of this spec, as it would be launched now. Reads the file
/// system and asks the kernel what it can; runs nothing.
///
/// # Errors
/// When such a session would be refused.
pub fn explain_path_of(
    dirs: Dirs,
    spec: &ValidSpec,
    path: &AbsPath,
) -> Result<PathExplanation, Problem> {
    let facts = kernel_facts(&SystemProbe::new(Arc::new(NoTrial)));
    let host = HostView::read(dirs);
    let context = host.context(facts).map_err(|error| error.problem())?;
    let policy = resolve(spec, &context, &host.files).map_err(|error| error.problem())?;
    Ok(explain_path(&policy, &host.files, path))
}

/// Nothing is launched to explain something.
struct NoTrial;

impl TrialRunner for NoTrial {
    fn run(&self, _: &TrialRequest) -> TrialOutcome {
        TrialOutcome::NoLauncher
    }
}
