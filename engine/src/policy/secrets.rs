//! The read-deny set (REQ SP, TM-2): what no sandbox may read, whatever it binds.

use super::HostContext;
use crate::spec::AbsPath;

/// Below the home directory. The fixed terminal profile promises the first five.
const HOME: [&str; 26] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".config/gh",
    "Library/Keychains",
    ".azure",
    ".config/gcloud",
    ".kube",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials*",
    ".gem/credentials",
    ".git-credentials",
    ".config/git/credentials",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".Xauthority",
    ".ICEauthority",
    ".config/op",
    ".config/rclone",
    ".config/containers/auth.json",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
];

/// Profiles of browsers and mail programs: cookies, saved passwords.
const BROWSERS: [&str; 29] = [
    ".mozilla",
    ".thunderbird",
    ".librewolf",
    ".waterfox",
    ".zen",
    ".config/mozilla",
    ".config/google-chrome*",
    ".config/chromium*",
    ".config/BraveSoftware",
    ".config/microsoft-edge*",
    ".config/vivaldi*",
    ".config/opera*",
    "snap/firefox",
    "snap/chromium",
    "snap/brave",
    "snap/thunderbird",
    ".var/app/org.mozilla.*",
    ".var/app/com.google.Chrome*",
    ".var/app/org.chromium.Chromium",
    ".var/app/com.brave.Browser",
    ".var/app/com.microsoft.Edge",
    ".var/app/com.vivaldi.Vivaldi",
    "Library/Application Support/Google/Chrome*",
    "Library/Application Support/Chromium",
    "Library/Application Support/Firefox",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge",
    "Library/Safari",
    "Library/Cookies",
];

/// Readable by root alone, and root's sandbox is uid 0 too.
const ROOT: [&str; 13] = [
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/ssh/ssh_host_*_key",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/krb5.keytab",
    "/etc/ssl/private",
    "/etc/sssd",
    "/etc/NetworkManager/system-connections",
    "/var/backups/*shadow*",
    "/etc/wireguard",
    "/etc/letsencrypt",
    "/etc/security/opasswd",
];

/// A variable that moves a secret, and what of its value is secret.
const MOVED: [(&str, &str); 13] = [
    ("GNUPGHOME", ""),
    ("AWS_SHARED_CREDENTIALS_FILE", ""),
    ("AWS_CONFIG_FILE", ""),
    ("KUBECONFIG", ""),
    ("DOCKER_CONFIG", "config.json"),
    ("CARGO_HOME", "credentials*"),
    ("NETRC", ""),
    ("XAUTHORITY", ""),
    ("PASSWORD_STORE_DIR", ""),
    ("CLOUDSDK_CONFIG", ""),
    ("AZURE_CONFIG_DIR", ""),
    ("GH_CONFIG_DIR", ""),
    ("NPM_CONFIG_USERCONFIG", ""),
];

/// A variable that moves a directory of the home, and where it is without the variable.
pub(super) const XDG: [(&str, &str); 2] = [
    ("XDG_CONFIG_HOME", ".config/"),
    ("XDG_DATA_HOME", ".local/share/"),
];

/// Where Kotak keeps its own things when no variable moves them: another launch may have no such
/// variable.
const OWN: [&str; 3] = [".local/state/kotak", ".config/kotak", ".cache/kotak"];

/// One entry of the set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Secret {
    /// A path, or a glob by SP-2.
    pub(super) path: AbsPath,
    /// Kotak's own, with its own refusal.
    pub(super) own: bool,
}

