//! The fixed lists of REQ EG-5 and EG-6, with the reason for each group.
//!
//! An allowed entry is a host pattern and opens every port of its hosts. A group holds what the
//! common tools of its kind talk to and no more: whatever is listed can be used to send data out,
//! so hosts where everybody can put a page or a bucket behind one wildcard are not, and no entry
//! covers what lies below a public suffix. Regional hosts are listed one by one for that reason
//! (`bedrock-runtime.*.amazonaws.com` would cover a storage bucket of that name).

use crate::spec::HostPattern;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Allowed hosts of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainGroup {
    /// What they are, for people: `package registries`.
    pub label: &'static str,
    /// Why they are allowed.
    pub reason: &'static str,
    /// Host patterns (REQ EG-4).
    pub domains: &'static [&'static str],
}

/// Denied hosts of one kind; no rule opens them (REQ EG-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeniedGroup {
    /// Which kind.
    pub kind: DeniedHost,
    /// What they are, for people.
    pub label: &'static str,
    /// Why they are denied.
    pub reason: &'static str,
    /// Names; each stands for itself and for all below it.
    pub domains: &'static [&'static str],
    /// Addresses.
    pub addresses: &'static [IpAddr],
}

/// What a denied host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeniedHost {
    /// Gives a machine's credentials to whoever asks from it.
    Metadata,
    /// Collects what programs report of their user.
    Telemetry,
}

/// Allowed in every session with an allowlist (REQ EG-5).
pub const BASELINE_ALLOWED_DOMAINS: &[DomainGroup] = &[
    DomainGroup {
        label: "LLM providers",
        reason: "coding agents cannot work without their model; hosts of the API and of signing \
                 in, not the providers' whole domains",
        domains: &[
            "api.anthropic.com",
            "console.anthropic.com",
            "platform.claude.com",
            "claude.ai",
            "api.openai.com",
            "auth.openai.com",
            "chatgpt.com",
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "aiplatform.googleapis.com",
            "oauth2.googleapis.com",
            "api.githubcopilot.com",
            "api.individual.githubcopilot.com",
            "api.business.githubcopilot.com",
            "api.enterprise.githubcopilot.com",
            "bedrock-runtime.us-east-1.amazonaws.com",
            "bedrock-runtime.us-west-2.amazonaws.com",
            "bedrock-runtime.eu-central-1.amazonaws.com",
            "bedrock-runtime.eu-west-1.amazonaws.com",
            "bedrock-runtime.ap-northeast-1.amazonaws.com",
            "api.mistral.ai",
            "api.deepseek.com",
            "api.x.ai",
            "api.groq.com",
            "openrouter.ai",
        ],
    },
    DomainGroup {
        label: "git hosts",
        reason: "fetching and pushing, over HTTPS and SSH; pushes are limited by the token and \
                 the push rules, not here",
        domains: &[
            "gitlab.com",
            "altssh.gitlab.com",
            "bitbucket.org",
            "api.bitbucket.org",
            "altssh.bitbucket.org",
            "codeberg.org",
            "git.sr.ht",
        ],
    },
    DomainGroup {
        label: "package registries",
        reason: "builds fetch what they depend on; only hosts of the index and the archives, none \
                 that exists for uploads",
        domains: &[
            // npm, Yarn, JSR, and the headers that native addons are built with.
            "registry.npmjs.org",
            "registry.yarnpkg.com",
            "repo.yarnpkg.com",
            "npm.jsr.io",
            "jsr.io",
            "nodejs.org",
            // Python.
            "pypi.org",
            "files.pythonhosted.org",
            // Rust.
            "crates.io",
            "index.crates.io",
            "static.crates.io",
            "static.rust-lang.org",
            // Go.
            "proxy.golang.org",
            "sum.golang.org",
            // Java.
            "repo.maven.apache.org",
            "repo1.maven.org",
            "maven.google.com",
            "plugins.gradle.org",
            "services.gradle.org",
            // Ruby, PHP, .NET, Elixir, Haskell.
            "rubygems.org",
            "index.rubygems.org",
            "packagist.org",
            "repo.packagist.org",
            "api.nuget.org",
            "repo.hex.pm",
            "hackage.haskell.org",
        ],
    },
    DomainGroup {
        label: "system packages",
        reason: "the package archives of the usual distributions, whose packages are signed",
        domains: &[
            "deb.debian.org",
            "security.debian.org",
            "archive.ubuntu.com",
            "*.archive.ubuntu.com",
            "security.ubuntu.com",
            "ports.ubuntu.com",
            "dl-cdn.alpinelinux.org",
        ],
    },
    DomainGroup {
        label: "container registries",
        reason: "base images; the index, the tokens and the storage that the registry points to",
        domains: &[
            "registry-1.docker.io",
            "index.docker.io",
            "auth.docker.io",
            "production.cloudflare.docker.com",
            "quay.io",
            "cdn.quay.io",
            "mcr.microsoft.com",
        ],
    },
];

