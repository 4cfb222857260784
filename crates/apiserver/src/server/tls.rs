//! TLS of a port: a certificate authority and a certificate, made when the port is opened.

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

/// The names of the server, beside its addresses: those in a cluster are for clients that insist on
/// one.
const NAMES: [&str; 4] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// The certificate of a port.
pub(super) struct Certificate {
    pub(super) acceptor: TlsAcceptor,
    /// The certificate of the authority, as PEM.
    pub(super) authority: String,
}

// === impl Certificate ===

impl Certificate {
    /// Makes an authority and a certificate. The keys are kept in memory alone.
    pub(super) fn make() -> io::Result<Self> {
        let (authority, chain, key) = signed().map_err(io::Error::other)?;
        // The provider is named, because a program may have several.
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

/// The authority as PEM, and a certificate that it signed, with its key.
fn signed() -> Result<(String, Chain, PrivateKeyDer<'static>), rcgen::Error> {
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
