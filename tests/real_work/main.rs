//! Real work under the standard dispatch of an agent, beside the same work without a sandbox:
//! the same exit code, the same output, the same files. In a network of its own, from which nothing
//! can leave. As root inside an outer namespace and as an ordinary user; `make test` does both.

#![expect(
    clippy::expect_used,
    reason = "a test that cannot be set up fails, and says why"
)]

mod packages;
mod repositories;
mod terminal;

use kotak_tests::Outcome;
use kotak_tests::field::{Field, tree};
use kotak_tests::stage::skip;
use sha2::{Digest, Sha256};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Work that is done twice in one place.
pub(crate) struct Work {
    field: Field,
    /// Programs that it needs; without one of them it is left out.
    needs: &'static [&'static str],
    /// Ends of paths whose content holds times or numbers of this run.
    volatile: &'static [&'static str],
    /// What happens before each time, on the host.
    prepare: String,
}

/// Variables for everything that is the same at every time.
const SETTLED: &str = "export LC_ALL=C.UTF-8 TZ=UTC0 SOURCE_DATE_EPOCH=1700000000 HOME=$PWD/home \
    TMPDIR=$PWD/tmp PYTHONDONTWRITEBYTECODE=1 GIT_CONFIG_NOSYSTEM=1 \
    GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.com GIT_AUTHOR_DATE=1700000000+0000 \
    GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.com GIT_COMMITTER_DATE=1700000000+0000; \
    mkdir -p home tmp; set -e; ";

impl Work {
    pub(crate) fn new(needs: &'static [&'static str], prepare: &str) -> Self {
        Self {
            field: Field::new(),
            needs,
            volatile: &[],
            prepare: prepare.to_owned(),
        }
    }

    pub(crate) fn volatile(mut self, ends: &'static [&'static str]) -> Self {
        self.volatile = ends;
        self
    }

    pub(crate) fn field(&self) -> &Field {
        &self.field
    }

    /// Does the work outside and inside.
    #[track_caller]
    pub(crate) fn is_the_same(&self, script: &str) {
        for program in self.needs {
            let found = self.field.outside(&format!("command -v {program}"));
            if !found.succeeded() {
                skip(&format!(
                    "`{}`: {program} is not installed",
                    self.needs.join(", ")
                ));
                return;
            }
        }
        let line = format!("{SETTLED}{script}");
        self.begin();
        let outside = self.field.outside(&line);
        assert!(outside.succeeded(), "the control failed: {outside:?}");
        let expected = self.hashes();
        self.begin();
        let inside = self.dispatched(&line);
        assert_eq!(
            (inside.code, &inside.stdout),
            (outside.code, &outside.stdout),
            "{}",
            inside.stderr
        );
        let found = self.hashes();
        let only = |these: &[Entry], those: &[Entry]| -> Vec<Entry> {
            let missing = these.iter().filter(|entry| !those.contains(entry));
            missing.take(10).cloned().collect()
        };
        assert_eq!(
            (only(&expected, &found), only(&found, &expected)),
            (Vec::new(), Vec::new()),
            "only outside, and only inside"
        );
        assert!(!found.is_empty(), "nothing was made");
    }

    /// Runs a line under the standard dispatch, in the workspace.
    pub(crate) fn dispatched(&self, line: &str) -> Outcome {
        let call = self.field.stage().kotak();
        let call = call.args(["run", "--backend", "native", "--profile", "dispatch"]);
        let mut call = call
            .arg("--bind")
            .arg(self.field.work())
            .arg("--ro-bind")
            .arg(self.field.tools());
        if let Some(rust) = rust().filter(|rust| !rust.starts_with("/usr")) {
            call = call.arg("--ro-bind").arg(rust);
        }
        call.args(["--", "/bin/sh", "-c", line]).run()
    }

    fn begin(&self) {
        let status = std::process::Command::new("find")
            .arg(self.field.work())
            .args(["-mindepth", "1", "-delete"])
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "the workspace is not empty"
        );
        self.field.prepare(&self.prepare);
    }

    /// Every path with its kind, mode and content.
    fn hashes(&self) -> Vec<Entry> {
        let work = self.field.work();
        let all = tree(&work).into_iter();
        all.map(|(path, content)| {
            let below = path.strip_prefix(&work).unwrap_or(&path);
            let below = below.to_string_lossy().into_owned();
            let volatile = self.volatile.iter().any(|end| below.ends_with(end));
            let hash = content.filter(|_| !volatile).map(|content| {
                let digest = Sha256::digest(content);
                digest
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>()
            });
            let mode = std::fs::symlink_metadata(&path)
                .expect("a file")
                .permissions()
                .mode();
            (below, mode, hash)
        })
        // What programs keep for themselves differs from run to run.
        .filter(|(below, ..)| !below.starts_with("tmp/") && !below.starts_with("home/"))
        .collect()
    }
}

/// A path, its kind and mode, the hash of what it holds.
type Entry = (String, u32, Option<String>);

/// The toolchain that built the tests, at a place that sandboxes see.
pub(crate) fn rust() -> Option<String> {
    let root = std::env::var("KOTAK_TEST_RUST").ok()?;
    Path::new(&root).join("bin/cargo").exists().then_some(root)
}

/// Whether two paths are on one file system.
pub(crate) fn same_device(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    device(one) == device(other)
}
