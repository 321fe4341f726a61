//! A certificate authority of the test's own: it signs a leaf for every name that is asked for.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

/// What a connection without a server name is shown.
const NAMELESS: &str = "no-server-name.invalid";

/// The authority; rustls asks it for the certificate of each server name.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    leaves: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl Authority {
    /// Makes a key and signs itself.
    ///
    /// # Panics
    /// When the machine has no randomness.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "Kotak test authority");
        params.key_usages = vec![
            rcgen::KeyUsagePurpose::KeyCertSign,
            rcgen::KeyUsagePurpose::CrlSign,
        ];
        let key = KeyPair::generate().expect("a key");
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).expect("an authority"),
            leaves: Mutex::default(),
        }
    }

    /// Its own certificate, for the clients.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server's settings that hold for every name, with these ALPN protocols.
    ///
    /// # Panics
    /// When rustls has no cipher suites in common with itself.
    #[must_use]
    pub fn server(self: &Arc<Self>, protocols: &[&str]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    fn leaf(&self, name: &str) -> Arc<CertifiedKey> {
        let mut leaves = self.leaves.lock().expect("the leaves");
        let leaf = leaves.entry(name.to_owned()).or_insert_with(|| {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
            params.use_authority_key_identifier_extension = true;
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
            let certificate = params.signed_by(&key, &self.issuer).expect("a leaf");
            let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key in DER");
            let key = ring::sign::any_supported_type(&key).expect("a key that signs");
            Arc::new(CertifiedKey::new(vec![certificate.der().clone()], key))
        });
        Arc::clone(leaf)
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Authority {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.leaf(hello.server_name().unwrap_or(NAMELESS)))
    }
}
