//! An SSH server without a service: dropbear in the foreground, for the account of the tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running server, and the key that it lets in.
#[derive(Debug)]
pub struct SshServer {
    key: PathBuf,
    server: Child,
}

impl SshServer {
    /// Serves on port 22 of an address for the life of the namespace. The account's
    /// `~/.ssh/authorized_keys` is written: the home of the stage is one that ends with it.
    ///
    /// # Panics
    /// When dropbear or ssh-keygen is missing or fails.
    #[must_use]
    pub fn start(work: &Path, address: &str) -> Self {
        let key = work.join("client_key");
        run(Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key));
        let host_key = work.join("host_key");
        run(Command::new("dropbearkey")
            .args(["-t", "ed25519", "-f"])
            .arg(&host_key));
        let home = PathBuf::from(std::env::var_os("HOME").expect("HOME"));
        let public = std::fs::read(key.with_extension("pub")).expect("the public key");
        let folder = home.join(".ssh");
        std::fs::create_dir_all(&folder).expect("~/.ssh");
        std::fs::write(folder.join("authorized_keys"), public).expect("authorized_keys");
        for (path, mode) in [(&folder, "700"), (&folder.join("authorized_keys"), "600")] {
            run(Command::new("chmod").arg(mode).arg(path));
        }
        let server = Command::new("dropbear")
            .args(["-F", "-s", "-j", "-k", "-p"])
            .arg(format!("{address}:22"))
            .arg("-r")
            .arg(&host_key)
            .arg("-P")
            .arg(work.join("dropbear.pid"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("dropbear");
        Self { key, server }
    }

    /// The private key that gets in.
    #[must_use]
    pub fn key(&self) -> &Path {
        &self.key
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("a program of the SSH server");
    assert!(output.status.success(), "{command:?}: {output:?}");
}
