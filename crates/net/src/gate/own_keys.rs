//! The keys of a server. Beside the newest it may have older ones, for clients that know no other.

use crate::Identity;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// Each key with the label that clients ask for it by.
#[derive(Debug)]
pub(super) struct OwnKeys(Vec<(String, Arc<CertifiedKey>)>);

impl OwnKeys {
    /// `own` is sorted newest first. `None` if it is empty.
    pub(super) fn new(own: &[Identity]) -> Option<Self> {
        let keys = own.iter().map(|own| (own.key().label(), own.certified()));
        (!own.is_empty()).then(|| Self(keys.collect()))
    }
}

impl ResolvesServerCert for OwnKeys {
    /// Returns the key that the client asks for, or the newest.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name();
        let asked = asked.and_then(|asked| self.0.iter().find(|(label, _)| label == asked));
        asked.or(self.0.first()).map(|(_, key)| Arc::clone(key))
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}
