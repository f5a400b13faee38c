//! Sources that somebody else writes to while they go up to a host, or come from one.

use crate::common::*;
use crate::strays;
use haul_testkit::haul::Outcome;
use haul_testkit::sshd::system_sftp_server;
use haul_testkit::{holds_within, nasty, tree};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Less than the pipes to the server hold.
const LITTLE: u64 = 300 << 10;

/// In place of an ssh, for encryption is not the question and would take most of the time:
/// the server at the end of a pipe, as `ends` says, where `SERVER` stands for it.
fn piped_server(scene: &Scene<'_>, ends: &str) -> PathBuf {
    let server = system_sftp_server().expect("an sftp-server").display().to_string();
    scene.mkdir("bin");
    let lines = format!(
        "case \" $* \" in
            *' -'[GV]' '*) exit 0 ;;
        esac
        {}",
        ends.replace("SERVER", &server)
    );
    script(&scene.path("bin/ssh"), &lines)
}

/// One that stops when `len` bytes have passed, has `change` done once haul has
/// written what fits into the pipe, and goes on.
fn changing_ssh(scene: &Scene<'_>, len: u64, change: &str) -> PathBuf {
    let dir = scene.path("");
    let dir = dir.display();
    let ends = format!(
        "{{ stdbuf -o0 head -c {len}; sleep 1; (cd '{dir}'; {change}); exec cat; }} | SERVER"
    );
    piped_server(scene, &ends)
}

/// One from which `len` bytes come; then `change` is done, while the server has long
/// read and sent what is behind them.
fn withholding_ssh(scene: &Scene<'_>, len: u64, change: &str) -> PathBuf {
    let dir = scene.path("");
    let dir = dir.display();
    let ends =
        format!("SERVER | {{ stdbuf -o0 head -c {len}; (cd '{dir}'; {change}); exec cat; }}");
    piped_server(scene, &ends)
}

/// Copies `big` through SFTP by `ssh`, which lets `change` happen to it, with `flags`.
fn copied_by(scene: &Scene<'_>, ssh: &Path, flags: &[&str]) -> Outcome {
    let reach = ["--transport".as_ref(), "sftp".as_ref(), "--rsh".as_ref(), ssh.as_os_str()];
    let run = scene.copy_by(&reach, flags, &["big"], "to").limit(Duration::from_secs(30)).run();
    assert_eq!(strays(&scene.path("to")), [""; 0].map(PathBuf::from), "{run}");
    run
}

/// A file has to be still: it is told, and the old one stays, without anything beside it.
fn assert_not_published(scene: &Scene<'_>, ssh: &Path) {
    let run = copied_by(scene, ssh, &["--strict-source"]).expect_code(1);
    let cause = "it changed while it was read: not copied";
    assert_one_error(&run, "big", cause, "run the same command again");
    assert_eq!(scene.read("to/big"), "old");
}

/// Files of up to this length go up without a hash of what was sent: when such a file has
/// become longer, nothing but a second try tells if it has only grown.
const UNHASHED: u64 = 8 << 20;

/// It is copied as it is after `change`, or, where that made it longer than `len` bytes, as
/// it was.
fn assert_published(scene: &Scene<'_>, ssh: &Path, len: u64, change: &str) {
    let run = copied_by(scene, ssh, &["-v"]);
    let mut expected = fs::read(scene.path("big")).expect("a file");
    let is_hashed = scene.way == Way::Download || len > UNHASHED;
    let has_grown = is_hashed && expected.len() as u64 > len;
    if has_grown {
        expected.truncate(len as usize);
    }
    let copied = fs::read(scene.path("to/big")).expect("a file");
    assert!(copied == expected, "{change}: {run}");
    assert_eq!(run.out().contains("it has grown since"), has_grown, "{run}");
    run.expect_ok();
}

/// Copies a file of `len` bytes from a host, which changes when all but `held` of them
/// have come.
fn downloaded_while(len: u64, held: u64, change: &str) {
    let world = World::new();
    let scene = world.scene(Way::Download);
    scene.file("to/big", "old");
    let ssh = withholding_ssh(&scene, len - held, change);
    let begin = || {
        tree::random_file(scene.path("big"), len, 1).expect("a file");
        // A server tells whole seconds.
        nasty::set_mtime(scene.path("big"), 1_600_000_000, 0).expect("a time");
    };
    begin();
    assert_not_published(&scene, &ssh);
    begin();
    assert_published(&scene, &ssh, len, change);
}

