//! Starts ssh, or the program in its place, with `haul serve` as the remote
//! command, or with a subsystem of the server.

use crate::cipher;
use crate::connection::{Closer, Connection, Kept, Listener, Ssh, Writer};
use crate::cut::{Cut, Cuttable};
use crate::diagnosis::{Peer, Remote};
use crate::error::shown;
use crate::kept::{self, Keep, Keeper, Streams};
use crate::pipe::{enlarge_pipe, way_in};
use crate::process::{Process, status_of};
use crate::remote_command::{DEPLOY, Subcommand, remote_command};
use crate::stderr::{Diagnostics, StderrReader};
use crate::{ConnectError, SshTarget};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Options for ssh whatever its configuration says, much as scp's.
///
/// - `-x -T`: neither X11 nor a terminal, which would change bytes. `-T` is
///   also what `RequestTTY=no` says.
/// - `ForwardAgent=no`, `ClearAllForwardings=yes`: the peer gets no keys and no
///   tunnels, and a port that another ssh has taken is no error.
/// - `PermitLocalCommand=no`, `RemoteCommand=none`: no command but ours. The
///   latter needs a client of OpenSSH 7.6 (2017) or later.
/// - `ControlMaster=no`: a shared connection is used if there is one, but none
///   is left behind: it would outlive haul and hold our streams open.
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

/// The same, for settings that no client before OpenSSH 8.7 (2021) knows: it would refuse the
/// options, and can't have the settings.
///
/// - `StdinNull=no`, `ForkAfterAuthentication=no`: our streams lead to the program there, and
///   the process that we start is the one that carries them.
const SESSION_OPTIONS: [&str; 2] = ["-oStdinNull=no", "-oForkAfterAuthentication=no"];

/// With them, where a command is run: there is a session for it. A subsystem has `-s`, which
/// says the same, and can't stand beside this.
const COMMAND_OPTION: &str = "-oSessionType=default";

/// Options of a connection beside another that stands, in front of all others.
///
/// - `BatchMode=yes`: nobody is asked for a password.
/// - `ControlPath=none`: a shared connection has one cipher stream, and one window.
const BESIDE_OPTIONS: [&str; 2] = ["-oBatchMode=yes", "-oControlPath=none"];

/// Options of a connection that may only be one which ssh shares already: nobody is asked
/// for a password, and no other way is tried.
const SHARED_OPTIONS: [&str; 2] = ["-oBatchMode=yes", "-oProxyCommand=false"];

/// Starts ssh to `target` and returns at once, before anyone has logged in:
/// whether that works shows when the peer's greeting arrives, or the end of the
/// file in its place. [`Closer::explain`] then tells why.
///
/// Standard error of ssh and of the remote command goes to `diagnostics`. ssh asks for
/// passwords and about host keys on the terminal itself, for which it stays in haul's
/// process group; so a Ctrl-C reaches it as well as haul, and the connection ends with
/// it.
///
/// # Errors
/// [`ConnectError::Start`] when the program can't be started, and
/// [`ConnectError::RemoteShell`] when it is not ssh and a port is asked for.
pub fn connect(target: &SshTarget, diagnostics: Diagnostics) -> Result<Connection, ConnectError> {
    start(target, haul_of(target), Traffic::Content, diagnostics)
}

/// Like [`connect`], for a conversation that carries no content of files. The
/// login is begun at once: ssh is not asked for its settings before, and keeps
/// its own order of ciphers.
///
/// # Errors
/// See [`connect`].
pub fn connect_briefly(
    target: &SshTarget,
    diagnostics: Diagnostics,
) -> Result<Connection, ConnectError> {
    start(target, haul_of(target), Traffic::Words, diagnostics)
}

/// Like [`connect_briefly`], with a shell at the other end that helps to deploy haul. It
/// first reads a line, for which [`crate::DEPLOY_MARKER`] will do. Then it writes
/// six lines: [`crate::DEPLOY_MARKER`], what `uname -sm` says, the
/// number of the user, that of the group that is called like the user, if that
/// is the user's, else `-`, the time there in seconds since 1970, and the home
/// directory. Then it reads two lines. The first is what follows
/// [`crate::STAGED_PREFIX`] in the name of a file in [`crate::DEPLOY_DIR`], and
/// **must be letters and digits alone**; if nothing follows that, the file is
/// removed. With the second, which says nothing, the file is run and serves.
///
/// # Errors
/// See [`connect`].
pub fn connect_deploy(
    target: &SshTarget,
    diagnostics: Diagnostics,
) -> Result<Connection, ConnectError> {
    start(target, Remote::Deploy, Traffic::Words, diagnostics)
}

