//! `haul server enroll`: exchanges keys with a host through ssh.

use super::remote::run_on_host;
use super::{Admitted, ServerStatus, default_name, print};
use crate::args::Terms;
use crate::command::deploy;
use crate::deployed;
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::progress::Screen;
use crate::server::is_reachable;
use haul::Host;
use haul::servers::{self, EnrolledServer, Login};
use haul_model::escape_text;
use haul_net::{ConnectError, ServerAddress};
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};

pub(super) fn run(host: &Host, terms: &Terms, yes: bool) -> Result<(), CommandError> {
    let identity = servers::identity()?;
    let name = terms.name.clone().unwrap_or_else(default_name);
    let state = running(host, yes)?;
    let status = state.status.ok_or_else(|| bad_answer(host))?;
    let is_here = state.reached.is_none_or(|ip| ip.to_canonical().is_loopback());
    if !is_reachable(&status.listen) && !is_here {
        let message = format!("the server on {host} listens on that machine only");
        return Err(CommandError::new(ErrorKind::Connection, message).with_hint(format!(
            "set 'listen' in its server.toml, then run 'haul server reload {host}'"
        )));
    }
    let mut words = vec!["admit".to_owned(), "--json".to_owned(), identity.key().to_string()];
    words.extend(Terms { name: Some(name.clone()), ..terms.clone() }.words()?);
    let admitted: Admitted = query(host, &words)?;
    let addresses = addresses(&status.listen, state.reached, host.name());
    let login = Some(Login::of(host));
    let host = host.name().to_owned();
    servers::remember(EnrolledServer { host: host.clone(), addresses, key: admitted.key, login })?;
    let right = if terms.read_only { "read-only " } else { "" };
    let (root, key) = (escape_text(&admitted.root), admitted.key.fingerprint());
    print(format!(
        "enrolled at {host} as {name}, with {right}access to {root}; its key is {key}\n"
    ))?;
    servers::greet(&host, &identity)?;
    print(format!("{host}:PATH goes to the server now, below {root}\n"))
}

/// The state of the host's server, which is running on return. The user is asked before anything is
/// installed or started.
fn running(host: &Host, yes: bool) -> Result<ServerStatus, CommandError> {
    let status_args = ["status", "--json"].map(str::to_owned);
    let first = match run_on_host(host.ssh(), &status_args) {
        Err(error) if is_haul_missing(&error) => {
            confirm(&format!("{host} has no haul. Install it there?"), yes)?;
            let screen = Screen::default();
            let deployed = deploy::install(host, None, &screen)?;
            print(deployed::deployed_line(&host.to_string(), deployed.bytes, deployed.change))?;
            run_on_host(host.ssh(), &status_args)?
        }
        result => result?,
    };
    let state: ServerStatus = parse(host, &first.0)?;
    if state.running {
        return Ok(state);
    }
    let port = crate::server::PORT;
    let listening_on = match state.reached {
        Some(ip) => format!(", listening on {ip}, port {port}"),
        None => String::new(),
    };
    confirm(&format!("No server runs on {host}. Start it{listening_on}?"), yes)?;
    let (output, code) = run_on_host(host.ssh(), &["start", "--reached"].map(str::to_owned))?;
    if code != ExitCode::Success {
        return Err(CommandError::new(ErrorKind::Connection, "the server does not start there"));
    }
    print(format!("{host}: {output}"))?;
    query(host, &status_args)
}

fn is_haul_missing(error: &CommandError) -> bool {
    matches!(error.source.downcast_ref(), Some(ConnectError::HaulMissing { tried: None, .. }))
}

fn query<T: DeserializeOwned>(host: &Host, words: &[String]) -> Result<T, CommandError> {
    match run_on_host(host.ssh(), words)? {
        (answer, ExitCode::Success) => parse(host, &answer),
        (_, code) => {
            let kind = if code == ExitCode::Usage { ErrorKind::Usage } else { ErrorKind::Io };
            let message = format!("the server on {host} refused it");
            Err(CommandError::new(kind, message))
        }
    }
}

fn parse<T: DeserializeOwned>(host: &Host, answer: &str) -> Result<T, CommandError> {
    serde_json::from_str(answer.trim()).map_err(|_| bad_answer(host))
}

fn bad_answer(host: &Host) -> CommandError {
    CommandError::new(ErrorKind::Protocol, format!("the haul on {host} gave an unknown answer"))
        .with_hint(format!("install this version there: 'haul deploy {}'", host.address()))
}

/// Asks the user, unless `yes` is set.
///
/// # Errors
/// If the answer is no, or there is no terminal.
fn confirm(question: &str, yes: bool) -> Result<(), CommandError> {
    let refused = || CommandError::usage("not confirmed: nothing was changed");
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(CommandError::usage(question.to_owned()).with_hint("confirm it with --yes"));
    }
    let _ = write!(io::stderr(), "haul: {question} [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|_| refused())?;
    let answer = answer.trim().to_ascii_lowercase();
    if answer == "y" || answer == "yes" { Ok(()) } else { Err(refused()) }
}

/// The addresses at which this machine reaches a server that listens on `listen`. ssh reaches its
/// host as `host`, and at the address `reached`.
fn addresses(listen: &[SocketAddr], reached: Option<IpAddr>, host: &str) -> Vec<ServerAddress> {
    let mut found = Vec::new();
    let mut add = |address: Option<ServerAddress>| {
        found.extend(address.filter(|address| !found.contains(address)));
    };
    let is_here = reached.is_none_or(|ip| ip.to_canonical().is_loopback());
    for address in listen {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        match ip {
            ip if ip.is_unspecified() => {
                add(reached.map(|ip| SocketAddr::new(ip.to_canonical(), port).into()));
                add(ServerAddress::new(host, port));
            }
            ip if ip.is_loopback() && !is_here => {}
            ip => {
                add(Some(SocketAddr::new(ip, port).into()));
                if !ip.is_loopback() {
                    add(ServerAddress::new(host, port));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_where_ssh_has_reached_it() {
        let of = |texts: &[&str], reached: Option<&str>| {
            let listen: Vec<SocketAddr> =
                texts.iter().map(|text| text.parse().expect("an address")).collect();
            let reached = reached.map(|text| text.parse().expect("an address"));
            let found = addresses(&listen, reached, "nas");
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let both = ["127.0.0.1:7", "192.0.2.7:7"];
        assert_eq!(of(&both, Some("192.0.2.7")), "192.0.2.7:7 nas:7");
        assert_eq!(of(&["0.0.0.0:7"], Some("192.0.2.7")), "192.0.2.7:7 nas:7");
        assert_eq!(of(&["0.0.0.0:7"], None), "nas:7");
        assert_eq!(of(&["127.0.0.1:7", "[::1]:7"], Some("127.0.0.1")), "127.0.0.1:7 [::1]:7");
    }
}
