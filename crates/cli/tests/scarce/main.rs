//! Scarce resources: processes, memory, open files. haul does with
//! fewer, or says what it lacks and ends; it never hangs and never panics.

#[path = "../common/mod.rs"]
mod common;

mod shapes;

use common::*;
use haul_testkit::proc::Signal;
use haul_testkit::{Compare, Haul, Mount, Snapshot, TempDir, assert_same_with, snapshot};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// How long a run may take: far more than any of them needs.
const LIMIT: Duration = Duration::from_secs(180);

/// How a copy goes, through SFTP or not. Where processes are few, each has a user of
/// its own, for those are counted by user; all have to be known to the system, or
/// its SFTP server refuses them.
const WAYS: [(Way, bool, &str); 5] = [
    (Way::Local, false, "games"),
    (Way::Upload, false, "news"),
    (Way::Download, false, "uucp"),
    (Way::Upload, true, "irc"),
    (Way::Download, true, "proxy"),
];

/// A machine on which little is to be had.
struct Scarce {
    dir: TempDir,
    ssh: PathBuf,
    haul: PathBuf,
    /// The tree in `src`, once it was asked for.
    source: OnceLock<Snapshot>,
}

impl Scarce {
    /// With a tree `src` that `make` makes.
    fn new(make: impl FnOnce(&Path)) -> Scarce {
        Self::below(&std::env::temp_dir(), make)
    }

    /// The same in a directory below `parent`.
    fn below(parent: &Path, make: impl FnOnce(&Path)) -> Scarce {
        let dir = TempDir::with_prefix_in("haul-test-", parent).expect("a temporary directory");
        mode(dir.path(), 0o755);
        let haul = dir.path().join("haul");
        run(Command::new("cp").arg(HAUL).arg(&haul));
        // Called like ssh: the command comes last, or with -s the subsystem.
        let ssh = script(
            &dir.path().join("ssh"),
            "case \" $* \" in\n*\" -G \"*) exit 0;;\n*\" -s \"*) exec /usr/lib/openssh/sftp-server;;\nesac\nfor word; do last=$word; done\nexec sh -c \"$last\"",
        );
        let src = dir.path().join("src");
        fs::create_dir(&src).expect("a directory");
        make(&src);
        Scarce { dir, ssh, haul, source: OnceLock::new() }
    }

    /// Leaves its directory to the end of the file system that was made for it: that takes a
    /// third of the time of removing hundreds of thousands of entries, however deep.
    fn leave(self) {
        let _ = self.dir.keep();
    }

    /// Copies under each limit; each run ends, with the tree at its destination or
    /// with a word why not. Gives how many were done.
    fn sweep(&self, way: (Way, bool, &str), limit: &str, values: &[u64]) -> usize {
        values.iter().filter(|value| self.copies(way, limit, **value)).count()
    }

    fn copies(&self, (way, by_sftp, user): (Way, bool, &str), limit: &str, value: u64) -> bool {
        let name = format!("{way:?}-{by_sftp}-{limit}-{value}");
        let dest = self.dir.path().join(&name);
        fs::create_dir(&dest).expect("a directory");
        let mut words = Vec::new();
        if is_root() {
            let user = if limit == "nproc" { user } else { "nobody" };
            run(Command::new("chown").arg(user).arg(&dest));
            let user = [format!("--reuid={user}"), "--regid=65534".into()];
            words.extend(["setpriv".into(), "--clear-groups".into()].into_iter().chain(user));
        }
        words.extend(["prlimit".into(), format!("--{limit}={value}")]);
        let haul = Haul::new(&words[0]).args(&words[1..]).arg(&self.haul);
        let (src, to) = (self.dir.path().join("src"), dest.join("to"));
        let run = self.copy((way, by_sftp), haul, &src, &to).home(&dest).limit(LIMIT).run();
        let said = run.err();
        assert!(!said.contains("panicked"), "{name}: {run}");
        assert!(matches!(run.code, Some(0 | 1 | 3)), "{name}: {run}");
        if run.code == Some(0) {
            let tree = |path: &Path| snapshot(path).expect("the tree can be read");
            let source = self.source.get_or_init(|| tree(&src));
            assert_same_with(source, &tree(&to), Compare::everything().ignoring_mtimes());
        } else {
            assert!(said.contains("haul: "), "{name}: it says nothing: {run}");
        }
        let _ = fs::remove_dir_all(&dest);
        run.code == Some(0)
    }

