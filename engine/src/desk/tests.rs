use super::*;
use crate::api::{
    Answer, AnswerScope, FoldedPrompts, HostHistory, Prompt, PromptState, RuleOrigin,
};
use crate::error::Coded;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// Long enough for the busiest machine; nothing waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(60);

fn prompt(id: &str) -> Prompt {
    Prompt {
        id: id.to_owned(),
        session_id: "s".to_owned(),
        session_title: "sh".to_owned(),
        workspace: "/w".to_owned(),
        backend: None,
        host: "files.example.com".to_owned(),
        unicode: None,
        port: 443,
        parent: None,
        process: None,
        address: None,
        first_ms: 1,
        attempts: 1,
        history: HostHistory::Unknown,
        state: PromptState::Waiting,
        deadline_ms: Some(60_000),
        countdown_ms: 60_000,
        words: Vec::new(),
    }
}

fn rule() -> RuleInfo {
    RuleInfo {
        id: 7,
        pattern: "files.example.com".to_owned(),
        allow: true,
        session_id: None,
        workspace: "/w".to_owned(),
        origin: RuleOrigin::Prompt,
        created_at_ms: 1,
        words: String::new(),
    }
}

struct Desk {
    _root: tempfile::TempDir,
    dirs: Dirs,
}

impl Desk {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::under(root.path());
        Self { _root: root, dirs }
    }

    fn host(&self) -> (Host, mpsc::UnboundedReceiver<DeskEvent>) {
        let (sender, events) = mpsc::unbounded_channel();
        let listener = Box::new(move |event| {
            let _sent = sender.send(event);
        });
        (Host::open(&self.dirs, listener).unwrap(), events)
    }

    fn guest(&self) -> (Guest, mpsc::UnboundedReceiver<GuestEvent>) {
        let (sender, events) = mpsc::unbounded_channel();
        let handler: GuestHandler = Arc::new(move |event: GuestEvent| {
            let reply: Option<Reply> = match &event {
                GuestEvent::Answer { .. } => Some(Ok(Some(rule()))),
                GuestEvent::Hold(_) => Some(Ok(None)),
                _ => None,
            };
            let _sent = sender.send(event);
            Box::pin(async move { reply })
        });
        (Guest::start(&self.dirs, handler), events)
    }

    fn socket(&self) -> PathBuf {
        socket_path(&self.dirs)
    }
}

async fn next<T>(events: &mut mpsc::UnboundedReceiver<T>) -> T {
    tokio::time::timeout(PATIENCE, events.recv())
        .await
        .unwrap()
        .unwrap()
}

async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let all = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
}

#[tokio::test]
async fn a_question_travels_to_the_window_and_its_answer_back() {
    let desk = Desk::new();
    let (host, mut seen) = desk.host();
    let (guest, mut wanted) = desk.guest();
    assert_eq!(next(&mut wanted).await, GuestEvent::Connected);
    guest.prompt(prompt("a"));
    assert_eq!(
        next(&mut seen).await,
        DeskEvent::Prompt(Box::new(prompt("a")))
    );
    assert_eq!(host.prompts(), [prompt("a")]);
    assert!(host.has("a") && !host.has("b"));

    // It has only just come.
    let early = host.answer("a", Answer::AllowOnce, AnswerScope::Host).await;
    assert_eq!(early.unwrap_err().code, "ANSWER_TOO_EARLY");
    let mut answer = None;
    eventually(async || {
        let reply = host
            .answer("a", Answer::AllowWorkspace, AnswerScope::Host)
            .await;
        answer = reply.ok();
        answer.is_some()
    })
    .await;
    assert_eq!(answer.unwrap(), Some(rule()));
    assert_eq!(
        next(&mut wanted).await,
        GuestEvent::Answer {
            id: "a".to_owned(),
            answer: Answer::AllowWorkspace,
            scope: AnswerScope::Host
        }
    );
    assert_eq!(host.hold("a").await, Ok(None));
    assert_eq!(next(&mut wanted).await, GuestEvent::Hold("a".to_owned()));
    host.release("a");
    assert_eq!(next(&mut wanted).await, GuestEvent::Release("a".to_owned()));
    guest.gone("a");
    assert_eq!(next(&mut seen).await, DeskEvent::PromptGone("a".to_owned()));
    let gone = host.answer("a", Answer::Deny, AnswerScope::Host).await;
    assert_eq!(gone.unwrap_err().code, "PROMPT_GONE");
}

