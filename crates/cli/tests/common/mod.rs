//! A directory of its own for each test, and haul run in it in every way: from
//! here to here, from here to a host, from a host to here, and between hosts. Each is this
//! machine behind a real ssh server, or behind a pipe where the test needs to
//! hold the connection in its hands.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod logins;
mod matrix;

use haul_testkit::haul::Outcome;
use haul_testkit::served::Served;
use haul_testkit::{Compare, Haul, Snapshot, Sshd, TempDir, campaign, nasty, snapshot};
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// The program under test.
pub(crate) const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// How long connections are kept where they are: longer than until the next command of a scene.
const KEPT_FOR: &str = "5s";

/// User and group that own nothing.
pub(crate) const NOBODY: u32 = 65534;

/// Where the two sides of a copy are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Local,
    Upload,
    Download,
    /// Through the SFTP server of a host.
    SftpUpload,
    SftpDownload,
    /// Both sides are on hosts, which are this machine.
    Between,
}

impl Way {
    /// With haul at both ends.
    pub(crate) const ALL: [Way; 3] = [Way::Local, Way::Upload, Way::Download];
    pub(crate) const EACH: [Way; 6] =
        [Way::Local, Way::Upload, Way::Download, Way::SftpUpload, Way::SftpDownload, Way::Between];
    pub(crate) const REMOTE: [Way; 2] = [Way::Upload, Way::Download];
}

/// The connection to the host, where haul is at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Ssh,
    /// ssh, with contents over direct connections alone. Connections are kept.
    Lanes,
    /// A haul server, by TCP.
    Server,
    /// The same by QUIC.
    Quic,
}

impl By {
    fn is_server(self) -> bool {
        matches!(self, By::Server | By::Quic)
    }
}

/// A temporary directory that all may enter, with an ssh server and a haul server if they are
/// asked for.
pub(crate) struct World {
    dir: TempDir,
    sshd: OnceLock<Sshd>,
    served: OnceLock<Served>,
    /// The program under test where all may start it.
    program: OnceLock<PathBuf>,
}

impl World {
    pub(crate) fn new() -> World {
        let dir = TempDir::with_prefix("haul-test-").expect("a temporary directory");
        mode(dir.path(), 0o755);
        let (sshd, served, program) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        World { dir, sshd, served, program }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The server, started when it is first asked for.
    pub(crate) fn sshd(&self) -> &Sshd {
        self.sshd.get_or_init(|| Sshd::builder().start().expect("sshd starts"))
    }

    fn served(&self) -> &Served {
        let start = || Served::start(HAUL.as_ref(), "haul-test", self.path());
        self.served.get_or_init(|| start().expect("the server starts"))
    }

    /// The program under test, which all may start here: a copy that is made once, for it
    /// has tens of megabytes.
    fn program(&self) -> &Path {
        self.program.get_or_init(|| {
            let program = self.path().join("haul");
            run(Command::new("cp").arg(HAUL).arg(&program));
            program
        })
    }

    /// A scene for one way, in a directory of its own.
    pub(crate) fn scene(&self, way: Way) -> Scene<'_> {
        self.scene_called(&format!("{way:?}").to_lowercase(), way)
    }

    /// The same, in the directory `name`, for several of one way.
    pub(crate) fn scene_called(&self, name: &str, way: Way) -> Scene<'_> {
        let dir = self.path().join(name);
        fs::create_dir(&dir).expect("a directory");
        let (rsh, nobody, by, files) = (None, false, By::Ssh, Arc::default());
        Scene { way, dir, world: self, rsh, program: HAUL.into(), nobody, by, files }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Who is not root can't remove what is in a directory without rights.
        let _ = nasty::unlock(self.path());
    }
}

/// The journals of uploads through SFTP, where `state` is the directory for the state of
/// programs.
pub(crate) fn upload_journals(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state.join("haul/uploads")).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("an entry").path());
    // The id of the directory itself stays.
    paths.filter(|path| path.extension().is_some_and(|end| end == "journal")).collect()
}

