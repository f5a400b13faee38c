//! Lines about the haul that was installed on a host, or removed from it.

use crate::quantity;
use haul::Host;
use haul::deploy::Undeployed;
use haul_engine::Change;
use haul_net::{DEPLOY_DIR, DEPLOYED_NAME};

/// Where a deployed haul is, as a location.
fn location(host: &str) -> String {
    format!("{host}:~/{DEPLOY_DIR}/{DEPLOYED_NAME}")
}

/// The result of a deployment, for people.
pub(crate) fn deployed_line(host: &str, bytes: u64, change: Change) -> String {
    let (location, bytes) = (location(host), quantity::bytes(bytes));
    let version = env!("CARGO_PKG_VERSION");
    match change {
        Change::New => format!("installed haul {version} as {location}, {bytes}\n"),
        Change::Replaced => {
            format!("installed haul {version} as {location}, {bytes}, replacing another\n")
        }
        Change::Nothing => format!("haul {version} is already installed: {location}\n"),
    }
}

/// The same on the way to a job.
pub(crate) fn notice(host: &str, bytes: u64, change: Change) -> String {
    format!("no haul there: {}", deployed_line(host, bytes, change).trim_end())
}

/// The result of a removal, for people.
pub(crate) fn undeployed_line(host: &Host, undeployed: Undeployed) -> String {
    let location = location(&host.to_string());
    let mut line = match undeployed.was_there {
        true => format!("removed {location}"),
        false => format!("nothing to remove: no {location}"),
    };
    if undeployed.dirs_kept {
        line.push_str("; its directory is not empty and stays");
    }
    line + "\n"
}
