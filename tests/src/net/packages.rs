//! The smallest registries that npm, pip and cargo are content with, served as files by every
//! site: one package each, made here.

use super::body::hex;
use super::web::Sites;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::Command;

/// The package that npm finds.
pub const NPM_PACKAGE: &str = "kotak-sample";
/// The package that pip finds.
pub const PIP_PACKAGE: &str = "kotak-sample";
/// The package that cargo finds.
pub const CRATE: &str = "kotak-sample";

/// Puts all three registries up; `work` is a folder for what is packed.
///
/// `base` is the address that they are reached by, for example `https://packages.example.net`.
///
/// # Panics
/// When tar or python3 is missing.
pub fn publish(sites: &Sites, work: &Path, base: &str) {
    npm(sites, work, base);
    pip(sites, work);
    cargo(sites, work, base);
}

fn npm(sites: &Sites, work: &Path, base: &str) {
    let manifest = json!({ "name": NPM_PACKAGE, "version": "1.0.0", "main": "index.js" });
    write(work, "npm/package/package.json", &manifest.to_string());
    write(
        work,
        "npm/package/index.js",
        "module.exports = 'npm sample';\n",
    );
    let archive = packed(work, "npm", "package");
    let tarball = format!("/npm/{NPM_PACKAGE}/-/{NPM_PACKAGE}-1.0.0.tgz");
    let mut version = manifest;
    version["dist"] = json!({ "tarball": format!("{base}{tarball}") });
    let document = json!({
        "name": NPM_PACKAGE,
        "dist-tags": { "latest": "1.0.0" },
        "versions": { "1.0.0": version },
    });
    sites.put(
        &format!("/npm/{NPM_PACKAGE}"),
        "application/json",
        document.to_string(),
    );
    sites.put(&tarball, "application/octet-stream", archive);
}

/// An index as PEP 503 has it, with one wheel.
fn pip(sites: &Sites, work: &Path) {
    let wheel = "kotak_sample-1.0-py3-none-any.whl";
    let script = format!(
        "import zipfile\n\
         z = zipfile.ZipFile({wheel:?}, 'w')\n\
         info = 'kotak_sample-1.0.dist-info/'\n\
         z.writestr('kotak_sample.py', 'text = \"pip sample\"\\n')\n\
         z.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: kotak-sample\\nVersion: 1.0\\n')\n\
         z.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         z.writestr(info + 'RECORD', '')\n\
         z.close()\n"
    );
    run(Command::new("python3")
        .args(["-c", &script])
        .current_dir(work));
    let bytes = std::fs::read(work.join(wheel)).expect("the wheel");
    let digest = hex(&Sha256::digest(&bytes));
    let page = format!(
        "<!DOCTYPE html><html><body><a href=\"/wheels/{wheel}#sha256={digest}\">{wheel}</a></body></html>"
    );
    sites.put(&format!("/simple/{PIP_PACKAGE}/"), "text/html", page);
    sites.put(
        &format!("/wheels/{wheel}"),
        "application/octet-stream",
        bytes,
    );
}

/// A sparse registry (the Cargo book, "Registry Index").
fn cargo(sites: &Sites, work: &Path, base: &str) {
    let folder = format!("{CRATE}-1.0.0");
    let manifest =
        format!("[package]\nname = \"{CRATE}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n");
    write(work, &format!("crate/{folder}/Cargo.toml"), &manifest);
    write(
        work,
        &format!("crate/{folder}/src/lib.rs"),
        "//! Crate sample.\n",
    );
    let archive = packed(work, "crate", &folder);
    let line = json!({
        "name": CRATE,
        "vers": "1.0.0",
        "deps": [],
        "cksum": hex(&Sha256::digest(&archive)),
        "features": {},
        "yanked": false,
    });
    let (first, second) = (&CRATE[..2], &CRATE[2..4]);
    let entry = format!("/index/{first}/{second}/{CRATE}");
    let config = json!({ "dl": format!("{base}/crates") });
    sites.put("/index/config.json", "application/json", config.to_string());
    sites.put(&entry, "text/plain", format!("{line}\n"));
    let download = format!("/crates/{CRATE}/1.0.0/download");
    sites.put(&download, "application/octet-stream", archive);
}

fn write(work: &Path, path: &str, text: &str) {
    let path = work.join(path);
    let made = path.parent().map(std::fs::create_dir_all).transpose();
    made.and_then(|_| std::fs::write(&path, text))
        .expect("a file");
}

fn packed(work: &Path, place: &str, folder: &str) -> Vec<u8> {
    let archive = work.join(format!("{place}.tar.gz"));
    run(Command::new("tar")
        .arg("-czf")
        .arg(&archive)
        .arg(folder)
        .current_dir(work.join(place)));
    std::fs::read(archive).expect("the archive")
}

fn run(command: &mut Command) {
    let status = command.status().expect("a program");
    assert!(status.success(), "{command:?}: {status}");
}