#[test]
fn a_change_on_the_host_is_seen_while_the_last_of_a_download_is_in_transit() {
    let overwrite = "printf changed | dd of=big bs=1 seek=1000 conv=notrunc status=none";
    // The second one is large enough to be continued.
    let lens = [5 << 20, 66 << 20];
    for (change, lens) in [
        (overwrite, &lens[..]),
        ("truncate -s 1000 big", &lens[1..]),
        (": > big", &lens[..1]),
        ("printf more >> big", &lens[..]),
    ] {
        lens.iter().for_each(|len| downloaded_while(*len, LITTLE, change));
    }
}

#[test]
fn a_file_that_is_cut_on_the_host_in_the_middle_of_a_download_leaves_nothing() {
    for len in [12 << 20, 70 << 20] {
        downloaded_while(len, len - (1 << 20), "truncate -s 3000000 big");
    }
}

/// The seconds of now, and what is past of the second.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

fn overwrite(path: &Path, at: &[u64]) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("a file");
    for at in at {
        file.write_all_at(b"new", *at).expect("written");
    }
}

/// A file of `len` bytes has its time at the beginning of a second, and changes at both
/// ends within it: at most so late that all is written then, and before that as soon as
/// the copy has taken a part of it.
fn changed_within_its_second(len: u64) {
    const LATEST: Duration = Duration::from_millis(900);
    const TRIES: usize = 10;
    let world = World::new();
    let scene = world.scene(Way::Download);
    scene.mkdir("to");
    let big = scene.path("big");
    let ssh =
        withholding_ssh(&scene, len / 2, "touch half; while ! [ -e go ]; do sleep 0.01; done");
    let reach = ["--transport".as_ref(), "sftp".as_ref(), "--rsh".as_ref(), ssh.as_os_str()];
    for _ in 0..TRIES {
        for name in ["half", "go", "to/big"] {
            let _ = fs::remove_file(scene.path(name));
        }
        tree::random_file(&big, len, 1).expect("a file");
        let copy = scene.copy_by(&reach, &[], &["big"], "to").limit(Duration::from_secs(30));
        // The clock by which files get their times is some milliseconds behind.
        assert!(holds_within(Duration::from_secs(2), || (20..70).contains(&now().subsec_millis())));
        overwrite(&big, &[0]);
        let second = now().as_secs();
        let running = copy.spawn().expect("it starts");
        let is_time = || {
            now().as_secs() > second
                || now().subsec_millis() >= LATEST.subsec_millis()
                || scene.path("half").exists()
        };
        assert!(holds_within(Duration::from_secs(2), is_time));
        overwrite(&big, &[4, len - 4]);
        let mtime = fs::metadata(&big).and_then(|meta| meta.modified()).expect("a time");
        scene.file("go", "");
        let run = running.wait().expect("it ends").expect_ok();
        if mtime.duration_since(UNIX_EPOCH).expect("after 1970").as_secs() == second {
            let is_copied = fs::read(&big).ok() == fs::read(scene.path("to/big")).ok();
            return assert!(is_copied, "{run}");
        }
    }
    panic!("it was too late each time");
}

#[test]
fn a_file_on_the_host_that_changes_within_the_second_of_its_time_is_copied_as_it_is_then() {
    // One that would come in two parts as a small file, one that would go in one piece, and
    // one with a journal.
    for len in [500 << 10, 5 << 20, 66 << 20] {
        changed_within_its_second(len);
    }
}

/// Uploads a file of `len` bytes while `change` happens to it when ssh has all but
/// `held` bytes.
fn uploaded_while(len: u64, held: u64, change: &str) {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    scene.file("to/big", "old");
    let ssh = changing_ssh(&scene, len - held, change);
    tree::random_file(scene.path("big"), len, 1).expect("a file");
    assert_not_published(&scene, &ssh);
    tree::random_file(scene.path("big"), len, 1).expect("a file");
    assert_published(&scene, &ssh, len, change);
}

#[test]
fn a_change_of_what_is_still_in_the_pipe_to_ssh_is_seen() {
    let change = |len: u64| {
        let at = len - (100 << 10);
        format!("printf changed | dd of=big bs=1 seek={at} conv=notrunc status=none")
    };
    for len in [5 << 20, 66 << 20] {
        uploaded_while(len, LITTLE, &change(len));
    }
}

#[test]
fn a_file_whose_length_changes_when_all_was_sent_is_seen() {
    for change in ["truncate -s 1000 big", ": > big", "printf more >> big"] {
        uploaded_while(5 << 20, LITTLE, change);
    }
    uploaded_while(66 << 20, LITTLE, "printf more >> big");
}

#[test]
fn a_file_that_is_cut_in_transit_is_reported_as_that_and_leaves_nothing() {
    for len in [12 << 20, 70 << 20] {
        uploaded_while(len, len - (1 << 20), "truncate -s 3000000 big");
    }
}
