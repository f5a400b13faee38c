//! Starts ssh, or the program in its place, with `haul serve` or a subsystem of the server as the
//! remote command.

use crate::cipher;
use crate::connection::{Closer, Connection, FirstByteReader, Kept, Ssh, Writer};
use crate::diagnosis::Peer;
use crate::error::shown;
use crate::interrupt::{Interrupt, Interruptible};
use crate::kept::{Keep, Keeper, duplicate, name_of};
use crate::pipe::{enlarge_pipe, stdout_pair};
use crate::process::{Process, status_of};
use crate::remote_command::{Service, remote_command};
use crate::stderr::{Diagnostics, StderrReader};
use crate::{ConnectError, ExtraLogins, SshTarget};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Options for ssh that override its configuration, much as scp's.
///
/// - `-x -T`: neither X11 nor a terminal, which would change bytes. `-T` is also what
///   `RequestTTY=no` says.
/// - `ForwardAgent=no`, `ClearAllForwardings=yes`: the peer gets no keys and no tunnels, and a
///   forwarded port that is in use is no error.
/// - `PermitLocalCommand=no`, `RemoteCommand=none`: no command but ours. The latter needs a client
///   of OpenSSH 7.6 (2017) or later.
/// - `ControlMaster=no`: ssh uses an existing shared connection but creates none. A new one would
///   outlive haul and hold our streams open.
///
/// The server may be of any version.
const SSH_OPTIONS: [&str; 7] = [
    "-x",
    "-T",
    "-oForwardAgent=no",
    "-oPermitLocalCommand=no",
    "-oClearAllForwardings=yes",
    "-oRemoteCommand=none",
    "-oControlMaster=no",
];

/// Options that clients before OpenSSH 8.7 (2021) reject. Such clients don't have the settings
/// either.
///
/// - `StdinNull=no`, `ForkAfterAuthentication=no`: our streams lead to the remote program, and the
///   process that we start is the one that carries them.
const SESSION_OPTIONS: [&str; 2] = ["-oStdinNull=no", "-oForkAfterAuthentication=no"];

/// Added to [`SESSION_OPTIONS`] for a command, which has a session. A subsystem has `-s` instead,
/// which excludes this option.
const COMMAND_OPTION: &str = "-oSessionType=default";

/// Options of an additional connection, placed before all others.
///
/// - `BatchMode=yes`: ssh does not ask the user for a password.
/// - `ControlPath=none`: a shared connection has one cipher stream, and one window.
const EXTRA_LOGIN_OPTIONS: [&str; 2] = ["-oBatchMode=yes", "-oControlPath=none"];

/// Options of a connection that may only use ssh's existing shared one: ssh asks for no password
/// and tries no other way.
const SHARED_OPTIONS: [&str; 2] = ["-oBatchMode=yes", "-oProxyCommand=false"];

/// Starts ssh to `target` with `service`, and returns at once, before the login. The caller reads
/// the peer's greeting if the login works, else the end of the file. [`Closer::explain`] then
/// returns the cause.
///
/// Standard error of ssh and of the remote command goes to `diagnostics`. ssh asks for passwords
/// and about host keys on the terminal itself. For that it stays in haul's process group, so Ctrl-C
/// reaches both, and the connection ends.
///
/// # Errors
/// [`ConnectError::Start`] when the program can't be started, and
/// [`ConnectError::RemoteShell`] when it is not ssh, and a port or the SFTP server is asked for.
pub fn connect(
    target: &SshTarget,
    service: Service,
    diagnostics: Diagnostics,
) -> Result<Connection, ConnectError> {
    start(target, service, Login::New, diagnostics)
}

/// Like [`connect`] with [`Service::BriefAgent`], or [`Service::Sftp`] if `sftp`, over the user's
/// shared connection (`ControlMaster`). `None` if there is none. ssh shows nothing.
pub fn connect_over_shared(target: &SshTarget, sftp: bool) -> Option<Connection> {
    let shell = target.shell();
    let service = if sftp { Service::Sftp } else { Service::BriefAgent };
    let arguments = leading_arguments(target, service).ok().filter(|_| shell.is_ssh())?;
    let mut check = Command::new(&shell.program);
    check.args(SHARED_OPTIONS).args(arguments).args(["-O", "check", "--", target.host()]);
    check.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let stands = status_of(&mut check).is_some_and(|status| status.success());
    let silent: Diagnostics = Arc::new(|_: &[u8]| {});
    stands.then(|| start(target, service, Login::Shared, silent).ok())?
}

