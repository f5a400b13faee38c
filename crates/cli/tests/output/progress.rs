//! The progress line, on a terminal of a given size.

use crate::common::*;
use haul_testkit::haul::{Haul, Outcome};
use haul_testkit::odd::{Call, OddMount, Quirks};
use haul_testkit::proc::Signal;
use haul_testkit::tree;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// Columns of the terminal, and after a while.
const COLUMNS: usize = 60;
const LATER: usize = 40;

/// A run of haul with those `words` on a terminal, which becomes narrower meanwhile.
fn on_terminal(scene: &Scene<'_>, words: &[OsString]) -> Outcome {
    let words: Vec<String> = words
        .iter()
        .map(|word| format!("'{}'", word.to_str().expect("text").replace('\'', "'\\''")))
        .collect();
    let resize = format!("(sleep 3; stty cols {LATER} < /dev/tty) &");
    let line = format!("stty rows 24 cols {COLUMNS}; {resize} exec '{HAUL}' {}", words.join(" "));
    let run = Haul::new("script").args(["-qec", &line, "/dev/null"]).cwd(scene.path(""));
    run.env("SHELL", "/bin/sh").env("TERM", "xterm").run().expect_ok()
}

/// The lines that stood on the screen for a while, without the terminal's own codes.
fn lines(run: &Outcome) -> Vec<String> {
    let out = run.out();
    let mut text = String::new();
    let mut rest = out.as_str();
    while let Some((before, code)) = rest.split_once("\x1b[") {
        text.push_str(before);
        text.push('\n');
        rest = code.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        rest = &rest[rest.len().min(1)..];
    }
    text.push_str(rest);
    let lines = text.split(['\r', '\n']).map(str::trim_end).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Bytes that a host says before it is slow: that it wants all files, and what came of
/// some. Through SFTP each file has several answers.
const SAID: usize = 13_000;
const SAID_BY_SFTP: usize = 150_000;

/// The host is reached by a pipe that holds back what it says, from a part of it on.
fn slow_host(scene: &mut Scene<'_>, seconds: u32) {
    let said = if scene.is_sftp() { SAID_BY_SFTP } else { SAID };
    let serves = match scene.is_sftp() {
        true => {
            let server = haul_testkit::sshd::system_sftp_server().expect("an sftp-server");
            format!("for word; do [ \"$word\" != -G ] || exit 0; done\n{}", server.display())
        }
        false => "shift\nsh -c \"$*\"".to_owned(),
    };
    let lines = format!("{serves} | {{ dd bs=1 count={said} status=none; sleep {seconds}; cat; }}");
    let name = if scene.is_sftp() { "ssh" } else { "slow" };
    scene.reach_by(script(&scene.path(name), &lines));
}

#[test]
fn in_the_background_it_is_not_drawn() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("file", vec![1; 12 << 20]);
    for (after, is_drawn) in [("", true), ("& wait $!", false)] {
        let line = format!("set -m; '{HAUL}' sync -W --bwlimit=8m file copy {after}");
        let run = Haul::new("script").args(["-qec", &line, "/dev/null"]).cwd(scene.path(""));
        let run = run.env("SHELL", "/bin/sh").env("TERM", "xterm").run().expect_ok();
        assert_eq!(run.out().contains("/1 files  "), is_drawn, "{run}");
        std::fs::remove_file(scene.path("copy")).expect("it was made");
    }
}

#[test]
fn it_fits_the_terminal_and_shows_a_silent_host() {
    each_of(&[Way::Upload, Way::SftpUpload], |scene| slow_host(scene, 9), shows_silent_host);
}

