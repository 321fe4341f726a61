//! From [`SandboxSpec`] to [`ValidSpec`].

use super::filename::globs;
use super::json::{offset_of, path_at};
use super::valid::grants_field;
use super::{
    AbsPath, DISPATCH_EXCEPTIONS, DISPATCH_GLOBS, EnvPolicy, ExecRestriction, FilenameRules, Form,
    Grant, HostPattern, NetworkMode, PortForward, Purpose, Resources, SandboxSpec, SessionId,
    SocketGrant, SpecError, TerminalRequest, ValidBind, ValidEnv, ValidExec, ValidFilenameRules,
    ValidSpec, WorkspaceId, grants,
};

/// Places that every sandbox has of its own, so nothing of the host's can be granted there.
const RESERVED: [&str; 4] = ["/proc", "/sys", "/dev", "/run/kotak"];

/// The field of a terminal's request with its extra domains.
const EXTRA_DOMAINS: &str = "extraDomains";

impl SandboxSpec {
    /// Reads a spec from JSON; unknown fields are refused.
    ///
    /// # Errors
    /// [`SpecError::Malformed`] with the field's path and what is allowed there.
    pub fn from_json(text: &str) -> Result<Self, SpecError> {
        serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let place = format!("line {line}, column {column}");
            let field = path_at(text, offset_of(text, line, column));
            let at = if field.is_empty() {
                place
            } else {
                format!("{field} ({place})")
            };
            let whole = error.to_string();
            let tail = format!(" at line {line} column {column}");
            let reason = whole
                .strip_suffix(tail.as_str())
                .unwrap_or(&whole)
                .to_owned();
            SpecError::Malformed { at, reason }
        })
    }

    /// Checks a spec of the bind-mount form (REQ BW-1).
    ///
    /// # Errors
    /// The first thing that is wrong, by field.
    pub fn validate(&self) -> Result<ValidSpec, SpecError> {
        let session_id = session_id(&self.session_id)?;
        let workspace_id = workspace_id(&self.workspace_id)?;
        self.refuse_unenforced()?;
        let network = self.run_network()?;
        let listed = allowlist("egressAllowlist", &self.egress_allowlist)?;
        let binds = self.binds()?;
        let protected = paths("protectedPaths", &self.protected_paths)?;
        let runner_state = paths("runnerStateDirs", &self.runner_state_dirs)?;
        for dir in &runner_state {
            if let Some(protected) = protected.iter().find(|path| dir.is_within(path)) {
                return Err(SpecError::RunnerStateProtected {
                    path: dir.to_string(),
                    protected: protected.to_string(),
                });
            }
        }
        let workdir = match &self.guest_workdir {
            None => None,
            Some(text) => {
                let path = path("guestWorkdir".to_owned(), text.as_bytes())?;
                let covered = binds.iter().map(|bind| &bind.path).chain(&runner_state);
                if !covered.into_iter().any(|cover| path.is_within(cover)) {
                    return Err(SpecError::WorkdirNotBound {
                        path: path.to_string(),
                    });
                }
                Some(path)
            }
        };
        Ok(ValidSpec {
            session_id,
            workspace_id,
            agent_id: self.agent_id.clone(),
            form: Form::Binds { binds, workdir },
            mode: self.mode,
            network,
            network_field: match (self.network_mode, self.network_enabled) {
                (Some(_), _) => Some("networkMode"),
                (None, false) => Some("networkEnabled"),
                (None, true) => (!listed.is_empty()).then_some("egressAllowlist"),
            },
            egress: match network {
                NetworkMode::Allowlist | NetworkMode::Ask => listed,
                // An empty allowlist, whatever the list says (REQ EG-7).
                NetworkMode::Open | NetworkMode::Off => Vec::new(),
            },
            protected,
            runner_state,
            env: env(&self.env_policy)?,
            // A run always has a network of its own, so these can be kept.
            grants: granted(&self.port_forwards, &self.socket_grants)?,
            purpose: Purpose::Direct,
            filenames: filename_rules(&self.filename_rules)?,
            exec: exec(
                self.exec_restriction,
                self.exec_grant_roots.iter().map(|path| path.as_bytes()),
            )?,
            approved: Vec::new(),
        })
    }

    /// Checks a spec for the standard dispatch of an agent: the spec, and on top of it the filename
    /// rules without which no agent is dispatched (REQ BW-4, BW-5). The network is never open and
    /// the environment never the host's, as for every spec.
    ///
    /// # Errors
    /// What [`SandboxSpec::validate`] finds.
    pub fn validate_dispatch(&self) -> Result<ValidSpec, SpecError> {
        let with = |own: &[String], standard: &[&str]| {
            let standard = standard.iter().map(|glob| (*glob).to_owned());
            // Its own first, so that an error names them by their places.
            own.iter().cloned().chain(standard).collect()
        };
        let spec = Self {
            filename_rules: FilenameRules {
                globs: with(&self.filename_rules.globs, &DISPATCH_GLOBS),
                exceptions: with(&self.filename_rules.exceptions, &DISPATCH_EXCEPTIONS),
            },
            ..self.clone()
        };
        Ok(ValidSpec {
            purpose: Purpose::Dispatch,
            ..spec.validate()?
        })
    }

    /// A field whose mechanism does not exist is refused by name, never ignored.
    fn refuse_unenforced(&self) -> Result<(), SpecError> {
        if self.resources == Resources::default() {
            return Ok(());
        }
        Err(SpecError::FieldNotEnforced {
            field: "resources",
            reason: "memory, CPU and process limits are not applied yet",
        })
    }

    /// The network of a run: never open (REQ EG-8).
    fn run_network(&self) -> Result<NetworkMode, SpecError> {
        match (self.network_enabled, self.network_mode) {
            (_, Some(NetworkMode::Open)) if !self.egress_allowlist.is_empty() => {
                Err(SpecError::AllowlistUnused {
                    field: "egressAllowlist",
                    mode: "open",
                })
            }
            (_, Some(NetworkMode::Open)) => Err(SpecError::OpenNetworkForRun),
            (false, Some(NetworkMode::Allowlist)) => {
                Err(SpecError::NetworkContradiction { mode: "allowlist" })
            }
            (false, Some(NetworkMode::Ask)) => Err(SpecError::NetworkContradiction { mode: "ask" }),
            (false, None | Some(NetworkMode::Off)) => Ok(NetworkMode::Off),
            (true, None) => Ok(NetworkMode::Allowlist),
            (true, Some(mode)) => Ok(mode),
        }
    }

    fn binds(&self) -> Result<Vec<ValidBind>, SpecError> {
        let mut binds: Vec<ValidBind> = Vec::with_capacity(self.bind_mounts.len());
        let mut seen = std::collections::BTreeMap::new();
        for (index, mount) in self.bind_mounts.iter().enumerate() {
            let host = path(
                format!("bindMounts[{index}].hostPath"),
                mount.host_path.as_bytes(),
            )?;
            if let Some(guest) = &mount.guest_path {
                let field = format!("bindMounts[{index}].guestPath");
                let guest = path(field.clone(), guest.as_bytes())?;
                if guest != host {
                    return Err(SpecError::GuestPathDiffers {
                        field,
                        host: host.to_string(),
                        guest: guest.to_string(),
                    });
                }
            }
            match seen.insert(host.clone(), mount.read_only) {
                None => binds.push(ValidBind {
                    path: host,
                    read_only: mount.read_only,
                }),
                Some(read_only) if read_only == mount.read_only => {}
                Some(_) => {
                    return Err(SpecError::ConflictingBinds {
                        path: host.to_string(),
                    });
                }
            }
        }
        Ok(binds)
    }
}

