//! `haul deploy`: haul comes to a host through a real sshd and its SFTP server,
//! is proven there, is found afterwards, and goes again.

#[path = "../common/mod.rs"]
mod common;

mod interrupted;
mod program;
mod refused;

use crate::common::*;
use haul_testkit::haul::Outcome;
use haul_testkit::{Haul, Sshd, SshdBuilder};
use std::fs;
use std::path::{Path, PathBuf};

/// Where haul goes below the home directory.
const BIN: &str = ".local/share/haul/bin";

/// A host without haul, whose home directory is `home` in the scene.
struct Host<'w> {
    scene: Scene<'w>,
    server: Sshd,
}

impl<'w> Host<'w> {
    fn new(world: &'w World) -> Self {
        Self::with(world, |server| server)
    }

    /// A host that is different.
    fn with(world: &'w World, change: impl FnOnce(SshdBuilder) -> SshdBuilder) -> Self {
        let scene = world.scene(Way::Upload);
        let home = scene.mkdir("home");
        mode(&home, 0o755);
        let server = Sshd::builder().env("PATH", "/usr/bin:/bin");
        let server = server.env("HOME", home.display().to_string());
        let server = change(server).start().expect("sshd starts");
        Self { scene, server }
    }

    /// `haul deploy` with `words` and the host.
    fn deploy(&self, words: &[&str]) -> Haul {
        let haul = self.scene.haul().arg("deploy").args(words);
        haul.args(["--rsh", &self.server.rsh(), "haul-test"])
    }

    /// A path below the home directory.
    fn home(&self, path: &str) -> PathBuf {
        self.scene.path("home").join(path)
    }

    /// Makes haul's directory and those above it, open to be looked into, whatever
    /// the umask.
    fn make_bin(&self) {
        self.scene.mkdir(format!("home/{BIN}"));
        for dir in [".local", ".local/share", ".local/share/haul", BIN] {
            mode(self.home(dir), 0o755);
        }
    }

    /// Copies a file to the host with the haul that is found there.
    fn copy(&self) -> Haul {
        self.scene.file("a", "abc");
        let dest = self.scene.there(self.scene.path("copied"));
        self.scene.haul().args(["copy", "a", "--rsh", &self.server.rsh()]).arg(dest)
    }

    /// The names in haul's directory.
    fn names(&self) -> Vec<String> {
        names_in(&self.home(BIN))
    }
}

fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// The run's standard error, without the lines of ssh.
fn said(run: &Outcome) -> Vec<String> {
    let text = run.err();
    text.lines().filter(|line| !line.starts_with("ssh: ")).map(str::to_owned).collect()
}

#[test]
fn a_deployed_haul_is_private_is_found_and_goes_again() {
    let world = World::new();
    let host = Host::new(&world);
    if ["/usr/local/bin/haul", "/opt/homebrew/bin/haul"].iter().all(|p| !Path::new(p).exists()) {
        let run = host.copy().args(["--transport", "haul"]).run().expect_code(3);
        assert!(run.err().contains("  hint: run 'haul deploy haul-test' to install it"), "{run}");
    }

    let run = host.deploy(&[]).run().expect_ok();
    assert_eq!(run.err(), "", "{run}");
    let line = run.out();
    let start = format!("installed haul 0.1.0 as haul-test:~/{BIN}/haul, ");
    assert!(line.starts_with(&start) && line.ends_with(" MiB\n"), "{run}");
    let deployed = host.home(BIN).join("haul");
    assert!(fs::read(&deployed).expect("a file") == fs::read(HAUL).expect("a file"));
    assert_eq!(mode_of(&deployed), 0o700);
    for dir in [BIN, ".local/share/haul"] {
        assert_eq!(mode_of(host.home(dir)), 0o700, "{dir}");
    }
    assert_eq!(host.names(), ["haul"]);

    host.copy().run().expect_ok();
    assert_eq!(host.scene.read("copied"), "abc");
    let run = host.deploy(&[]).env("HAUL_REMOTE_HAUL", "/opt/other").run().expect_ok();
    assert!(run.err().contains("the configuration sets remote-haul to '/opt/other'"), "{run}");

    let run = host.deploy(&["--remove"]).run().expect_ok();
    assert_eq!(run.out(), format!("removed haul-test:~/{BIN}/haul\n"));
    assert_eq!(names_in(&host.home(".local/share")), [""; 0]);
    let run = host.deploy(&["--remove"]).run().expect_ok();
    assert_eq!(run.out(), format!("nothing to remove: no haul-test:~/{BIN}/haul\n"));
}

