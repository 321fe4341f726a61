//! Which variables reach the payload: an allowlist, never the host's environment as it is.

use super::HostContext;
use crate::backend::GUARD_PATH;
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

/// Port of the HTTP proxy on the sandbox's loopback, the usual one (REQ EG-2).
pub const HTTP_PORT: u16 = 3128;

/// Port of the SOCKS5 proxy on the sandbox's loopback, the usual one (REQ EG-2).
pub const SOCKS_PORT: u16 = 1080;

/// Where programs are looked for when the host says nothing.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// The variables by which programs find the proxies of a restricted session (REQ EG-2), which
/// listen on the sandbox's own loopback; the same for every session, since each has a network of
/// its own. They only help: whoever ignores or changes them has no route past the proxies.
///
/// - `HTTP_PROXY`, `HTTPS_PROXY` name the HTTP proxy, `ALL_PROXY` the SOCKS5 proxy. `socks5h`
///   sends names, not addresses: nothing is resolved inside that the proxy would not answer for.
///   Lower case too, since curl reads `http_proxy` in lower case only.
/// - `NO_PROXY` lists the loopback alone: a program that talks to a server inside the sandbox
///   goes there by itself. The proxies refuse loopback, which to them is the host's; and past
///   them there is nothing but the sandbox's own loopback, so this opens nothing.
/// - `NODE_USE_ENV_PROXY` makes Node.js 24 and later heed the others.
/// - `GIT_SSH_COMMAND` sends git over SSH through the SOCKS5 proxy; ssh itself knows no proxy.
#[must_use]
pub fn proxy_environment(http_port: u16, socks_port: u16) -> Vec<(String, String)> {
    let http = format!("http://127.0.0.1:{http_port}");
    let socks = format!("socks5h://127.0.0.1:{socks_port}");
    let loopback = "localhost,127.0.0.1,::1";
    let mut vars = Vec::new();
    for (name, value) in [
        ("HTTP_PROXY", http.as_str()),
        ("HTTPS_PROXY", http.as_str()),
        ("ALL_PROXY", socks.as_str()),
        ("NO_PROXY", loopback),
    ] {
        vars.push((name.to_owned(), value.to_owned()));
        vars.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    vars.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    let command = format!("ssh -o ProxyCommand='{GUARD_PATH} connect {socks_port} %h %p'");
    vars.push(("GIT_SSH_COMMAND".to_owned(), command));
    vars
}

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
    match network {
        NetworkMode::Open => {}
        // The host's own proxies are out of reach and stay withheld.
        NetworkMode::Allowlist | NetworkMode::Ask | NetworkMode::Off => {
            for (name, value) in proxy_environment(HTTP_PORT, SOCKS_PORT) {
                vars.insert(name.into_bytes(), value.into_bytes());
            }
        }
    }
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
        let own = Some(b"http://127.0.0.1:3128".as_slice());
        assert_eq!(get(&off, "http_proxy"), own);
    }

    #[test]
    fn a_restricted_network_gets_its_own_proxies_and_nothing_of_the_hosts() {
        // REQ EG-2
        let mut host = context();
        for name in PROXIES {
            host.env
                .push((name.as_bytes().to_vec(), b"http://proxy.corp:8080".to_vec()));
        }
        let ssh = b"ssh -i /home/u/key".to_vec();
        host.env.push((b"GIT_SSH_COMMAND".to_vec(), ssh));
        let policy = ValidEnv {
            pass: PROXIES.iter().map(|name| (*name).to_owned()).collect(),
            set: Vec::new(),
        };
        let wanted = [
            ("HTTP_PROXY", "http://127.0.0.1:3128"),
            ("HTTPS_PROXY", "http://127.0.0.1:3128"),
            ("ALL_PROXY", "socks5h://127.0.0.1:1080"),
            ("NO_PROXY", "localhost,127.0.0.1,::1"),
            ("http_proxy", "http://127.0.0.1:3128"),
            ("https_proxy", "http://127.0.0.1:3128"),
            ("all_proxy", "socks5h://127.0.0.1:1080"),
            ("no_proxy", "localhost,127.0.0.1,::1"),
            ("NODE_USE_ENV_PROXY", "1"),
            (
                "GIT_SSH_COMMAND",
                "ssh -o ProxyCommand='/run/kotak/guard connect 1080 %h %p'",
            ),
        ];
        for mode in [NetworkMode::Allowlist, NetworkMode::Ask, NetworkMode::Off] {
            let env = environment(&host, &policy, mode);
            for (name, value) in wanted {
                assert_eq!(
                    get(&env, name),
                    Some(value.as_bytes()),
                    "{name} in {mode:?}"
                );
            }
        }
        // Control: an open network has the host's, and none of these.
        let open = environment(&host, &ValidEnv::default(), NetworkMode::Open);
        let corp = Some(b"http://proxy.corp:8080".as_slice());
        assert_eq!(get(&open, "HTTPS_PROXY"), corp);
        assert_eq!(get(&open, "NODE_USE_ENV_PROXY"), None);
        assert_eq!(get(&open, "GIT_SSH_COMMAND"), None);
    }

    #[test]
    fn what_the_operator_sets_stands_above_the_proxies() {
        let policy = ValidEnv {
            pass: Vec::new(),
            set: vec![("NO_PROXY".to_owned(), "localhost".to_owned())],
        };
        let env = environment(&context(), &policy, NetworkMode::Ask);
        assert_eq!(get(&env, "NO_PROXY"), Some(b"localhost".as_slice()));
        assert!(get(&env, "no_proxy").is_some());
    }

    #[test]
    fn the_ports_stand_in_every_variable_that_names_a_proxy() {
        let vars = proxy_environment(1, 2);
        let value = |name: &str| {
            let found = vars.iter().find(|(own, _)| own == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("https_proxy"), Some("http://127.0.0.1:1"));
        assert_eq!(value("ALL_PROXY"), Some("socks5h://127.0.0.1:2"));
        assert!(
            value("GIT_SSH_COMMAND")
                .unwrap()
                .contains("connect 2 %h %p")
        );
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
