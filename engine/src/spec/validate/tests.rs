mod files;

use super::*;
use crate::error::Coded;
use crate::spec::{ForwardDirection, IdError, Mode, PathError, TerminalFiles};
use std::path::PathBuf;

const MINIMAL: &str = r#"{"sessionId": "s1", "workspaceId": "w1"}"#;

fn with(fields: &str) -> Result<ValidSpec, SpecError> {
    let text = format!(r#"{{"sessionId": "s1", "workspaceId": "w1", {fields}}}"#);
    SandboxSpec::from_json(&text)?.validate()
}

fn code(result: Result<ValidSpec, SpecError>) -> &'static str {
    let error = result.unwrap_err();
    assert!(error.fix().is_some(), "{error} has no fix");
    error.code()
}

#[test]
fn a_minimal_spec_takes_every_default() {
    let spec = SandboxSpec::from_json(MINIMAL).unwrap().validate().unwrap();
    assert_eq!(
        spec.form(),
        &Form::Binds {
            binds: vec![],
            workdir: None
        }
    );
    assert_eq!(spec.mode(), Mode::Chat);
    assert_eq!(spec.network(), NetworkMode::Allowlist);
    assert!(spec.protected().is_empty() && spec.runner_state().is_empty());
}

#[test]
fn a_full_spec_keeps_what_it_says() {
    let spec = with(
        r#""agentId": "a", "mode": "review", "networkMode": "off",
           "bindMounts": [{"hostPath": "/data/x/../y", "guestPath": "/data/y"},
                          {"hostPath": "/opt/r", "readOnly": true}],
           "guestWorkdir": "/data/y/src", "protectedPaths": ["/data/y/orig"],
           "runnerStateDirs": ["/home/u/.runner"],
           "envPolicy": {"pass": ["FOO"], "set": {"BAR": "1"}}"#,
    )
    .unwrap();
    assert_eq!(
        spec.form(),
        &Form::Binds {
            binds: vec![
                ValidBind {
                    path: AbsPath::new("/data/y").unwrap(),
                    read_only: false
                },
                ValidBind {
                    path: AbsPath::new("/opt/r").unwrap(),
                    read_only: true
                },
            ],
            workdir: Some(AbsPath::new("/data/y/src").unwrap()),
        }
    );
    assert_eq!(spec.agent_id(), Some("a"));
    assert_eq!(spec.network(), NetworkMode::Off);
    assert_eq!(spec.env().pass(), ["FOO".to_owned()]);
    assert_eq!(spec.env().set(), [("BAR".to_owned(), "1".to_owned())]);
}

#[test]
fn an_unknown_field_is_refused_with_its_path_and_what_is_allowed() {
    let text = r#"{"sessionId": "s", "workspaceId": "w",
        "bindMounts": [{"hostPath": "/a"}, {"hostPath": "/b", "readonly": true}]}"#;
    let error = SandboxSpec::from_json(text).unwrap_err();
    let SpecError::Malformed { at, reason } = &error else {
        panic!("{error}")
    };
    assert!(at.starts_with("bindMounts[1].readonly (line 2"), "{at}");
    assert!(reason.contains("unknown field `readonly`"), "{reason}");
    assert!(reason.contains("`readOnly`"), "{reason}");
    assert_eq!(error.code(), "SPEC_MALFORMED");
}