    /// `haul`, told to copy the tree `src` to `to`.
    fn copy(&self, (way, by_sftp): (Way, bool), haul: Haul, src: &Path, to: &Path) -> Haul {
        let there = |path: &Path| format!("there:{}", path.display());
        let haul = haul.args(["copy", "-r", "-q"]).cwd(self.dir.path());
        if way == Way::Local {
            return haul.arg(src).arg(to);
        }
        let transport = if by_sftp { "sftp" } else { "haul" };
        let haul = haul.arg("--rsh").arg(&self.ssh).args(["--transport", transport]);
        let haul = match by_sftp {
            true => haul.args(["--parallel", "2"]),
            false => haul.arg("--remote-haul").arg(&self.haul),
        };
        match way {
            Way::Upload => haul.arg(src).arg(there(to)),
            _ => haul.arg(there(src)).arg(to),
        }
    }
}

/// Sweeps all ways at the same time, the one from here to here with `here`, the others with
/// `far`; each has to succeed `done_min` times.
fn each_way_under([here, far]: [&Scarce; 2], limit: &str, done_min: usize, values: &[u64]) {
    thread::scope(|scope| {
        for way in WAYS {
            let scarce = if way.0 == Way::Local { here } else { far };
            scope.spawn(move || {
                let done = scarce.sweep(way, limit, values);
                assert!(done >= done_min, "{way:?}: {done} of {} were done", values.len());
            });
        }
    });
}

/// Trees with small files, a large one, and one that a copy could continue: here that has to
/// be longer than far away, where from some blocks on several connections carry it.
fn small_and_large() -> [Scarce; 2] {
    [65, 17].map(|mib| Scarce::new(|src| fill(src, mib << 20)))
}

fn fill(src: &Path, blocks_len: usize) {
    for number in 0..30 {
        fs::write(src.join(format!("f{number}")), number.to_string()).expect("a file");
    }
    fs::write(src.join("pieces"), vec![3; 3 << 20]).expect("a file");
    fs::write(src.join("blocks"), vec![5; blocks_len]).expect("a file");
}

#[test]
fn few_processes() {
    let scarce = small_and_large();
    let values: Vec<u64> =
        (1..=8).chain((10..=22).step_by(3)).chain((24..=40).step_by(2)).collect();
    // How many threads there are at one time depends on who is faster.
    each_way_under(scarce.each_ref(), "nproc", 6, &values);
}

#[test]
fn little_address_space() {
    let scarce = small_and_large();
    // In less, a build without optimisation has no room for its stack.
    let values = [23, 26, 32, 40, 52, 64, 96, 128, 256].map(|mib| mib << 20);
    each_way_under(scarce.each_ref(), "as", 2, &values);
}

#[test]
fn few_open_files_and_many_directories() {
    // In memory: what a disk makes of so many entries is not the question.
    let Some(mount) = Mount::tmpfs(1 << 30) else { return };
    let scarce = Scarce::below(mount.path(), |src| {
        for number in 0..1_000 {
            let dir = src.join(format!("d{number}"));
            fs::create_dir(&dir).expect("a directory");
            fs::write(dir.join("f"), number.to_string()).expect("a file");
        }
    });
    // At 64 and more nothing fails.
    each_way_under([&scarce; 2], "nofile", 3, &[16, 64, 128, 256]);
    scarce.leave();
}

/// The program waits for something that never answers, and nobody looks at flags.
#[test]
fn a_signal_ends_it_whatever_it_waits_for() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("a", "a");
    let ssh = script(&scene.path("ssh"), "touch asked\nexec sleep 100");
    let haul = scene.haul().args(["copy", "--rsh"]).arg(ssh).arg("a").arg(scene.there("b"));
    let running = haul.spawn().expect("started");
    assert!(running.until(LIMIT, || scene.exists("asked")), "ssh was not started");
    let start = Instant::now();
    running.signal(Signal::TERM);
    let run = running.wait().expect("waited").expect_code(130);
    assert!(start.elapsed() < Duration::from_secs(30), "{run}");
    assert!(run.err().contains("interrupted"), "{run}");
}
