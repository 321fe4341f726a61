//! The command line.

mod files;
mod names;

pub(crate) use files::{ExplainPathOptions, FileOptions};
pub(crate) use names::{BridgeName, ModeName, Network, ProfileName};

use crate::failure::Failure;
use clap::error::ErrorKind;
use clap::{Args as Arguments, Parser, Subcommand};
use kotak_engine::backend::BackendChoice;
use kotak_engine::error::{Fix, Problem};
use kotak_engine::spec::{ForwardDirection, PortForward, Ports, SocketGrant};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  2     wrong usage, a malformed spec, or a path that cannot be used
  3     the backend is not available (also of `probe`: native is not available)
  4     the sandbox could not be launched, or the program not be started; nothing ran
  125   the engine failed, or the sandbox broke while the program ran
  126   the program cannot be executed
  127   the program, or the shell, does not exist
  128+n the program was ended by signal n
  else  the program's own
A program may end with any of these codes too; only what Kotak itself has to say is written to
standard error as `kotak: <message> [CODE]`.

Environment:
  KOTAK_SANDBOX     on or off, when --sandbox is not given (CC_SERVER_SANDBOX: the same, older)
  KOTAK_STATE_DIR   where the history and the logs are kept
  KOTAK_CONFIG_DIR  where config.toml is
  KOTAK_LOG         what is logged: error, warn, info, debug, trace";

const RUN_HELP: &str = "\
Without --bind, --ro-bind, --spec and --profile the current directory is the one writable bind
(mode chat), and nothing else of yours is visible. All paths are absolute.

Standard input, output and error are handed to the program as they are. When all three are a
terminal, the program gets a terminal of its own instead, as in `kotak shell`, so that job
control, Ctrl-C and sizes work. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the program.
When it ends, everything that it started is ended too.";

const SHELL_HELP: &str = "\
The shell is the one in SHELL, else the user database's. Standard input and output must be a
terminal; to feed commands to a shell through a pipe, use `kotak run -- sh`. The first line on
standard error says what the session really is.";

const PATTERN_HELP: &str = "\
A pattern is a host (example.com), any host below one (*.example.com), or one with a single label
open (bedrock.*.amazonaws.com); a port may follow (example.com:443). Addresses stand for
themselves. What a * leaves open must lie below a domain that somebody owns: *.com is refused.";

const GRANTS_HELP: &str = "\
Nothing of this computer's loopback is reached from a session, and nothing of a session's from this
computer, but what is granted: a port, a Unix socket, each by itself. It needs a session with a
network of its own: --network allowlist, ask or off.

PORT is the port inside; HOSTPORT the one on this computer, where that is another. A port that is
forwarded in is opened on 127.0.0.1 of this computer alone, but every user and every program of
this computer can connect to it, as to any server there. A socket is named by its whole path, which
leads through no symbolic link; ssh-agent stands for the agent that SSH_AUTH_SOCK names: programs
inside can then sign with every key in it, and cannot read the keys. Sockets by which the host is
controlled (Docker, Podman, systemd, D-Bus, X11, Wayland and the like) are never let in.

With --exec a folder is approved: in sessions of the workspace that refuse programs in folders that
they can write, whatever is written there can then be run. It holds from a session's next start on.
A folder that holds the home or more than the workspace is never approved.";

const EXPLAIN_HELP: &str = "\
Without --session this is what a session with the network `allowlist` would do in the current
directory: the built-in lists and the rules of its workspace. Nothing is resolved or connected to.
Exits with 0 when it would be allowed, and with 1 when it would be refused or asked about.";

const EXPLAIN_PATH_HELP: &str = "\
This is what a native session would let happen that is launched now: without any option one of
`kotak shell` in the current directory, with --bind, --ro-bind, --profile or --spec one of
`kotak run` with the same. A file's own permissions count besides. Nothing is launched.
Exits with 0 when it could be written, and with 1 when not.";

const LOG_HELP: &str = "\
With --json each line is one object. A refusal that is repeated within a few seconds is one line
with a count; what comes too fast to be kept is counted, and the last line says so.";

/// Run terminals and programs in a real sandbox, and see what it is.
#[derive(Debug, Parser)]
#[command(name = "kotak", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Args {
    /// Whether sessions that name no backend are sandboxed [default: on]
    #[arg(long, global = true, value_name = "on|off")]
    pub(crate) sandbox: Option<String>,
    /// Write results and errors as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what this machine can do, and what mends the rest
    Probe,
    /// Open a sandboxed shell in this terminal
    #[command(after_help = SHELL_HELP)]
    Shell(Box<ShellOptions>),
    /// Run a program in a sandbox
    #[command(after_help = RUN_HELP)]
    Run(Box<RunOptions>),
    /// List sessions, newest first
    Sessions(SessionsOptions),
    /// Say what would happen, and why
    Explain(ExplainOptions),
    /// Show what sessions reached and were refused, oldest first
    Log(LogOptions),
    /// List, make and remove your rules for the network
    Rules(RulesOptions),
    /// List, make and revoke grants: ports and sockets that sessions may reach or be reached by
    Grants(GrantsOptions),
}

