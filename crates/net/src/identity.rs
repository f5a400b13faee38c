//! Keys: the public key of a peer, and this side's key pair, made for one job or kept in a file.

use data_encoding::BASE64URL_NOPAD;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustix::fs::OFlags;
use rustls::crypto::ring as provider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// The length of a seed and of a public key, in bytes.
const KEY_LEN: usize = 32;

/// The bytes in front of a public Ed25519 key in its structure (RFC 8410, section 4).
const PUBLIC_DER_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// The bytes in front of the seed of a private one (RFC 8410, section 7).
const PRIVATE_DER_PREFIX: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Bytes of a key's SHA-256 in its fingerprint: 96 bits.
const FINGERPRINT_LEN: usize = 12;

/// The beginning of a public key as text. It never looks like an option.
const PUBLIC_TEXT_PREFIX: &str = "ed25519:";

/// The first word of a file that holds a key.
const FILE_MAGIC: &str = "haul-key-1.";

/// Size limit of a key file, in bytes.
const FILE_LEN_MAX: u64 = 128;

/// The permission bits of others than the owner.
const OTHERS: u32 = 0o077;

/// The permission bits that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// The public key of a client or a server. Its text is `ed25519:` and URL-safe base64 without
/// padding, 51 characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; KEY_LEN]);

impl PublicKey {
    /// The key of these bytes.
    pub fn new(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// 16 characters for people to compare.
    pub fn fingerprint(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.0);
        BASE64URL_NOPAD.encode(&hash.as_ref()[..FINGERPRINT_LEN])
    }

    /// The label of a key, as the server name in TLS: the client names the server key that it
    /// expects. A server that has several keys answers with that one.
    pub(crate) fn label(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.0);
        let label = data_encoding::HEXLOWER.encode(&hash.as_ref()[..FINGERPRINT_LEN]);
        // A server name must not be a number (RFC 1123, section 2.1).
        let is_number = label.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { format!("k{label}") } else { label }
    }

    /// The key in its DER structure.
    pub(crate) fn der(&self) -> Vec<u8> {
        [&PUBLIC_DER_PREFIX[..], &self.0].concat()
    }

    /// The key in a DER structure; `None` if that holds no Ed25519 key.
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        let key = der.strip_prefix(&PUBLIC_DER_PREFIX)?;
        key.try_into().ok().map(Self)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_TEXT_PREFIX}{}", BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A text that is no [`PublicKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a public key")]
pub struct InvalidKey;

impl FromStr for PublicKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let encoded = text.strip_prefix(PUBLIC_TEXT_PREFIX).ok_or(InvalidKey)?;
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| InvalidKey)?;
        bytes.try_into().map(Self).map_err(|_| InvalidKey)
    }
}

impl TryFrom<String> for PublicKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

/// This side's key pair.
#[derive(Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    public: PublicKey,
    seed: [u8; KEY_LEN],
}

impl Identity {
    /// A new key pair, for one job.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new() -> io::Result<Self> {
        Self::from_seed(&random_seed()?)
    }

    /// The key pair derived from `seed`.
    ///
    /// # Errors
    /// None that is known.
    pub fn from_seed(seed: &[u8; KEY_LEN]) -> io::Result<Self> {
        let failed = || io::Error::other("can't create a key");
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| failed())?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| failed())?;
        let public = PublicKey::new(public);
        let private = PrivatePkcs8KeyDer::from([&PRIVATE_DER_PREFIX[..], seed].concat());
        let private = provider::sign::any_eddsa_type(&private).map_err(io::Error::other)?;
        let key = Arc::new(CertifiedKey::new(vec![public.der().into()], private));
        Ok(Self { key, public, seed: *seed })
    }

    /// The key pair in the file `path`. The file is created if missing, with mode 0600 in a
    /// directory of mode 0700. If several processes create it, all get the same key.
    ///
    /// # Errors
    /// When others can read or replace the file, when it holds no key, and those of the file
    /// system.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match load(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        create(path, &random_seed()?)?;
        load(path)
    }

    /// The public half, for the other side.
    pub fn public(&self) -> [u8; KEY_LEN] {
        self.public.0
    }

    /// The public half, as a key.
    pub fn key(&self) -> PublicKey {
        self.public
    }

    /// The private half.
    pub(crate) fn seed(&self) -> &[u8; KEY_LEN] {
        &self.seed
    }

    /// The key pair in the form that the TLS handshake takes.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Random bytes to derive a key from.
