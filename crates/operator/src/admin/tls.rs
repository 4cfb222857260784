//! TLS of an admin server. The certificate and the key are files, which are reloaded after a
//! renewal.

use super::{AdminError, serve::Stream};

#[cfg(feature = "tls")]
pub(crate) use self::enabled::{Files, Tls};

/// Not available without the feature `tls`.
#[cfg(not(feature = "tls"))]
#[derive(Debug)]
pub(crate) enum Files {}

/// Not available without the feature `tls`.
#[cfg(not(feature = "tls"))]
pub(crate) enum Tls {}

// === impl Tls ===

#[cfg(not(feature = "tls"))]
impl Tls {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the same signature as with the feature"
    )]
    pub(crate) fn load(files: Files) -> Result<Self, AdminError> {
        match files {}
    }

    pub(super) fn failures(&self) -> &crate::log_limit::LogLimit {
        match *self {}
    }

    #[expect(
        clippy::unused_async,
        reason = "the same signature as with the feature"
    )]
    pub(super) async fn accept(&self, _: Stream) -> std::io::Result<Stream> {
        match *self {}
    }
}

#[cfg(feature = "tls")]
mod enabled {
    use std::{
        fs, io,
        path::{Path, PathBuf},
        sync::{Arc, Mutex, MutexGuard, PoisonError},
        time::Duration,
    };

    use prometheus::IntCounter;
    use tokio_rustls::{
        TlsAcceptor,
        rustls::{
            ServerConfig,
            crypto::ring::default_provider,
            pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        },
    };

    use windlass_informer::log;

    use super::{AdminError, Stream};
    use crate::{blocking_call::BlockingCall, log_limit::LogLimit};

    /// The time between two reads of the files, like controller-runtime's `certwatcher`. A certificate
    /// is renewed long before it expires.
    const MAX_AGE: Duration = Duration::from_secs(10);

    /// PEM files.
    #[derive(Clone, Debug)]
    pub(crate) struct Files {
        pub(crate) certificate: PathBuf,
        pub(crate) key: PathBuf,
    }

    /// How long a handshake waits for the files. It then uses the previous certificate. A kubelet
    /// waits one second for the response to a probe.
    const MAX_WAIT: Duration = Duration::from_millis(100);

    /// The certificate and the key as they were last read.
    pub(crate) struct Tls {
        files: Files,
        acceptor: Arc<Mutex<TlsAcceptor>>,
        reload: BlockingCall<()>,
        failures: LogLimit,
        errors: Option<IntCounter>,
    }

    // === impl Files ===

    impl Files {
        fn load(&self) -> Result<TlsAcceptor, AdminError> {
            let unusable = |file: &Path, source| AdminError::Tls {
                file: file.to_owned(),
                source,
            };
            let text = |file: &Path| fs::read(file).map_err(|source| unusable(file, source));
            let (certificate, key) = (text(&self.certificate)?, text(&self.key)?);
            let chain: Vec<_> = CertificateDer::pem_slice_iter(&certificate)
                .collect::<Result<_, _>>()
                .map_err(|error| unusable(&self.certificate, io::Error::other(error)))?;
            if chain.is_empty() {
                let error = io::Error::other("the file has no certificate");
                return Err(unusable(&self.certificate, error));
            }
            let key = PrivateKeyDer::from_pem_slice(&key)
                .map_err(|error| unusable(&self.key, io::Error::other(error)))?;
            let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|it| it.with_no_client_auth().with_single_cert(chain, key));
            let mut config =
                config.map_err(|error| unusable(&self.certificate, io::Error::other(error)))?;
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Ok(TlsAcceptor::from(Arc::new(config)))
        }
    }

    // === impl Tls ===

    impl Tls {
        /// Reads `files`.
        pub(crate) fn load(files: Files) -> Result<Self, AdminError> {
            let acceptor = Arc::new(Mutex::new(files.load()?));
            Ok(Self {
                files,
                acceptor,
                reload: BlockingCall::new(MAX_AGE),
                failures: LogLimit::default(),
                errors: None,
            })
        }

        /// Counts reads of the files that fail.
        #[cfg(feature = "webhook")]
        pub(crate) fn count_errors(self, errors: IntCounter) -> Self {
            Self {
                errors: Some(errors),
                ..self
            }
        }

        /// The limit of log lines about handshakes that failed.
        pub(in crate::admin) fn failures(&self) -> &LogLimit {
            &self.failures
        }

        /// Runs the TLS handshake on `stream`, with the newest certificate.
        pub(in crate::admin) async fn accept(&self, stream: Stream) -> io::Result<Stream> {
            let stream = self.acceptor().await.accept(stream).await?;
            Ok(Box::pin(stream))
        }

        /// Reloads the files if the last reload is too old. Files can block, such as those of a
        /// network.
        async fn acceptor(&self) -> TlsAcceptor {
            let (files, acceptor) = (self.files.clone(), Arc::clone(&self.acceptor));
            let errors = self.errors.clone();
            let reload = move || match files.load() {
                Ok(newer) => *lock(&acceptor) = newer,
                Err(error) => {
                    errors.iter().for_each(IntCounter::inc);
                    let error = windlass_informer::ErrorChain::new(&error);
                    log::warn!(%error, "cannot reload the TLS files, using the previous ones");
                }
            };
            if self.reload.get(MAX_WAIT, reload).await.is_none() {
                log::debug!("reading the TLS files takes long, using the previous ones");
            }
            lock(&self.acceptor).clone()
        }
    }

    fn lock(acceptor: &Mutex<TlsAcceptor>) -> MutexGuard<'_, TlsAcceptor> {
        acceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
