//! The command line of `haul doctor`.

use super::detail;
use super::remote::{HostResolver, RemoteArgs};
use crate::config::Config;
use crate::error::CommandError;
use crate::report::Detail;
use clap::{Args, ValueHint};
use haul::{Location, Machine, parse_host};
use haul_model::Ports;
use std::ffi::{OsStr, OsString};

/// `haul doctor`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Doctor {
    pub(crate) machine: Machine,
    /// The directory on the host whose disk is measured; `None`: none is.
    pub(crate) path: Option<Vec<u8>>,
    /// The ports that the host may open; `None`: any.
    pub(crate) ports: Option<Ports>,
    pub(crate) detail: Detail,
}

pub(super) const USAGE: &str = "haul doctor [OPTIONS] HOST[:PATH]";

/// The arguments, as clap parses them.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Host and, to measure its disk, a directory there
    #[arg(value_name = "HOST[:PATH]", value_hint = ValueHint::Hostname)]
    host: OsString,

    #[arg(long, value_name = "FIRST-LAST")]
    port_range: Option<Ports>,
    #[command(flatten)]
    remote: RemoteArgs,

    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    pub(super) fn into_doctor(self, config: &Config) -> Result<Doctor, CommandError> {
        let words = as_location(&self.host)?;
        let resolver = HostResolver::new(self.remote.settings(), config);
        let location = resolver.locations(std::slice::from_ref(&words))?.remove(0);
        let path = has_path(&words, &location).then_some(location.path);
        let detail = detail(false, 0, self.json);
        Ok(Doctor { machine: location.machine, path, ports: self.port_range, detail })
    }
}

/// `words` as a location on a host; a bare host name is allowed.
fn as_location(words: &OsStr) -> Result<OsString, CommandError> {
    let mut words = words.to_owned();
    if Location::parse(&words)?.machine == Machine::Local {
        parse_host(&words)?;
        words.push(":");
    }
    Ok(words)
}

/// True if `words` contain a path, not only a host.
fn has_path(words: &OsStr, location: &Location) -> bool {
    let words = words.as_encoded_bytes();
    let is_url = words.windows(3).any(|w| w == b"://");
    location.path != b"." || !(is_url || words.ends_with(b":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<(String, Option<String>), String> {
        let words = as_location(words.as_ref()).map_err(|error| error.to_string())?;
        let location = Location::parse(&words).map_err(|error| error.to_string())?;
        let path = has_path(&words, &location).then(|| location.path.clone());
        let path = path.map(|path| String::from_utf8(path).expect("text"));
        Ok((location.machine.to_string(), path))
    }

    #[test]
    fn a_host_may_have_a_path() {
        let of = |host: &str, path: Option<&str>| Ok((host.to_owned(), path.map(str::to_owned)));
        assert_eq!(read("nas"), of("nas", None));
        assert_eq!(read("ann@nas"), of("ann@nas", None));
        assert_eq!(read("nas:"), of("nas", None));
        assert_eq!(read("nas:."), of("nas", Some(".")));
        assert_eq!(read("nas:/srv/a:"), of("nas", Some("/srv/a:")));
        assert_eq!(read("ssh://nas"), of("nas", None));
        assert_eq!(read("ssh://nas/srv"), of("nas", Some("/srv")));
        assert!(read("/srv").is_err_and(|error| error.contains("not a host: use")));
        assert!(read("").is_err());
    }
}