#[derive(Debug, Arguments)]
pub(crate) struct ExplainOptions {
    #[command(subcommand)]
    pub(crate) what: Explained,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Explained {
    /// A host, with or without a port: would it be reached
    #[command(after_help = EXPLAIN_HELP)]
    Host {
        /// The host, for example `files.example.com:443`
        #[arg(value_name = "NAME")]
        name: String,
        /// In this session, with its own allowlist and rules
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// A path: may it be read, written, made, run
    #[command(after_help = EXPLAIN_PATH_HELP)]
    Path(Box<ExplainPathOptions>),
}

#[derive(Debug, Arguments)]
#[command(after_help = LOG_HELP)]
pub(crate) struct LogOptions {
    /// Go on with what happens from now on, until Ctrl-C
    #[arg(long)]
    pub(crate) follow: bool,
    /// Refusals only
    #[arg(long)]
    pub(crate) denied: bool,
    /// Of one session only
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// How many of the newest
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Arguments)]
pub(crate) struct RulesOptions {
    #[command(subcommand)]
    pub(crate) action: RulesAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesAction {
    /// List rules, oldest first
    List(OfOptions),
    /// Make a rule; it holds at once, in running sessions too
    #[command(after_help = PATTERN_HELP)]
    Add {
        /// The host pattern, with or without a port
        #[arg(value_name = "PATTERN")]
        pattern: String,
        /// Deny it, and never ask
        #[arg(long)]
        deny: bool,
        /// For this workspace [default: the one of the current directory]
        #[arg(long, value_name = "DIR")]
        workspace: Option<PathBuf>,
        /// Until this session ends
        #[arg(long, value_name = "ID", conflicts_with = "workspace")]
        session: Option<String>,
    },
    /// Remove a rule
    Remove {
        /// Its number, as `kotak rules list` shows it
        #[arg(value_name = "NUMBER")]
        id: i64,
    },
}

/// Which of them are listed.
#[derive(Debug, Arguments)]
pub(crate) struct OfOptions {
    /// Of this workspace only
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Of this session only
    #[arg(long, value_name = "ID", conflicts_with = "workspace")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Arguments)]
#[command(after_help = GRANTS_HELP)]
pub(crate) struct GrantsOptions {
    #[command(subcommand)]
    pub(crate) action: GrantsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GrantsAction {
    /// List grants, oldest first, with what became of each in the sessions that have it
    List(OfOptions),
    /// Make a grant: for a running session at once, or for every session that starts in a workspace
    #[command(after_help = GRANTS_HELP)]
    Add {
        #[command(flatten)]
        what: WhatOptions,
        /// For this workspace [default: the one of the current directory]
        #[arg(long, value_name = "DIR")]
        workspace: Option<PathBuf>,
        /// For this running session, until it ends
        #[arg(long, value_name = "ID", conflicts_with = "workspace")]
        session: Option<String>,
    },
    /// Revoke a grant: its listeners are closed and its connections cut
    Remove {
        /// Its number, as `kotak grants list` shows it
        #[arg(value_name = "NUMBER")]
        id: i64,
    },
}

/// What is granted: one of these.
#[derive(Debug, Arguments)]
#[group(required = true, multiple = false)]
pub(crate) struct WhatOptions {
    /// A server inside, opened on 127.0.0.1 of this computer, where all its users reach it
    #[arg(long, value_name = "PORT[:HOSTPORT]")]
    pub(crate) forward_in: Option<String>,
    /// A server on 127.0.0.1 of this computer, reached from inside
    #[arg(long, value_name = "PORT[:HOSTPORT]")]
    pub(crate) forward_out: Option<String>,
    /// A Unix socket of this computer, reached from inside
    #[arg(long, value_name = "PATH|ssh-agent")]
    pub(crate) socket: Option<String>,
    /// A folder whose programs may run, though sessions that refuse such programs can write there
    #[arg(long, value_name = "DIR")]
    pub(crate) exec: Option<String>,
}

/// What a session is granted from the start.
#[derive(Debug, Default, Arguments)]
pub(crate) struct GrantOptions {
    /// Open a server inside on 127.0.0.1 of this computer, where all its users reach it
    #[arg(long, value_name = "PORT[:HOSTPORT]")]
    pub(crate) forward_in: Vec<String>,
    /// Let the session reach a server on 127.0.0.1 of this computer
    #[arg(long, value_name = "PORT[:HOSTPORT]")]
    pub(crate) forward_out: Vec<String>,
    /// Let the session reach a Unix socket of this computer; see `kotak grants --help`
    #[arg(long, value_name = "PATH|ssh-agent")]
    pub(crate) socket: Vec<String>,
}

impl GrantOptions {
    /// The ports, as a spec has them.
    pub(crate) fn port_forwards(&self) -> Result<Vec<PortForward>, Failure> {
        let read = |direction| {
            move |text: &String| {
                let ports = Ports::parse(text).map_err(|error| Failure::refused(&error))?;
                Ok(PortForward {
                    direction,
                    host_port: ports.host.get(),
                    guest_port: ports.guest.get(),
                })
            }
        };
        let inward = self.forward_in.iter().map(read(ForwardDirection::In));
        inward
            .chain(self.forward_out.iter().map(read(ForwardDirection::Out)))
            .collect()
    }