impl ValidSpec {
    /// Checks a terminal's request: the fixed terminal profile (REQ TM-2).
    ///
    /// # Errors
    /// The first thing that is wrong, by field.
    pub fn terminal(request: &TerminalRequest) -> Result<Self, SpecError> {
        let cwd = path("cwd".to_owned(), request.cwd.as_os_str().as_encoded_bytes())?;
        let protected = request
            .protected_paths
            .iter()
            .enumerate()
            .map(|(index, text)| {
                path(
                    format!("protectedPaths[{index}]"),
                    text.as_os_str().as_encoded_bytes(),
                )
            })
            .collect::<Result<_, _>>()?;
        let network = request.network.unwrap_or(NetworkMode::Open);
        let egress = allowlist(EXTRA_DOMAINS, &request.extra_domains)?;
        let unused = match network {
            NetworkMode::Allowlist | NetworkMode::Ask => None,
            NetworkMode::Open => Some("open"),
            NetworkMode::Off => Some("off"),
        };
        if let Some(mode) = unused
            && !egress.is_empty()
        {
            return Err(SpecError::AllowlistUnused {
                field: EXTRA_DOMAINS,
                mode,
            });
        }
        let grants = granted(&request.port_forwards, &request.socket_grants)?;
        if let (NetworkMode::Open, Some(field)) = (network, grants_field(&grants)) {
            return Err(SpecError::GrantsWithOpenNetwork { field });
        }
        Ok(Self {
            session_id: session_id(&request.session_id)?,
            workspace_id: workspace_id(&request.workspace_id)?,
            agent_id: None,
            form: Form::Terminal { cwd },
            mode: request.mode,
            network,
            network_field: request.network.map(|_| "networkMode"),
            egress,
            protected,
            runner_state: request
                .runner_state_dirs
                .iter()
                .enumerate()
                .map(|(index, text)| {
                    path(
                        format!("runnerStateDirs[{index}]"),
                        text.as_os_str().as_encoded_bytes(),
                    )
                })
                .collect::<Result<_, _>>()?,
            env: env(&request.env_policy)?,
            grants,
            purpose: Purpose::Direct,
            filenames: filename_rules(&request.files.filename_rules)?,
            exec: exec(
                request.files.exec_restriction,
                request
                    .files
                    .exec_grant_roots
                    .iter()
                    .map(|path| path.as_os_str().as_encoded_bytes()),
            )?,
            approved: Vec::new(),
        })
    }
}