///
/// # Errors
/// When the system has no random numbers.
pub fn random_seed() -> io::Result<[u8; KEY_LEN]> {
    let mut seed = [0; KEY_LEN];
    let filled = SystemRandom::new().fill(&mut seed);
    filled.map_err(|_| io::Error::other("can't create a key: no random numbers"))?;
    Ok(seed)
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

fn load(path: &Path) -> io::Result<Identity> {
    // Opening a FIFO must not block.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags as i32).open(path)?;
    let found = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    if !found.is_file() {
        return Err(refused("not a regular file"));
    }
    if found.uid() != user {
        return Err(refused("it belongs to another user"));
    }
    if found.mode() & OTHERS != 0 {
        return Err(refused("other users can read it: run 'chmod 600' on it"));
    }
    refuse_writable_dir(path, user)?;
    let mut text = String::new();
    file.take(FILE_LEN_MAX).read_to_string(&mut text)?;
    let seed = text.trim_end().strip_prefix(FILE_MAGIC);
    let seed = seed.and_then(|seed| BASE64URL_NOPAD.decode(seed.as_bytes()).ok());
    let seed = seed.and_then(|seed| <[u8; KEY_LEN]>::try_from(seed).ok());
    let seed = seed.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it holds no key"))?;
    Identity::from_seed(&seed)
}

/// Refuses a directory in which another user could replace the file.
fn refuse_writable_dir(path: &Path, user: u32) -> io::Result<()> {
    let dir = fs::metadata(dir_of(path))?;
    if dir.mode() & OTHERS_WRITE != 0 || ![user, 0].contains(&dir.uid()) {
        return Err(refused("other users can write to its directory: run 'chmod 700' on that"));
    }
    Ok(())
}

fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates the file, unless another process does so first.
fn create(path: &Path, seed: &[u8; KEY_LEN]) -> io::Result<()> {
    let dir = dir_of(path);
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    refuse_writable_dir(path, rustix::process::geteuid().as_raw())?;
    let name = PublicKey::new(random_seed()?).label();
    let staged = dir.join(format!(".{name}.new"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged)?;
    let text = format!("{FILE_MAGIC}{}\n", BASE64URL_NOPAD.encode(seed));
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    // Unlike a rename, a hard link replaces nothing.
    let named = written.and_then(|()| fs::hard_link(&staged, path));
    let removed = fs::remove_file(&staged);
    match named {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        named => named?,
    }
    removed?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").permissions().mode() & 0o777
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
    }

    #[test]
    fn each_label_is_a_valid_server_name() {
        const DIGITS: [u8; KEY_LEN] = [
            252, 247, 105, 171, 214, 3, 249, 150, 211, 118, 151, 91, 139, 200, 37, 103, 91, 46,
            116, 120, 135, 74, 196, 253, 28, 162, 127, 246, 229, 96, 123, 122,
        ];
        let key = Identity::from_seed(&DIGITS).expect("a key").key();
        assert_eq!(key.label(), "k455423190919980422434021");
        for key in [key, Identity::new().expect("a key").key()] {
            rustls::pki_types::ServerName::try_from(key.label()).expect("a name");
        }
    }

    #[test]
    fn a_public_key_round_trips_as_text() {
        let key = Identity::new().expect("a key").key();
        assert_eq!(key.to_string().len(), 51);
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(PublicKey::from_der(&key.der()), Some(key));
        let (cut, bare) = (&key.to_string()[..50], &key.to_string()[8..]);
        for text in ["", "x", cut, bare, &format!("{key}="), &format!("{key}A")] {
            assert_eq!(text.parse::<PublicKey>(), Err(InvalidKey), "{text}");
        }
        assert_eq!(key.fingerprint().len(), 16);
    }

    #[test]
    fn a_key_is_kept_in_a_private_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b/identity");
        let made = Identity::load_or_create(&path).expect("created");
        assert_eq!((mode(&path), mode(path.parent().expect("a directory"))), (0o600, 0o700));
        let again = Identity::load_or_create(&path).expect("read");
        assert_eq!(made.key(), again.key());
        let others = fs::read_dir(path.parent().expect("a directory")).expect("read").count();
        assert_eq!(others, 1, "a temporary file stays");
    }

    #[test]
    fn several_processes_create_the_same_key() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = &dir.path().join("keys/identity");
        let keys: Vec<PublicKey> = thread::scope(|scope| {
            let load = || Identity::load_or_create(path).expect("a key").key();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "{keys:?}");
    }

    #[test]
    fn a_key_file_that_others_can_read_or_replace_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("keys/identity");
        Identity::load_or_create(&path).expect("created");
        for (changed, bad, good) in
            [(&*path, 0o640, 0o600), (path.parent().expect("a directory"), 0o770, 0o700)]
        {
            chmod(changed, bad);
            let error = Identity::load_or_create(&path).expect_err("others are let in");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            chmod(changed, good);
        }
        let link = dir.path().join("link");
        symlink(&path, &link).expect("a link");
        Identity::load_or_create(&link).expect_err("it is a link");
        fs::write(&path, "haul-key-1.secret words\n").expect("written");
        let error = Identity::load_or_create(&path).expect_err("it holds no key");
        assert_eq!(error.to_string(), "it holds no key");
    }
}