impl ExtraLogins {
    /// Like [`connect`], as a connection of its own, never over one that ssh shares. ssh asks the
    /// user nothing and shows nothing.
    ///
    /// # Errors
    /// See [`connect`].
    pub fn connect(&self) -> Result<Connection, ConnectError> {
        let silent: Diagnostics = Arc::new(|_: &[u8]| {});
        start(&self.0, Service::Agent, Login::Extra, silent)
    }
}

/// The name or address of `target` that ssh looks up. `None` if ssh does not report it.
pub(crate) fn host_name(target: &SshTarget) -> Option<String> {
    let shell = target.shell();
    if !shell.is_ssh() {
        return Some(target.host().to_owned());
    }
    let arguments = leading_arguments(target, Service::Agent).ok()?;
    let ask = || cipher::query_settings(shell, &arguments, target.host());
    let known = target.ciphers().get_or_init(ask).host.clone();
    known.or_else(|| cipher::query_host_name(shell, &arguments, target.host()))
}

/// How a connection logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Login {
    /// As the user's settings say.
    New,
    /// As an additional connection.
    Extra,
    /// Over an existing shared connection only.
    Shared,
}

/// All arguments of the program that connects.
fn arguments(
    target: &SshTarget,
    service: Service,
    login: Login,
) -> Result<Vec<String>, ConnectError> {
    let shell = target.shell();
    let mut arguments = leading_arguments(target, service)?;
    // ssh uses the first value of an option.
    let first = match login {
        Login::Extra if shell.is_ssh() => &EXTRA_LOGIN_OPTIONS[..],
        Login::Shared => &SHARED_OPTIONS,
        _ => &[],
    };
    arguments.splice(0..0, first.iter().map(|&option| option.to_owned()));
    let has_content = matches!(service, Service::Agent | Service::Sftp) && login != Login::Shared;
    let settings = match (shell.is_ssh(), has_content) {
        (true, false) => cipher::Settings::for_client(target.supports_session_options()),
        (true, true) => {
            let ask = || cipher::query_settings(shell, &arguments, target.host());
            target.ciphers().get_or_init(ask).clone()
        }
        (false, _) => cipher::Settings::default(),
    };
    arguments.extend(trailing_arguments(target, service, &settings));
    Ok(arguments)
}

fn start(
    target: &SshTarget,
    service: Service,
    login: Login,
    diagnostics: Diagnostics,
) -> Result<Connection, ConnectError> {
    let shell = target.shell();
    let arguments = arguments(target, service, login)?;
    tracing::debug!(program = %shell.program, ?arguments, "starting the remote shell");

    let start_error = |cause| ConnectError::Start {
        host: target.display(),
        program: shown(shell.program.as_bytes()),
        cause,
    };
    // An additional connection must never delay the end, even if a wrapper of ssh leaves processes
    // behind.
    let is_interruptible = !shell.is_ssh() || login == Login::Extra;
    let interrupt = is_interruptible.then(Interrupt::new).transpose().map_err(start_error)?;
    let (stdout, theirs) = stdout_pair(shell.is_ssh()).map_err(start_error)?;
    let mut child = Command::new(&shell.program)
        .args(&arguments)
        .stdin(Stdio::piped())
        .stdout(theirs)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start_error)?;
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let process = Arc::new(Process::new(child));
    let stdin = stdin.expect("standard input was asked to be a pipe");
    let stderr = stderr.expect("standard error was asked to be a pipe");
    // Other remote commands get no further login, and their connections are not kept.
    let is_agent = matches!(service, Service::Agent | Service::BriefAgent);
    let kept = match login {
        Login::New if is_agent => {
            kept(target, [stdout.as_fd(), stdin.as_fd(), stderr.as_fd()], &diagnostics)
        }
        _ => None,
    };

    enlarge_pipe(&stdin);
    let stderr = StderrReader::start(stderr, diagnostics).map_err(|cause| {
        process.kill_and_reap();
        start_error(cause)
    })?;
    let tried = target.remote_haul().map(|path| shown(path.as_bytes()));
    let peer = Peer { name: target.display(), service, tried, address: target.address() };
    let stdout: Box<dyn Read + Send> = match &interrupt {
        None => Box::new(File::from(stdout)),
        Some(interrupt) => {
            Box::new(Interruptible::new(File::from(stdout), interrupt).map_err(start_error)?)
        }
    };
    let has_received = Arc::<AtomicBool>::default();
    let reader = FirstByteReader { stream: stdout, has_received: Arc::clone(&has_received) };
    Ok(Connection {
        reader: Box::new(reader),
        writer: match &interrupt {
            None => {
                let pipe = stdin.as_fd().try_clone_to_owned().ok();
                Writer::new(stdin, pipe)
            }
            Some(interrupt) => Writer::interruptible(stdin, interrupt).map_err(start_error)?,
        },
        closer: Closer::new(
            Ssh { process, stderr, peer, has_received, is_ssh: shell.is_ssh() },
            interrupt,
            target.timeouts(),
            kept,
            is_agent.then(|| ExtraLogins(Arc::new(target.clone()))),
        ),
    })
}