/// Like [`connect_briefly`], with `haul server words` at the other end. It reads a line: a JSON
/// array with the words of a command of `haul server`. Then it carries that out. The
/// connection is not kept.
///
/// # Errors
/// See [`connect`].
pub fn connect_server_command(
    target: &SshTarget,
    diagnostics: Diagnostics,
) -> Result<Connection, ConnectError> {
    let runs = haul_command(target, Subcommand::Server);
    start(target, runs, Traffic::Words, diagnostics)
}

/// Like [`connect`], with the server's SFTP subsystem at the other end in place
/// of haul.
///
/// # Errors
/// [`ConnectError::Start`] when ssh can't be started, and
/// [`ConnectError::RemoteShell`] when the program in its place is not ssh:
/// nothing else knows subsystems.
pub fn connect_sftp(
    target: &SshTarget,
    diagnostics: Diagnostics,
) -> Result<Connection, ConnectError> {
    start(target, Remote::Subsystem("sftp"), Traffic::Content, diagnostics)
}

/// Like [`connect_briefly`], and with `sftp` like [`connect_sftp`], over the connection that
/// the user's ssh shares (`ControlMaster`): `None` if there is none. ssh shows nothing.
pub fn connect_over_shared(target: &SshTarget, sftp: bool) -> Option<Connection> {
    let shell = target.shell();
    let runs = if sftp { Remote::Subsystem("sftp") } else { haul_of(target) };
    let arguments = leading_arguments(target, &runs).ok().filter(|_| shell.is_ssh())?;
    let mut check = Command::new(&shell.program);
    check.args(SHARED_OPTIONS).args(arguments).args(["-O", "check", "--", target.host()]);
    check.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let stands = status_of(&mut check).is_some_and(|status| status.success());
    let silent: Diagnostics = Arc::new(|_: &[u8]| {});
    stands.then(|| start(target, runs, Traffic::Shared, silent).ok())?
}

/// A host that was logged in to, to be logged in to once more, beside the connection that
/// stands.
#[derive(Debug, Clone)]
pub struct Further(pub(crate) Arc<SshTarget>);

impl Further {
    /// Like [`connect`], as a connection of its own, whatever ssh shares otherwise, and
    /// without any question to the user. ssh shows nothing.
    ///
    /// # Errors
    /// See [`connect`].
    pub fn connect(&self) -> Result<Connection, ConnectError> {
        let silent: Diagnostics = Arc::new(|_: &[u8]| {});
        start(&self.0, haul_of(&self.0), Traffic::Beside, silent)
    }
}

/// The name or address that leads to `target`, as ssh looks it up; `None` if ssh does not
/// tell.
pub(crate) fn host_name(target: &SshTarget) -> Option<String> {
    let shell = target.shell();
    if !shell.is_ssh() {
        return Some(target.host().to_owned());
    }
    let arguments = leading_arguments(target, &haul_of(target)).ok()?;
    let ask = || cipher::settings_of(shell, &arguments, target.host());
    let known = target.ciphers().or_ask(ask).host.clone();
    known.or_else(|| cipher::host_name_of(shell, &arguments, target.host()))
}

/// The load of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    /// Contents of files, for which the fastest cipher is worth a question.
    Content,
    /// The same, beside another connection.
    Beside,
    /// Requests and answers alone.
    Words,
    /// The same, over a connection that is shared.
    Shared,
}

fn haul_of(target: &SshTarget) -> Remote {
    haul_command(target, Subcommand::Serve)
}

fn haul_command(target: &SshTarget, command: Subcommand) -> Remote {
    let path = target.remote_haul().map(|path| shown(path.as_bytes()));
    Remote::Haul { path, address: target.address(), command }
}

/// All arguments of the program that connects.
fn arguments(
    target: &SshTarget,
    runs: &Remote,
    traffic: Traffic,
) -> Result<Vec<String>, ConnectError> {
    let shell = target.shell();
    let mut arguments = leading_arguments(target, runs)?;
    // The first word about something counts.
    let first = match traffic {
        Traffic::Beside if shell.is_ssh() => &BESIDE_OPTIONS[..],
        Traffic::Shared => &SHARED_OPTIONS,
        _ => &[],
    };
    arguments.splice(0..0, first.iter().map(|&option| option.to_owned()));
    let settings = match (shell.is_ssh(), traffic) {
        (true, Traffic::Words | Traffic::Shared) => {
            cipher::Settings::of_client(target.knows_sessions())
        }
        (true, _) => {
            let ask = || cipher::settings_of(shell, &arguments, target.host());
            target.ciphers().or_ask(ask).clone()
        }
        (false, _) => cipher::Settings::default(),
    };
    arguments.extend(trailing_arguments(target, runs, &settings));
    Ok(arguments)
}

