//! What the guard costs real work: each job bare, in plain bubblewrap, and under the standard
//! dispatch, whose guard is asked at every call that makes or changes a name.

use crate::{median, millis};
use kotak_tests::Field;
use kotak_tests::command::program;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Most rounds that a median of one job is taken of: some take long.
const MOST: u32 = 5;

/// Where a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Bare,
    Bubblewrap,
    Dispatch,
}

/// One job: what happens before it, and what is measured.
struct Job {
    name: &'static str,
    /// Programs without which it is left out.
    needs: &'static [&'static str],
    prepare: &'static str,
    line: &'static str,
}

const JOBS: &[Job] = &[
    Job {
        name: "cargo build, ten crates",
        needs: &["cargo", "cc"],
        prepare: "for i in 1 2 3 4 5 6 7 8 9; do mkdir -p c$i/src; \
            printf '[package]\\nname = \"c%s\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' $i > c$i/Cargo.toml; \
            seq -f 'pub fn f%g() -> u64 { (0..9).map(|x| x * 3).sum() }' 1 300 > c$i/src/lib.rs; done; mkdir src; \
            (printf '[package]\\nname = \"app\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[dependencies]\\n'; \
            for i in 1 2 3 4 5 6 7 8 9; do echo \"c$i = { path = \\\"c$i\\\" }\"; done) > Cargo.toml; \
            echo 'fn main() { println!(\"{}\", c1::f1()); }' > src/main.rs",
        line: "CARGO_HOME=$PWD/.home cargo build -q --offline",
    },
    Job {
        name: "git status, 100,000 files",
        needs: &["git"],
        prepare: "seq -f 'd%g' 0 999 | xargs mkdir; for d in d*; do (cd $d; seq -f 'f%g' 0 99 | xargs touch); done; \
            git init -q; git add .; git -c user.name=t -c user.email=t@example.com commit -qm all",
        line: "git status --porcelain",
    },
    Job {
        name: "ripgrep, 10,000 files",
        needs: &["rg"],
        prepare: "seq -f 'd%g' 0 99 | xargs mkdir; for d in d*; do (cd $d; for f in $(seq 0 99); do seq 20 > f$f; done); done",
        line: "rg -uu needle . || true",
    },
    Job {
        name: "untar, 10,000 tiny files",
        needs: &["tar"],
        prepare: "seq -f 'd%g' 0 99 | xargs mkdir; for d in d*; do (cd $d; seq -f 'f%g' 0 99 | xargs touch); done; \
            tar -cf all.tar d*; rm -rf d*",
        line: "tar -xf all.tar",
    },
    Job {
        name: "300 programs",
        needs: &["true"],
        prepare: "true",
        line: "for i in $(seq 300); do /bin/true; done",
    },
];

/// Starts one launch.
type Launch<'a> = Box<dyn Fn() -> Command + 'a>;

/// Single calls, by the name that `attempt` has for them, and how many.
const CALLS: &[(&str, u32)] = &[
    ("read", 20_000),
    ("write", 20_000),
    ("create", 10_000),
    ("exec", 300),
];

struct Bench {
    field: Field,
    rust: Option<PathBuf>,
}

/// Measures all jobs, single calls, and the launch beside others.
pub(crate) fn measure(rounds: u32) -> Result<(), Box<dyn Error>> {
    let rounds = rounds.clamp(1, MOST);
    let bench = Bench {
        field: Field::new(),
        rust: std::env::var_os("KOTAK_TEST_RUST").map(PathBuf::from),
    };
    println!("Work under the standard dispatch, medians of {rounds}, milliseconds:");
    for job in JOBS {
        bench.job(job, rounds)?;
    }
    println!("One call, microseconds:");
    for (what, times) in CALLS {
        bench.call(what, *times, rounds)?;
    }
    println!("Launch of `true` by the command line, medians of {rounds}, milliseconds:");
    bench.launches(rounds)
}

