//! Plans beyond the argument limit of one bubblewrap.

use super::*;

fn many(count: usize) -> (FakeFs, String) {
    let mut host = home();
    let mut listed = Vec::new();
    for index in 0..count {
        let at = format!("/data/d/f{index}");
        host.file(&at, "");
        listed.push(format!("\"{at}\""));
    }
    let fields = format!(
        r#""bindMounts": [{{"hostPath": "/data/d"}}], "protectedPaths": [{}]"#,
        listed.join(",")
    );
    (host, fields)
}

#[test]
fn five_thousand_paths_are_put_together_in_stages_within_bubblewraps_limit() {
    let (host, fields) = many(5000);
    let plan = native_plan(&binds_policy(&host, &context(), &fields), &facts()).unwrap();
    let fds: Vec<i32> = plan.blocks.iter().map(|block| block.fd).collect();
    assert_eq!(fds, [FD_MORE_ARGS, FD_ARGS]);
    assert!(
        plan.blocks
            .iter()
            .all(|block| block.args.len() + plan.argv.len() < 9000)
    );
    // Every held file once: first below the assembly directory, then, after that became the root,
    // at its own place.
    let staged: Vec<AbsPath> = mounts(&plan.blocks[0])
        .into_iter()
        .filter_map(|(_, dest)| {
            let below = dest.below(&path("/dev/shm"))?;
            Some(AbsPath::root().join(below))
        })
        .filter(|dest| dest.is_within(&path("/data/d")))
        .collect();
    let last = mounts(&plan.blocks[1]);
    assert_eq!(last[0], ("--bind".to_owned(), path("/")));
    let rest = last
        .into_iter()
        .map(|(_, dest)| dest)
        .filter(|dest| dest.is_within(&path("/data/d")));
    let held: Vec<AbsPath> = staged.into_iter().chain(rest).collect();
    assert_eq!(held.len(), 5001);
    assert_eq!(held[0], path("/data/d"));
    assert!(
        held.windows(2).all(|pair| pair[0] < pair[1]),
        "in order, none twice"
    );
    let text: Vec<String> = plan
        .argv
        .iter()
        .map(|arg| String::from_utf8(arg.clone()).unwrap())
        .collect();
    assert_eq!(
        text.join(" "),
        "--args 15 -- /usr/bin/bwrap --args 10 -- /proc/self/fd/12 native 13"
    );
    let caps = |block: &ArgBlock| block.args.iter().any(|arg| arg == b"--cap-add");
    assert!(!plan.blocks.iter().any(caps));
}

#[test]
fn roots_stages_keep_the_one_capability_that_the_next_needs_and_the_last_keeps_none() {
    let (mut host, fields) = many(3100);
    host.dir("/root");
    let root = HostContext {
        uid: 0,
        home: path("/root"),
        ..context()
    };
    let plan = native_plan(&binds_policy(&host, &root, &fields), &facts()).unwrap();
    let adds = |block: &ArgBlock| {
        block
            .args
            .windows(2)
            .any(|pair| pair[0] == b"--cap-add" && pair[1] == b"CAP_SETFCAP")
    };
    let (last, stages) = plan.blocks.split_last().unwrap();
    assert!(stages.iter().all(adds));
    assert!(!last.args.iter().any(|arg| arg == b"--cap-add"));
}

#[test]
fn without_a_place_to_put_them_together_many_mounts_are_refused() {
    let (host, fields) = many(3100);
    let mut policy = binds_policy(&host, &context(), &fields);
    policy.assembly = None;
    assert_eq!(
        native_plan(&policy, &facts()).unwrap_err().code(),
        "TOO_MANY_MOUNTS"
    );
}

#[test]
fn more_mounts_than_launch_are_refused_with_the_folder_that_holds_most() {
    let count = |number| {
        let (host, fields) = many(number);
        native_plan(&binds_policy(&host, &context(), &fields), &facts())
    };
    assert!(count(5500).is_ok());
    let error = count(6000).unwrap_err();
    assert_eq!(error.code(), "TOO_MANY_MOUNTS");
    let fix = error.fix().unwrap().text;
    assert!(fix.contains("smaller folder than /data"), "{fix}");
}
