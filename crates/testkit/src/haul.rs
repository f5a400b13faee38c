//! The program under test: started like a user would, with a hard limit on its
//! time, in a process group of its own and with an empty home directory.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::at;
use crate::proc::{self, SAMPLE_EVERY, Signal, Usage, Watch};
use crate::wait::holds_within;

/// How long a run may take unless told otherwise.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A run of haul that is being prepared.
#[derive(Debug, Clone)]
pub struct Haul {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, Option<OsString>)>,
    cwd: Option<PathBuf>,
    home: Option<PathBuf>,
    stdin: Vec<u8>,
    limit: Duration,
    is_sampled: bool,
    agents: Option<Agents>,
}

/// The agents whose memory is sampled.
#[derive(Debug, Clone, Copy)]
enum Agents {
    /// Those that descend from this process.
    Below(u32),
    /// Those that descend from the run.
    Own,
}

impl Haul {
    /// A run of `program`: in haul's own tests `env!("CARGO_BIN_EXE_haul")`.
    pub fn new(program: impl AsRef<Path>) -> Haul {
        Haul {
            program: program.as_ref().to_path_buf(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            home: None,
            stdin: Vec::new(),
            limit: LIMIT,
            is_sampled: false,
            agents: None,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Haul {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Haul {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable; `HOME` is set by [`Haul::home`].
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Haul {
        self.env.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Takes an environment variable away.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Haul {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Haul {
        self.cwd = Some(dir.as_ref().to_path_buf());
        self
    }

    /// Sets the home directory; without it, each run gets a new empty one.
    #[must_use]
    pub fn home(mut self, dir: impl AsRef<Path>) -> Haul {
        self.home = Some(dir.as_ref().to_path_buf());
        self
    }

    /// Sets what the program reads from standard input; without it, nothing.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Haul {
        self.stdin = bytes.into();
        self
    }

    /// The same run on a terminal, on which `typed` is typed at its beginning; all that it
    /// says is on standard output then. It needs `script`.
    ///
    /// # Panics
    /// When a word is no UTF-8.
    #[must_use]
    pub fn on_terminal(self, typed: &str) -> Haul {
        let words = std::iter::once(self.program.as_os_str()).chain(self.args.iter().map(|a| &**a));
        let quoted =
            |word: &OsStr| format!("'{}'", word.to_str().expect("text").replace('\'', "'\\''"));
        let line = format!("exec {}", words.map(quoted).collect::<Vec<_>>().join(" "));
        let args = ["-qec".into(), line.into(), "/dev/null".into()].into();
        let (program, stdin) = (PathBuf::from("script"), typed.as_bytes().to_vec());
        Haul { program, args, stdin, ..self }.env("SHELL", "/bin/sh").env("TERM", "xterm")
    }

    /// Sets the time after which the process group is killed.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Haul {
        self.limit = limit;
        self
    }

    /// Samples its memory. That costs a little processor time as long as it runs.
    #[must_use]
    pub fn sampled(mut self) -> Haul {
        self.is_sampled = true;
        self
    }

    /// Samples its memory, and that of agents: of those that descend from the ssh
    /// server with this process number.
    #[must_use]
    pub fn agents_below(mut self, sshd: u32) -> Haul {
        self.agents = Some(Agents::Below(sshd));
        self.sampled()
    }

    /// Samples its memory, and that of the agents that descend from it, as they do where
    /// the host is behind a pipe. Those of other runs don't count.
    #[must_use]
    pub fn own_agents(mut self) -> Haul {
        self.agents = Some(Agents::Own);
        self.sampled()
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When the program can't be started, or was killed because the time was
    /// up: no test goes on from there.
    #[track_caller]
    pub fn run(&self) -> Outcome {
        let outcome = self.spawn().and_then(Running::wait);
        let outcome = outcome.unwrap_or_else(|e| panic!("haul did not run: {e}"));
        assert!(!outcome.timed_out, "haul took more than {:?}\n{outcome}", self.limit);
        outcome
    }

    /// Starts it and leaves it running.
    pub fn spawn(&self) -> io::Result<Running> {
        let scratch = TempDir::new()?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env("HOME", self.home.as_deref().unwrap_or(scratch.path()))
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("RSYNC_RSH")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in settings(std::env::vars_os().map(|(name, _)| name)) {
            command.env_remove(name);
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        let started = Instant::now();
        let mut child = command.spawn().map_err(|e| at("start", &self.program, e))?;
        let mut stdin = child.stdin.take().expect("it was piped");
        let input = self.stdin.clone();
        thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let stdout = collect(child.stdout.take().expect("it was piped"));
        let stderr = collect(child.stderr.take().expect("it was piped"));
        let mut watch = Watch::new(self.limit);
        if self.is_sampled {
            watch = watch.sampling(SAMPLE_EVERY);
        }
        if let Some(agents) = self.agents {
            watch = watch.agents_below(match agents {
                Agents::Below(sshd) => sshd,
                Agents::Own => child.id(),
            });
        }
        Ok(Running { child, started, watch, stdout, stderr, reaped: false, _scratch: scratch })
    }
}

/// The variables that are settings of haul: those of whoever runs the tests hold for
/// none of them.
fn settings(names: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    names.filter(|name| name.as_encoded_bytes().starts_with(b"HAUL_"))
}

/// A run that has been started. Dropping it kills its process group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    started: Instant,
    watch: Watch,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
    reaped: bool,
    _scratch: TempDir,
}

impl Running {
    /// The process number, which is also that of its group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// True if it still runs.
    pub fn is_running(&self) -> bool {
        proc::is_alive(self.pid())
    }

    /// Sends a signal to the program alone.
    pub fn signal(&self, signal: Signal) {
        proc::signal(self.pid(), signal);
    }

    /// Sends a signal to the whole group, as the terminal does on Ctrl-C.
    pub fn signal_group(&self, signal: Signal) {
        proc::signal_group(self.pid(), signal);
    }

    /// Kills the whole group at once, the ssh processes among them.
    pub fn kill_group(&self) {
        proc::kill_group(self.pid());
    }

    /// Waits for `condition` to hold while the program runs. False when the
    /// program ended, or `limit` passed, before it did.
    pub fn until(&self, limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
        let mut holds = false;
        holds_within(limit, || {
            holds = condition();
            holds || !self.is_running()
        });
        holds
    }

    /// Waits for the end. The limit counts from the start of the program, but
    /// is kept only here and by dropping.
    pub fn wait(mut self) -> io::Result<Outcome> {
        /// For a process that inherited the pipes and outlives the program.
        const PIPE_LIMIT: Duration = Duration::from_secs(2);
        let ended = self.watch.wait(&mut self.child, self.started)?;
        self.reaped = true;
        let take = |pipe: &Receiver<Vec<u8>>| {
            pipe.recv_timeout(PIPE_LIMIT).or_else(|_| {
                proc::kill_group(self.child.id());
                pipe.recv_timeout(PIPE_LIMIT)
            })
        };
        let stdout = take(&self.stdout)
            .unwrap_or_else(|_| b"(stdout is held open by another process)".to_vec());
        let stderr = take(&self.stderr)
            .unwrap_or_else(|_| b"(stderr is held open by another process)".to_vec());
        Ok(Outcome {
            code: ended.status.code(),
            signal: ended.status.signal(),
            stdout,
            stderr,
            usage: ended.usage,
            timed_out: ended.timed_out,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill_group();
            let _ = self.child.wait();
        }
    }
}

/// How a run ended, and what it said.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Time and memory.
    pub usage: Usage,
    /// True if it was killed because the time was up.
    pub timed_out: bool,
}

impl Outcome {
    /// Standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Panics, with all that the program said, unless it ended with `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Outcome {
        assert!(self.code == Some(code), "expected exit code {code}\n{self}");
        self
    }

    /// Panics, with all that the program said, unless it ended with 0.
    #[track_caller]
    pub fn expect_ok(self) -> Outcome {
        self.expect_code(0)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}")?,
            (None, signal) => write!(f, "ended by signal {}", signal.unwrap_or(0))?,
        }
        write!(
            f,
            " after {:?}\n--- stdout\n{}--- stderr\n{}---",
            self.usage.wall,
            self.out(),
            self.err()
        )
    }
}

/// Reads a pipe to its end on a thread of its own.
fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (done, collected) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = done.send(bytes);
    });
    collected
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn shell(script: &str) -> Haul {
        Haul::new("/bin/sh").args(["-c", script])
    }