/// GitHub (REQ EG-5). Its content hosts one by one: `githubusercontent.com` and `github.io` are
/// public suffixes.
pub const GITHUB_DOMAINS: DomainGroup = DomainGroup {
    label: "GitHub",
    reason: "git, the API, archives, release files, large files and packages",
    domains: &[
        "github.com",
        "ssh.github.com",
        "api.github.com",
        "uploads.github.com",
        "codeload.github.com",
        "raw.githubusercontent.com",
        "objects.githubusercontent.com",
        "release-assets.githubusercontent.com",
        "media.githubusercontent.com",
        "github-cloud.s3.amazonaws.com",
        "ghcr.io",
        "pkg-containers.githubusercontent.com",
        "npm.pkg.github.com",
    ],
};

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(bits: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(bits))
}

/// Denied before every allow (REQ EG-6). For telemetry, the collectors alone: what cannot be
/// opened by any rule must not be what somebody works with.
pub const BASELINE_DENIED_DOMAINS: &[DeniedGroup] = &[
    DeniedGroup {
        kind: DeniedHost::Metadata,
        label: "cloud metadata",
        reason: "hands the machine's own credentials to any program that runs on it",
        domains: &[
            // Google Cloud.
            "metadata",
            "metadata.google.internal",
            "metadata.goog",
            // AWS.
            "instance-data",
            "instance-data.ec2.internal",
            // Azure.
            "metadata.azure.internal",
            // IBM, Tencent, Equinix, Exoscale, Rancher.
            "api.metadata.cloud.ibm.com",
            "metadata.tencentyun.com",
            "metadata.packet.net",
            "metadata.platformequinix.com",
            "metadata.exoscale.com",
            "rancher-metadata",
        ],
        addresses: &[
            // AWS, Google Cloud, Azure, Oracle, DigitalOcean, Hetzner, OpenStack and others.
            v4(169, 254, 169, 254),
            // AWS: the resolver, the clock, task and pod credentials.
            v4(169, 254, 169, 253),
            v4(169, 254, 169, 123),
            v4(169, 254, 170, 2),
            v4(169, 254, 170, 23),
            v6(0xfd00_0ec2_0000_0000_0000_0000_0000_0254),
            v6(0xfd00_0ec2_0000_0000_0000_0000_0000_0023),
            v6(0xfd00_0ec2_0000_0000_0000_0000_0000_0253),
            // Google Cloud.
            v6(0xfd20_00ce_0000_0000_0000_0000_0000_0254),
            // Alibaba.
            v4(100, 100, 100, 200),
            // Azure's host agent; in the public range.
            v4(168, 63, 129, 16),
            // Oracle.
            v4(192, 0, 0, 192),
            // Tencent.
            v4(169, 254, 0, 23),
            // Scaleway.
            v4(169, 254, 42, 42),
            v6(0xfd00_0042_0000_0000_0000_0000_0000_0042),
            // OpenStack.
            v6(0xfe80_0000_0000_0000_0000_0000_a9fe_a9fe),
        ],
    },
    DeniedGroup {
        kind: DeniedHost::Telemetry,
        label: "telemetry",
        reason: "collects what programs report of their user; no build or agent needs it",
        domains: &[
            // Google.
            "google-analytics.com",
            "analytics.google.com",
            "googletagmanager.com",
            "app-measurement.com",
            "firebaselogging.googleapis.com",
            "firebaselogging-pa.googleapis.com",
            "play.googleapis.com",
            // Product analytics and experiments.
            "api.segment.io",
            "cdn.segment.com",
            "events.eu1.segmentapis.com",
            "api.mixpanel.com",
            "api-eu.mixpanel.com",
            "api-js.mixpanel.com",
            "api.amplitude.com",
            "api2.amplitude.com",
            "api.eu.amplitude.com",
            "app.posthog.com",
            "i.posthog.com",
            "statsigapi.net",
            "featuregates.org",
            "prodregistryv2.org",
            "statsig.anthropic.com",
            "heapanalytics.com",
            "hotjar.com",
            "rs.fullstory.com",
            "clarity.ms",
            "scarf.sh",
            // Crash and log collectors.
            "ingest.sentry.io",
            "ingest.us.sentry.io",
            "ingest.de.sentry.io",
            "logs.datadoghq.com",
            "browser-intake-datadoghq.com",
            "browser-intake-datadoghq.eu",
            "nr-data.net",
            "notify.bugsnag.com",
            "sessions.bugsnag.com",
            "api.rollbar.com",
            "api.honeycomb.io",
            // Editors and tools.
            "events.data.microsoft.com",
            "vortex.data.microsoft.com",
            "dc.services.visualstudio.com",
            "in.applicationinsights.azure.com",
            "dc.applicationinsights.azure.com",
            "exp-tas.com",
            "copilot-telemetry.githubusercontent.com",
            "copilot-telemetry-service.githubusercontent.com",
            "telemetry.individual.githubcopilot.com",
            "telemetry.business.githubcopilot.com",
            "telemetry.enterprise.githubcopilot.com",
            "telemetry.mozilla.org",
            "telemetry.go.dev",
            "telemetry.nextjs.org",
            "telemetry.vercel.com",
            "telemetry.astro.build",
            "analytics.gatsbyjs.com",
            "checkpoint.prisma.io",
        ],
        addresses: &[],
    },
];

