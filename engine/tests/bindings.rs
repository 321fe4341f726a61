//! The contract with the window: the committed TypeScript types are those that the Rust types
//! generate. `KOTAK_BLESS=1` writes them anew.
#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use kotak_engine::api::{
    ActivityPage, ActivityQuery, Answer, AnswerScope, ExecPolicy, Explanation, ExportFormat,
    LaunchPreview, LaunchRequest, NetworkPolicy, NewGrant, NewRule, RunningProcess, SessionGrant,
    Settings, Snapshot, Timeline, UiEvent,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use ts_rs::{Config, TS};

fn committed_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui/src/backend/generated")
}

fn generate(dir: &Path) {
    let cfg = Config::new().with_out_dir(dir).with_large_int("number");
    Snapshot::export_all(&cfg).expect("export Snapshot");
    UiEvent::export_all(&cfg).expect("export UiEvent");
    LaunchRequest::export_all(&cfg).expect("export LaunchRequest");
    LaunchPreview::export_all(&cfg).expect("export LaunchPreview");
    RunningProcess::export_all(&cfg).expect("export RunningProcess");
    Settings::export_all(&cfg).expect("export Settings");
    ActivityQuery::export_all(&cfg).expect("export ActivityQuery");
    ActivityPage::export_all(&cfg).expect("export ActivityPage");
    Timeline::export_all(&cfg).expect("export Timeline");
    NetworkPolicy::export_all(&cfg).expect("export NetworkPolicy");
    NewRule::export_all(&cfg).expect("export NewRule");
    NewGrant::export_all(&cfg).expect("export NewGrant");
    ExecPolicy::export_all(&cfg).expect("export ExecPolicy");
    SessionGrant::export_all(&cfg).expect("export SessionGrant");
    Answer::export_all(&cfg).expect("export Answer");
    AnswerScope::export_all(&cfg).expect("export AnswerScope");
    Explanation::export_all(&cfg).expect("export Explanation");
    ExportFormat::export_all(&cfg).expect("export ExportFormat");
    let index: String = read(dir)
        .keys()
        .filter_map(|name| name.strip_suffix(".ts"))
        .map(|name| format!("export type {{ {name} }} from \"./{name}\";\n"))
        .collect();
    std::fs::write(dir.join("index.ts"), index).expect("write index.ts");
}

fn read(dir: &Path) -> BTreeMap<String, String> {
    std::fs::read_dir(dir)
        .expect("read the folder of types")
        .map(|entry| {
            let entry = entry.expect("read an entry");
            let text = std::fs::read_to_string(entry.path()).expect("read a type");
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .collect()
}

#[test]
fn the_committed_typescript_types_are_those_that_the_rust_types_generate() {
    let fresh = tempfile::tempdir().expect("make a folder");
    generate(fresh.path());
    let expected = read(fresh.path());
    assert!(
        expected.len() > 20,
        "only {} types were generated",
        expected.len()
    );
    let dir = committed_dir();
    if std::env::var_os("KOTAK_BLESS").is_some() {
        if dir.exists() {
            std::fs::remove_dir_all(&dir).expect("remove the old types");
        }
        std::fs::create_dir_all(&dir).expect("make the folder of types");
        for (name, text) in &expected {
            std::fs::write(dir.join(name), text).expect("write a type");
        }
    }
    let committed = read(&dir);
    let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&committed),
        names(&expected),
        "run with KOTAK_BLESS=1 and commit ui/src/backend/generated"
    );
    for (name, text) in &expected {
        assert_eq!(
            &committed[name], text,
            "{name} differs: run with KOTAK_BLESS=1 and commit it"
        );
    }
}
