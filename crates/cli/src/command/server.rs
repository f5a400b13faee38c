//! `haul server`: runs a server, controls a running one, and changes its clients.

mod enroll;
mod remote;

use crate::args::{self, Command, Server, Terms};
use crate::error::{CommandError, ExitCode};
use crate::report::print_error;
use crate::server::{
    self, Client, INVITATION_SPAN, InvitationRecord, JobStatus, Keys, PORT, Records, Request,
    Right, ServerPaths, Settings, Status, ask, is_reachable, listens_on, slots, timestamp_now,
    unit_files,
};
use crate::sshd;
use crate::stdout::print;
use haul::files::shown;
use haul::servers::{self, EnrolledServer};
use haul_engine::{ROOT, is_root, node_name, user_id};
use haul_model::escape_text;
use haul_net::{Invitation, PublicKey, ServerAddress, is_client_name};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Maximum time for a server to start, and to stop.
const START_MAX: Duration = Duration::from_secs(5);
const STOP_MAX: Duration = Duration::from_secs(15);

/// Interval of the checks until then.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum length of a line of arguments, in bytes.
const WORDS_LEN_MAX: usize = 64 << 10;

pub(super) fn run(server: &Server) -> ExitCode {
    execute(server).unwrap_or_else(|error| print_error(&error))
}

fn execute(server: &Server) -> Result<ExitCode, CommandError> {
    match server {
        Server::Run { listen } => return server::run(listen),
        Server::Start { listen, reached } => start(listen, *reached)?,
        Server::Stop => stop()?,
        Server::Status { json } => return status(*json),
        Server::Reload => reload()?,
        Server::Config { json } => config(*json)?,
        Server::Clients { json } => clients(*json)?,
        Server::Admit { key, terms, json } => admit(*key, terms, *json)?,
        Server::Invite { terms, addresses } => invite(terms, addresses)?,
        Server::Join { invitation, name, host } => join(invitation, name, host)?,
        Server::Enroll { host, terms, yes } => enroll::run(host, terms, *yes)?,
        Server::Revoke { name } => revoke(name)?,
        Server::Rotate => rotate()?,
        Server::Install { user } => install(*user)?,
        Server::OnHost { host, words } => return remote::run(host, words),
        Server::Agent { key } => return Ok(server::serve_through_ssh(*key)),
        Server::Cache(command) => return Ok(super::cache::run(command)),
        Server::Words => return words(),
    }
    Ok(ExitCode::Success)
}

fn print_json(value: &impl Serialize) -> Result<(), CommandError> {
    let line = serde_json::to_string(value).map_err(CommandError::io)?;
    print(format!("{line}\n"))
}

