//! Git repositories over HTTP: `git http-backend` as a CGI program (RFC 3875).

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tokio::io::AsyncWriteExt;

/// Variables under which git asks nobody, and trusts no settings but the test's.
pub const QUIET_GIT: [(&str, &str); 8] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_AUTHOR_NAME", "Test"),
    ("GIT_AUTHOR_EMAIL", "test@localhost"),
    ("GIT_COMMITTER_NAME", "Test"),
    ("GIT_COMMITTER_EMAIL", "test@localhost"),
    ("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z"),
    ("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z"),
];

/// What the file `hello.txt` of the sample repository holds.
pub const SAMPLE: &str = "sample repository\n";

/// A folder of bare repositories.
#[derive(Debug)]
pub struct Repositories {
    root: PathBuf,
}

impl Repositories {
    /// Makes `sample.git` in a folder: one commit on `main`, open to pushes.
    ///
    /// # Panics
    /// When git is missing or fails.
    #[must_use]
    pub fn make(root: &Path) -> Self {
        let script = "set -e\n\
            git init --quiet --initial-branch=main source\n\
            printf 'sample repository\\n' >source/hello.txt\n\
            git -C source add hello.txt\n\
            git -C source commit --quiet --message first\n\
            git clone --quiet --bare source sample.git\n\
            git -C sample.git config http.receivepack true\n";
        let status = Command::new("sh")
            .args(["-c", script])
            .current_dir(root)
            .envs(QUIET_GIT)
            .stdin(Stdio::null())
            .status()
            .expect("git");
        assert!(status.success(), "the sample repository: {status}");
        Self {
            root: root.to_path_buf(),
        }
    }

    /// Where `sample.git` is, for other ways to it.
    #[must_use]
    pub fn sample(&self) -> PathBuf {
        self.root.join("sample.git")
    }

    /// Runs the CGI program for one request below `/git/`.
    pub async fn answer(&self, request: Request<Incoming>) -> Response<Bytes> {
        let bytes = self.run(request).await.unwrap_or_default();
        parse(&bytes).unwrap_or_else(|| {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        })
    }

    async fn run(&self, request: Request<Incoming>) -> std::io::Result<Vec<u8>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?;
        let body = body.to_bytes();
        let header = |name: &str| {
            let value = head.headers.get(name);
            value
                .and_then(|v| v.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        let path = head.uri.path().strip_prefix("/git").unwrap_or_default();
        let mut program = tokio::process::Command::new("git")
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REQUEST_METHOD", head.method.as_str())
            .env("PATH_INFO", path)
            .env("QUERY_STRING", head.uri.query().unwrap_or_default())
            .env("CONTENT_TYPE", header("content-type"))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
            .env("GIT_PROTOCOL", header("git-protocol"))
            .env("REMOTE_USER", "test")
            .envs(QUIET_GIT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = program.stdin.take() {
            tokio::spawn(async move {
                // The program reads what it wants of it.
                let _ = input.write_all(&body).await;
            });
        }
        Ok(program.wait_with_output().await?.stdout)
    }
}

/// Splits a CGI answer into head and body.
fn parse(bytes: &[u8]) -> Option<Response<Bytes>> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let body = Bytes::copy_from_slice(bytes.get(end + 4..)?);
    let mut response = Response::builder();
    for line in head.lines() {
        let (name, value) = line.split_once(": ")?;
        response = if name.eq_ignore_ascii_case("status") {
            response.status(value.get(..3)?)
        } else {
            response.header(name, value)
        };
    }
    response.body(body).ok()
}
