//! What a mask hides vanishes after the last look at it: no session comes of that look, the next one
//! sees what is there, and the mount point that bubblewrap makes does not stay on the host.

use crate::{Scene, in_own_mounts};
use kotak_engine::api::SessionPhase;
use kotak_engine::backend::SandboxBackend;
use kotak_engine::probe::Switch;
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_vanishes_before_its_mount_is_looked_for_again_and_leaves_nothing() {
    let name = "a_secret_that_vanishes_before_its_mount_is_looked_for_again_and_leaves_nothing";
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
        let looks = scene.stage.work().join("looks");
        let marker = scene.stage.work().join("payload-ran");
        let script = format!(
            "#!/bin/sh\necho >>'{}'\nmv '{}' '{}'\nexec REAL \"$@\"\n",
            looks.display(),
            path.display(),
            kept.display()
        );
        let info = scene.through(&script, &marker).await;
        assert_eq!(info.phase, SessionPhase::Ended, "{secret}: {info:?}");
        assert_eq!(info.handle.backend, Some(SandboxBackend::Native));
        assert!(marker.exists(), "{secret}: the payload did not run");
        let looked = std::fs::read_to_string(&looks).expect("a count");
        assert_eq!(looked.lines().count(), 2, "{secret}: {looked:?}");
        let left = std::fs::symlink_metadata(&path);
        assert!(left.is_err(), "{secret}: left on the host: {left:?}");
        if let Some(inside) = inside {
            assert!(kept.join(inside).exists(), "the secret itself is untouched");
        }
        let status = Command::new("umount").arg(&scene.bwrap).status();
        assert!(status.expect("umount").success());
        std::fs::rename(&kept, &path).expect("a rename");
        for made in [marker, looks] {
            std::fs::remove_file(made).expect("a removal");
        }
    }
    scene.engine.shutdown().await;
}