/// Runs `test` in every way, through SFTP too, but for the exceptions in the table.
pub(crate) fn everywhere(test: impl Fn(&Scene<'_>) + Sync) {
    matrix::everywhere(|_| {}, test);
}

/// The same with the host behind a pipe: where ssh adds nothing but the time for a
/// login.
pub(crate) fn everywhere_by_pipe(test: impl Fn(&Scene<'_>) + Sync) {
    matrix::everywhere(|scene| scene.reach_by_pipe(), test);
}

/// The same with both sides as a user who is not root.
pub(crate) fn everywhere_as_nobody(test: impl Fn(&Scene<'_>) + Sync) {
    matrix::everywhere(|scene| scene.become_nobody(), test);
}

/// Runs `test` in every way with haul at both ends, through real ssh.
pub(crate) fn each_way(test: impl Fn(&Scene<'_>) + Sync) {
    each_of(&Way::ALL, |_| {}, test);
}

/// Runs `test` to a host and from a host, through real ssh.
pub(crate) fn each_remote_way(test: impl Fn(&Scene<'_>) + Sync) {
    each_of(&Way::REMOTE, |_| {}, test);
}

/// Runs `test` in every way with the host behind a pipe: where ssh adds nothing
/// but the time for a login.
pub(crate) fn each_way_by_pipe(test: impl Fn(&Scene<'_>) + Sync) {
    each_of(&Way::ALL, |scene| scene.reach_by_pipe(), test);
}

/// All ways at the same time: most of a connection's time is waiting.
pub(crate) fn each_of(
    ways: &[Way],
    prepare: impl Fn(&mut Scene<'_>),
    test: impl Fn(&Scene<'_>) + Sync,
) {
    let ways: Vec<_> = ways.iter().map(|&way| (way, By::Ssh)).collect();
    each_of_and_by(&ways, prepare, test);
}

/// The same, each way by its connection.
fn each_of_and_by(
    ways: &[(Way, By)],
    prepare: impl Fn(&mut Scene<'_>),
    test: impl Fn(&Scene<'_>) + Sync,
) {
    let world = World::new();
    let scene = |&(way, by): &(Way, By)| match by {
        By::Ssh => world.scene(way),
        _ => Scene { by, ..world.scene_called(&format!("{way:?}-{by:?}").to_lowercase(), way) },
    };
    let scenes: Vec<Scene<'_>> = ways.iter().map(scene).collect();
    let test_name = thread::current().name().unwrap_or_default().to_owned();
    thread::scope(|scope| {
        let mut running = Vec::new();
        for mut scene in scenes {
            prepare(&mut scene);
            // The server is this user's.
            if scene.nobody && scene.by.is_server() {
                scene.by = By::Ssh;
            }
            let test = &test;
            let (way, thread) =
                ((scene.way, scene.by), thread::Builder::new().name(test_name.clone()));
            let started = thread.spawn_scoped(scope, move || test(&scene));
            running.push((way, started.expect("a thread can be started")));
        }
        for ((way, by), thread) in running {
            if let Err(panic) = thread.join() {
                eprintln!("the way was: {way:?}, by: {by:?}");
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// True if a process has something below `dir` open.
pub(crate) fn is_open_below(dir: &Path) -> bool {
    let processes = fs::read_dir("/proc").expect("a list of processes").flatten();
    let open = |process: fs::DirEntry| {
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok())
    };
    processes.flat_map(open).any(|path| path.starts_with(dir))
}

/// One way to copy, and a directory to do it in.
pub(crate) struct Scene<'w> {
    pub(crate) way: Way,
    dir: PathBuf,
    world: &'w World,
    /// The program that reaches the host in place of ssh.
    rsh: Option<PathBuf>,
    program: PathBuf,
    nobody: bool,
    by: By,
    /// How many files were made, in other scenes of it, too.
    files: Arc<AtomicU32>,
}

impl Scene<'_> {
    /// Another of this way, in the directory `name` beside it.
    pub(crate) fn another(&self, name: &str) -> Self {
        let scene = self.world.scene_called(name, self.way);
        let (rsh, program, files) = (self.rsh.clone(), self.program.clone(), self.files.clone());
        Self { rsh, program, nobody: self.nobody, files, ..scene }
    }

    /// The path of `name`, which may be one from the root. A slash or dots at its
    /// end stay.
    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        if Path::new(&name).is_absolute() {
            return name.as_ref().into();
        }
        let mut path = self.dir.clone().into_os_string();
        path.push("/");
        path.push(name);
        path.into()
    }

    /// The cases of a table that run in this way. One engine decides in all ways, so each case
    /// runs once with haul at both ends, in turn here, to a host and from it, and each way through
    /// SFTP has one in four. The long form of a campaign runs all cases in all ways.
    pub(crate) fn share<T>(&self, cases: impl IntoIterator<Item = T>) -> Vec<T> {
        let is_long = campaign::rounds(1) > 1;
        let has = |at: usize| match self.way {
            // Each row of three begins with another way, or in a product of two tables the
            // same ones would always meet.
            Way::Local => (at + at / 3).is_multiple_of(3),
            Way::Upload => (at + at / 3) % 3 == 1,
            Way::Download => (at + at / 3) % 3 == 2,
            Way::SftpUpload => at.is_multiple_of(4),
            Way::SftpDownload => at % 4 == 2,
            Way::Between => true,
        };
        let cases = cases.into_iter().enumerate();
        cases.filter(|(at, _)| is_long || has(*at)).map(|(_, case)| case).collect()
    }

    /// True if the host has no haul, but an SFTP server.
    pub(crate) fn is_sftp(&self) -> bool {
        matches!(self.way, Way::SftpUpload | Way::SftpDownload)
    }

    pub(crate) fn sshd(&self) -> &Sshd {
        self.world.sshd()
    }

    /// The host is reached by running `rsh` in place of ssh from now on.
    pub(crate) fn reach_by(&mut self, rsh: PathBuf) {
        self.rsh = Some(rsh);
    }

    /// A program in place of ssh: the SFTP server at the other end of a pipe.
    pub(crate) fn sftp_server_by_pipe(&self) -> PathBuf {
        // Called as an ssh is, for only that can have a subsystem.
        let server = haul_testkit::sshd::system_sftp_server().expect("an sftp-server");
        let lines =
            format!("for word; do [ \"$word\" != -G ] || exit 0; done\nexec {}", server.display());
        script(&self.path("ssh"), &lines)
    }

    /// The host is this machine at the other end of a pipe from now on.
    pub(crate) fn reach_by_pipe(&mut self) {
        if self.is_sftp() {
            return self.reach_by(self.sftp_server_by_pipe());
        }
        // Called like ssh, with the host's name first.
        // The host is told its address, as sshd does it, where lanes need one.
        let address = "export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 2'\n";
        let told = if self.by == By::Lanes { address } else { "" };
        self.reach_by(script(&self.path("pipe"), &format!("shift\n{told}eval \"exec $*\"")));
    }

    /// Both sides are a user who is not root from now on.
    pub(crate) fn become_nobody(&mut self) {
        self.reach_by_pipe();
        let program = self.path("haul");
        fs::hard_link(self.world.program(), &program).expect("a further name");
        self.run_as(program);
        self.nobody = true;
        self.mkdir("home");
        self.give_to_nobody("");
    }

    /// Both sides run `program`, which becomes haul, from now on.
    pub(crate) fn run_as(&mut self, program: PathBuf) {
        self.program = program;
    }

    /// Writes a file, and makes the directories above it. No two files get the
    /// same time, so that none looks like a copy of another; the same files get the same
    /// in each way.
    pub(crate) fn file(&self, name: impl AsRef<OsStr>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is below a root")).expect("directories");
        fs::write(&path, content).expect("a file");
        let file = self.files.fetch_add(1, Ordering::Relaxed);
        nasty::set_mtime(&path, 1_600_000_000 + i64::from(file), file).expect("a time");
        path
    }

    pub(crate) fn mkdir(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a directory");
        path
    }

    /// Removes these trees, where they are.
    pub(crate) fn clear(&self, trees: &[&str]) {
        for tree in trees {
            // Before the first time there is none.
            let _ = fs::remove_dir_all(self.path(tree));
        }
    }

    pub(crate) fn symlink(&self, target: impl AsRef<Path>, name: impl AsRef<OsStr>) -> PathBuf {
        let path = self.path(name);
        std::os::unix::fs::symlink(target, &path).expect("a symbolic link");
        path
    }

    pub(crate) fn read(&self, name: impl AsRef<OsStr>) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).expect("a file")).into_owned()
    }

    /// True if a process has something in this directory open.
    pub(crate) fn is_at_work(&self) -> bool {
        is_open_below(&self.dir)
    }

    /// True if anything has that name, a symbolic link to nowhere included.
    pub(crate) fn exists(&self, name: impl AsRef<OsStr>) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    pub(crate) fn snapshot(&self, name: impl AsRef<OsStr>) -> Snapshot {
        snapshot(self.path(name)).expect("the tree can be read")
    }

    /// The paths below `name`, in order, escaped.
    pub(crate) fn list(&self, name: impl AsRef<OsStr>) -> Vec<String> {
        let paths = paths_below(&self.path(name));
        paths.iter().map(|path| path.escape_ascii().to_string()).collect()
    }

    /// Gives `name` and all below it to the user that haul runs as.
    pub(crate) fn give_to_nobody(&self, name: &str) {
        if is_root() {
            let root = self.path(name);
            own(&root, (NOBODY, NOBODY));
            for path in paths_below(&root) {
                own(root.join(os(&path)), (NOBODY, NOBODY));
            }
        }
    }

    /// haul without any word, in the scene's directory.
    pub(crate) fn haul(&self) -> Haul {
        self.program(&self.program)
    }

    /// Another program, as the user that haul runs as, in the scene's directory.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Haul {
        let haul = if self.nobody && is_root() {
            let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
            let haul = Haul::new("setpriv").args(user).arg("--clear-groups").arg(program);
            haul.home(self.path("home"))
        } else {
            Haul::new(Path::new(program.as_ref()))
        };
        // What is tested is mostly the end of a connection, and not the next one.
        let mut haul = haul.cwd(&self.dir).env("HAUL_RETRIES", "0");
        match self.by {
            By::Ssh => {}
            // The next command of the scene finds the connection.
            By::Lanes => {
                haul = haul.env("HAUL_KEEP", KEPT_FOR).env("XDG_RUNTIME_DIR", self.runtime());
            }
            By::Server | By::Quic => {
                if self.by == By::Quic {
                    haul = haul.env("HAUL_VIA", "server-quic");
                }
                return haul.env("XDG_STATE_HOME", self.world.served().state());
            }
        }
        // A user's is the same each time, and so is that of who is nobody.
        if self.is_sftp() && !self.nobody {
            return haul.env("XDG_STATE_HOME", self.state());
        }
        haul
    }

    /// The directory of the sockets of kept connections, beside the scene's.
    pub(crate) fn runtime(&self) -> PathBuf {
        let mut runtime = self.dir.clone().into_os_string();
        runtime.push(".run");
        let runtime = PathBuf::from(runtime);
        fs::create_dir_all(&runtime).expect("made");
        fs::set_permissions(&runtime, Permissions::from_mode(0o777)).expect("opened to all");
        runtime
    }

    /// The directory in which haul keeps on this machine what a later upload through SFTP
    /// goes on with. It is not one of those that a test lists.
    pub(crate) fn state(&self) -> PathBuf {
        let mut state = self.dir.clone().into_os_string();
        state.push(".state");
        state.into()
    }

    /// How a copy in this way is compared with its source.
    pub(crate) fn rules(&self) -> Compare {
        matrix::rules(self.way)
    }

    /// The words that say how the host is reached, if there is one.
    pub(crate) fn route(&self) -> Vec<OsString> {
        if self.way == Way::Local { Vec::new() } else { self.remote() }
    }

    /// The words that say how the host is reached.
    pub(crate) fn remote(&self) -> Vec<OsString> {
        if self.by.is_server() {
            return Vec::new();
        }
        let rsh = match &self.rsh {
            Some(rsh) => rsh.clone().into_os_string(),
            None => self.sshd().rsh().into(),
        };
        if self.is_sftp() {
            return ["--rsh".into(), rsh, "--transport".into(), "sftp".into()].to_vec();
        }
        ["--rsh".into(), rsh, "--remote-haul".into(), self.program.clone().into()].to_vec()
    }

    /// `path` as a location on the host.
    pub(crate) fn there(&self, path: impl AsRef<OsStr>) -> OsString {
        let path = path.as_ref();
        let mut location = OsString::from("haul-test:");
        // A server has a root of its own.
        match Path::new(path).strip_prefix(self.world.path()) {
            Ok(below) if self.by.is_server() => {
                location.push("/");
                location.push(below);
                let ends_with = |end: &str| path.as_bytes().ends_with(end.as_bytes());
                if let Some(end) = ["/.", "/"].into_iter().find(|end| ends_with(end)) {
                    location.push(end);
                }
            }
            _ => location.push(path),
        }
        location
    }

    /// A copy with `flags`, from paths below the scene's directory to another.
    pub(crate) fn copy<S: AsRef<OsStr>>(
        &self,
        flags: &[&str],
        sources: &[S],
        dest: impl AsRef<OsStr>,
    ) -> Haul {
        self.copy_by(&self.route(), flags, sources, dest)
    }

    /// The same with other words that say how the host is reached.
    pub(crate) fn copy_by<R: AsRef<OsStr>, S: AsRef<OsStr>>(
        &self,
        remote: &[R],
        flags: &[&str],
        sources: &[S],
        dest: impl AsRef<OsStr>,
    ) -> Haul {
        self.transfer("copy", remote, flags, sources, dest)
    }

    /// `command`, with sources and destination as a copy has them.
    pub(crate) fn transfer<R: AsRef<OsStr>, S: AsRef<OsStr>>(
        &self,
        command: &str,
        remote: &[R],
        flags: &[&str],
        sources: &[S],
        dest: impl AsRef<OsStr>,
    ) -> Haul {
        let dest = self.path(dest);
        let sources = sources.iter().map(|source| self.path(source).into_os_string());
        let mut haul = self.haul().arg(command).args(flags).args(remote);
        let moves_contents = matches!(command, "copy" | "move" | "sync");
        if self.by == By::Lanes && moves_contents && !flags.contains(&"--via") {
            haul = haul.args(["--via", "tcp"]);
        }
        let haul = haul.arg("--");
        match self.way {
            Way::Local => haul.args(sources).arg(dest),
            Way::Upload | Way::SftpUpload => haul.args(sources).arg(self.there(dest)),
            Way::Download | Way::SftpDownload => {
                haul.args(sources.map(|source| self.there(source))).arg(dest)
            }
            Way::Between => {
                haul.args(sources.map(|source| self.there(source))).arg(self.there(dest))
            }
        }
    }
}

/// Writes a script for `sh` and makes it executable. While anybody has it open for writing
/// it can't be run, and a child of another test that was made meanwhile has it open until it
/// is a program of its own: so long the lock on it is held.
pub(crate) fn script(path: &Path, lines: &str) -> PathBuf {
    let mut writer = fs::File::create(path).expect("a file");
    writer.lock().expect("locked");
    writer.write_all(format!("#!/bin/sh\n{lines}\n").as_bytes()).expect("written");
    mode(path, 0o755);
    drop(writer);
    fs::File::open(path).and_then(|file| file.lock()).expect("locked again");
    path.to_path_buf()
}

/// A command of a shell that passes on so many bytes as they come, and ends. It may have read
/// more.
pub(crate) fn first_bytes(count: impl Display) -> String {
    format!("stdbuf -o0 head -c {count}")
}

/// Gives what is at `path`, a link itself, to this user and group.
pub(crate) fn own(path: impl AsRef<Path>, (user, group): (u32, u32)) {
    lchown(path, Some(user), Some(group)).expect("given");
}

/// A PATH with an `ssh` in front that does what `lines` say, and becomes the real
/// one with the configuration of `server`'s clients.
pub(crate) fn path_with_ssh(scene: &Scene<'_>, server: &Sshd, lines: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path).map(|dir| dir.join("ssh")).find(|ssh| ssh.is_file());
    let bin = scene.mkdir("bin");
    let (real, config) = (real.expect("an ssh"), server.ssh_config());
    let becomes = format!("exec '{}' -F '{}' \"$@\"", real.display(), config.display());
    script(&bin.join("ssh"), &format!("{lines}\n{becomes}"));
    format!("{}:{path}", bin.display())
}

/// Lines of a script that do `change` when the script runs for the `nth` time.
pub(crate) fn at_connection(scene: &Scene<'_>, nth: u32, change: &str) -> String {
    let count = scene.path("count");
    format!("echo >> {0}\nif [ \"$(wc -l < {0})\" = {nth} ]; then\n{change}\nfi", count.display())
}

/// Runs a command that has to succeed.
#[track_caller]
pub(crate) fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The lines of `getfacl` and `getfattr` about all that is in `dir`, with owners and modes,
/// but for haul's own.
pub(crate) fn attributes(dir: &Path) -> String {
    let told = |program: &str, flags: &[&str]| {
        let output = Command::new(program).args(flags).current_dir(dir).output();
        let output = output.expect("the program runs: cargo xtask setup installs it");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let acls = told("getfacl", &["-R", "-P", "-n", "."]);
    let xattrs =
        told("getfattr", &["-R", "-P", "-h", "-d", "-m", "user|trusted", "-e", "hex", "."]);
    let lines = owners(dir);
    // Without any attribute a name says nothing.
    let part = |part: &str| {
        let lines = part.trim().lines().filter(|line| !line.starts_with("user.haul."));
        let lines: Vec<_> = lines.collect();
        (lines.len() > 1).then(|| lines.join("\n"))
    };
    let mut parts: Vec<_> =
        acls.split("\n\n").chain(xattrs.split("\n\n")).filter_map(part).collect();
    parts.sort_unstable();
    [lines.join("\n"), parts.join("\n\n")].join("\n")
}

/// Path, owner, group, mode and kind of all in `dir`, in order, as `find` says them.
pub(crate) fn owners(dir: &Path) -> Vec<String> {
    // The empty path is the directory itself.
    let paths = paths_below(&dir.join("")).into_iter();
    let line = |path: Vec<u8>| {
        let stat = fs::symlink_metadata(dir.join(os(&path))).expect("it is there");
        let kind = stat.file_type();
        let kinds = [
            (kind.is_file(), 'f'),
            (kind.is_dir(), 'd'),
            (kind.is_symlink(), 'l'),
            (kind.is_fifo(), 'p'),
            (kind.is_socket(), 's'),
            (kind.is_block_device(), 'b'),
            (kind.is_char_device(), 'c'),
        ];
        let (_, kind) = kinds.into_iter().find(|(is_of, _)| *is_of).expect("a kind");
        let slash = if path.is_empty() { "" } else { "/" };
        let (path, mode) = (path.escape_ascii(), stat.mode() & 0o7777);
        format!(".{slash}{path} {}:{} {mode:o} {kind}", stat.uid(), stat.gid())
    };
    std::iter::once(Vec::new()).chain(paths).map(line).collect()
}

/// Runs a script in the scene's directory.
#[track_caller]
pub(crate) fn sh(scene: &Scene<'_>, script: &str) {
    run(Command::new("sh").args(["-e", "-c", script]).current_dir(scene.path("")));
}

pub(crate) fn is_root() -> bool {
    // A process's own directory in /proc belongs to its effective user.
    fs::metadata("/proc/self").expect("a mounted /proc").uid() == 0
}

/// Sets permission bits.
pub(crate) fn mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode that can be set");
}

/// The permission bits of what is at `path`.
pub(crate) fn mode_of(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

/// The errors that a run reported, without the program's name in front.
pub(crate) fn errors(run: &Outcome) -> Vec<String> {
    let text = run.err();
    let errors = text.lines().filter_map(|line| line.strip_prefix("haul: "));
    errors.filter(|line| !line.starts_with("warning: ")).map(str::to_owned).collect()
}

/// Panics unless the run said as many errors, which end so. In front of that is the rest
/// of the way to what they are about, which differs with the side and the machine. Some
/// systems say in capitals what others don't.
#[track_caller]
pub(crate) fn assert_errors_end<E: AsRef<str>>(run: &Outcome, ends: &[E]) {
    let errors: Vec<String> = errors(run).iter().map(|error| error.to_lowercase()).collect();
    assert_eq!(errors.len(), ends.len(), "{run}");
    for end in ends.iter().map(|end| end.as_ref().to_lowercase()) {
        assert!(errors.iter().any(|error| error.ends_with(&end)), "{end}\n{run}");
    }
}

/// True if an error is about `path`: as the words named it, or as it is there on its own
/// side.
pub(crate) fn is_about(error: &str, path: &str) -> bool {
    let error = error.strip_prefix("haul: ").unwrap_or(error);
    let parted = |sign: &str| error.contains(&format!("{sign}{path}"));
    error.starts_with(path) || ["/", ":", ": "].into_iter().any(parted)
}

/// Panics unless the run said exactly one error, which is about `path`,
/// holds `cause`, and is followed by a hint that holds `hint`.
#[track_caller]
pub(crate) fn assert_one_error(run: &Outcome, path: &str, cause: &str, hint: &str) {
    let text = run.err();
    let lines: Vec<&str> = text.lines().collect();
    let said = match (&lines[..], hint) {
        ([error], "") => {
            error.starts_with("haul: ") && is_about(error, path) && error.contains(cause)
        }
        ([error, what_to_do], _) => {
            error.starts_with("haul: ")
                && is_about(error, path)
                && error.contains(cause)
                && what_to_do.strip_prefix("  hint: ").is_some_and(|said| said.contains(hint))
        }
        _ => false,
    };
    assert!(said, "expected one error: {path}...{cause}, with the hint \"{hint}\"\n{run}");
}

/// The paths below a directory, in order; none below anything else. No content is read.
#[track_caller]
fn paths_below(root: &Path) -> Vec<Vec<u8>> {
    let is_dir = fs::symlink_metadata(root).expect("it is there").is_dir();
    let mut dirs = if is_dir { vec![root.to_path_buf()] } else { Vec::new() };
    let mut found = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a kind").is_dir() {
                dirs.push(entry.path());
            }
            let path = entry.path();
            let path = path.strip_prefix(root).expect("it is below");
            found.push(path.as_os_str().as_bytes().to_vec());
        }
    }
    found.sort_unstable();
    found
}

/// Panics if a private file of haul's is anywhere below `dir`.
#[track_caller]
pub(crate) fn assert_no_strays(dir: &Path) {
    for path in paths_below(dir) {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(&path);
        assert!(!name.starts_with(b".haul-"), "left behind: {}", path.escape_ascii());
    }
}

/// An `OsStr` of bytes that need not be text.
pub(crate) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// The summary's count of bytes that were moved.
#[track_caller]
pub(crate) fn moved(run: &Outcome) -> u64 {
    figure(run, "moved")
}

/// A figure of the summary of a run with `--json`.
#[track_caller]
pub(crate) fn figure(run: &Outcome, name: &str) -> u64 {
    let out = run.out();
    let summary = out.lines().last().expect("a summary");
    let rest = summary.split(&format!("\"{name}\":")).nth(1).expect("it has the figure");
    rest.split([',', '}']).next().and_then(|n| n.parse().ok()).expect("a number")
}
