//! TLS settings of all connections: version 1.3 only, raw public keys (RFC 7250) on both sides.
//! Sessions are never resumed, and no data is sent early or in clear.

mod pinned;

use self::pinned::Pinned;
use crate::cipher::cpu_has_aes;
use crate::{Identity, PublicKey};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::server::ResolvesServerCert;
use rustls::{CipherSuite, ClientConfig, ServerConfig};
use std::io;
use std::sync::Arc;

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
        error if pinned::is_wrong_key(&error) => TlsFailure::WrongKey,
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
