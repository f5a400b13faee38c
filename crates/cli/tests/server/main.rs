//! `haul server`, with real processes: who is let in, what a client may do, and what ends it.

mod abuse;
mod clients;
mod enroll;
mod jail;
mod quic;
mod running;
mod ways;

use haul_engine::{
    CacheConfig, Event, Job, JobError, Monitor, NamedDest, NamedSources, Placement, Progress,
    Summary, WireOptions,
};
use haul_model::{Compression, Policy, Task};
use haul_net::{
    ConnectError, ConnectOptions, Connection, Identity, PublicKey, ServerAddress, ServerVia,
    Timeouts, connect_server,
};
use haul_testkit::served::Served;
use std::fs::{self, Permissions};
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server, and the directory [`Server::root`].
struct Server(Served);

impl Deref for Server {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Served {
        &mut self.0
    }
}

/// A client of it, and the address and key of the server.
struct Client {
    identity: Identity,
    address: ServerAddress,
    server: PublicKey,
    via: ServerVia,
}

/// The protocols that a test runs over.
const BOTH: [ServerVia; 2] = [ServerVia::Tcp, ServerVia::Quic];

/// True if this process has all rights.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Server {
    /// A directory without a running server.
    fn prepare() -> Self {
        let server = Self(Served::prepare(HAUL.as_ref()).expect("a directory"));
        fs::create_dir(server.root()).expect("a directory");
        server
    }

    fn start() -> Self {
        let mut server = Self::prepare();
        server.run();
        server
    }

    fn run(&mut self) {
        self.run_on("127.0.0.1:0").expect("it starts");
    }

    /// The root of clients.
    fn root(&self) -> PathBuf {
        self.path("root")
    }

    fn state(&self, name: &str) -> PathBuf {
        self.path("home/.local/state/haul/server").join(name)
    }

    fn haul(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it runs")
    }

    /// The output of a command that succeeds.
    fn ok(&self, words: &[&str]) -> String {
        let output = self.haul(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The state, as `haul server status --json` tells it.
    fn status(&self) -> serde_json::Value {
        self.0.status().expect("it answers")
    }

    /// A client that nobody has enrolled.
    fn stranger(&self) -> Client {
        let status = self.status();
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        Client {
            identity: Identity::new().expect("a key"),
            address: text(&status["listen"][0]).parse().expect("an address"),
            server: text(&status["key"]).parse().expect("a key"),
            via: ServerVia::Tcp,
        }
    }

    /// An enrolled client with that name, whose root is [`Self::root`].
    fn client(&self, name: &str, options: &[&str]) -> Client {
        self.client_of(name, &self.root(), options)
    }

    /// The same with another root.
    fn client_of(&self, name: &str, root: &Path, options: &[&str]) -> Client {
        let client = self.stranger();
        let (key, root) = (client.identity.key().to_string(), format!("--root={}", root.display()));
        let name = format!("--name={name}");
        let mut words = vec!["admit", &key, &root, &name];
        words.extend(options);
        if is_root() && !options.iter().any(|word| word.starts_with("--run-as")) {
            words.push("--run-as=root");
        }
        self.ok(&words);
        client
    }

    /// The lines of the audit log with that event.
    fn audit(&self, event: &str) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.state("audit.jsonl")).expect("a log");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines.filter(|line: &serde_json::Value| line["event"] == event).collect()
    }
}

impl Client {
    fn connect(&self) -> Result<Connection, ConnectError> {
        let addresses = [self.address.clone()];
        let reaching = ConnectOptions { via: self.via, ..ConnectOptions::default() };
        connect_server("box", &addresses, self.server, &self.identity, reaching, |_| ())
    }

    /// The same client by that protocol.
    fn by(self, via: ServerVia) -> Self {
        Self { via, ..self }
    }

    fn upload(&self, sources: &[&Path], dest: &str) -> Result<Summary, JobError> {
        let sources = sources.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        let job = Job {
            sources: NamedSources { recursive: true, ..NamedSources::at(sources) },
            dest: NamedDest { into_dir: true, ..NamedDest::at(dest) },
            ..copy()
        };
        self.run(&job, Placement::upload, &Quiet::default())
    }

    fn download(&self, source: &str, dest: &Path) -> Result<Summary, JobError> {
        let dest = dest.as_os_str().as_bytes().to_vec();
        let sources = vec![source.as_bytes().to_vec()];
        let job = Job {
            sources: NamedSources { recursive: true, ..NamedSources::at(sources) },
            dest: NamedDest { into_dir: true, ..NamedDest::at(dest) },
            ..copy()
        };
        self.run(&job, Placement::download, &Quiet::default())
    }

    fn run(
        &self,
        job: &Job,
        place: impl FnOnce(Connection) -> Placement,
        monitor: &Quiet,
    ) -> Result<Summary, JobError> {
        haul_engine::run(job, place(self.connect()?), monitor)
    }
}

/// A copy by the usual rules.
fn copy() -> Job {
    Job { task: Task::Copy(Policy::default()), ..Job::default() }
}

/// Tells nobody.
#[derive(Default)]
struct Quiet {
    progress: Progress,
    is_cancelled: AtomicBool,
}

impl Monitor for Quiet {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, _: Event<'_>) {}

    fn cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Contents are sent uncompressed, at this rate in MiB per second.
fn at_rate(mib: u64) -> WireOptions {
    let rate = std::num::NonZeroU64::new(mib << 20);
    WireOptions { rate, compression: Compression::None, ..WireOptions::default() }
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