fn start(
    target: &SshTarget,
    runs: Remote,
    traffic: Traffic,
    diagnostics: Diagnostics,
) -> Result<Connection, ConnectError> {
    let shell = target.shell();
    let arguments = arguments(target, &runs, traffic)?;
    tracing::debug!(program = %shell.program, ?arguments, "starting the remote shell");

    let start_error = |cause| ConnectError::Start {
        host: target.display(),
        program: shown(shell.program.as_bytes()),
        cause,
    };
    // One beside another is never waited for, whatever a user's wrapper of ssh leaves behind.
    let is_cuttable = !shell.is_ssh() || traffic == Traffic::Beside;
    let cut = is_cuttable.then(Cut::new).transpose().map_err(start_error)?;
    let (stdout, theirs) = way_in(shell.is_ssh()).map_err(start_error)?;
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
    // What another command has begun, a further login can't join, and no later visit continues.
    let is_agent = matches!(runs, Remote::Haul { command: Subcommand::Serve, .. });
    let further = is_agent.then(|| Further(Arc::new(target.clone())));
    let kept = match (&further, traffic) {
        (Some(further), Traffic::Content | Traffic::Words) => {
            kept(further, (&stdout, &stdin, &stderr), &diagnostics)
        }
        _ => None,
    };
    let rests = match (target.keep(), &further, traffic) {
        (Some(Keep::Here(resting)), Some(_), Traffic::Content | Traffic::Words) => {
            Some((kept::name_of(target), resting.clone()))
        }
        _ => None,
    };

    enlarge_pipe(&stdin);
    let stderr = StderrReader::start(stderr, diagnostics).map_err(|cause| {
        process.end();
        start_error(cause)
    })?;
    let peer = Peer { name: target.display(), runs };
    let stdout: Box<dyn Read + Send> = match &cut {
        None => Box::new(File::from(stdout)),
        Some(cut) => Box::new(Cuttable::new(File::from(stdout), cut).map_err(start_error)?),
    };
    let reader = Listener::to(stdout);
    let was_heard = reader.was_heard();
    Ok(Connection {
        reader: Box::new(reader),
        writer: {
            match &cut {
                None => {
                    let pipe = stdin.as_fd().try_clone_to_owned().ok();
                    Writer::new(stdin, pipe)
                }
                Some(cut) => Writer::cuttable(stdin, cut).map_err(start_error)?,
            }
        },
        closer: Closer::new(
            Ssh { process, stderr, peer, was_heard, is_ssh: shell.is_ssh(), further },
            cut,
            target.patience(),
            kept,
            rests,
        ),
    })
}

/// The way to keep a connection with these streams, if a process is to keep it. The user is told
/// why it can't be.
fn kept(
    further: &Further,
    (input, output, errors): (impl AsFd, impl AsFd, impl AsFd),
    diagnostics: &Diagnostics,
) -> Option<Box<Kept>> {
    let Keep::Held { dir, lasts, holder } = further.0.keep()? else { return None };
    let streams = Streams::of(input, output, errors);
    let kept = streams.and_then(|streams| {
        let keeper = Keeper::start(dir, *lasts, holder, &further.0)?;
        Ok(Box::new(Kept { streams, keeper, further: further.clone(), _errors: None }))
    });
    if let Err(error) = &kept {
        let (host, why) = (further.0.display(), haul_model::os_text(error));
        let dir = dir.display();
        let line = format!("haul: the connection to {host} is not kept: {dir}: {why}");
        diagnostics(line.as_bytes());
    }
    kept.ok()
}

/// The connection to the haul of `target` that an earlier job has left, if there is one.
pub fn connect_kept(target: &SshTarget, diagnostics: Diagnostics) -> Option<Connection> {
    kept::take(target, diagnostics)
}

