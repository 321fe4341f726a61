//! What a mask hides vanishes after the last look at it: no session comes of it, and the mount
//! point that bubblewrap makes in its place does not stay on the host.

use crate::{Scene, code, in_own_mounts};
use kotak_engine::probe::Switch;
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_vanishes_before_its_mount_is_an_error_and_leaves_nothing() {
    let name = "a_secret_that_vanishes_before_its_mount_is_an_error_and_leaves_nothing";
    if !in_own_mounts(&format!("vanish::{name}")) {
        return;
    }
    let scene = Scene::start(Switch::On).await;
    let home = scene.stage.home().to_path_buf();
    // The control: bubblewrap makes what it mounts on.
    for (kind, made) in [
        ("file", home.join("made")),
        ("folder", home.join("made-folder")),
    ] {
        let mut bwrap = Command::new(&scene.bwrap);
        bwrap.args(["--dev-bind", "/", "/"]);
        if kind == "file" {
            bwrap.args(["--ro-bind", "/dev/null"]);
        } else {
            bwrap.args(["--perms", "0000", "--tmpfs"]);
        }
        let status = bwrap.arg(&made).arg("/bin/true").status();
        assert!(status.expect("bwrap").success(), "the control failed");
        assert!(made.exists(), "the control failed: no {kind} was made");
    }
    for (secret, inside) in [
        (".netrc", None),
        (".kube", Some("secret")),
        (".cargo", None),
    ] {
        let path = home.join(secret);
        let kept = home.join(format!("kept{secret}"));
        let broken = scene
            .replaced(&format!(
                "#!/bin/sh\nmv '{}' '{}'\nexec REAL \"$@\"\n",
                path.display(),
                kept.display()
            ))
            .await;
        assert!(
            ["SOURCE_CHANGED", "BWRAP_FAILED", "GUARD_REFUSED"].contains(&code(&broken)),
            "{broken:?}"
        );
        if secret != ".cargo" {
            assert_eq!(code(&broken), "SOURCE_CHANGED", "{secret}: {broken:?}");
        }
        let left = std::fs::symlink_metadata(&path);
        assert!(left.is_err(), "{secret}: left on the host: {left:?}");
        if let Some(inside) = inside {
            assert!(kept.join(inside).exists(), "the secret itself is untouched");
        }
        let status = Command::new("umount").arg(&scene.bwrap).status();
        assert!(status.expect("umount").success());
        std::fs::rename(&kept, &path).expect("a rename");
        for marker in ["control-marker", "payload-ran"] {
            let _absent = std::fs::remove_file(scene.stage.work().join(marker));
        }
    }
    scene.engine.shutdown().await;
}