/// How many domains a session with these entries of its own may reach: each entry of the lists
/// and of its own once, whatever its ports.
pub(super) fn count(own: &[HostPattern]) -> usize {
    let listed = BASELINE_ALLOWED_DOMAINS
        .iter()
        .chain([&GITHUB_DOMAINS])
        .flat_map(|group| group.domains)
        .map(|domain| (*domain).to_owned());
    listed
        .chain(own.iter().map(HostPattern::host_part))
        .collect::<HashSet<_>>()
        .len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Host, HostName};

    #[test]
    fn every_allowed_entry_is_a_canonical_pattern_that_stands_once() {
        let mut seen = HashSet::new();
        for group in BASELINE_ALLOWED_DOMAINS.iter().chain([&GITHUB_DOMAINS]) {
            assert!(!group.domains.is_empty() && !group.reason.is_empty());
            for domain in group.domains {
                let pattern = HostPattern::parse(domain).unwrap();
                assert_eq!(pattern.to_string(), *domain);
                assert_eq!(pattern.address(), None, "{domain}");
                assert!(seen.insert(*domain), "{domain} stands twice");
            }
        }
        assert_eq!(count(&[]), seen.len());
    }

    #[test]
    fn every_denied_name_is_canonical_and_no_allowed_entry_is_denied() {
        let mut seen = HashSet::new();
        for group in BASELINE_DENIED_DOMAINS {
            for domain in group.domains {
                assert_eq!(HostName::parse(domain).unwrap().as_str(), *domain);
                assert!(seen.insert(*domain), "{domain} stands twice");
            }
            for address in group.addresses {
                assert_eq!(Host::from(*address), Host::Ip(*address));
            }
        }
        for domain in BASELINE_ALLOWED_DOMAINS
            .iter()
            .chain([&GITHUB_DOMAINS])
            .flat_map(|group| group.domains)
        {
            let denied = seen
                .iter()
                .find(|name| domain == *name || domain.ends_with(&format!(".{name}")));
            assert_eq!(denied, None, "{domain}");
        }
    }

    #[test]
    fn entries_of_a_sessions_own_count_once_whatever_their_port() {
        let own = [
            "files.example.com:443",
            "files.example.com:22",
            "github.com",
        ]
        .map(|text| HostPattern::parse(text).unwrap());
        assert_eq!(count(&own), count(&[]) + 1);
    }
}
