//! TLS settings of all connections: version 1.3 only, raw public keys (RFC 7250) on both sides.
//! Sessions are never resumed, and no data is sent early or in clear.

use crate::cipher::cpu_has_aes;
use crate::{Identity, PublicKey};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ResolvesServerCert;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    ServerConfig, SignatureScheme,
};
use std::sync::Arc;
use std::{fmt, io};

/// Decides whether the other side's key is accepted.
pub(crate) type Accepts = Box<dyn Fn(&PublicKey) -> bool + Send + Sync>;

/// Accepts `key` only.
pub(crate) fn accept_only(key: PublicKey) -> Accepts {
    Box::new(move |cert| *cert == key)
}

/// Why a handshake, or the connection after it, has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsFailure {
    /// This side does not accept the other side's key.
    #[error("its key is a different one")]
    WrongKey,
    /// The other side closed it with an alert.
    #[error("the other side refused it")]
    Refused,
    /// Anything else.
    #[error("the other side sent invalid TLS")]
    Invalid,
}

impl TlsFailure {
    /// The [`TlsFailure`] in `error`, if it has one.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// Converts `error` to haul's own error.
pub(crate) fn tls_error(error: rustls::Error) -> io::Error {
    tracing::debug!(%error, "TLS failed");
    io::Error::other(match error {
        error if is_wrong_key(&error) => TlsFailure::WrongKey,
        rustls::Error::AlertReceived(_) => TlsFailure::Refused,
        _ => TlsFailure::Invalid,
    })
}

/// The configuration of a client with this `identity`.
pub(crate) fn client_config(identity: &Identity, accepts: Accepts) -> io::Result<ClientConfig> {
    let algorithms = algorithms();
    let verifier = Arc::new(Pinned::new(accepts, &algorithms));
    let key = Arc::new(AlwaysResolvesClientRawPublicKeys::new(identity.certified()));
    let mut config = ClientConfig::builder_with_provider(algorithms)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(key);
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// The configuration of a server whose own keys are `keys`.
pub(crate) fn server_config(
    keys: Arc<dyn ResolvesServerCert>,
    accepts: Accepts,
) -> io::Result<ServerConfig> {
    let algorithms = algorithms();
    let verifier = Arc::new(Pinned::new(accepts, &algorithms));
    let mut config = ServerConfig::builder_with_provider(algorithms)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(keys);
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    // If one side has no AES, its order decides.
    config.ignore_client_order = !cpu_has_aes();
    Ok(config)
}

/// The algorithms: AES-GCM first if the processor supports it.
pub(crate) fn algorithms() -> Arc<CryptoProvider> {
    let mut provider = provider::default_provider();
    if !cpu_has_aes() {
        let is_aes = |suite: CipherSuite| suite != CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
        provider.cipher_suites.sort_by_key(|suite| is_aes(suite.suite()));
    }
    Arc::new(provider)
}

#[cfg(test)]
pub(crate) fn verifier_of(key: PublicKey) -> Arc<dyn rustls::client::danger::ServerCertVerifier> {
    Arc::new(Pinned::new(accept_only(key), &algorithms()))
}

/// Verifies keys with a function.
struct Pinned {
    accepts: Accepts,
    algorithms: Arc<CryptoProvider>,
}

/// The error for a key that is not accepted.
const WRONG_KEY: CertificateError = CertificateError::ApplicationVerificationFailure;

/// True if the error is about a key that is not accepted.
fn is_wrong_key(error: &Error) -> bool {
    *error == Error::InvalidCertificate(WRONG_KEY)
}

impl Pinned {
    fn new(accepts: Accepts, algorithms: &Arc<CryptoProvider>) -> Self {
        Self { accepts, algorithms: Arc::clone(algorithms) }
    }

    fn check(&self, cert: &CertificateDer<'_>) -> Result<(), Error> {
        match PublicKey::from_der(cert).is_some_and(|key| (self.accepts)(&key)) {
            true => Ok(()),
            false => Err(Error::InvalidCertificate(WRONG_KEY)),
        }
    }
}

/// Methods that both verifiers share. They take raw keys instead of certificates, and refuse
/// signatures of earlier TLS versions.
macro_rules! raw_keys_of_tls13 {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("only TLS 1.3 is supported".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            let known = &self.algorithms.signature_verification_algorithms;
            verify_tls13_signature_with_raw_key(message, &key, signature, known)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    raw_keys_of_tls13!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    raw_keys_of_tls13!();
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").finish_non_exhaustive()
    }
}