/// The arguments in front of the ciphers and the host.
///
/// A program other than ssh is called as `rsync -e` does: its own arguments,
/// `-l user`, the host, the command.
fn leading_arguments(target: &SshTarget, runs: &Remote) -> Result<Vec<String>, ConnectError> {
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
        if matches!(runs, Remote::Subsystem(_)) {
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

/// How many times within the longest silence ssh asks whether the host is there.
const SIGNS: u64 = 4;

/// Has ssh end when it has heard nothing of the host for `silence`, to the second.
fn keep_alive(silence: Duration) -> [String; 2] {
    let seconds = silence.as_secs().max(1);
    let interval = (seconds / SIGNS).max(1);
    let count = seconds.div_ceil(interval);
    [format!("-oServerAliveInterval={interval}"), format!("-oServerAliveCountMax={count}")]
}

/// The arguments from the ciphers on.
fn trailing_arguments(
    target: &SshTarget,
    runs: &Remote,
    settings: &cipher::Settings,
) -> Vec<String> {
    let mut arguments = Vec::new();
    if let Some(ciphers) = &settings.ciphers {
        arguments.push(format!("-oCiphers={ciphers}"));
    }
    if settings.knows_sessions {
        arguments.extend(SESSION_OPTIONS.map(str::to_owned));
        if !matches!(runs, Remote::Subsystem(_)) {
            arguments.push(COMMAND_OPTION.to_owned());
        }
    }
    if matches!(runs, Remote::Subsystem(_)) {
        // A server that is at work answers nothing. But the host does.
        if let (Some(silence), false) = (target.patience().silence_max, settings.keeps_alive) {
            arguments.extend(keep_alive(silence));
        }
        arguments.push("-s".into());
    }
    if target.shell().is_ssh() {
        arguments.push("--".into());
    }
    arguments.push(target.host().to_owned());
    arguments.push(match runs {
        Remote::Haul { command, .. } => remote_command(target.remote_haul(), *command).into_owned(),
        Remote::Deploy => DEPLOY.to_owned(),
        Remote::Subsystem(name) => (*name).to_owned(),
    });
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    const HAUL: Remote =
        Remote::Haul { path: None, address: String::new(), command: Subcommand::Serve };

    fn arguments(target: &SshTarget, ciphers: Option<&str>) -> Vec<String> {
        arguments_for(target, &HAUL, &settings(ciphers))
    }

    fn settings(ciphers: Option<&str>) -> cipher::Settings {
        let ciphers = ciphers.map(str::to_owned);
        cipher::Settings { ciphers, ..cipher::Settings::default() }
    }

    fn arguments_for(
        target: &SshTarget,
        runs: &Remote,
        settings: &cipher::Settings,
    ) -> Vec<String> {
        let mut arguments = leading_arguments(target, runs).unwrap();
        arguments.extend(trailing_arguments(target, runs, settings));
        arguments
    }

    fn target(user: Option<&str>) -> SshTarget {
        SshTarget::new(user, "box").unwrap().with_remote_haul("/opt/haul").unwrap()
    }

    #[test]
    fn ssh_is_told_what_its_configuration_must_not_change() {
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
        let error = leading_arguments(&target(None).with_port(7), &HAUL).unwrap_err();
        assert!(matches!(error, ConnectError::RemoteShell { .. }));
    }

    #[test]
    fn a_subsystem_takes_the_place_of_the_command() {
        let sftp = Remote::Subsystem("sftp");
        let ann = target(Some("ann"));
        let words = |target: &SshTarget, settings: &cipher::Settings| {
            let arguments = arguments_for(target, &sftp, settings);
            arguments[arguments.iter().position(|one| one == "-oCiphers=a,b").unwrap()..].to_vec()
        };
        let [quiet, plain] = [
            ["-oCiphers=a,b", "-oServerAliveInterval=3", "-oServerAliveCountMax=5"].as_slice(),
            ["-oCiphers=a,b"].as_slice(),
        ]
        .map(|first| [first, ["-s", "--", "box", "sftp"].as_slice()].concat());
        assert_eq!(words(&ann, &settings(Some("a,b"))), quiet);
        // The user has ssh look, or nobody is to.
        let users = cipher::Settings { keeps_alive: true, ..settings(Some("a,b")) };
        assert_eq!(words(&ann, &users), plain);
        let for_ever = ann.with_patience(crate::Patience::of_seconds(0));
        assert_eq!(words(&for_ever, &settings(Some("a,b"))), plain);
        let few = |seconds| keep_alive(Duration::from_secs(seconds)).concat();
        assert_eq!(few(2), "-oServerAliveInterval=1-oServerAliveCountMax=2");
        assert_eq!(few(7), "-oServerAliveInterval=1-oServerAliveCountMax=7");
        let other = target(None).with_rsh("my-rsh").unwrap();
        let error = leading_arguments(&other, &sftp).unwrap_err();
        assert!(matches!(error, ConnectError::RemoteShell { .. }), "{error}");
    }
}