    #[test]
    fn output_exit_code_input_and_environment_are_what_was_asked_for() {
        let run =
            shell("cat; echo $HOME >&2; pwd; ls -A $HOME; exit 3").stdin("in\n").cwd("/").run();
        assert_eq!((run.code, run.signal), (Some(3), None));
        assert_eq!(run.out(), "in\n/\n");
        let home = run.err();
        assert_ne!(home.trim(), std::env::var("HOME").unwrap_or_default());
        assert!(!Path::new(home.trim()).exists(), "the scratch home was left behind");
    }

    #[test]
    fn agents_of_other_runs_do_not_count() {
        let dir = TempDir::new().expect("a temporary directory");
        // It holds so many bytes for a moment, and is told from others by its name.
        let lines = "x=$(head -c $2 /dev/zero | tr '\\0' x)\n: > $0.$2\nsleep ${3:-0.3}\n";
        fs::write(dir.path().join("haul"), lines).expect("a script");
        let agent = |more: &str| shell(&format!("sh haul serve {more}; true")).cwd(dir.path());
        let other = agent("60000000 60").spawn().expect("started");
        let is_large = || dir.path().join("haul.60000000").exists();
        assert!(other.until(Duration::from_secs(30), is_large));
        let peak = agent("1000").own_agents().run().usage.agent_peak_rss_bytes;
        assert!(peak.is_some_and(|peak| peak < 30 << 20), "{peak:?}");
    }

    #[test]
    fn settings_of_whoever_runs_the_tests_hold_for_none() {
        let names =
            ["HOME", "HAUL_RSH", "HAUL_", "XHAUL_", "PATH", "HAUL_SYNC"].map(OsString::from);
        assert_eq!(
            settings(names.into_iter()).collect::<Vec<_>>(),
            ["HAUL_RSH", "HAUL_", "HAUL_SYNC"]
        );
    }

    #[test]
    #[should_panic(expected = "took more than")]
    fn a_run_that_hangs_fails() {
        shell("sleep 60").limit(Duration::from_millis(100)).run();
    }

    #[test]
    #[should_panic(expected = "said this")]
    fn an_unexpected_exit_code_shows_what_was_said() {
        shell("echo said this >&2; exit 1").run().expect_ok();
    }

    #[test]
    fn a_process_that_keeps_the_pipes_open_does_not_hang_the_test() {
        let started = Instant::now();
        let run = shell("sleep 60 & echo done").run();
        assert_eq!(run.out(), "done\n");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_killed_run_reports_it() {
        let running = shell("echo ready; sleep 60").spawn().expect("started");
        assert!(running.until(Duration::from_secs(5), || true));
        running.kill_group();
        let run = running.wait().expect("waited");
        assert_eq!((run.code, run.signal), (None, Some(9)));
    }
}
