//! Filename rules, the exec restriction and its grants, the dispatch of an agent.

use super::*;
use crate::spec::{DISPATCH_EXCEPTIONS, DISPATCH_GLOBS, Purpose, ValidExec};

fn message(result: Result<ValidSpec, SpecError>) -> String {
    result.unwrap_err().to_string()
}

fn abs(text: &str) -> AbsPath {
    AbsPath::new(text).unwrap()
}

#[test]
fn filename_rules_are_kept_each_once() {
    // REQ BW-5
    let spec = with(
        r#""filenameRules": {"globs": [".env", "*.key", ".env"], "exceptions": ["a/**/*.key"]}"#,
    )
    .unwrap();
    assert_eq!(spec.filename_rules().globs(), [".env", "*.key"]);
    assert_eq!(spec.filename_rules().exceptions(), ["a/**/*.key"]);
    assert_eq!(spec.files_field(), Some("filenameRules"));
    assert_eq!(with(r#""mode": "chat""#).unwrap().files_field(), None);
}

#[test]
fn a_bad_glob_is_named_by_its_field_and_place() {
    for (rules, field, part) in [
        (
            r#""globs": ["a", "[b"]"#,
            "filenameRules.globs[1]",
            "unclosed",
        ),
        (r#""globs": [""]"#, "filenameRules.globs[0]", "empty"),
        (r#""globs": ["/x"]"#, "filenameRules.globs[0]", "slash"),
        (r#""globs": ["a\u0000"]"#, "filenameRules.globs[0]", "NUL"),
        (
            r#""globs": ["a"], "exceptions": ["b", "../c"]"#,
            "filenameRules.exceptions[1]",
            "..",
        ),
    ] {
        let found = with(&format!(r#""filenameRules": {{{rules}}}"#));
        let text = found.as_ref().unwrap_err().to_string();
        assert!(text.starts_with(field) && text.contains(part), "{text}");
        assert_eq!(code(found), "SPEC_GLOB_INVALID", "{rules}");
    }
    let alone = with(r#""filenameRules": {"exceptions": ["a"]}"#);
    assert_eq!(code(alone), "SPEC_EXCEPTIONS_UNUSED");
    let many: Vec<String> = (0..=crate::spec::MOST_GLOBS)
        .map(|index| format!("\"{index}\""))
        .collect();
    let found = with(&format!(
        r#""filenameRules": {{"globs": [{}]}}"#,
        many.join(",")
    ));
    assert_eq!(code(found), "SPEC_GLOBS_TOO_MANY");
}

#[test]
fn exec_grants_need_a_restriction_and_a_folder() {
    // REQ BW-6
    let spec =
        with(r#""execRestriction": "writable", "execGrantRoots": ["/p/target", "/p/x/../target"]"#)
            .unwrap();
    let grants = vec![abs("/p/target")];
    assert_eq!(spec.exec(), &ValidExec::ReadOnly { grants });
    assert_eq!(spec.files_field(), Some("execRestriction"));
    let none = with(r#""execRestriction": "writable""#).unwrap();
    assert_eq!(none.exec(), &ValidExec::ReadOnly { grants: Vec::new() });
    assert_eq!(
        with(r#""execRestriction": "off""#).unwrap().exec(),
        &ValidExec::Anywhere
    );
    for (fields, expected) in [
        (r#""execGrantRoots": ["/p"]"#, "SPEC_EXEC_GRANTS_UNUSED"),
        (
            r#""execRestriction": "writable", "execGrantRoots": ["/"]"#,
            "EXEC_GRANT_INVALID",
        ),
        (
            r#""execRestriction": "writable", "execGrantRoots": ["p"]"#,
            "SPEC_PATH_INVALID",
        ),
        (
            r#""execRestriction": "writable", "execGrantRoots": ["/proc/self"]"#,
            "SPEC_PATH_RESERVED",
        ),
        (r#""execRestriction": "strict""#, "FIELD_NOT_ENFORCED"),
    ] {
        assert_eq!(code(with(fields)), expected, "{fields}");
    }
    let strict = message(with(r#""execRestriction": "strict""#));
    assert!(
        strict.contains("execRestriction") && strict.contains("privileged"),
        "{strict}"
    );
}

#[test]
fn dispatch_has_the_standard_rules_and_the_specs_own() {
    // REQ BW-4, BW-5, DP-1
    let spec = SandboxSpec::from_json(MINIMAL).unwrap();
    let valid = spec.validate_dispatch().unwrap();
    assert_eq!(valid.purpose(), Purpose::Dispatch);
    assert_eq!(valid.filename_rules().globs(), DISPATCH_GLOBS);
    assert_eq!(valid.filename_rules().exceptions(), DISPATCH_EXCEPTIONS);
    assert_eq!(valid.exec(), &ValidExec::Anywhere);
    assert_eq!(valid.network(), NetworkMode::Allowlist);
    let own = SandboxSpec {
        filename_rules: FilenameRules {
            globs: vec!["*.p12".to_owned(), ".env".to_owned()],
            exceptions: vec!["fixtures/*.pem".to_owned()],
        },
        exec_restriction: ExecRestriction::Writable,
        ..spec.clone()
    };
    let valid = own.validate_dispatch().unwrap();
    assert_eq!(
        valid.filename_rules().globs(),
        ["*.p12", ".env", "*.key", "*.pem"]
    );
    assert_eq!(valid.filename_rules().exceptions()[0], "fixtures/*.pem");
    assert_eq!(valid.exec(), &ValidExec::ReadOnly { grants: Vec::new() });
    // The control: without dispatch the spec has no rule, and an exception needs one.
    assert!(spec.validate().unwrap().filename_rules().is_empty());
    let only = SandboxSpec {
        filename_rules: FilenameRules {
            globs: Vec::new(),
            exceptions: vec!["x/*.pem".to_owned()],
        },
        ..spec
    };
    assert!(only.validate_dispatch().is_ok());
    assert_eq!(code(only.validate()), "SPEC_EXCEPTIONS_UNUSED");
}

#[test]
fn dispatch_is_checked_like_every_spec() {
    // REQ EG-8
    let refused = |text: &str| {
        let spec = SandboxSpec::from_json(text).unwrap();
        spec.validate_dispatch().unwrap_err().code()
    };
    assert_eq!(
        refused(r#"{"sessionId": "", "workspaceId": "w"}"#),
        "SPEC_ID_INVALID"
    );
    assert_eq!(
        refused(r#"{"sessionId": "s", "workspaceId": "w", "networkMode": "open"}"#),
        "SPEC_OPEN_NETWORK_FOR_RUN"
    );
    let bad = SandboxSpec::from_json(
        r#"{"sessionId": "s", "workspaceId": "w", "filenameRules": {"globs": ["a", "[b"]}}"#,
    );
    let text = bad.unwrap().validate_dispatch().unwrap_err().to_string();
    assert!(text.starts_with("filenameRules.globs[1]"), "{text}");
}

#[test]
fn a_terminal_takes_the_same_rules() {
    let request = TerminalRequest {
        files: TerminalFiles {
            filename_rules: FilenameRules {
                globs: vec![".env".to_owned()],
                exceptions: Vec::new(),
            },
            exec_restriction: ExecRestriction::Writable,
            exec_grant_roots: vec![PathBuf::from("/home/u/code/target")],
        },
        ..terminal()
    };
    let spec = ValidSpec::terminal(&request).unwrap();
    assert_eq!(spec.filename_rules().globs(), [".env"]);
    let grants = vec![abs("/home/u/code/target")];
    assert_eq!(spec.exec(), &ValidExec::ReadOnly { grants });
    let plain = ValidSpec::terminal(&terminal()).unwrap();
    assert_eq!(plain.files_field(), None);
}