impl Bench {
    fn job(&self, job: &Job, rounds: u32) -> Result<(), Box<dyn Error>> {
        for needed in job.needs {
            if self
                .run(Place::Bare, &format!("command -v {needed}"))
                .is_err()
            {
                println!("  {}: skipped, {needed} is not installed", job.name);
                return Ok(());
            }
        }
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (place, times) in PLACES.into_iter().zip(&mut times) {
                self.empty()?;
                self.field.prepare(job.prepare);
                times.push(self.timed(place, job.line)?);
            }
        }
        let [bare, bubblewrap, dispatch] = times.map(|times| millis(median(&times)));
        println!(
            "  {}: bare {bare:.1}, bubblewrap {bubblewrap:.1}, guard {dispatch:.1}; ×{:.2} of bubblewrap, ×{:.2} of bare",
            job.name,
            dispatch / bubblewrap,
            dispatch / bare
        );
        Ok(())
    }

    fn call(&self, what: &str, times: u32, rounds: u32) -> Result<(), Box<dyn Error>> {
        let line = format!(
            "'{}' measure {what} {times}",
            self.field.attempt().display()
        );
        let mut all = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (place, all) in PLACES.into_iter().zip(&mut all) {
                self.empty()?;
                let answer: serde_json::Value =
                    serde_json::from_str(self.run(place, &line)?.trim())?;
                let each = answer["nanoseconds"].as_u64().ok_or("no time")?;
                all.push(Duration::from_nanos(each));
            }
        }
        let [bare, bubblewrap, dispatch] = all.map(|all| millis(median(&all)) * 1000.0);
        println!(
            "  {what}: bare {bare:.2}, bubblewrap {bubblewrap:.2}, guard {dispatch:.2}; {:+.2} to bubblewrap",
            dispatch - bubblewrap
        );
        Ok(())
    }

    fn launches(&self, rounds: u32) -> Result<(), Box<dyn Error>> {
        self.empty()?;
        let peer = |name: &str| {
            let found = Command::new("sh")
                .args(["-c", &format!("command -v {name}")])
                .output();
            found.is_ok_and(|output| output.status.success())
        };
        let mut rows: Vec<(&str, Launch<'_>)> = vec![
            (
                "bubblewrap",
                Box::new(|| self.command(Place::Bubblewrap, "exec true")),
            ),
            (
                "kotak run, dispatch",
                Box::new(|| self.command(Place::Dispatch, "exec true")),
            ),
            (
                "kotak run, binds",
                Box::new(|| self.kotak(&[], "exec true")),
            ),
        ];
        for (name, arguments) in [
            (
                "firejail",
                &["--quiet", "--noprofile", "--net=none", "true"][..],
            ),
            ("srt", &["true"]),
        ] {
            let given = (name == "srt")
                .then(|| std::env::var_os("KOTAK_BENCH_SRT"))
                .flatten();
            if given.is_none() && !peer(name) {
                println!("  {name}: skipped, it is not installed");
                continue;
            }
            let program = given.unwrap_or_else(|| name.into());
            rows.push((
                name,
                Box::new(move || {
                    let mut command = Command::new(&program);
                    command.args(arguments).current_dir(self.field.work());
                    command
                }),
            ));
        }
        for (name, command) in &rows {
            let mut times = Vec::new();
            for _ in 0..rounds * 2 {
                let started = std::time::Instant::now();
                let output = command().output()?;
                if !output.status.success() {
                    return Err(
                        format!("{name}: {}", String::from_utf8_lossy(&output.stderr)).into(),
                    );
                }
                times.push(started.elapsed());
            }
            println!("  {name}: {:.1}", millis(median(&times)));
        }
        Ok(())
    }

    /// The time that a line takes in a place, measured there.
    fn timed(&self, place: Place, line: &str) -> Result<Duration, Box<dyn Error>> {
        let script = format!(
            "a=$(date +%s%N); {{ {line}; }} >/dev/null || exit 1; b=$(date +%s%N); echo $((b - a))"
        );
        let text = self.run(place, &script)?;
        Ok(Duration::from_nanos(text.trim().parse()?))
    }

    fn run(&self, place: Place, line: &str) -> Result<String, Box<dyn Error>> {
        let output = self.command(place, line).output()?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{place:?}: `{line}`: {error}").into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    fn command(&self, place: Place, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = match &self.rust {
            Some(rust) => format!("{}/bin:{path}", rust.display()),
            None => path,
        };
        let line = format!("unset CARGO_TARGET_DIR RUSTFLAGS; PATH='{path}'; export PATH; {line}");
        let mut command = match place {
            Place::Bare => Command::new("/bin/sh"),
            Place::Bubblewrap => {
                let mut command = Command::new("bwrap");
                command.args([
                    "--ro-bind",
                    "/",
                    "/",
                    "--dev",
                    "/dev",
                    "--proc",
                    "/proc",
                    "--bind",
                ]);
                command.arg(self.field.work()).arg(self.field.work());
                command.args([
                    "--unshare-all",
                    "--die-with-parent",
                    "--cap-drop",
                    "ALL",
                    "--",
                    "/bin/sh",
                ]);
                command
            }
            Place::Dispatch => return self.kotak(&["--profile", "dispatch"], &line),
        };
        command.args(["-c", &line]).current_dir(self.field.work());
        command
    }

    fn kotak(&self, options: &[&str], line: &str) -> Command {
        let mut command = Command::new(program("kotak"));
        command.args(["run", "--backend", "native"]).args(options);
        command.arg("--bind").arg(self.field.work());
        command.arg("--ro-bind").arg(self.field.tools());
        if let Some(rust) = self.rust.as_ref().filter(|rust| !rust.starts_with("/usr")) {
            command.arg("--ro-bind").arg(rust);
        }
        command.args(["--", "/bin/sh", "-c", line]);
        command
            .current_dir(self.field.work())
            .env("HOME", self.field.stage().home());
        command
    }

    fn empty(&self) -> Result<(), Box<dyn Error>> {
        let mut find = Command::new("find");
        find.arg(self.field.work())
            .args(["-mindepth", "1", "-delete"]);
        find.status()?
            .success()
            .then_some(())
            .ok_or_else(|| "the workspace is not empty".into())
    }
}

const PLACES: [Place; 3] = [Place::Bare, Place::Bubblewrap, Place::Dispatch];
