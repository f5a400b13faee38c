//! The lines about connections on standard error.

use crate::deployed;
use crate::quantity;
use haul_engine::LinkEvent;

/// The line about `event`. `dest`: the destination, if several jobs run at the same time.
pub(super) fn line(event: LinkEvent<'_>, dest: Option<&str>) -> String {
    let over = |host: &str, connections: u8, one, many| {
        let connections = quantity::counted(connections.into(), one, many);
        format!("haul: contents go to {host} over {connections}")
    };
    match event {
        LinkEvent::Lost { reason, attempt, pause, .. } => {
            let seconds = pause.as_secs();
            format!("haul: {reason}; reconnecting in {seconds} s (attempt {attempt})")
        }
        LinkEvent::Reconnected => match dest {
            Some(dest) => format!("haul: {dest}: reconnected"),
            None => "haul: reconnected".to_owned(),
        },
        LinkEvent::Server { host, is_quic } => {
            let by = if is_quic { "QUIC" } else { "TCP" };
            format!("haul: connected to the server of {host} by {by}")
        }
        LinkEvent::ServerUnavailable { host, reason } => {
            format!("haul: {reason}; using ssh to {host}")
        }
        LinkEvent::Direct { host, connections } => {
            over(host, connections, "direct connection", "direct connections")
        }
        LinkEvent::NotDirect { host, reason } => {
            format!("haul: contents go to {host} without direct connections: {reason}")
        }
        LinkEvent::LoggedIn { host, connections } => {
            over(host, connections, "ssh connection", "ssh connections")
        }
        LinkEvent::Deployed { host, bytes, change } => {
            format!("haul: warning: {host}: {}", deployed::notice(host, bytes, change))
        }
        LinkEvent::NotLoggedIn { host, reason } => {
            format!("haul: no additional ssh connection to {host}: {reason}")
        }
    }
}
