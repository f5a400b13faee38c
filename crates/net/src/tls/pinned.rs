//! Verifies the other side's key.

use super::Accepts;
use crate::PublicKey;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::fmt;
use std::sync::Arc;

/// Verifies keys with a function.
pub(super) struct Pinned {
    accepts: Accepts,
    algorithms: Arc<CryptoProvider>,
}

/// The error for a key that is not accepted.
const WRONG_KEY: CertificateError = CertificateError::ApplicationVerificationFailure;

/// True if the error is about a key that is not accepted.
pub(super) fn is_wrong_key(error: &Error) -> bool {
    *error == Error::InvalidCertificate(WRONG_KEY)
}

impl Pinned {
    pub(super) fn new(accepts: Accepts, algorithms: &Arc<CryptoProvider>) -> Self {
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
