//! Which variables reach the payload: an allowlist, never the host's environment as it is.

use super::HostContext;
use crate::spec::{NetworkMode, ValidEnv};
use std::collections::BTreeMap;

/// Passed when the host has them. Nothing here names a socket or holds a credential.
const PASSED: [&str; 58] = [
    "TERM",
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TZ",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "LESS",
    "LESSCHARSET",
    "LS_COLORS",
    "CLICOLOR",
    "NO_COLOR",
    "FORCE_COLOR",
    "TERMINFO",
    "TERMINFO_DIRS",
    "INFOPATH",
    "MANPATH",
    "LOCALE_ARCHIVE",
    "HISTCONTROL",
    "HISTSIZE",
    "HISTFILESIZE",
    "ZDOTDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "JAVA_HOME",
    "NVM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_INSTALL",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "NIX_PATH",
    "NIX_PROFILES",
    "NIX_SSL_CERT_FILE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
];

/// Proxies, passed to an open network when they carry no credential.
const PROXIES: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// Where programs are looked for when the host says nothing.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// A payload's environment, and the names of what was kept from it; both sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Environment {
    pub(super) vars: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) withheld: Vec<String>,
}

/// Makes the environment of a native session.
pub(super) fn environment(
    context: &HostContext,
    policy: &ValidEnv,
    network: NetworkMode,
) -> Environment {
    let mut vars: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut withheld = Vec::new();
    for (name, value) in &context.env {
        if passes(name, value, policy, network) {
            vars.insert(name.clone(), value.clone());
        } else {
            withheld.push(String::from_utf8_lossy(name).escape_debug().to_string());
        }
    }
    // Replaced by the sandbox's own, so that they name what exists inside.
    let runtime = format!("/run/user/{}", context.uid).into_bytes();
    vars.insert(b"XDG_RUNTIME_DIR".to_vec(), runtime);
    vars.insert(b"TMPDIR".to_vec(), b"/tmp".to_vec());
    vars.insert(b"HOME".to_vec(), context.home.as_bytes().to_vec());
    vars.entry(b"PATH".to_vec())
        .or_insert_with(|| DEFAULT_PATH.to_vec());
    for (name, value) in policy.set() {
        vars.insert(name.as_bytes().to_vec(), value.as_bytes().to_vec());
    }
    withheld.retain(|name| !vars.contains_key(name.as_bytes()));
    withheld.sort();
    withheld.dedup();
    Environment {
        vars: vars.into_iter().collect(),
        withheld,
    }
}

fn passes(name: &[u8], value: &[u8], policy: &ValidEnv, network: NetworkMode) -> bool {
    let listed = |names: &[&str]| names.iter().any(|known| known.as_bytes() == name);
    let proxy = match network {
        NetworkMode::Open => listed(&PROXIES) && !value.contains(&b'@'),
        NetworkMode::Allowlist | NetworkMode::Ask | NetworkMode::Off => false,
    };
    proxy
        || listed(&PASSED)
        || name.starts_with(b"LC_")
        || policy.pass().iter().any(|known| known.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::super::fake::context;
    use super::*;

    fn get<'a>(env: &'a Environment, name: &str) -> Option<&'a [u8]> {
        env.vars
            .iter()
            .find(|(key, _)| key == name.as_bytes())
            .map(|(_, value)| value.as_slice())
    }

    #[test]
    fn credentials_and_sockets_are_withheld_and_listed_by_name() {
        let env = environment(&context(), &ValidEnv::default(), NetworkMode::Open);
        assert_eq!(env.withheld, ["AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"]);
        assert_eq!(get(&env, "SSH_AUTH_SOCK"), None);
        assert_eq!(get(&env, "TERM"), Some(b"xterm-256color".as_slice()));
    }

    #[test]
    fn pass_and_set_add_to_the_allowlist() {
        let policy = ValidEnv {
            pass: vec!["AWS_SECRET_ACCESS_KEY".to_owned()],
            set: vec![("SSH_AUTH_SOCK".to_owned(), "/none".to_owned())],
        };
        let env = environment(&context(), &policy, NetworkMode::Open);
        assert_eq!(get(&env, "AWS_SECRET_ACCESS_KEY"), Some(b"x".as_slice()));
        assert_eq!(get(&env, "SSH_AUTH_SOCK"), Some(b"/none".as_slice()));
        assert!(env.withheld.is_empty());
    }

    #[test]
    fn a_proxy_passes_to_an_open_network_without_credentials_only() {
        let mut host = context();
        host.env
            .push((b"http_proxy".to_vec(), b"http://proxy:3128".to_vec()));
        host.env
            .push((b"https_proxy".to_vec(), b"http://me:pw@proxy:3128".to_vec()));
        let open = environment(&host, &ValidEnv::default(), NetworkMode::Open);
        assert!(get(&open, "http_proxy").is_some());
        assert_eq!(get(&open, "https_proxy"), None);
        let off = environment(&host, &ValidEnv::default(), NetworkMode::Off);
        assert_eq!(get(&off, "http_proxy"), None);
    }

    #[test]
    fn the_sandboxs_own_places_stand_in_for_the_hosts() {
        let mut host = context();
        host.env.push((b"TMPDIR".to_vec(), b"/mnt/gone".to_vec()));
        host.env.retain(|(name, _)| name != b"PATH");
        let env = environment(&host, &ValidEnv::default(), NetworkMode::Off);
        assert_eq!(get(&env, "TMPDIR"), Some(b"/tmp".as_slice()));
        assert_eq!(
            get(&env, "XDG_RUNTIME_DIR"),
            Some(b"/run/user/1000".as_slice())
        );
        assert_eq!(get(&env, "PATH"), Some(DEFAULT_PATH));
    }
}
