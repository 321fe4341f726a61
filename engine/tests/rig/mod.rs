//! An engine with its own directories, and short ways to use it.
#![allow(dead_code, reason = "each test file uses a part")]

use kotak_engine::api::{LaunchRequest, Program, SessionInfo};
use kotak_engine::backend::BackendChoice;
use kotak_engine::manager::{Engine, EngineOptions, EngineRole};
use kotak_engine::probe::Switch;
use kotak_engine::spec::Mode;
use kotak_engine::store::Dirs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub struct Rig {
    pub engine: Engine,
    pub root: TempDir,
}

impl Rig {
    pub async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let options = EngineOptions {
            switch: Switch::On,
            dirs: Dirs::under(&root.path().join("kotak")),
            role: EngineRole::Panel,
        };
        std::fs::create_dir(root.path().join("work")).unwrap();
        Self { engine: Engine::start(options).await.unwrap(), root }
    }

    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub fn request(&self, backend: BackendChoice, line: &str) -> LaunchRequest {
        LaunchRequest {
            program: Program::Command { line: line.to_owned() },
            cwd: self.work().to_str().unwrap().to_owned(),
            backend,
            network: None,
            mode: Mode::Chat,
            protected_paths: Vec::new(),
            cols: 80,
            rows: 24,
        }
    }

    pub async fn launch(&self, backend: BackendChoice, line: &str) -> SessionInfo {
        self.engine.launch(self.request(backend, line)).await.unwrap()
    }

    /// Reads until the output ends; all of it, and the session after its end.
    pub async fn read_to_end(&self, id: &str) -> (String, SessionInfo) {
        let mut bytes = Vec::new();
        let mut from = 0;
        loop {
            let chunk = self.engine.read_output(id, from).await.unwrap();
            assert!(!chunk.truncated);
            from = chunk.offset + chunk.bytes.len() as u64;
            bytes.extend(chunk.bytes);
            if chunk.ended && from == chunk.head {
                break;
            }
        }
        let info = self.engine.wait(id).await.unwrap();
        (String::from_utf8_lossy(&bytes).into_owned(), info)
    }
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