    /// The sockets, as a spec has them.
    pub(crate) fn socket_grants(&self) -> Vec<SocketGrant> {
        let grant = |path: &String| SocketGrant {
            host_path: path.clone(),
        };
        self.socket.iter().map(grant).collect()
    }
}

#[derive(Debug, Arguments)]
pub(crate) struct ShellOptions {
    /// The sandbox [default: auto while the switch is on, none while it is off]
    #[arg(long, value_name = "microvm|native|none|auto")]
    pub(crate) backend: Option<String>,
    /// Working directory, writable inside [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// What the shell may reach [default: open]
    #[arg(long)]
    pub(crate) network: Option<Network>,
    /// A domain that may be reached besides the usual ones, with `allowlist` and `ask`
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) allow: Vec<String>,
    /// How connections get from inside to the session's proxies
    #[arg(long, default_value = "auto")]
    pub(crate) bridge: BridgeName,
    /// Whether files may be written: `chat` may, the others may not
    #[arg(long, default_value = "chat")]
    pub(crate) mode: ModeName,
    /// A path that is never writable inside
    #[arg(long, value_name = "PATH")]
    pub(crate) protect: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) files: FileOptions,
    #[command(flatten)]
    pub(crate) grants: GrantOptions,
}

#[derive(Debug, Arguments)]
pub(crate) struct RunOptions {
    /// The sandbox [default: auto while the switch is on, none while it is off]
    #[arg(long, value_name = "microvm|native|none|auto")]
    pub(crate) backend: Option<String>,
    /// A path that is visible inside, and writable in mode chat
    #[arg(long, value_name = "PATH")]
    pub(crate) bind: Vec<PathBuf>,
    /// A path that is visible inside, read-only
    #[arg(long, value_name = "PATH")]
    pub(crate) ro_bind: Vec<PathBuf>,
    /// Whether binds may be written: `chat` may, the others may not [default: chat]
    #[arg(long)]
    pub(crate) mode: Option<ModeName>,
    /// A path that is never writable inside
    #[arg(long, value_name = "PATH")]
    pub(crate) protect: Vec<PathBuf>,
    /// What the program may reach [default: allowlist, or open with --profile terminal]
    #[arg(long)]
    pub(crate) network: Option<Network>,
    /// A domain that may be reached besides the usual ones, with `allowlist` and `ask`
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) allow: Vec<String>,
    /// How connections get from inside to the session's proxies
    #[arg(long, default_value = "auto")]
    pub(crate) bridge: BridgeName,
    /// Working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// A variable of the environment that is passed to the program
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    #[command(flatten)]
    pub(crate) files: FileOptions,
    #[command(flatten)]
    pub(crate) grants: GrantOptions,
    /// A fixed policy: that of a terminal, in place of binds, or that of an agent, on top of them
    #[arg(long)]
    pub(crate) profile: Option<ProfileName>,
    /// A spec in JSON, from a file or, with `-`, from standard input, in place of the other options
    #[arg(long, value_name = "FILE|-", conflicts_with_all =
        ["bind", "ro_bind", "mode", "protect", "network", "allow", "env", "forward_in",
         "forward_out", "socket", "filename_rule", "filename_exception", "exec_restriction",
         "exec_grant"])]
    pub(crate) spec: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Arguments)]
pub(crate) struct SessionsOptions {
    /// How many
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
}

/// Reads a backend name that a person typed (REQ BK-2: unknown names are refused here).
pub(crate) fn backend(name: Option<&str>) -> Result<Option<BackendChoice>, Failure> {
    name.map(str::parse)
        .transpose()
        .map_err(|error: kotak_engine::backend::UnknownBackend| {
            Failure::usage(Problem {
                code: "UNKNOWN_BACKEND".to_owned(),
                message: error.to_string(),
                causes: Vec::new(),
                fix: Some(Fix::words("Use --backend microvm, native, none or auto.")),
            })
        })
}

/// Writes what clap has to say: help and version as they are, errors as every other error.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed standard output is no failure of the help.
            let _printed = error.print();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let text = error.render().to_string();
    let mut message: Vec<&str> = Vec::new();
    let mut usage = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(line) = line.strip_prefix("Usage: ") {
            usage = Some(line.to_owned());
        } else if usage.is_none() && !line.starts_with("For more information") {
            message.push(line.trim_start_matches("error: "));
        }
    }
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "no subcommand was given".to_owned()
        }
        _ => message.join(" "),
    };
    let mut words = "See `kotak --help`.".to_owned();
    if let Some(usage) = usage {
        words = format!("Usage: {usage}. See --help.");
    }
    let failure = Failure::usage(Problem {
        code: "USAGE".to_owned(),
        message,
        causes: Vec::new(),
        fix: Some(Fix::words(words)),
    });
    failure.report(
        std::env::args_os()
            .take_while(|arg| arg != "--")
            .any(|arg| arg == "--json"),
    );
    ExitCode::from(failure.exit)
}
