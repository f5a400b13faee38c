//! The command that runs on the client, in the foreground, to its end or to
//! that of the user's patience.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haul_testkit::proc::{self, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::hosts::{HOST, Lab, SERVER};
use crate::{Result, SIGNALLED};

/// How often the command and the signals are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long the command may take to end by itself after a signal.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// The signals that end the lab; they are taken note of from now on.
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    pub(crate) fn listen() -> Result<Signals> {
        let seen = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal)?;
            signal_hook::flag::register_usize(signal, Arc::clone(&seen), number)?;
        }
        Ok(Signals(seen))
    }

    /// The number of the last one that came, if any did.
    fn seen(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&number| number != 0)
    }
}

/// Runs the words on the client. Gives the exit code that a shell would: that
/// of the command, or 128 and the number of the signal that ended it or us.
pub(crate) fn run(lab: &Lab, words: &[OsString], signals: &Signals) -> Result<u8> {
    let (program, rest) = words.split_first().ok_or("no command to run")?;
    let mut command = Command::new(program);
    command.args(rest);
    for (name, value) in variables(lab) {
        command.env(name, value);
    }
    let child = lab.client().inside(|| command.spawn())?;
    let mut child = child.map_err(|e| format!("can't start {}: {e}", program.display()))?;
    let status = wait(&mut child, signals)?;
    let code = match signals.seen() {
        Some(number) => usize::from(SIGNALLED) + number,
        None => shell_code(status),
    };
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// How a command reaches the server.
pub(crate) fn variables(lab: &Lab) -> [(&'static str, String); 4] {
    [
        ("HAUL_LAB_HOST", HOST.to_owned()),
        ("HAUL_LAB_ADDRESS", SERVER.to_string()),
        ("HAUL_LAB_SSH_CONFIG", lab.sshd().ssh_config().display().to_string()),
        ("HAUL_LAB_RSH", lab.sshd().rsh()),
    ]
}

/// Waits for the command. A signal gives it a little time, then it is killed;
/// the end of the lab ends what it has started. A terminal sends Ctrl-C to the
/// command too, and a second one might mean something else to it, so that is
/// not passed on.
fn wait(child: &mut Child, signals: &Signals) -> Result<ExitStatus> {
    let mut deadline: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match (signals.seen(), deadline) {
            (Some(number), None) => {
                if i32::try_from(number) != Ok(SIGINT) {
                    proc::signal(child.id(), Signal::TERM);
                }
                deadline = Some(Instant::now() + GRACE_PERIOD);
            }
            (_, Some(end)) if Instant::now() > end => {
                child.kill()?;
                return Ok(child.wait()?);
            }
            _ => {}
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn shell_code(status: ExitStatus) -> usize {
    let signalled = || Some(usize::from(SIGNALLED) + usize::try_from(status.signal()?).ok()?);
    let code = status.code().and_then(|code| usize::try_from(code).ok());
    code.or_else(signalled).unwrap_or(1)
}
