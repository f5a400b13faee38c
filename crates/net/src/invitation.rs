//! The invitation of a client: the server's addresses, its key, and a secret that can be used once.
//! Its holder can only enrol a key of its own.

use crate::{Identity, PublicKey, ServerAddress, random_seed};
use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The beginning of the line.
const PREFIX: &str = "haul-invitation-1.";

/// The longest invitation, in bytes.
const TEXT_LEN_MAX: usize = 2048;

/// Most addresses in an invitation.
const ADDRESSES_MAX: usize = 8;

/// An invitation. Its holder can enrol: keep it as secret as a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// The addresses that the server listens on.
    pub addresses: Vec<ServerAddress>,
    /// The server's key.
    pub server: PublicKey,
    /// The time of expiry.
    pub expires: SystemTime,
    /// The seed of a key that the server accepts once.
    seed: [u8; 32],
}

/// A text that is no invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an invitation of 'haul server invite'")]
pub struct InvalidInvitation;

/// The encoded fields.
#[derive(Serialize, Deserialize)]
struct EncodedFields {
    addresses: Vec<(String, u16)>,
    server: [u8; 32],
    expires: u64,
    seed: [u8; 32],
}

impl Invitation {
    /// An invitation to the server with the key `server`, valid for `span`.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(
        mut addresses: Vec<ServerAddress>,
        server: PublicKey,
        span: Duration,
    ) -> io::Result<Self> {
        addresses.truncate(ADDRESSES_MAX);
        // Rounded to whole seconds, like the encoded form.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let expires = UNIX_EPOCH + Duration::from_secs((now + span).as_secs());
        Ok(Self { addresses, server, expires, seed: random_seed()? })
    }

    /// The guest's key pair, for the enrolment alone.
    ///
    /// # Errors
    /// None that is known.
    pub fn identity(&self) -> io::Result<Identity> {
        Identity::from_seed(&self.seed)
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.expires.duration_since(UNIX_EPOCH).unwrap_or_default();
        let addresses = self.addresses.iter();
        let parts = EncodedFields {
            addresses: addresses.map(|it| (it.host().to_owned(), it.port())).collect(),
            server: *self.server.as_bytes(),
            expires: since.as_secs(),
            seed: self.seed,
        };
        let bytes = postcard::to_stdvec(&parts).map_err(|_| fmt::Error)?;
        write!(f, "{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invitation").field("server", &self.server).finish_non_exhaustive()
    }
}

impl FromStr for Invitation {
    type Err = InvalidInvitation;

    fn from_str(text: &str) -> Result<Self, InvalidInvitation> {
        let text = text.trim();
        let encoded = text.strip_prefix(PREFIX).filter(|_| text.len() <= TEXT_LEN_MAX);
        let encoded = encoded.ok_or(InvalidInvitation)?;
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| InvalidInvitation)?;
        let (parts, rest) = postcard::take_from_bytes(&bytes).map_err(|_| InvalidInvitation)?;
        let EncodedFields { addresses, server, expires, seed } = parts;
        if !rest.is_empty() || addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
            return Err(InvalidInvitation);
        }
        let address = |(host, port): &(String, u16)| ServerAddress::new(host, *port);
        let addresses: Option<Vec<_>> = addresses.iter().map(address).collect();
        let expires =
            UNIX_EPOCH.checked_add(Duration::from_secs(expires)).ok_or(InvalidInvitation)?;
        let server = PublicKey::new(server);
        Ok(Self { addresses: addresses.ok_or(InvalidInvitation)?, server, expires, seed })
    }
}

/// The longest name of a client, in bytes.
const NAME_LEN_MAX: usize = 64;

/// The answer to an invitation: the key to enrol, and a proposed name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    key: PublicKey,
    name: String,
}

impl Enrolment {
    /// Makes an enrolment. `None` if `name` is not a valid client name.
    pub fn new(key: PublicKey, name: &str) -> Option<Self> {
        is_client_name(name).then(|| Self { key, name: name.to_owned() })
    }

    /// The key.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// The name that the guest proposes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Encodes the key, the length of the name, and the name.
    pub fn encode(&self) -> Vec<u8> {
        let len = u8::try_from(self.name.len()).expect("a client's name has a short bound");
        [self.key.as_bytes(), &[len][..], self.name.as_bytes()].concat()
    }

    /// Reads an enrolment.
    ///
    /// # Errors
    /// Errors of reading; [`io::ErrorKind::InvalidData`] for an invalid name.
    pub fn read(mut input: impl Read) -> io::Result<Self> {
        let (mut key, mut len) = ([0; 32], [0]);
        input.read_exact(&mut key)?;
        input.read_exact(&mut len)?;
        let mut name = vec![0; usize::from(len[0])];
        input.read_exact(&mut name)?;
        let name = String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData)?;
        let read = Self::new(PublicKey::new(key), &name);
        read.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// True if `name` is a valid client name: letters, digits, `.`, `-`, `_` and `@`, starting with a
/// letter or a digit.
pub fn is_client_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_@".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    begins && name.len() <= NAME_LEN_MAX && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation() -> Invitation {
        let server = Identity::new().expect("a key").key();
        let addresses = ["nas:28790", "[2001:db8::1]:7"].map(|it| it.parse().expect("an address"));
        Invitation::new(addresses.into(), server, Duration::from_secs(600)).expect("made")
    }

    #[test]
    fn an_invitation_round_trips_as_text() {
        let made = invitation();
        let text = made.to_string();
        assert!(text.starts_with("haul-invitation-1.") && text.len() < 300, "{text}");
        assert_eq!(format!(" {text}\n").parse(), Ok(made.clone()));
        let key = |it: &Invitation| it.identity().expect("a key").key();
        assert_eq!(key(&made), key(&text.parse().expect("an invitation")));
        assert!(!format!("{made:?}").contains("seed"));
    }

    #[test]
    fn an_invalid_invitation_is_refused() {
        let text = invitation().to_string();
        for cut in 0..text.len() {
            assert!(text[..cut].parse::<Invitation>().is_err(), "{cut}");
        }
        assert!(format!("{text}AAAA").parse::<Invitation>().is_err());
        assert!(format!("{text}{}", "A".repeat(4096)).parse::<Invitation>().is_err());
        let nowhere = Invitation { addresses: Vec::new(), ..invitation() };
        assert!(nowhere.to_string().parse::<Invitation>().is_err());
    }

    #[test]
    fn an_enrolment_round_trips() {
        let key = Identity::new().expect("a key").key();
        let made = Enrolment::new(key, "ann@laptop-1").expect("a name");
        assert_eq!(Enrolment::read(&made.encode()[..]).expect("read"), made);
        let long = "x".repeat(65);
        for name in ["", "-x", ".x", "a b", "a/b", "a\x1b", "\u{e9}", &long] {
            assert_eq!(Enrolment::new(key, name), None, "{name}");
            let len = u8::try_from(name.len()).expect("a short name");
            let said = [key.as_bytes(), &[len][..], name.as_bytes()].concat();
            assert!(Enrolment::read(&said[..]).is_err(), "{name}");
        }
        assert!(Enrolment::read(&made.encode()[..40]).is_err());
    }
}