/// Prepares to keep a connection with these streams while it is idle, if that is wanted. If that
/// fails, `diagnostics` gets the reason.
fn kept(
    target: &SshTarget,
    streams: [BorrowedFd<'_>; 3],
    diagnostics: &Diagnostics,
) -> Option<Kept> {
    let (dir, keep_time, holder) = match target.keep()? {
        Keep::Here(place) => return Some(Kept::Here(name_of(target), place.clone())),
        Keep::Held { dir, keep_time, holder } => (dir, *keep_time, holder),
    };
    let kept = duplicate(streams).and_then(|streams| {
        Ok(Kept::Held(streams, Keeper::start(dir, keep_time, holder, target)?))
    });
    if let Err(error) = &kept {
        let (host, why) = (target.display(), haul_model::os_text(error));
        let dir = dir.display();
        let line = format!("haul: the connection to {host} is not kept: {dir}: {why}");
        diagnostics(line.as_bytes());
    }
    kept.ok()
}

/// The arguments before the ciphers and the host.
///
/// A program other than ssh is called as `rsync -e` does: its own arguments, `-l user`, the host,
/// the command.
fn leading_arguments(target: &SshTarget, service: Service) -> Result<Vec<String>, ConnectError> {
    let shell = target.shell();
    let mut arguments = shell.args.clone();
    if shell.is_ssh() {
        arguments.extend(SSH_OPTIONS.map(str::to_owned));
        if let Some(port) = target.port() {
            arguments.extend(["-p".into(), port.to_string()]);
        }
    } else {
        let refuse = |problem| {
            let words = shown(shell.program.as_bytes());
            Err(ConnectError::RemoteShell { words, problem })
        };
        if service == Service::Sftp {
            return refuse("only ssh can start an SFTP server: install haul on the other machine");
        }
        if target.port().is_some() {
            return refuse("the port can't be passed to it: add it to the command's own arguments");
        }
    }
    if let Some(user) = target.user() {
        arguments.extend(["-l".into(), user.to_owned()]);
    }
    Ok(arguments)
}

/// How many keep-alive messages ssh sends within the timeout for silence.
const KEEP_ALIVES_MAX: u64 = 4;

/// Makes ssh exit when the host has been silent for `silence`, rounded down to seconds.
fn keep_alive(silence: Duration) -> [String; 2] {
    let seconds = silence.as_secs().max(1);
    let interval = (seconds / KEEP_ALIVES_MAX).max(1);
    let count = seconds.div_ceil(interval);
    [format!("-oServerAliveInterval={interval}"), format!("-oServerAliveCountMax={count}")]
}

/// The arguments from the ciphers to the end.
fn trailing_arguments(
    target: &SshTarget,
    service: Service,
    settings: &cipher::Settings,
) -> Vec<String> {
    let mut arguments = Vec::new();
    if let Some(ciphers) = &settings.ciphers {
        arguments.push(format!("-oCiphers={ciphers}"));
    }
    if settings.supports_session_options {
        arguments.extend(SESSION_OPTIONS.map(str::to_owned));
        if service != Service::Sftp {
            arguments.push(COMMAND_OPTION.to_owned());
        }
    }
    if service == Service::Sftp {
        // A busy SFTP server does not answer, but the host does.
        if let (Some(silence), false) = (target.timeouts().silence_max, settings.has_keep_alive) {
            arguments.extend(keep_alive(silence));
        }
        arguments.push("-s".into());
    }
    if target.shell().is_ssh() {
        arguments.push("--".into());
    }
    arguments.push(target.host().to_owned());
    arguments.push(remote_command(target.remote_haul(), service).into_owned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(target: &SshTarget, ciphers: Option<&str>) -> Vec<String> {
        arguments_for(target, Service::Agent, &settings(ciphers))
    }

    fn settings(ciphers: Option<&str>) -> cipher::Settings {
        let ciphers = ciphers.map(str::to_owned);
        cipher::Settings { ciphers, ..cipher::Settings::default() }
    }

    fn arguments_for(
        target: &SshTarget,
        service: Service,
        settings: &cipher::Settings,
    ) -> Vec<String> {
        let mut arguments = leading_arguments(target, service).unwrap();
        arguments.extend(trailing_arguments(target, service, settings));
        arguments
    }

    fn target(user: Option<&str>) -> SshTarget {
        SshTarget::new(user, "box").unwrap().with_remote_haul("/opt/haul").unwrap()
    }

    #[test]
    fn ssh_gets_options_that_override_its_configuration() {
        assert_eq!(
            arguments(&target(Some("ann")).with_port(2222), Some("a,b")),
            [
                "-x",
                "-T",
                "-oForwardAgent=no",
                "-oPermitLocalCommand=no",
                "-oClearAllForwardings=yes",
                "-oRemoteCommand=none",
                "-oControlMaster=no",
                "-p",
                "2222",
                "-l",
                "ann",
                "-oCiphers=a,b",
                "--",
                "box",
                "'/opt/haul' serve",
            ]
        );
    }

    #[test]
    fn words_after_ssh_come_first_so_that_they_win() {
        let target = target(None).with_rsh("/usr/bin/ssh -F cfg -p 7").unwrap();
        let arguments = arguments(&target, None);
        assert_eq!(arguments[..5], ["-F", "cfg", "-p", "7", "-x"]);
        assert_eq!(arguments[arguments.len() - 3..], ["--", "box", "'/opt/haul' serve"]);
    }

    #[test]
    fn another_program_is_called_as_rsync_does() {
        let target = |user| target(user).with_rsh("my-rsh -k 'a b'").unwrap();
        assert_eq!(
            arguments(&target(Some("ann")), None),
            ["-k", "a b", "-l", "ann", "box", "'/opt/haul' serve"]
        );
        assert_eq!(arguments(&target(None), None), ["-k", "a b", "box", "'/opt/haul' serve"]);
        let error = leading_arguments(&target(None).with_port(7), Service::Agent).unwrap_err();
        assert!(matches!(error, ConnectError::RemoteShell { .. }));
    }

    #[test]
    fn a_subsystem_replaces_the_command() {
        let ann = target(Some("ann"));
        let words = |target: &SshTarget, settings: &cipher::Settings| {
            let arguments = arguments_for(target, Service::Sftp, settings);
            arguments[arguments.iter().position(|one| one == "-oCiphers=a,b").unwrap()..].to_vec()
        };
        let [quiet, plain] = [
            ["-oCiphers=a,b", "-oServerAliveInterval=3", "-oServerAliveCountMax=5"].as_slice(),
            ["-oCiphers=a,b"].as_slice(),
        ]
        .map(|first| [first, ["-s", "--", "box", "sftp"].as_slice()].concat());
        assert_eq!(words(&ann, &settings(Some("a,b"))), quiet);
        // The user has enabled keep-alive, or there is no timeout.
        let users = cipher::Settings { has_keep_alive: true, ..settings(Some("a,b")) };
        assert_eq!(words(&ann, &users), plain);
        let for_ever = ann.with_timeouts(crate::Timeouts::from_seconds(0));
        assert_eq!(words(&for_ever, &settings(Some("a,b"))), plain);
        let few = |seconds| keep_alive(Duration::from_secs(seconds)).concat();
        assert_eq!(few(2), "-oServerAliveInterval=1-oServerAliveCountMax=2");
        assert_eq!(few(7), "-oServerAliveInterval=1-oServerAliveCountMax=7");
        let other = target(None).with_rsh("my-rsh").unwrap();
        let error = leading_arguments(&other, Service::Sftp).unwrap_err();
        assert!(matches!(error, ConnectError::RemoteShell { .. }), "{error}");
    }
}