#[test]
fn a_wrong_type_a_wrong_word_and_no_json_are_refused_at_their_place() {
    let at = |text: &str| match SandboxSpec::from_json(text).unwrap_err() {
        SpecError::Malformed { at, reason } => (at, reason),
        other => panic!("{other}"),
    };
    let (place, _) = at(r#"{"sessionId": 7, "workspaceId": "w"}"#);
    assert!(place.starts_with("sessionId "), "{place}");
    let (place, reason) = at(r#"{"sessionId": "s", "workspaceId": "w", "mode": "yolo"}"#);
    assert!(place.starts_with("mode "), "{place}");
    assert!(
        reason.contains("`chat`, `review`, `plan`, `orchestrate`"),
        "{reason}"
    );
    let (place, _) = at("not json");
    assert!(place.starts_with("line 1"), "{place}");
    let (_, reason) = at(r#"{"workspaceId": "w"}"#);
    assert!(reason.contains("missing field `sessionId`"), "{reason}");
}

#[test]
fn ids_must_be_usable() {
    let spec = SandboxSpec::from_json(r#"{"sessionId": "", "workspaceId": "w"}"#).unwrap();
    assert_eq!(
        spec.validate(),
        Err(SpecError::Id {
            field: "sessionId",
            cause: IdError::Empty
        })
    );
    let spec = SandboxSpec::from_json(r#"{"sessionId": "s", "workspaceId": ""}"#).unwrap();
    assert_eq!(code(spec.validate()), "SPEC_ID_INVALID");
}

#[test]
fn a_relative_empty_or_nul_path_is_refused_by_field() {
    assert_eq!(
        with(r#""bindMounts": [{"hostPath": "/ok"}, {"hostPath": "src"}]"#),
        Err(SpecError::Path {
            field: "bindMounts[1].hostPath".to_owned(),
            path: "src".to_owned(),
            cause: PathError::Relative
        })
    );
    assert_eq!(code(with(r#""protectedPaths": [""]"#)), "SPEC_PATH_INVALID");
    assert_eq!(
        code(with(r#""runnerStateDirs": ["/a\u0000b"]"#)),
        "SPEC_PATH_INVALID"
    );
    assert_eq!(code(with(r#""guestWorkdir": "./x""#)), "SPEC_PATH_INVALID");
}

#[test]
fn paths_under_proc_sys_dev_and_the_guards_place_are_refused() {
    for path in [
        "/proc/sys",
        "/sys",
        "/dev/shm/x",
        "/run/kotak/guard",
        "/x/../proc",
    ] {
        let found = with(&format!(r#""bindMounts": [{{"hostPath": "{path}"}}]"#));
        assert_eq!(code(found), "SPEC_PATH_RESERVED", "{path}");
    }
    assert!(with(r#""bindMounts": [{"hostPath": "/processes"}]"#).is_ok());
}

#[test]
fn a_guest_path_must_equal_its_host_path() {
    let found = with(r#""bindMounts": [{"hostPath": "/a", "guestPath": "/b"}]"#);
    assert_eq!(code(found), "SPEC_GUEST_PATH_DIFFERS");
    assert!(with(r#""bindMounts": [{"hostPath": "/a", "guestPath": "/a/"}]"#).is_ok());
}

#[test]
fn one_path_twice_is_one_bind_unless_the_two_disagree() {
    let same = with(r#""bindMounts": [{"hostPath": "/a"}, {"hostPath": "/a/."}]"#).unwrap();
    let Form::Binds { binds, .. } = same.form() else {
        panic!()
    };
    assert_eq!(binds.len(), 1);
    let found =
        with(r#""bindMounts": [{"hostPath": "/a"}, {"hostPath": "/a/", "readOnly": true}]"#);
    assert_eq!(code(found), "SPEC_BINDS_CONFLICT");
}

#[test]
fn the_working_directory_must_be_covered() {
    let found = with(r#""bindMounts": [{"hostPath": "/a"}], "guestWorkdir": "/ab""#);
    assert_eq!(code(found), "SPEC_WORKDIR_NOT_BOUND");
    assert!(with(r#""bindMounts": [{"hostPath": "/a"}], "guestWorkdir": "/a/b""#).is_ok());
}

#[test]
fn a_runner_state_directory_inside_a_protected_path_is_refused() {
    let found = with(r#""protectedPaths": ["/r"], "runnerStateDirs": ["/r/state"]"#);
    assert_eq!(code(found), "SPEC_RUNNER_STATE_PROTECTED");
    assert!(with(r#""protectedPaths": ["/r/s/p"], "runnerStateDirs": ["/r/s"]"#).is_ok());
}

#[test]
fn every_field_without_a_mechanism_is_refused_by_name() {
    let cases = [
        ("execRestriction", r#""strict""#, r#""writable""#),
        ("resources", r#"{"processes": 9}"#, "{}"),
    ];
    for (name, used, unused) in cases {
        let error = with(&format!(r#""{name}": {used}"#)).unwrap_err();
        assert!(
            matches!(&error, SpecError::FieldNotEnforced { field, .. } if *field == name),
            "{error}"
        );
        assert_eq!(error.code(), "FIELD_NOT_ENFORCED");
        assert!(with(&format!(r#""{name}": {unused}"#)).is_ok(), "{name}");
    }
}

#[test]
fn a_spec_lists_what_it_is_granted_and_nothing_comes_by_itself() {
    // REQ EG-12
    assert_eq!(with(r#""portForwards": []"#).unwrap().grants(), []);
    let listed = r#""portForwards": [
            {"direction": "in", "guestPort": 3000, "hostPort": 8080},
            {"direction": "out", "guestPort": 5432},
            {"direction": "out", "guestPort": 5432, "hostPort": 5432}
        ],
        "socketGrants": [{"hostPath": "ssh-agent"}, {"hostPath": "/run/x.sock"}]"#;
    // Whether the network lets anything else pass makes no difference.
    for network in ["allowlist", "ask", "off"] {
        let spec = with(&format!(r#"{listed}, "networkMode": "{network}""#)).unwrap();
        let values: Vec<_> = spec.grants().iter().map(Grant::value).collect();
        let wanted = ["8080:3000", "5432:5432", "ssh-agent", "/run/x.sock"];
        assert_eq!(values, wanted, "{network}");
    }
    for (wrong, refused) in [
        (
            r#""portForwards": [{"direction": "in", "guestPort": 0}]"#,
            "GRANT_PORT_INVALID",
        ),
        (
            r#""portForwards": [{"direction": "in", "guestPort": 3128}]"#,
            "GRANT_PORT_OWN",
        ),
        (
            r#""portForwards": [{"direction": "both", "guestPort": 1}]"#,
            "SPEC_MALFORMED",
        ),
        (
            r#""socketGrants": [{"hostPath": "x.sock"}]"#,
            "GRANT_SOCKET_PATH_INVALID",
        ),
        (
            r#""portForwards": [{"direction": "in", "guestPort": 1, "hostPort": 9},
                {"direction": "in", "guestPort": 2, "hostPort": 9}]"#,
            "GRANTS_CONFLICT",
        ),
    ] {
        assert_eq!(code(with(wrong)), refused, "{wrong}");
    }
}

#[test]
fn a_terminal_is_granted_something_only_behind_walls_of_its_own() {
    // REQ EG-12
    let forward = TerminalRequest {
        port_forwards: vec![PortForward {
            direction: ForwardDirection::In,
            host_port: 0,
            guest_port: 3000,
        }],
        ..terminal()
    };
    let agent = TerminalRequest {
        socket_grants: vec![SocketGrant {
            host_path: "ssh-agent".to_owned(),
        }],
        ..terminal()
    };
    for (request, field) in [(forward, "portForwards"), (agent, "socketGrants")] {
        for network in [NetworkMode::Allowlist, NetworkMode::Ask, NetworkMode::Off] {
            let request = TerminalRequest {
                network: Some(network),
                ..request.clone()
            };
            let spec = ValidSpec::terminal(&request).unwrap();
            assert_eq!(spec.grants_field(), Some(field));
        }
        for network in [None, Some(NetworkMode::Open)] {
            let request = TerminalRequest {
                network,
                ..request.clone()
            };
            let refused = ValidSpec::terminal(&request);
            assert_eq!(refused, Err(SpecError::GrantsWithOpenNetwork { field }));
        }
    }
}

#[test]
fn a_run_never_has_an_open_network() {
    // REQ EG-8
    assert_eq!(
        code(with(r#""networkMode": "open""#)),
        "SPEC_OPEN_NETWORK_FOR_RUN"
    );
    assert_eq!(
        code(with(r#""networkMode": "open", "networkEnabled": false"#)),
        "SPEC_OPEN_NETWORK_FOR_RUN"
    );
}

#[test]
fn network_enabled_false_is_off_and_nothing_else() {
    // REQ EG-7
    assert_eq!(
        with(r#""networkEnabled": false"#).unwrap().network(),
        NetworkMode::Off
    );
    assert_eq!(
        with(r#""networkEnabled": false, "networkMode": "off""#)
            .unwrap()
            .network(),
        NetworkMode::Off
    );
    let found = with(r#""networkEnabled": false, "networkMode": "ask""#);
    assert_eq!(code(found), "SPEC_NETWORK_CONTRADICTION");
    assert_eq!(
        with(r#""networkMode": "ask""#).unwrap().network(),
        NetworkMode::Ask
    );
}

fn patterns(spec: &ValidSpec) -> Vec<String> {
    spec.egress_allowlist()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn every_entry_of_the_allowlist_is_read_and_a_wrong_one_is_named() {
    // REQ EG-4, EG-5
    let list = r#""egressAllowlist": ["Example.com.", "*.example.org:443", "example.com"]"#;
    let spec = with(list).unwrap();
    assert_eq!(patterns(&spec), ["example.com", "*.example.org:443"]);
    assert_eq!(spec.network(), NetworkMode::Allowlist);
    assert_eq!(spec.network_field(), Some("egressAllowlist"));
    let asked = with(&format!(r#"{list}, "networkMode": "ask""#)).unwrap();
    assert_eq!(patterns(&asked).len(), 2);
    assert_eq!(
        with(r#""egressAllowlist": []"#).unwrap().network_field(),
        None
    );

    for wrong in [
        "*",
        "*.com",
        "*.co.uk",
        "s3.*.com",
        "*.*.x.com",
        "a*.x.com",
        "x.*",
        "**.x.com",
        "",
        "a b",
        "x.com:0",
    ] {
        let error = with(&format!(r#""egressAllowlist": ["example.com", "{wrong}"]"#)).unwrap_err();
        let named = format!("egressAllowlist[1] cannot be matched: \"{wrong}\" is not");
        assert!(error.to_string().starts_with(&named), "{error}");
        assert_eq!(code(Err(error)), "SPEC_HOST_PATTERN_INVALID");
    }
}

#[test]
fn an_allowlist_is_refused_with_an_open_network_and_empty_when_it_is_off() {
    // REQ EG-7: off is an empty allowlist, whatever is listed.
    let list = r#""egressAllowlist": ["example.com"]"#;
    for off in [r#""networkEnabled": false"#, r#""networkMode": "off""#] {
        let spec = with(&format!("{list}, {off}")).unwrap();
        assert_eq!(spec.network(), NetworkMode::Off);
        assert!(spec.egress_allowlist().is_empty());
        let wrong = r#""egressAllowlist": ["*.com"]"#;
        let found = with(&format!("{wrong}, {off}"));
        assert_eq!(code(found), "SPEC_HOST_PATTERN_INVALID");
    }
    let open = with(&format!(r#"{list}, "networkMode": "open""#));
    assert_eq!(code(open), "SPEC_ALLOWLIST_UNUSED");
}

#[test]
fn a_terminals_extra_domains_need_an_allowlist() {
    // REQ TM-5
    let request = |network, domains: &[&str]| TerminalRequest {
        network,
        extra_domains: domains.iter().map(|text| (*text).to_owned()).collect(),
        ..terminal()
    };
    for mode in [NetworkMode::Allowlist, NetworkMode::Ask] {
        let spec =
            ValidSpec::terminal(&request(Some(mode), &["A.example", "*.b.example"])).unwrap();
        assert_eq!(patterns(&spec), ["a.example", "*.b.example"]);
        let wrong = ValidSpec::terminal(&request(Some(mode), &["*"]));
        assert_eq!(code(wrong), "SPEC_HOST_PATTERN_INVALID");
    }
    for mode in [None, Some(NetworkMode::Open), Some(NetworkMode::Off)] {
        let refused = ValidSpec::terminal(&request(mode, &["a.example"]));
        assert_eq!(code(refused), "SPEC_ALLOWLIST_UNUSED");
        assert!(ValidSpec::terminal(&request(mode, &[])).is_ok());
    }
}

#[test]
fn environment_names_are_checked() {
    for set in [
        r#"{"": "x"}"#,
        r#"{"1A": "x"}"#,
        r#"{"A=B": "x"}"#,
        r#"{"A": "x\u0000"}"#,
    ] {
        assert_eq!(
            code(with(&format!(r#""envPolicy": {{"set": {set}}}"#))),
            "SPEC_ENV_INVALID"
        );
    }
    assert_eq!(
        code(with(r#""envPolicy": {"pass": ["A-B"]}"#)),
        "SPEC_ENV_INVALID"
    );
    assert!(with(r#""envPolicy": {"pass": ["_A1"], "set": {"b": ""}}"#).is_ok());
}

fn terminal() -> TerminalRequest {
    TerminalRequest {
        protected_paths: vec![PathBuf::from("/home/u/orig")],
        ..TerminalRequest::plain("s", "w", PathBuf::from("/home/u/code"))
    }
}

#[test]
fn a_terminal_is_open_unless_it_says_otherwise() {
    // REQ TM-2
    let spec = ValidSpec::terminal(&terminal()).unwrap();
    assert_eq!(spec.network(), NetworkMode::Open);
    assert_eq!(
        spec.form(),
        &Form::Terminal {
            cwd: AbsPath::new("/home/u/code").unwrap()
        }
    );
    assert_eq!(spec.protected(), [AbsPath::new("/home/u/orig").unwrap()]);
    let off = TerminalRequest {
        network: Some(NetworkMode::Off),
        ..terminal()
    };
    assert_eq!(
        ValidSpec::terminal(&off).unwrap().network(),
        NetworkMode::Off
    );
}

#[test]
fn a_terminal_in_a_relative_or_reserved_folder_is_refused() {
    let relative = TerminalRequest {
        cwd: PathBuf::from("code"),
        ..terminal()
    };
    assert_eq!(code(ValidSpec::terminal(&relative)), "SPEC_PATH_INVALID");
    let proc = TerminalRequest {
        cwd: PathBuf::from("/proc/self/cwd"),
        ..terminal()
    };
    assert_eq!(code(ValidSpec::terminal(&proc)), "SPEC_PATH_RESERVED");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
        let _ = SandboxSpec::from_json(&text);
    }

    #[test]
    fn a_cut_spec_is_malformed_and_names_a_place(cut in 1usize..110) {
        let whole = r#"{"sessionId": "s", "workspaceId": "w", "bindMounts": [{"hostPath": "/a"}], "mode": "plan", "protectedPaths": ["/x"]}"#;
        let error = SandboxSpec::from_json(&whole[..cut]).unwrap_err();
        proptest::prop_assert_eq!(error.code(), "SPEC_MALFORMED");
    }
}
