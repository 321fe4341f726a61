//! Many attempts in one session, each in a directory of its own.

use kotak_tests::field::{Field, Refusal, Rules, Run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// One attempt.
pub(crate) struct Case {
    name: &'static str,
    prepare: &'static str,
    steps: Vec<u8>,
    expect: Expect,
}

/// What its last step gives under the rules.
enum Expect {
    /// Refused: the verb, and the path below the case's directory; none where it cannot be written
    /// as text.
    Refused(&'static str, Option<&'static str>),
    /// This errno, and no violation.
    Fails(&'static str),
    /// The same as without the rules, and no violation.
    Same,
}

/// `attempt`'s arguments, in words separated by spaces: what each step is.
pub(crate) fn refused(
    name: &'static str,
    steps: &str,
    action: &'static str,
    path: &'static str,
) -> Case {
    Case::new(name, steps, Expect::Refused(action, Some(path)))
}

/// As [`refused`], with a path that is no text.
pub(crate) fn refused_somewhere(name: &'static str, steps: &str, action: &'static str) -> Case {
    Case::new(name, steps, Expect::Refused(action, None))
}

/// Fails with this errno whatever the name is, though it succeeds without the sandbox.
pub(crate) fn fails(name: &'static str, steps: &str, errno: &'static str) -> Case {
    Case::new(name, steps, Expect::Fails(errno))
}

/// Goes as without the rules.
pub(crate) fn same(name: &'static str, steps: &str) -> Case {
    Case::new(name, steps, Expect::Same)
}

impl Case {
    fn new(name: &'static str, steps: &str, expect: Expect) -> Self {
        Self {
            name,
            prepare: "",
            steps: steps.as_bytes().to_vec(),
            expect,
        }
    }

    /// What is done on the host before, in the case's directory.
    pub(crate) fn after(mut self, prepare: &'static str) -> Self {
        self.prepare = prepare;
        self
    }
}

/// Without what is the control made?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// In a sandbox whose spec has no rules.
    Rules,
    /// On the host.
    Sandbox,
}

/// Runs the cases under the rules of the shared cases and without, and judges each.
#[track_caller]
pub(crate) fn judge(cases: &[Case]) {
    judge_under(&Rules::names(), Control::Rules, cases);
}

/// Runs the cases under `rules` and without, and judges each.
#[track_caller]
pub(crate) fn judge_under(rules: &Rules, control: Control, cases: &[Case]) {
    let free = Field::new();
    prepare(&free, cases);
    let script = script(&free, cases);
    let run = match control {
        Control::Rules => free.run(&Rules::default(), &["/bin/sh", &script]).outcome,
        Control::Sandbox => free.outside(&format!("exec /bin/sh '{script}'")),
    };
    assert!(run.succeeded(), "the controls did not run: {run:?}");
    let controls = answers(&run.stdout, cases.len());

    let field = Field::new();
    prepare(&field, cases);
    let before = field.inventory();
    let run = field.run(rules, &["/bin/sh", &self::script(&field, cases)]);
    assert!(run.outcome.succeeded(), "{:?}", run.outcome);
    let given = answers(&run.outcome.stdout, cases.len());
    let after = field.inventory();
    let refusals = field.refusals(&run.session);
    let mut wrong = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let dir = field.work().join(format!("c{index}"));
        let below = |list: &[(std::path::PathBuf, Option<Vec<u8>>)]| -> Vec<_> {
            let own = list.iter().filter(|(path, _)| path.starts_with(&dir));
            own.cloned().collect()
        };
        let made = below(&before) != below(&after);
        let prefix = format!("{}/", dir.display());
        let own: Vec<&Refusal> = refusals
            .iter()
            .filter(|row| row.target.starts_with(&prefix))
            .collect();
        let found = verdict(case, &given[index], &controls[index], made, &prefix, &own);
        if let Err(reason) = found {
            let last = given[index].last();
            wrong.push(format!(
                "{}: {reason}; answered {last:?}, history {own:?}",
                case.name
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn verdict(
    case: &Case,
    given: &[Value],
    control: &[Value],
    made: bool,
    prefix: &str,
    refusals: &[&Refusal],
) -> Result<(), String> {
    let error = |answers: &[Value]| {
        let last = answers.last()?;
        Some(last["name"].as_str().unwrap_or("success").to_owned())
    };
    let (given, control) = (error(given), error(control));
    let (given, control) = (
        given.ok_or("there is no answer")?,
        control.ok_or("the control has no answer")?,
    );
    let expected = match case.expect {
        Expect::Refused(..) => "EACCES",
        Expect::Fails(errno) => errno,
        Expect::Same => &control,
    };
    if given != expected {
        return Err(format!("expected {expected}"));
    }
    if !matches!(case.expect, Expect::Same) && control != "success" {
        return Err(format!("the control gave {control}"));
    }
    let Expect::Refused(action, path) = case.expect else {
        return if refusals.is_empty() {
            Ok(())
        } else {
            Err("it is in the history".to_owned())
        };
    };
    if made {
        return Err("something changed on the host".to_owned());
    }
    let [row] = refusals else {
        return Err(format!("{} violations", refusals.len()));
    };
    let path = path.map(|path| format!("{prefix}{path}"));
    let named = path.is_none_or(|path| row.target == path || row.other.as_ref() == Some(&path));
    let whole = named
        && row.action == action
        && row.error == "EACCES"
        && row.count == 1
        && row.pid > 1
        && row.executable.ends_with("/tools/attempt")
        && row.observed;
    whole
        .then_some(())
        .ok_or_else(|| format!("expected {action}"))
}

fn prepare(field: &Field, cases: &[Case]) {
    for (index, case) in cases.iter().enumerate() {
        let dir = format!("c{index}");
        field.prepare(&format!(
            "mkdir {dir} && cd {dir} && echo old > pre.key && echo ok > ok.txt && mkdir sub\n{}",
            case.prepare
        ));
    }
}

/// A script of all cases, in a file; its path.
fn script(field: &Field, cases: &[Case]) -> String {
    let attempt = field.attempt().display().to_string();
    let work = field.work().display().to_string();
    let mut text = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let dir = format!("{work}/c{index}");
        text.extend(format!("echo '== {index}'\ncd '{dir}'\n'{attempt}'").into_bytes());
        for word in case.steps.split(|byte| *byte == b' ') {
            // `HERE` is the case's directory.
            let word = String::from_utf8_lossy(word).replace("HERE", &dir);
            text.extend(format!(" '{word}'").into_bytes());
        }
        text.extend(b" </dev/null\n");
    }
    text.extend(b"exit 0\n");
    let file = field.tools().join("script.sh");
    fs::write(&file, text).expect("a script");
    file.display().to_string()
}

fn answers(stdout: &str, cases: usize) -> Vec<Vec<Value>> {
    let mut all: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
    let mut current = 0;
    for line in stdout.lines() {
        if let Some(index) = line.strip_prefix("== ") {
            current = index.parse().expect("a number");
        } else {
            let answer = serde_json::from_str(line);
            all.entry(current).or_default().push(answer.expect(line));
        }
    }
    (0..cases)
        .map(|index| all.remove(&index).unwrap_or_default())
        .collect()
}

/// The answer of the last step of one run of `attempt`.
#[track_caller]
pub(crate) fn last_answer(run: &Run) -> Value {
    let line = run.outcome.stdout.lines().last();
    let line = line.unwrap_or_else(|| panic!("no answer: {:?}", run.outcome));
    serde_json::from_str(line).unwrap_or_else(|e| panic!("`{line}`: {e}: {:?}", run.outcome))
}