#[test]
fn a_copy_deploys_on_the_way_where_there_is_none_and_reports_it() {
    let world = World::new();
    let host = Host::new(&world);
    let run = host.copy().arg("--deploy").run().expect_ok();
    let expected = format!(
        "haul: warning: haul-test: no haul there: installed haul 0.1.0 as haul-test:~/{BIN}/haul, "
    );
    let lines = said(&run);
    assert!(lines.len() == 1 && lines[0].starts_with(&expected), "{run}");
    assert_eq!(host.scene.read("copied"), "abc");
    assert_eq!(host.names(), ["haul"]);

    // It is found the next time, and nothing is said.
    host.scene.file("a", "abcd");
    let run = host.copy().arg("--deploy").run().expect_ok();
    assert_eq!(said(&run), [""; 0], "{run}");
}

#[test]
fn the_same_haul_is_left_alone_and_another_is_replaced_in_one_step() {
    let world = World::new();
    let host = Host::new(&world);
    let run = host.deploy(&["-q"]).run().expect_ok();
    assert_eq!((run.out(), run.err()), (String::new(), String::new()), "{run}");
    let deployed = host.home(BIN).join("haul");
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&deployed).expect("a file"));
    let first = inode();
    let run = host.deploy(&[]).run().expect_ok();
    assert_eq!(run.out(), format!("haul 0.1.0 is already installed: haul-test:~/{BIN}/haul\n"));
    assert_eq!(inode(), first);

    // The same length, and one byte is another.
    let mut other = fs::read(&deployed).expect("a file");
    let last = other.len() - 1;
    other[last] ^= 1;
    fs::write(&deployed, &other).expect("a file");
    let run = host.deploy(&[]).run().expect_ok();
    assert!(run.out().ends_with(", replacing another\n"), "{run}");
    assert_ne!(inode(), first);
    assert!(fs::read(&deployed).expect("a file") == fs::read(HAUL).expect("a file"));
    // So is one that is whole, and can't be run.
    mode(&deployed, 0o600);
    let run = host.deploy(&[]).run().expect_ok();
    assert!(run.out().ends_with(", replacing another\n"), "{run}");
    assert_eq!((mode_of(&deployed), host.names()), (0o700, vec!["haul".to_owned()]));
}

#[test]
fn removing_touches_nothing_that_was_not_deployed() {
    let world = World::new();
    let host = Host::new(&world);
    host.make_bin();
    host.scene.mkdir("home/.local/bin");
    host.scene.symlink(HAUL, "home/.local/bin/haul");
    host.deploy(&[]).run().expect_ok();
    host.scene.file(format!("home/{BIN}/notes"), "mine");
    host.scene.file(format!("home/{BIN}/.haul-0123456789abcdef"), "a part of haul");
    let run = host.deploy(&["--remove"]).run().expect_ok();
    let line = format!("removed haul-test:~/{BIN}/haul; its directory is not empty and stays\n");
    assert_eq!(run.out(), line);
    assert_eq!(host.names(), ["notes"]);
    assert!(host.home(".local/bin/haul").exists());

    fs::remove_file(host.home(BIN).join("notes")).expect("removed");
    host.scene.mkdir(format!("home/{BIN}/haul"));
    for words in [&["--remove"][..], &[]] {
        let run = host.deploy(words).run().expect_code(4);
        assert!(
            said(&run)[0].ends_with("/haul: it is not a regular file, and not installed by haul"),
            "{run}"
        );
        assert!(host.home(BIN).join("haul").is_dir());
    }
}