/// The read-deny set for this user, in a fixed order, each path once.
pub(super) fn secrets(context: &HostContext) -> Vec<Secret> {
    let home = &context.home;
    let mut paths: Vec<AbsPath> = context
        .homes()
        .flat_map(|home| HOME.iter().chain(&BROWSERS).map(|below| home.join(below)))
        .collect();
    let mut moved = |base: AbsPath, below: &str| {
        let path = base.join(below);
        // A variable that names the home directory, or what holds it, moves nothing.
        if !home.is_within(&path) {
            paths.push(path);
        }
    };
    for (name, usual) in XDG {
        let Some(base) = absolute(context, name) else {
            continue;
        };
        for below in HOME.iter().chain(&BROWSERS) {
            if let Some(below) = below.strip_prefix(usual) {
                moved(base.clone(), below);
            }
        }
    }
    for (name, below) in MOVED {
        let value = context.var(name.as_bytes()).unwrap_or_default();
        for part in value.split(|byte| *byte == b':' && name == "KUBECONFIG") {
            if let Ok(base) = AbsPath::new(part) {
                moved(base, below);
            }
        }
    }
    if context.uid == 0 {
        paths.extend(ROOT.iter().map(|path| AbsPath::root().join(path)));
    }
    let mut seen = std::collections::BTreeSet::new();
    let foreign = paths.into_iter().map(|path| Secret { path, own: false });
    let given = context.kotak.state.iter().chain(&context.kotak.config);
    let usual = context
        .homes()
        .flat_map(|home| OWN.iter().map(|below| home.join(below)));
    given
        .cloned()
        .chain(usual)
        .map(|path| Secret { path, own: true })
        .chain(foreign)
        .filter(|secret| seen.insert(secret.path.clone()))
        .collect()
}

/// The absolute path in a variable.
pub(super) fn absolute(context: &HostContext, name: &str) -> Option<AbsPath> {
    AbsPath::new(context.var(name.as_bytes())?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::fake::{context, path};
    use super::*;

    fn paths(context: &HostContext) -> Vec<AbsPath> {
        secrets(context)
            .into_iter()
            .map(|secret| secret.path)
            .collect()
    }

    #[test]
    fn the_set_holds_every_entry_of_the_requirement() {
        let all = paths(&context());
        for below in [
            ".ssh",
            ".aws",
            ".gnupg",
            ".config/gh",
            "Library/Keychains",
            ".azure",
            ".config/gcloud",
            ".kube",
            ".docker/config.json",
            ".netrc",
            ".npmrc",
            ".pypirc",
            ".cargo/credentials*",
            ".gem/credentials",
            ".git-credentials",
            ".config/git/credentials",
            ".password-store",
            ".local/share/keyrings",
            ".mozilla",
            ".config/google-chrome*",
            ".config/chromium*",
            ".Xauthority",
            ".local/state/kotak",
            ".config/kotak",
        ] {
            assert!(all.contains(&path("/home/u").join(below)), "{below}");
        }
    }

    #[test]
    fn moved_directories_the_user_databases_home_and_kotaks_usual_places_are_in_the_set() {
        let mut moved = context();
        moved.kotak = super::super::KotakPaths::default();
        moved.passwd_home = Some(path("/home/real"));
        for (name, value) in [("XDG_CONFIG_HOME", "/cfg"), ("XDG_DATA_HOME", "/data")] {
            moved
                .env
                .push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        let all = secrets(&moved);
        for (expected, own) in [
            ("/cfg/google-chrome*", false),
            ("/cfg/op", false),
            ("/data/kwalletd", false),
            ("/home/real/.ssh", false),
            ("/home/u/.ssh", false),
            ("/home/real/.local/state/kotak", true),
            ("/home/u/.config/kotak", true),
        ] {
            let path = path(expected);
            assert!(all.contains(&Secret { path, own }), "{expected}");
        }
    }

    #[test]
    fn roots_own_secrets_are_added_for_root_alone() {
        let shadow = path("/etc/shadow*");
        assert!(!paths(&context()).contains(&shadow));
        let root = HostContext {
            uid: 0,
            home: path("/root"),
            ..context()
        };
        assert!(paths(&root).contains(&shadow));
        assert!(paths(&root).contains(&path("/var/backups/*shadow*")));
        assert!(paths(&root).contains(&path("/root/.ssh")));
    }

    #[test]
    fn a_variable_that_moves_a_secret_is_followed_and_one_that_names_home_is_not() {
        let mut moved = context();
        moved
            .env
            .push((b"KUBECONFIG".to_vec(), b"/k/a:/k/b".to_vec()));
        moved.env.push((b"CARGO_HOME".to_vec(), b"/c".to_vec()));
        moved.env.push((b"GNUPGHOME".to_vec(), b"/home/u".to_vec()));
        moved.env.push((b"NETRC".to_vec(), b"relative".to_vec()));
        let all = paths(&moved);
        for expected in ["/k/a", "/k/b", "/c/credentials*"] {
            assert!(all.contains(&path(expected)), "{expected}");
        }
        assert!(!all.contains(&path("/home/u")));
    }
}
