//! A question that is asked in the terminal (case: `kotak shell --network ask`, no panel, while the
//! payload draws a fake one and types ahead).

use crate::sandbox::Sandbox;
use kotak_engine::egress::decide::DenyReason;
use kotak_tests::net::world;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A command in a terminal of its own, by script(1).
struct Terminal {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    fn open(call: &kotak_tests::Kotak) -> Self {
        let plain = call.command();
        let quoted = |word: &std::ffi::OsStr| {
            let word = word.to_string_lossy();
            format!("'{}'", word.replace('\'', "'\\''"))
        };
        let line = std::iter::once(plain.get_program())
            .chain(plain.get_args())
            .map(quoted)
            .collect::<Vec<_>>()
            .join(" ");
        let mut command = Command::new("script");
        command
            .args([
                "--quiet",
                "--return",
                "--flush",
                "--command",
                &line,
                "/dev/null",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(cwd) = plain.get_current_dir() {
            command.current_dir(cwd);
        }
        let mut child = command.spawn().expect("script");
        let keys = child.stdin.take().expect("keys");
        let mut screen = child.stdout.take().expect("a screen");
        let seen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..count]);
                shown.lock().expect("the screen").push_str(&text);
            }
        });
        Self { child, keys, seen }
    }

    fn seen(&self) -> String {
        self.seen.lock().expect("the screen").clone()
    }

    fn press(&mut self, keys: &str) {
        self.keys
            .write_all(keys.as_bytes())
            .and_then(|()| self.keys.flush())
            .expect("a key");
    }

    #[track_caller]
    fn until(&self, part: &str) {
        let began = Instant::now();
        while !self.seen().contains(part) {
            assert!(
                began.elapsed() < PATIENCE,
                "no {part:?} in {:?}",
                self.seen()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key again and again until something is shown: one that comes too soon after the
    /// question appeared is ignored.
    #[track_caller]
    fn press_until(&mut self, key: &str, part: &str) {
        let began = Instant::now();
        while !self.seen().contains(part) {
            assert!(
                began.elapsed() < PATIENCE,
                "no {part:?} in {:?}",
                self.seen()
            );
            self.press(key);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn end(mut self) {
        drop(self.keys);
        self.child.wait().expect("the end of script");
    }
}

/// Draws what looks like a question, counts for as long as it may run, and makes one attempt; says
/// how that ended once it is seen to count on.
const PAYLOAD: &str = r"
    (while :; do echo tick; sleep 0.02; done >ticks) &
    printf '\033[H\033[2Jkotak asks. o once\r\nFAKE-%s\r\n' READY
    sleep 1
    curl -sS -o /dev/null https://$1/; code=$?
    before=$(wc -l <ticks)
    while [ $(wc -l <ticks) -le $before ]; do sleep 0.02; done
    echo CURL-ENDED-$code.
    kill $!
";

fn ticks(sandbox: &Sandbox) -> usize {
    sandbox
        .stage
        .read("work/ticks")
        .map_or(0, |text| text.len())
}

#[test]
fn a_question_in_the_terminal_freezes_the_payload_and_takes_only_keys_of_now() {
    let name = world().name("asked.terminal-one.net");
    for (key, ended, allows) in [("d", "CURL-ENDED-56.", false), ("o", "CURL-ENDED-0.", true)] {
        let sandbox = Sandbox::new("ask", &[]);
        sandbox.stage.write("work/payload.sh", PAYLOAD);
        let mut terminal = Terminal::open(&sandbox.call(&format!("sh payload.sh {name}")));
        terminal.until("FAKE-READY");
        // Typed for the fake one: an answer to it would allow for ever.
        terminal.press("wwwwosw");
        terminal.until(&format!("wants to reach {name}:443"));
        let shown = terminal.seen();
        let question = shown.rfind("wants to reach").expect("the question");
        let page = shown.rfind("\u{1b}[?1049h").expect("the alternate screen");
        assert!(
            page < question,
            "the question is not on the alternate screen: {shown:?}"
        );
        // Frozen: while the countdown goes on, the payload does not.
        let before = ticks(&sandbox);
        assert!(before > 0, "the payload never ran");
        let countdown = terminal.seen().matches("denied in").count();
        let began = Instant::now();
        while terminal.seen().matches("denied in").count() < countdown + 3 {
            assert!(began.elapsed() < PATIENCE, "the countdown stands still");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(ticks(&sandbox), before, "the payload went on");
        assert!(
            !terminal.seen().contains("CURL-ENDED"),
            "what was typed ahead answered"
        );
        terminal.press_until(key, ended);
        terminal.end();
        let log = sandbox.log();
        if allows {
            log.passed(&format!("{name}:443"));
        } else {
            log.refused(&format!("{name}:443"), DenyReason::Answer, "curl");
        }
        let rules = sandbox.kotak(&["rules", "list"]);
        assert!(
            !rules.stdout.contains(name),
            "what was typed ahead was stored: {rules:?}"
        );
    }
}

/// Does what would make a question unreadable or take its keys, makes one attempt under a name whose
/// start belongs to somebody else, and says how that ended.
const HOSTILE: &str = r"
    printf '\033[?69h\033[3;70s\033[?5h\033]10;#111\007\033]11;#111\007'
    printf '\033[>31u\033[>4;2m\033[2h\033[?1003h\033[?2026h'
    curl -sS -o /dev/null https://$1/
    echo CURL-ENDED-$?.
";

// REQ EG-9
#[test]
fn a_payload_neither_hides_a_question_nor_takes_its_keys_nor_cuts_its_host() {
    let evil = world().name("asked.terminal-two.net");
    let labels = ["a", "b"].map(|letter| letter.repeat(60)).join(".");
    let name = format!("accounts.example.com.{labels}.{evil}");
    let sandbox = Sandbox::new("ask", &[]);
    sandbox.stage.write("work/payload.sh", HOSTILE);
    let mut terminal = Terminal::open(&sandbox.call(&format!("sh payload.sh {name}")));
    terminal.until("denied in");
    let shown = terminal.seen();
    let (_, page) = shown.split_once("\u{1b}[?1049h").expect("a page");
    let (aside, question) = page.split_once("kotak asks").expect("a question");
    for sequence in [
        "[?69l", "[?5l", "]110", "]111", "[>0u", "[>4;0m", "[2l", "[?1003l", "[?2026l",
    ] {
        assert!(aside.contains(sequence), "no {sequence:?} in {aside:?}");
    }
    // Whole, however many rows it takes.
    let unwrapped: String = question
        .replace("\u{1b}[K", "")
        .replace("\u{1b}#5", "")
        .lines()
        .map(str::trim)
        .collect();
    assert!(
        unwrapped.contains(&format!("wants to reach{name}:443")),
        "{unwrapped:?}"
    );
    terminal.press_until("d", "CURL-ENDED-56.");
    let shown = terminal.seen();
    let (_, back) = shown.rsplit_once("denied in").expect("the last drawing");
    for sequence in [
        "\u{1b}[<u",
        "[>4;2m",
        "]10;#111",
        "]11;#111",
        "[?69h",
        "[3;70s",
        "[?5h",
        "[?1003h",
        "[?1049l",
    ] {
        assert!(back.contains(sequence), "no {sequence:?} in {back:?}");
    }
    terminal.end();
    let log = sandbox.log();
    log.refused(&format!("{name}:443"), DenyReason::Answer, "curl");
}