fn filename_rules(rules: &FilenameRules) -> Result<ValidFilenameRules, SpecError> {
    let valid = ValidFilenameRules {
        globs: globs("filenameRules.globs", &rules.globs)?,
        exceptions: globs("filenameRules.exceptions", &rules.exceptions)?,
    };
    if valid.globs.is_empty() && !valid.exceptions.is_empty() {
        return Err(SpecError::ExceptionsWithoutGlobs);
    }
    Ok(valid)
}

/// The exec restriction with its grants, as far as they can be judged without the host (REQ BW-6).
fn exec<'a>(
    restriction: ExecRestriction,
    roots: impl Iterator<Item = &'a [u8]>,
) -> Result<ValidExec, SpecError> {
    let mut grants = Vec::new();
    for (index, bytes) in roots.enumerate() {
        let field = format!("execGrantRoots[{index}]");
        let path = path(field.clone(), bytes)?;
        if path.is_root() {
            return Err(SpecError::ExecGrant {
                field,
                path: path.to_string(),
                reason: "it is the root of the file system",
            });
        }
        if !grants.contains(&path) {
            grants.push(path);
        }
    }
    match restriction {
        ExecRestriction::Off if grants.is_empty() => Ok(ValidExec::Anywhere),
        ExecRestriction::Off => Err(SpecError::GrantWithoutRestriction),
        ExecRestriction::Writable => Ok(ValidExec::ReadOnly { grants }),
        ExecRestriction::Strict => Err(SpecError::FieldNotEnforced {
            field: "execRestriction",
            reason: "\"strict\" needs mounts without exec, which only a privileged sandbox can make; \
                     \"writable\" holds without them",
        }),
    }
}

fn session_id(text: &str) -> Result<SessionId, SpecError> {
    SessionId::new(text).map_err(|cause| SpecError::Id {
        field: "sessionId",
        cause,
    })
}

fn workspace_id(text: &str) -> Result<WorkspaceId, SpecError> {
    WorkspaceId::new(text).map_err(|cause| SpecError::Id {
        field: "workspaceId",
        cause,
    })
}

/// Reads every entry of an allowlist; each is kept once (REQ EG-4).
fn allowlist(field: &str, texts: &[String]) -> Result<Vec<HostPattern>, SpecError> {
    let mut seen = std::collections::HashSet::new();
    let mut patterns = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let pattern = HostPattern::parse(text).map_err(|cause| SpecError::HostPattern {
            field: format!("{field}[{index}]"),
            cause,
        })?;
        if seen.insert(pattern.clone()) {
            patterns.push(pattern);
        }
    }
    Ok(patterns)
}

fn granted(forwards: &[PortForward], sockets: &[SocketGrant]) -> Result<Vec<Grant>, SpecError> {
    grants(forwards, sockets).map_err(SpecError::Grant)
}

fn paths(field: &str, texts: &[String]) -> Result<Vec<AbsPath>, SpecError> {
    texts
        .iter()
        .enumerate()
        .map(|(index, text)| path(format!("{field}[{index}]"), text.as_bytes()))
        .collect()
}

fn path(field: String, bytes: &[u8]) -> Result<AbsPath, SpecError> {
    let path = match AbsPath::new(bytes) {
        Ok(path) => path,
        Err(cause) => {
            let path = String::from_utf8_lossy(bytes).escape_debug().to_string();
            return Err(SpecError::Path { field, path, cause });
        }
    };
    for below in RESERVED {
        if AbsPath::new(below).is_ok_and(|reserved| path.is_within(&reserved)) {
            return Err(SpecError::ReservedPath {
                field,
                path: path.to_string(),
                below,
            });
        }
    }
    Ok(path)
}

fn env(policy: &EnvPolicy) -> Result<ValidEnv, SpecError> {
    for name in &policy.pass {
        check_name("envPolicy.pass", name)?;
    }
    for (name, value) in &policy.set {
        check_name("envPolicy.set", name)?;
        if value.contains('\0') {
            return Err(SpecError::EnvName {
                field: "envPolicy.set",
                name: name.clone(),
                reason: "its value holds a NUL byte",
            });
        }
    }
    Ok(ValidEnv {
        pass: policy.pass.clone(),
        set: policy
            .set
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    })
}

fn check_name(field: &'static str, name: &str) -> Result<(), SpecError> {
    let reason = match name.bytes().next() {
        None => Some("it is empty"),
        Some(first) if first.is_ascii_digit() => Some("it starts with a digit"),
        Some(_)
            if !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') =>
        {
            Some("it holds something other than letters, digits and underscores")
        }
        Some(_) => None,
    };
    match reason {
        Some(reason) => Err(SpecError::EnvName {
            field,
            name: name.escape_debug().to_string(),
            reason,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