#[tokio::test]
async fn questions_go_with_the_engine_that_asked_and_the_desk_with_its_window() {
    let desk = Desk::new();
    let (host, mut seen) = desk.host();
    let (guest, mut wanted) = desk.guest();
    assert_eq!(next(&mut wanted).await, GuestEvent::Connected);
    let folded = FoldedPrompts {
        session_id: "s".to_owned(),
        hosts: 3,
        denied_unasked: 1,
    };
    guest.prompt(prompt("a"));
    guest.folded(folded.clone());
    next(&mut seen).await;
    assert_eq!(next(&mut seen).await, DeskEvent::Folded(folded.clone()));
    assert_eq!(host.folded(), std::slice::from_ref(&folded));
    drop(guest);
    assert_eq!(next(&mut seen).await, DeskEvent::PromptGone("a".to_owned()));
    let none = FoldedPrompts {
        hosts: 0,
        denied_unasked: 0,
        ..folded
    };
    assert_eq!(next(&mut seen).await, DeskEvent::Folded(none));
    assert_eq!((host.prompts(), host.folded()), (vec![], vec![]));

    let (_guest, mut wanted) = desk.guest();
    assert_eq!(next(&mut wanted).await, GuestEvent::Connected);
    drop(host);
    assert_eq!(next(&mut wanted).await, GuestEvent::Disconnected);
    // A window that is opened later is found.
    let _host = desk.host();
    assert_eq!(next(&mut wanted).await, GuestEvent::Connected);
}

#[tokio::test]
async fn there_is_one_desk_and_one_that_was_left_behind_is_replaced() {
    let desk = Desk::new();
    let (host, _seen) = desk.host();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&desk.socket()), 0o600);
    assert_eq!(mode(&desk.dirs.run), 0o700);
    let second = Host::open(&desk.dirs, Box::new(|_| {}));
    assert_eq!(second.unwrap_err().code(), "WINDOW_RUNS_ALREADY");
    drop(host);
    // The socket is still there, and nobody behind it.
    eventually(async || UnixStream::connect(desk.socket()).await.is_err()).await;
    assert!(desk.socket().exists());
    let (_host, _seen) = desk.host();
    UnixStream::connect(desk.socket()).await.unwrap();
}

#[tokio::test]
async fn hostile_guests_are_parted_with_and_others_are_served_on() {
    let desk = Desk::new();
    let (host, mut seen) = desk.host();
    let hello = frame::encode(&message::ToHost::Hello {
        version: message::VERSION,
    })
    .unwrap();
    let old = frame::encode(&message::ToHost::Hello { version: 99 }).unwrap();
    let framed = |json: &str| {
        let mut bytes = hello.clone();
        bytes.extend(u32::try_from(json.len()).unwrap().to_le_bytes());
        bytes.extend(json.as_bytes());
        bytes
    };
    let deep = "[".repeat(100_000);
    let cases: Vec<Vec<u8>> = vec![
        vec![0xff; 64],
        u32::MAX.to_le_bytes().to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        old,
        [hello.clone(), hello.clone()].concat(),
        framed("not json"),
        framed(&deep),
        framed(r#"{"type":"prompt"}"#),
        framed(r#"{"type":"unknown"}"#),
    ];
    for case in cases {
        let mut stream = UnixStream::connect(desk.socket()).await.unwrap();
        // It may be parted with before everything was sent.
        let _sent = stream.write_all(&case).await;
        let mut rest = Vec::new();
        let parted = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        let _ended = parted.unwrap();
    }
    // One that takes another's question is parted with; the question stays.
    let (guest, mut wanted) = desk.guest();
    assert_eq!(next(&mut wanted).await, GuestEvent::Connected);
    guest.prompt(prompt("a"));
    next(&mut seen).await;
    let theft = frame::encode(&message::ToHost::Prompt {
        prompt: Box::new(prompt("a")),
    });
    let mut stream = UnixStream::connect(desk.socket()).await.unwrap();
    let bytes = [hello.clone(), theft.unwrap()].concat();
    stream.write_all(&bytes).await.unwrap();
    let mut rest = Vec::new();
    let _ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest))
        .await
        .unwrap();
    assert_eq!(host.prompts(), [prompt("a")]);
    assert_eq!(host.hold("a").await, Ok(None));
}

#[tokio::test]
async fn live_rows_come_in_pieces_and_too_many_are_counted() {
    let desk = Desk::new();
    let (_host, mut seen) = desk.host();
    let (guest, mut wanted) = desk.guest();
    // Nobody is there yet: the rows are in the history all the same.
    guest.rows(&[], 5);
    assert_eq!(next(&mut wanted).await, GuestEvent::Connected);
    guest.prompt(prompt("a"));
    next(&mut seen).await;
    let mut received = 0;
    let row = crate::api::ActivityRow {
        id: 1,
        session_id: "s".to_owned(),
        at_ms: 1,
        last_ms: 1,
        outcome: crate::api::Outcome::Refused,
        action: "network-outbound".to_owned(),
        target: "x:443".to_owned(),
        unicode: None,
        why: String::new(),
        way_out: None,
        count: 1,
        process: None,
        evidence: crate::events::Evidence::Observed,
        raw: None,
        connection: None,
        file: None,
    };
    let rows = vec![row; 50];
    guest.rows(&rows, 2);
    let mut skipped_in_all = 0;
    while received < 50 || skipped_in_all < 2 {
        let DeskEvent::Rows { rows, skipped } = next(&mut seen).await else {
            panic!("something else came")
        };
        received += rows.len();
        skipped_in_all += skipped;
    }
    assert_eq!((received, skipped_in_all), (50, 2));
}
