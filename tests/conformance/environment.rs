//! Environment sanitisation: an allowlist, not a blocklist.

use kotak_tests::stage::Stage;

#[test]
fn secrets_and_loader_tricks_in_the_environment_are_withheld() {
    let stage = Stage::new();
    let names = [
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "NPM_TOKEN",
        "MY_OWN_SECRET",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "PERL5OPT",
        "GIT_SSH_COMMAND",
        "PROMPT_COMMAND",
    ];
    let mut call = stage
        .kotak()
        .args(["run", "--backend", "native", "--profile", "terminal"]);
    for name in names {
        call = call.env(name, "leaked-value");
    }
    let inside = call.args(["--", "env"]).run();
    assert!(!inside.stdout.contains("leaked-value"), "{inside:?}");
    for kept in ["PATH=", "HOME="] {
        assert!(
            inside.stdout.lines().any(|line| line.starts_with(kept)),
            "{kept}: {inside:?}"
        );
    }
    let control = stage
        .kotak()
        .env("MY_OWN_SECRET", "leaked-value")
        .args([
            "run",
            "--backend",
            "none",
            "--profile",
            "terminal",
            "--",
            "env",
        ])
        .run();
    assert!(
        control.stdout.contains("MY_OWN_SECRET=leaked-value"),
        "the control failed"
    );
}

#[test]
fn a_variable_named_by_the_operator_comes_in() {
    let stage = Stage::new();
    let inside = stage
        .kotak()
        .env("MY_TOOL_HOME", "given")
        .args(["run", "--backend", "native", "--profile", "terminal"])
        .args(["--env", "MY_TOOL_HOME", "--", "env"])
        .run();
    assert!(inside.stdout.contains("MY_TOOL_HOME=given"), "{inside:?}");
}
