//! The repository, and commands that run in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use haul_testkit::proc::{self, Signal};

use crate::Result;

/// How often a command with a time limit is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a directory of the repository")
}

/// The cargo that runs this chore, started in the root.
pub(crate) fn cargo() -> Command {
    in_root(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A program that is cargo or starts it, in the root. Of what cargo has said of the chore's
/// package it hears nothing: some build scripts ask for that, and would run again for each
/// cargo that was not started by a chore.
pub(crate) fn in_root(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let is_of_package = |prefix: &str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].into_iter().any(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// A program of crates.io, started in the root: that on the PATH, or one that is installed below
/// target/ with these arguments.
pub(crate) fn tool(name: &str, version: &str, args: &[&str]) -> Result<Command> {
    let tools = target_dir().join("tools");
    let ours = tools.join("bin").join(name);
    for program in [PathBuf::from(name), ours.clone()] {
        let status = Command::new(&program).arg("--version").stdout(Stdio::null()).status();
        if status.is_ok_and(|status| status.success()) {
            return Ok(in_root(program));
        }
    }
    let mut install = cargo();
    install.args(["install", "--locked", name, "--version", version]).args(args);
    run(install.arg("--root").arg(&tools))?;
    Ok(in_root(ours))
}

/// Where cargo puts what it builds for the workspace.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Runs a command to its end; anything but success is an error that names it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = describe(command);
    let status = command.status().map_err(|e| format!("can't start {name}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}").into()) }
}

/// As [`run`], but a command that has not ended after `limit` is killed with
/// all that descends from it.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Result<()> {
    let name = describe(command);
    let mut child = command.spawn().map_err(|e| format!("can't start {name}: {e}"))?;
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            for pid in proc::descendants(child.id()) {
                proc::signal(pid, Signal::KILL);
            }
            child.kill()?;
            child.wait()?;
            return Err(format!("{name}: not done after {} s", limit.as_secs()).into());
        }
        thread::sleep(POLL_INTERVAL);
    };
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}").into()) }
}

/// The output of a command that says something about the machine: its first
/// line, from wherever it was written.
pub(crate) fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// The target that rustc builds for if it is not told another.
pub(crate) fn host_triple() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let output = String::from_utf8(output.stdout)?;
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not say which host it is for")?.to_owned())
}

/// True if this is root.
pub(crate) fn is_root() -> bool {
    first_line("id", &["-u"]).as_deref() == Some("0")
}

/// Program and arguments as one line, without the path of the program.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
