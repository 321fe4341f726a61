//! The distribution, by os-release(5), and the command that installs a package there. Pure.

/// A family of distributions, by its package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Debian,
    Fedora,
    Arch,
    Suse,
    Alpine,
    Nix,
    Gentoo,
    Void,
    Unknown,
}

/// A distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Distribution {
    /// `PRETTY_NAME`, or what there is.
    pub(crate) name: String,
    pub(crate) family: Family,
}

/// Something that a fix can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Package {
    Bubblewrap,
    Socat,
    Qemu,
    GuestKernel,
}

impl Distribution {
    /// Reads os-release(5).
    pub(crate) fn from_os_release(text: &str) -> Self {
        let value = |key: &str| {
            text.lines()
                .filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))
                .next_back()
                .map(|raw| raw.trim().trim_matches(['"', '\'']).to_owned())
                .filter(|found| !found.is_empty())
        };
        let id = value("ID").unwrap_or_default();
        let like = value("ID_LIKE").unwrap_or_default();
        let family = std::iter::once(id.as_str())
            .chain(like.split_whitespace())
            .map(family_of)
            .find(|family| *family != Family::Unknown)
            .unwrap_or(Family::Unknown);
        let name = value("PRETTY_NAME")
            .or_else(|| value("NAME"))
            .unwrap_or_else(|| {
                if id.is_empty() {
                    "an unknown Linux distribution".to_owned()
                } else {
                    id.clone()
                }
            });
        Self { name, family }
    }

    /// The command that installs these packages, for this user.
    pub(crate) fn install_command(&self, packages: &[Package], uid: u32) -> Option<String> {
        let names = packages
            .iter()
            .map(|package| package_name(self.family, *package))
            .collect::<Option<Vec<&str>>>()?
            .join(" ");
        let sudo = sudo(uid);
        Some(match self.family {
            Family::Debian => format!("{sudo}apt-get install {names}"),
            Family::Fedora => format!("{sudo}dnf install {names}"),
            Family::Arch => format!("{sudo}pacman -S {names}"),
            Family::Suse => format!("{sudo}zypper install {names}"),
            Family::Alpine => format!("{sudo}apk add {names}"),
            Family::Gentoo => format!("{sudo}emerge {names}"),
            Family::Void => format!("{sudo}xbps-install {names}"),
            Family::Nix => format!("nix-env -f '<nixpkgs>' -iA {names}"),
            Family::Unknown => return None,
        })
    }
}

/// The prefix of a command that needs root.
pub(crate) fn sudo(uid: u32) -> &'static str {
    if uid == 0 { "" } else { "sudo " }
}

fn family_of(id: &str) -> Family {
    match id {
        "debian" | "ubuntu" | "linuxmint" | "pop" | "raspbian" | "kali" | "elementary"
        | "devuan" => Family::Debian,
        "fedora" | "rhel" | "centos" | "rocky" | "almalinux" | "amzn" | "ol" => Family::Fedora,
        "arch" | "manjaro" | "endeavouros" | "archarm" => Family::Arch,
        "suse" | "opensuse" | "opensuse-leap" | "opensuse-tumbleweed" | "sles" => Family::Suse,
        "alpine" => Family::Alpine,
        "nixos" => Family::Nix,
        "gentoo" => Family::Gentoo,
        "void" => Family::Void,
        _ => Family::Unknown,
    }
}

fn package_name(family: Family, package: Package) -> Option<&'static str> {
    Some(match (package, family) {
        (Package::Bubblewrap, Family::Gentoo) => "sys-apps/bubblewrap",
        (Package::Bubblewrap, _) => "bubblewrap",
        (Package::Socat, Family::Gentoo) => "net-misc/socat",
        (Package::Socat, _) => "socat",
        (Package::Qemu, Family::Debian | Family::Fedora | Family::Arch) => "qemu-system-x86",
        (Package::Qemu, Family::Suse) => "qemu-x86",
        (Package::Qemu, Family::Alpine) => "qemu-system-x86_64",
        (Package::Qemu, Family::Gentoo) => "app-emulation/qemu",
        (Package::Qemu, Family::Void | Family::Nix) => "qemu",
        (Package::GuestKernel, Family::Fedora) => "kernel-core",
        (Package::GuestKernel, Family::Arch) => "linux",
        (Package::GuestKernel, Family::Suse) => "kernel-default",
        (Package::GuestKernel, Family::Alpine) => "linux-virt",
        // Debian and Ubuntu name their images differently, and the others build or link theirs.
        (
            Package::GuestKernel,
            Family::Debian | Family::Nix | Family::Gentoo | Family::Void | Family::Unknown,
        )
        | (Package::Qemu, Family::Unknown) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // REQ PR-4
    #[test]
    fn every_family_has_its_own_install_command() {
        let cases = [
            (
                "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"",
                "sudo apt-get install bubblewrap socat",
            ),
            (
                "ID=ubuntu\nID_LIKE=debian",
                "sudo apt-get install bubblewrap socat",
            ),
            (
                "ID=zorin\nID_LIKE=\"ubuntu debian\"",
                "sudo apt-get install bubblewrap socat",
            ),
            ("ID=fedora", "sudo dnf install bubblewrap socat"),
            (
                "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"",
                "sudo dnf install bubblewrap socat",
            ),
            ("ID=arch", "sudo pacman -S bubblewrap socat"),
            (
                "ID=cachyos\nID_LIKE=arch",
                "sudo pacman -S bubblewrap socat",
            ),
            (
                "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"",
                "sudo zypper install bubblewrap socat",
            ),
            ("ID=alpine", "sudo apk add bubblewrap socat"),
            (
                "ID=gentoo",
                "sudo emerge sys-apps/bubblewrap net-misc/socat",
            ),
            ("ID=void", "sudo xbps-install bubblewrap socat"),
            ("ID=nixos", "nix-env -f '<nixpkgs>' -iA bubblewrap socat"),
        ];
        for (text, command) in cases {
            let both = [Package::Bubblewrap, Package::Socat];
            assert_eq!(
                Distribution::from_os_release(text)
                    .install_command(&both, 1000)
                    .as_deref(),
                Some(command)
            );
        }
    }

    #[test]
    fn root_is_not_told_to_use_sudo() {
        let debian = Distribution::from_os_release("ID=debian");
        assert_eq!(
            debian.install_command(&[Package::Socat], 0).as_deref(),
            Some("apt-get install socat")
        );
    }

    #[test]
    fn an_unknown_distribution_gets_no_invented_command() {
        for text in ["", "ID=somethingelse", "not an os-release"] {
            let distribution = Distribution::from_os_release(text);
            assert_eq!(distribution.family, Family::Unknown);
            assert_eq!(
                distribution.install_command(&[Package::Bubblewrap], 0),
                None
            );
        }
    }

    #[test]
    fn the_name_is_the_pretty_one_where_there_is_one() {
        assert_eq!(
            Distribution::from_os_release("NAME=x\nPRETTY_NAME='Y 1'").name,
            "Y 1"
        );
        assert_eq!(Distribution::from_os_release("ID=z").name, "z");
    }
}