fn shows_silent_host(scene: &Scene<'_>) {
    for number in 0..2000 {
        scene.file(format!("tree/a directory of files/number {number}.txt"), "content");
    }
    let mut words: Vec<OsString> = vec!["copy".into(), "-r".into()];
    words.extend(scene.remote());
    words.extend(["tree".into(), scene.there(scene.path("to/"))]);
    let run = on_terminal(scene, &words);
    let lines = lines(&run);
    assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{lines:#?}");
    let silent = lines.iter().find(|line| line.contains("host silent for "));
    let silent = silent.unwrap_or_else(|| panic!("it was silent for 9 s\n{lines:#?}"));
    assert!(silent.chars().count() <= LATER && silent.contains("% "), "{lines:#?}");
    assert!(lines.last().is_some_and(|line| line.starts_with("copied 2,000 files")), "{lines:#?}");
}

/// The largest that the kernel reads at once through FUSE, and how long that takes.
const READ_LEN: u64 = 128 << 10;
const READ_TAKES: Duration = Duration::from_millis(60);

#[test]
fn it_names_the_file_in_a_copy_a_check_and_a_hash_wherever_that_is() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let Some(disk) = OddMount::new(Quirks::default()) else { return };
    tree::random_file(disk.join("big"), 48 * READ_LEN, 1).expect("a file");
    run(Command::new("cp").arg("-p").arg(disk.join("big")).arg(disk.join("copy")));
    scene.symlink(disk.path(), "slow");
    disk.delay_each(Call::Read, READ_TAKES);
    let there = [vec!["hash".into()], scene.remote(), vec![scene.there(disk.join("big"))]].concat();
    let sftp = ["--rsh".into(), scene.sshd().rsh().into(), "--transport".into(), "sftp".into()];
    let by_sftp =
        [vec!["hash".into()], sftp.to_vec(), vec![scene.there(disk.join("big"))]].concat();
    let check = ["check", "--content", "slow/big", "slow/copy"].map(OsString::from).to_vec();
    let hash = ["hash", "slow/big"].map(OsString::from).to_vec();
    let copy = ["copy", "slow/big", "new"].map(OsString::from).to_vec();
    for (words, done) in [
        (copy, "copied 1 file"),
        (check, "no difference"),
        (hash, "big"),
        (there, "big"),
        (by_sftp, "big"),
    ] {
        let lines = lines(&on_terminal(&scene, &words));
        let percent = |line: &&String| {
            line.split_once("% ").is_some_and(|(percent, _)| percent != "0" && percent != "100")
        };
        let moved = lines.iter().filter(percent).count();
        assert!(moved > 1, "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.contains("ETA ") && line.ends_with("big")),
            "{lines:#?}"
        );
        assert!(lines.last().is_some_and(|line| line.contains(done)), "{lines:#?}");
    }
}

#[test]
fn a_signal_asks_for_the_progress_however_little_is_configured_otherwise() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |_| {},
        |scene| {
            tree::random_file(scene.path("file"), 4 << 20, 1).expect("a file");
            for (command, detail) in [("copy", "-q"), ("copy", "--json"), ("sync", "-q")] {
                let dest = format!("to-{command}{detail}/");
                let flags = ["--bwlimit=2m", detail];
                let remote = if scene.way == Way::Local { Vec::new() } else { scene.remote() };
                let copy = scene.transfer(command, &remote, &flags, &["file"], &dest);
                let running = copy.spawn().expect("it starts");
                let has_begun = || scene.exists(&dest);
                assert!(running.until(Duration::from_secs(20), has_begun), "{dest}");
                std::thread::sleep(Duration::from_millis(500));
                running.signal(Signal::USR1);
                let run = running.wait().expect("it ends").expect_ok();
                let err = run.err();
                let [line] = &*err.lines().collect::<Vec<_>>() else { panic!("{run}") };
                assert!(line.starts_with("haul: ") && line.contains("% "), "{run}");
                assert!(line.contains("/1 files  ") && line.contains("/4.0 MiB  "), "{run}");
            }
        },
    );
}

#[test]
fn a_signal_that_asks_for_the_progress_ends_no_command() {
    // It says so itself when it has begun.
    let lines = format!(
        "mkfifo in; '{HAUL}' serve < in > /dev/null & exec 3> in; sleep 1; kill -USR1 $!; sleep 0.2; \
         exec 3>&-; wait $!"
    );
    let world = World::new();
    let scene = world.scene(Way::Local);
    // Its client has left before it greeted; a signal that ended it would be 138.
    Haul::new("sh").args(["-c", &lines]).cwd(scene.path("")).run().expect_code(3);
}