/// The answer of `haul server status --json`.
#[derive(Debug, Serialize, Deserialize)]
struct ServerStatus {
    running: bool,
    /// The address of this machine to which ssh connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reached: Option<IpAddr>,
    /// Jobs of agents that ssh started in place of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    through_ssh: Vec<JobStatus>,
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

/// The address of this machine to which the client's ssh connected, as sshd reports it.
fn reached() -> Option<IpAddr> {
    sshd::login()?.reached
}

fn listening_text(status: &Status) -> String {
    listens_on(&status.listen, &status.quic)
}

fn status(json: bool) -> Result<ExitCode, CommandError> {
    let paths = ServerPaths::find()?;
    let (status, through_ssh) = (ask(&paths, Request::Status)?, slots::jobs_through_ssh(&paths));
    let code = if status.is_some() { ExitCode::Success } else { ExitCode::SomeFailed };
    if json {
        let running = status.is_some();
        print_json(&ServerStatus { running, reached: reached(), through_ssh, status })?;
        return Ok(code);
    }
    let mut text = "no server runs\n".to_owned();
    let mut jobs = Vec::new();
    if let Some(status) = status {
        let listen = listening_text(&status);
        let Status { pid, version, key, clients, .. } = status;
        let key = key.fingerprint();
        jobs = status.jobs;
        text = format!(
            "haul {version}, process {pid}\nlistening on {listen}\nkey {key}, {clients} clients, {} jobs\n",
            jobs.len()
        );
    }
    for (jobs, way) in [(jobs, ""), (through_ssh, ", through ssh")] {
        for JobStatus { client, from, pid, seconds } in jobs {
            let name = escape_text(&client);
            text.push_str(&format!("  {name} from {from}, process {pid}, {seconds} s{way}\n"));
        }
    }
    print(&text)?;
    Ok(code)
}

fn no_server() -> CommandError {
    CommandError::io("no server runs").with_hint("start it: 'haul server start'")
}

fn reload() -> Result<(), CommandError> {
    match ask(&ServerPaths::find()?, Request::Reload)? {
        None => Err(no_server()),
        Some(Status { error: Some(error), .. }) => Err(CommandError::usage(error)),
        Some(status) => print(format!("listening on {}\n", listening_text(&status))),
    }
}

/// Makes the running server, if there is one, reload its records.
fn notify(paths: &ServerPaths) -> Result<(), CommandError> {
    match ask(paths, Request::Reload)? {
        Some(Status { error: Some(error), .. }) => {
            let message = format!("the change is written, but the running server reports: {error}");
            Err(CommandError::io(message).with_hint("correct that, then run 'haul server reload'"))
        }
        _ => Ok(()),
    }
}

fn stop() -> Result<(), CommandError> {
    let paths = ServerPaths::find()?;
    let Some(status) = ask(&paths, Request::Stop)? else { return Err(no_server()) };
    let begin = Instant::now();
    while server::is_running(&paths)? {
        if begin.elapsed() > STOP_MAX {
            return Err(CommandError::io("the server does not stop"));
        }
        thread::sleep(POLL_INTERVAL);
    }
    print(format!("stopped process {}, which had {} jobs\n", status.pid, status.jobs.len()))
}

fn start(listen: &[String], reaches: bool) -> Result<(), CommandError> {
    let paths = ServerPaths::find()?;
    paths.make()?;
    if let Some(status) = ask(&paths, Request::Status)? {
        return print(format!("process {} runs already\n", status.pid));
    }
    let mut listen = listen.to_vec();
    if let Some(ip) = reached().filter(|_| reaches && listen.is_empty()) {
        let settings = Settings::load(&paths, &[])?;
        let listening_text = |at: &SocketAddr| at.ip().is_unspecified() || at.ip() == ip;
        if !settings.addresses()?.iter().any(listening_text) {
            listen = settings.listen;
            listen.push(ip.to_string());
        }
    }
    // Invalid settings are reported here, not in the server's log.
    Settings::load(&paths, &listen)?;
    let path = paths.log_path();
    let mut open = OpenOptions::new();
    let log = open.append(true).create(true).mode(0o600).open(&path).map_err(CommandError::io)?;
    let mut command =
        std::process::Command::new(std::env::current_exe().map_err(CommandError::io)?);
    command.args(["server", "run"]).args(listen.iter().map(|it| format!("--listen={it}")));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
    haul_engine::close_descriptors_on_exec().map_err(CommandError::io)?;
    let mut child = command.current_dir("/").spawn().map_err(CommandError::io)?;
    let begin = Instant::now();
    loop {
        if let Some(status) = ask(&paths, Request::Status)? {
            let listen = listening_text(&status);
            return print(format!("started process {}, listening on {listen}\n", status.pid));
        }
        let has_ended = child.try_wait().map_err(CommandError::io)?.is_some();
        if has_ended || begin.elapsed() > START_MAX {
            let path = shown(&path);
            return Err(CommandError::io("the server does not start")
                .with_hint(format!("its messages are at the end of {path}")));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn config(json: bool) -> Result<(), CommandError> {
    let paths = ServerPaths::find()?;
    let settings = Settings::load(&paths, &[])?;
    if json {
        return print_json(&settings);
    }
    let text = toml::to_string(&settings).map_err(CommandError::io)?;
    let path = shown(paths.config());
    let missing = if paths.config().exists() { "" } else { " (there is none)" };
    print(format!("# file: {path}{missing}\n{text}"))
}

fn clients(json: bool) -> Result<(), CommandError> {
    let records = Records::load(&ServerPaths::find()?)?;
    if json {
        return records.clients.iter().try_for_each(print_json);
    }
    let width = records.clients.iter().map(|client| client.name.len()).max().unwrap_or_default();
    for client in &records.clients {
        let root = shown(&client.root);
        let user = client.user.as_deref().map(|user| format!(" as {user}")).unwrap_or_default();
        let (name, key) = (escape_text(&client.name), client.key.fingerprint());
        let right = client.right.word();
        print(format!("{name:width$}  {right:5}  {root}{}  {key}\n", escape_text(&user)))?;
    }
    Ok(())
}

/// The root, right and user of a client, from `terms`.
///
/// # Errors
/// If the root is not a usable directory. Also if the server's keys are in it, unless the client is
/// `trusted` with them: a user who has logged in, and may write.
fn validate_terms(
    terms: &Terms,
    paths: &ServerPaths,
    trusted: bool,
) -> Result<(PathBuf, Right, Option<String>), CommandError> {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let root = terms.root.clone().or_else(home).filter(|root| root.is_absolute());
    let root = root.ok_or_else(|| CommandError::usage("--root: not an absolute path"))?;
    let shown = shown(&root);
    let found = fs::canonicalize(&root)
        .map_err(|error| CommandError::usage(format!("--root: {shown}: {error}")))?;
    if !found.is_dir() {
        return Err(CommandError::usage(format!("--root: {shown}: not a directory")));
    }
    if found.to_str().is_none() {
        return Err(CommandError::usage("--root: not UTF-8"));
    }
    if is_root() && terms.run_as.is_none() {
        return Err(CommandError::usage("a server of root needs a user for each client")
            .with_hint("name the user whose rights the client gets: --run-as USER"));
    }
    let number = terms.run_as.as_deref().map(user_id).transpose().map_err(CommandError::io)?;
    if let (Some(user), Some(None)) = (&terms.run_as, number) {
        let user = escape_text(user);
        return Err(CommandError::usage(format!("--run-as: there is no user '{user}'")));
    }
    if terms.run_as.is_some() && !is_root() {
        return Err(CommandError::usage("--run-as: only a server of root has users"));
    }
    let keys = paths.keys();
    let own = [keys.parent(), Some(&*keys)].into_iter().flatten();
    let mut own = own.filter_map(|dir| fs::canonicalize(dir).ok());
    let has_keys = own.any(|dir| contains(&found, &dir) || found.starts_with(&dir));
    let is_same_user = !is_root() || number == Some(Some(ROOT));
    if has_keys && is_same_user && !trusted {
        let message = format!("--root: {shown}: the keys of the server are in it");
        return Err(CommandError::usage(message).with_hint("choose a directory without them"));
    }
    Ok((found, Right::of(terms.read_only), terms.run_as.clone()))
}

/// True if `root` is `dir` or an ancestor of it. Inode numbers are compared, since a bind mount is
/// another path of the same directory.
fn contains(root: &Path, dir: &Path) -> bool {
    let id = |dir: &Path| fs::metadata(dir).ok().map(|found| (found.dev(), found.ino()));
    let root = id(root);
    root.is_some() && dir.ancestors().any(|above| id(above) == root)
}

/// The answer of `haul server admit --json`.
#[derive(Debug, Serialize, Deserialize)]
struct Admitted {
    /// The server's key.
    key: PublicKey,
    /// The client's root.
    root: String,
}

fn admit(key: PublicKey, terms: &Terms, json: bool) -> Result<(), CommandError> {
    let paths = ServerPaths::find()?;
    paths.make()?;
    let (root, right, user) = validate_terms(terms, &paths, !terms.read_only)?;
    let name = terms.name.clone();
    let name = name.ok_or_else(|| CommandError::usage("the client needs a name: --name NAME"))?;
    let server = Keys::load(&paths)?.newest();
    let admitted = Admitted { key: server, root: root.to_string_lossy().into_owned() };
    let (added, server_key) = (Some(timestamp_now()), Some(server));
    let client = Client { name: name.clone(), key, root, right, user, added, server_key };
    Records::change(&paths, |records| records.add(client))?;
    notify(&paths)?;
    match json {
        true => print_json(&admitted)?,
        false => print(format!("enrolled {name}; the server's key is {server}\n"))?,
    }
    server::cache::remove_unused(&paths)
}

fn revoke(name: &str) -> Result<(), CommandError> {
    let paths = ServerPaths::find()?;
    let shown = escape_text(name);
    Records::change(&paths, |records| {
        match records.clients.extract_if(.., |client| client.name == name).count() {
            0 => Err(CommandError::usage(format!("no client is named '{shown}'"))
                .with_hint("'haul server clients' lists them")),
            _ => Ok(()),
        }
    })?;
    let notified = notify(&paths);
    let removed = server::cache::remove_unused(&paths).and_then(|()| slots::remove_unused(&paths));
    notified.and(removed)?;
    print(format!("revoked {shown}\n"))
}

fn rotate() -> Result<(), CommandError> {
    let paths = ServerPaths::find()?;
    paths.make()?;
    let keys = Keys::rotate(&paths)?;
    notify(&paths)?;
    print(format!(
        "the new key is {}; the old one stays until every client knows the new one\n",
        keys.newest().fingerprint()
    ))
}

fn invite(terms: &Terms, given: &[String]) -> Result<(), CommandError> {
    let paths = ServerPaths::find()?;
    paths.make()?;
    let (root, right, user) = validate_terms(terms, &paths, false)?;
    let listen = match ask(&paths, Request::Status)? {
        Some(status) => status.listen,
        None => return Err(no_server()),
    };
    let port = listen.first().map_or(PORT, SocketAddr::port);
    let addresses: Vec<ServerAddress> = match given {
        [] => addresses(&listen, &String::from_utf8_lossy(&node_name())),
        given => {
            let parse = |text: &String| {
                let is_host = !text.contains(':') || text.parse::<Ipv6Addr>().is_ok();
                let address = match is_host {
                    true => ServerAddress::new(text, port),
                    false => text.parse().ok(),
                };
                address.ok_or_else(|| CommandError::usage("--address: write HOST or HOST:PORT"))
            };
            given.iter().map(parse).collect::<Result<_, _>>()?
        }
    };
    if !is_reachable(&listen) {
        let _ = writeln!(
            io::stderr(),
            "haul: the server listens on this machine only: set 'listen' in server.toml for others"
        );
    }
    let server = Keys::load(&paths)?.newest();
    let invitation =
        Invitation::new(addresses, server, INVITATION_SPAN).map_err(CommandError::io)?;
    let expires = invitation.expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let key = invitation.identity().map_err(CommandError::io)?.key();
    let invited = InvitationRecord { key, name: terms.name.clone(), root, right, user, expires };
    Records::change(&paths, |records| records.invite(invited))?;
    let notified = notify(&paths);
    print(format!("{invitation}\n"))?;
    notified
}

/// The addresses at which clients reach a server that listens on `listen`; `host` is this machine's
/// name.
fn addresses(listen: &[SocketAddr], host: &str) -> Vec<ServerAddress> {
    let mut found = Vec::new();
    let reachable = is_reachable(listen);
    for address in listen {
        let ip = address.ip().to_canonical();
        if reachable && ip.is_loopback() {
            continue;
        }
        let reachable_address = match ip.is_unspecified() {
            true => ServerAddress::new(host, address.port()),
            false => Some(SocketAddr::new(ip, address.port()).into()),
        };
        found.extend(
            reachable_address.filter(|reachable_address| !found.contains(reachable_address)),
        );
    }
    found
}

/// The default name of this user as a client.
fn default_name() -> String {
    let user = std::env::var("USER").unwrap_or_else(|_| "client".to_owned());
    let name = format!("{user}@{}", String::from_utf8_lossy(&node_name()));
    if is_client_name(&name) { name } else { "client".to_owned() }
}

fn join(
    invitation: &Invitation,
    name: &Option<String>,
    host: &Option<String>,
) -> Result<(), CommandError> {
    let name = name.clone().unwrap_or_else(default_name);
    let first = invitation.addresses.first().map(|address| address.host().to_owned());
    let is_chosen = host.is_some();
    let host = host.clone().or(first).unwrap_or_default();
    let known = servers::find(&host)?.filter(|known| known.key != invitation.server);
    if known.is_some() && !is_chosen {
        let host = escape_text(&host);
        let message = format!("{host} is known as a server with another key");
        return Err(CommandError::usage(message).with_hint(format!(
            "choose another name with --host; '--host {host}' replaces the one that is known"
        )));
    }
    let identity = servers::identity()?;
    server::join(invitation, &identity, &name)?;
    let (addresses, key) = (invitation.addresses.clone(), invitation.server);
    servers::remember(EnrolledServer { host: host.clone(), addresses, key, login: None })?;
    servers::greet(&host, &identity)?;
    print(format!("enrolled at {host}: {host}:PATH goes to its server\n"))
}

/// Runs the command whose arguments are a line on standard input. The caller has logged in by ssh
/// and may run any command, so this checks only that it is a command of `haul server`.
fn words() -> Result<ExitCode, CommandError> {
    // Reads single bytes: the input after the line belongs to the command.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(CommandError::io)?);
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < WORDS_LEN_MAX && input.read(&mut byte).map_err(CommandError::io)? == 1 {
        if byte == *b"\n" {
            break;
        }
        line.extend(byte);
    }
    let words: Vec<String> =
        serde_json::from_slice(&line).map_err(|_| CommandError::usage("not a line of words"))?;
    match args::server_command(&words)? {
        Command::Server(
            Server::Run { .. } | Server::OnHost { .. } | Server::Enroll { .. } | Server::Words,
        ) => Err(CommandError::usage("not a command for another machine")),
        Command::Server(server) => execute(&server),
        _ => Err(CommandError::usage("not a command of 'haul server'")),
    }
}

/// A directory that exists if systemd runs the system.
const SYSTEMD: &str = "/run/systemd/system";

/// The directory of system units.
const SYSTEM_UNITS: &str = "/etc/systemd/system";

/// The variables that determine the paths of the server's files.
const VARIABLES: [&str; 3] = ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];

fn install(user: bool) -> Result<(), CommandError> {
    let program = std::env::current_exe().map_err(CommandError::io)?;
    let set = |name: &'static str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute()).map(|path| (name, path))
    };
    let variables: Vec<_> = VARIABLES.into_iter().filter_map(set).collect();
    if variables.first().is_none_or(|(name, _)| *name != "HOME") {
        return Err(CommandError::usage("HOME is not an absolute path"));
    }
    if !Path::new(SYSTEMD).exists() {
        let words = variables.iter().map(|(name, path)| format!("{name}={} ", quoted(path)));
        return print(format!(
            "this machine does not run systemd: have it run, as this user, when it starts:\n\
             env {}{} server run\n",
            words.collect::<String>(),
            quoted(&program)
        ));
    }
    if !user && !is_root() {
        return Err(CommandError::usage("a service of the system is installed by root")
            .with_hint("add --user for a service of this user"));
    }
    let settings = Settings::load(&ServerPaths::find()?, &[])?;
    let listen: Vec<String> = settings.addresses()?.iter().map(SocketAddr::to_string).collect();
    let dir = match user {
        true => haul::state::base("XDG_CONFIG_HOME", ".config")
            .ok_or_else(|| CommandError::usage("HOME is not an absolute path"))?
            .join("systemd/user"),
        false => PathBuf::from(SYSTEM_UNITS),
    };
    fs::create_dir_all(&dir).map_err(CommandError::io)?;
    for unit in unit_files(&program, &variables, &listen, settings.quic, user) {
        let path = dir.join(unit.name);
        let written = fs::write(&path, unit.text);
        written.map_err(|error| CommandError::io(format!("{}: {error}", path.display())))?;
        print(format!("wrote {}\n", path.display()))?;
    }
    let systemctl = if user { "systemctl --user" } else { "systemctl" };
    let linger = if user { "; 'loginctl enable-linger' keeps it after logout" } else { "" };
    print(format!(
        "start it: {systemctl} daemon-reload && {systemctl} enable --now haul.socket haul.service{linger}\n"
    ))
}

/// Quotes `path` for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_contains_another_one_by_any_path() {
        let temp = tempfile::tempdir().expect("a directory");
        let at = |path: &str| temp.path().join(path);
        fs::create_dir_all(at("a/b/c")).expect("made");
        fs::create_dir(at("d")).expect("made");
        // Like a bind mount, it is another path of the same directory.
        std::os::unix::fs::symlink("a", at("other")).expect("a link");
        for (root, is_it) in [("a", true), ("other", true), ("a/b/c", true), ("d", false)] {
            assert_eq!(contains(&at(root), &at("a/b/c")), is_it, "{root}");
        }
        assert!(!contains(&at("missing"), &at("missing/too")));
    }

    #[test]
    fn a_server_is_called_where_others_reach_it() {
        let of = |texts: &[&str]| {
            let listen: Vec<SocketAddr> =
                texts.iter().map(|text| text.parse().expect("an address")).collect();
            let found: Vec<_> = addresses(&listen, "nas").iter().map(ToString::to_string).collect();
            found.join(" ")
        };
        assert_eq!(of(&["127.0.0.1:1", "[::1]:1"]), "127.0.0.1:1 [::1]:1");
        assert_eq!(of(&["127.0.0.1:1", "192.0.2.7:2"]), "192.0.2.7:2");
        assert_eq!(of(&["0.0.0.0:1", "[::]:1"]), "nas:1");
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/opt/haul-1.0/haul")), "/opt/haul-1.0/haul");
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
