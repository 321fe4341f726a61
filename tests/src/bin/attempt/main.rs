//! One raw system call after another, as described on the command line, each answered by one line
//! of JSON with its result and errno: what libraries would check or mend reaches the kernel as it
//! is.
//!
//! `attempt [NAME=]CALL ARGUMENT... [then [NAME=]CALL ARGUMENT...]...`
//!
//! | argument | what the kernel gets |
//! |---|---|
//! | `12`, `0x1f`, `0o600`, `-1` | the number, all 64 bits |
//! | `O_CREAT\|O_WRONLY` | named bits, also with numbers |
//! | `:text` | the address of the text and a NUL; `%41` is a byte |
//! | `$NAME` | an earlier result |
//! | `@NAME` | the text `/proc/self/fd/` and an earlier result |
//! | `un:PATH` | the address of a `sockaddr_un` |
//! | `how:FLAGS,MODE` | the address of a `struct open_how` |
//! | `buf` | the address of 4 KiB of zeros |
//!
//! Besides calls of the kernel there are those of [`special`] and the loops of [`race`],
//! [`chaos`] and [`measure`].

mod call;
mod chaos;
mod measure;
mod race;
mod special;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

/// What a step gave.
pub(crate) type Answer = Result<serde_json::Value, String>;

fn main() -> ExitCode {
    let arguments: Vec<Vec<u8>> = std::env::args_os()
        .skip(1)
        .map(OsString::into_vec)
        .collect();
    let mut results = HashMap::new();
    for step in arguments.split(|argument| argument == b"then") {
        let answer = match step.split_first() {
            None => Err("a step is empty".to_owned()),
            Some((call, rest)) => {
                let (name, call) = match call.iter().position(|byte| *byte == b'=') {
                    Some(at) => (call.get(..at), call.get(at + 1..).unwrap_or_default()),
                    None => (None, call.as_slice()),
                };
                let call = String::from_utf8_lossy(call).into_owned();
                run(&call, rest, &results).inspect(|answer| {
                    if let (Some(name), Some(result)) = (name, answer["result"].as_i64()) {
                        results.insert(name.to_vec(), result);
                    }
                })
            }
        };
        match answer {
            Ok(answer) => println!("{answer}"),
            Err(reason) => {
                eprintln!("attempt: {reason}");
                return ExitCode::from(2);
            }
        }
        if std::io::stdout().flush().is_err() {
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn run(call: &str, rest: &[Vec<u8>], results: &HashMap<Vec<u8>, i64>) -> Answer {
    if let Some(answer) = special::run(call, rest, results) {
        return answer;
    }
    match call {
        "flip" => race::flip(rest),
        "exchange" => race::exchange(rest),
        "write-and-run" => race::write_and_run(rest),
        "chaos" => chaos::run(rest),
        "measure" => measure::run(rest),
        _ => call::kernel(call, rest, results),
    }
}

/// The answer of a call that returned `result`, or `-errno`.
pub(crate) fn answer(call: &str, result: i64) -> serde_json::Value {
    let errno = if (-4095..0).contains(&result) {
        -result
    } else {
        0
    };
    let name = i32::try_from(errno)
        .ok()
        .filter(|errno| *errno != 0)
        .map(|errno| format!("{:?}", nix::errno::Errno::from_raw(errno)));
    serde_json::json!({ "call": call, "result": result, "errno": errno, "name": name })
}
