//! The ssh login that started this process: its streams, and its addresses.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// The addresses of a login.
pub(crate) struct Login {
    pub(crate) client: Option<SocketAddr>,
    /// The address of this machine to which the client connected.
    pub(crate) reached: Option<IpAddr>,
}

/// Parses the four words of `SSH_CONNECTION`; `None` without that variable.
pub(crate) fn login() -> Option<Login> {
    let words = std::env::var("SSH_CONNECTION").ok()?;
    let mut words = words.split(' ');
    let client: Option<IpAddr> = words.next().and_then(|ip| ip.parse().ok());
    let port = words.next().and_then(|port| port.parse().ok()).unwrap_or(0);
    let reached = words.next().and_then(|ip| ip.parse().ok());
    Some(Login { client: client.map(|ip| SocketAddr::new(ip, port)), reached })
}

/// Unbuffered standard input and output, for an agent.
///
/// # Errors
/// Errors of `dup`.
pub(crate) fn streams() -> io::Result<(File, File)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    haul_net::enlarge_pipe(&input);
    haul_net::enlarge_pipe(&output);
    Ok((input, output))
}
