//! The TLS certificate of a port and its certificate authority, generated when the port opens.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The DNS names in the certificate. Clients that verify the name of the API server in a cluster
/// need those of `kubernetes`.
const NAMES: [&str; 4] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// The TLS acceptor of a port, and the authority that clients trust.
pub(super) struct Certificate {
    pub(super) acceptor: TlsAcceptor,
    /// The certificate of the authority, in PEM.
    pub(super) authority: String,
}

// === impl Certificate ===

impl Certificate {
    /// Generates an authority and a server certificate. The keys are never written to disk.
    pub(super) fn generate() -> io::Result<Self> {
        let (authority, chain, key) = sign().map_err(io::Error::other)?;
        // rustls has no default provider if a program enables several.
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority,
        })
    }
}

type Chain = Vec<tokio_rustls::rustls::pki_types::CertificateDer<'static>>;

/// Generates an authority, and a server certificate that it signs, with its key. Returns the
/// authority in PEM.
fn sign() -> Result<(String, Chain, PrivateKeyDer<'static>), rcgen::Error> {
    let subject = |name: &str| {
        let mut parts = DistinguishedName::new();
        parts.push(DnType::CommonName, name);
        parts
    };
    let mut authority = CertificateParams::default();
    authority.distinguished_name = subject("windlass-apiserver-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let root = authority.self_signed(&authority_key)?;

    let addresses = [
        Ipv4Addr::LOCALHOST.to_string(),
        Ipv6Addr::LOCALHOST.to_string(),
    ];
    let names = NAMES.map(str::to_owned).into_iter().chain(addresses);
    let mut server = CertificateParams::new(names.collect::<Vec<_>>())?;
    server.distinguished_name = subject("windlass-apiserver");
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = server.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((root.pem(), vec![certificate.der().clone()], key))
}
