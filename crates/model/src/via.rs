//! The connections to an agent for the contents of a job.

use std::fmt;
use std::str::FromStr;

/// The connections for contents. All other messages use ssh or the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Via {
    /// Direct connections as soon as there are any, and ssh until then. The default.
    #[default]
    Auto,
    /// The connection through ssh.
    Ssh,
    /// Direct connections only.
    Tcp,
    /// The connection to the server that the user is enrolled at.
    Server,
    /// The connection to the server, only over TCP.
    ServerTcp,
    /// The connection to the server, only over QUIC.
    ServerQuic,
}

impl Via {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Auto, "auto"),
        (Self::Ssh, "ssh"),
        (Self::Tcp, "tcp"),
        (Self::Server, "server"),
        (Self::ServerTcp, "server-tcp"),
        (Self::ServerQuic, "server-quic"),
    ];

    /// A synonym for [`Self::ServerQuic`]: nothing else uses QUIC.
    const QUIC: &'static str = "quic";

    /// All names in quotes, as a list for a sentence.
    pub fn words(quote: &str) -> String {
        let words = Self::ALL.map(|(_, name)| format!("{quote}{name}{quote}"));
        let [others @ .., last] = &words;
        format!("{} or {last}", others.join(", "))
    }

    /// True if it is a connection to a server.
    pub fn is_server(self) -> bool {
        matches!(self, Self::Server | Self::ServerTcp | Self::ServerQuic)
    }
}

/// A text that names no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not {}", Via::words(""))]
pub struct ViaError;

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(via, _)| via == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Via {
    type Err = ViaError;

    fn from_str(word: &str) -> Result<Self, ViaError> {
        if word == Self::QUIC {
            return Ok(Self::ServerQuic);
        }
        let found = Self::ALL.iter().find(|(_, name)| *name == word);
        found.map(|(via, _)| *via).ok_or(ViaError)
    }
}

/// Number of logins to a host besides the first, for contents through ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logins {
    /// At most this number, as far as they are useful.
    UpTo(u8),
    /// A number that depends on the round trip and the remaining content.
    Chosen,
}

impl Default for Logins {
    fn default() -> Self {
        Self::UpTo(0)
    }
}

/// The ports that may be opened for a job: the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports(pub u16, pub u16);

/// A text that names no ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a port or FIRST-LAST, ports from 1 to 65535")]
pub struct PortsError;

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl FromStr for Ports {
    type Err = PortsError;

    fn from_str(words: &str) -> Result<Self, PortsError> {
        let port = |word: &str| word.parse().ok().filter(|port| *port > 0).ok_or(PortsError);
        let (first, last) = words.split_once('-').unwrap_or((words, words));
        let (first, last) = (port(first)?, port(last)?);
        if first > last {
            return Err(PortsError);
        }
        Ok(Self(first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_ports_in_their_order() {
        let read = |words: &str| words.parse::<Ports>();
        assert_eq!(read("7000"), Ok(Ports(7000, 7000)));
        assert_eq!(read("7000-7009"), Ok(Ports(7000, 7009)));
        for wrong in ["", "0", "7009-7000", "1-65536", "a-b", "1-", "-1", "1-2-3", "+1 "] {
            assert_eq!(read(wrong), Err(PortsError), "{wrong}");
        }
        assert_eq!("tcp".parse(), Ok(Via::Tcp));
        assert_eq!(["server-quic", "quic"].map(str::parse), [Ok(Via::ServerQuic); 2]);
        assert_eq!("udp".parse::<Via>(), Err(ViaError));
        let said = "not auto, ssh, tcp, server, server-tcp or server-quic";
        assert_eq!(ViaError.to_string(), said);
    }

    #[test]
    fn each_way_and_its_ports_are_shown_as_they_are_written() {
        for (via, word) in Via::ALL {
            assert_eq!((via.to_string(), word.parse()), (word.to_owned(), Ok(via)));
            assert_eq!(via.is_server(), word.starts_with("server"), "{word}");
        }
        assert_eq!(Via::words("`").matches('`').count(), 12);
        assert_eq!(Ports(7000, 7009).to_string(), "7000-7009");
        assert_eq!(Logins::default(), Logins::UpTo(0));
    }
}
