//! The configuration file, the environment, and `haul config`, as a user meets them.

use haul_testkit::{TempDir, nasty};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A home directory with a configuration file.
struct Home(TempDir);

impl Home {
    fn new(text: &str) -> Self {
        let home = TempDir::with_prefix("haul-config-").expect("a temporary directory");
        fs::create_dir_all(home.path().join(".config/haul")).expect("a directory");
        let home = Self(home);
        fs::write(home.file(), text).expect("a file");
        nasty::set_mode(home.file(), 0o600).expect("a mode");
        home
    }

    fn file(&self) -> PathBuf {
        self.0.path().join(".config/haul/config.toml")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null());
        for variable in
            ["HAUL_LOG", "HAUL_RSH", "HAUL_TIMEOUT", "HAUL_VERIFY", "RSYNC_RSH", "XDG_CONFIG_HOME"]
        {
            command.env_remove(variable);
        }
        command.env("HOME", self.0.path());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("haul starts")
    }

    /// The words of a command that is refused, with the home directory as `~`.
    fn refused(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        self.shown(&output.stderr)
    }

    fn shown(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8(bytes.to_vec()).expect("messages are UTF-8");
        text.replace(&self.0.path().display().to_string(), "~")
    }
}

const TEXT: &str = "timeout = 120\n\n[host.nas]\nrsh = \"ssh -p 2222\"\n";

#[test]
fn what_applies_is_shown_with_its_origin() {
    let home = Home::new(TEXT);
    let mut command = home.command(&["config", "--parallel", "2", "ann@nas"]);
    let output = command.env("HAUL_VERIFY", "true").output().expect("haul starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    insta::assert_snapshot!(home.shown(&output.stdout));

    let output = home.run(&["config", "--json", "nas"]);
    insta::assert_snapshot!("json", home.shown(&output.stdout));
}

#[test]
fn without_a_file_all_has_its_default() {
    let home = Home::new("");
    fs::remove_file(home.file()).expect("a file of ours");
    let output = home.run(&["config"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    insta::assert_snapshot!(home.shown(&output.stdout));
}

#[test]
fn the_place_follows_xdg() {
    let home = Home::new("timeout = 7\n");
    let elsewhere = home.0.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join("haul")).expect("a directory");
    fs::write(elsewhere.join("haul/config.toml"), "timeout = 8\n").expect("a file");
    nasty::set_mode(elsewhere.join("haul/config.toml"), 0o644).expect("a mode");
    let timeout = |xdg: Option<&str>| {
        let mut command = home.command(&["config"]);
        if let Some(xdg) = xdg {
            command.env("XDG_CONFIG_HOME", xdg);
        }
        let output = command.output().expect("haul starts");
        let text = home.shown(&output.stdout);
        let line = text.lines().find(|line| line.starts_with("timeout")).map(str::to_owned);
        line.expect("a line for it").split_whitespace().nth(1).expect("a value").to_owned()
    };
    assert_eq!(timeout(None), "7");
    assert_eq!(timeout(Some(&elsewhere.display().to_string())), "8");
    assert_eq!(timeout(Some("relative")), "7", "a relative path names no place");
}

#[test]
fn a_mistake_ends_the_command_before_anything_is_done() {
    let home = Home::new("timeout = 5\nparalel = 3\n");
    fs::write(home.0.path().join("a"), "content").expect("a file");
    for words in [&["copy", "a", "b"][..], &["ls", "."], &["config"], &["deploy", "nas"]] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(home.refused(words), @r"
            haul: ~/.config/haul/config.toml:2: unknown key 'paralel'
              hint: known keys are rsh, remote-haul, transport, timeout, parallel, retries, bwlimit, compress, via, congestion, port-range, keep, cache, verify, sync, and sections [host.NAME]
            ");
        }
    }
    assert!(!home.0.path().join("b").exists());
    // These go nowhere, and need none of it.
    for words in [&["help"][..], &["--version"], &["clean", "."]] {
        assert_eq!(home.run(words).status.code(), Some(0), "{words:?}");
    }
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let home = Home::new(TEXT);
    for mode in [0o620, 0o602, 0o666] {
        nasty::set_mode(home.file(), mode).expect("a mode");
        insta::allow_duplicates! {
            insta::assert_snapshot!(home.refused(&["config"]), @r"
            haul: ~/.config/haul/config.toml: other users can write to it
              hint: haul refuses it because it can name a program (rsh) to run as you; run 'chmod go-w' on it
            ");
        }
    }
    for mode in [0o600, 0o644, 0o440] {
        nasty::set_mode(home.file(), mode).expect("a mode");
        assert_eq!(home.run(&["config"]).status.code(), Some(0), "{mode:o}");
    }
}

#[test]
fn a_link_to_the_file_counts_as_what_it_leads_to() {
    let home = Home::new(TEXT);
    let kept = home.0.path().join("dotfiles.toml");
    fs::rename(home.file(), &kept).expect("it moves");
    std::os::unix::fs::symlink(&kept, home.file()).expect("a link");
    assert_eq!(home.run(&["config"]).status.code(), Some(0));
    nasty::set_mode(&kept, 0o666).expect("a mode");
    assert!(home.refused(&["config"]).contains("other users can write to it"));
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let home = Home::new("");
    fs::remove_file(home.file()).expect("a file of ours");
    fs::create_dir(home.file()).expect("a directory");
    assert!(home.refused(&["config"]).contains("not a regular file"));
    fs::remove_dir(home.file()).expect("a directory of ours");
    let made = Command::new("mkfifo").arg(home.file()).status().expect("mkfifo starts");
    assert!(made.success());
    assert!(home.refused(&["config"]).contains("not a regular file"));
}

#[test]
fn the_program_that_the_file_names_is_the_one_that_runs() {
    let home = Home::new("[host.nas]\nrsh = \"./there\"\n");
    let script = |name: &str| {
        let path = home.0.path().join(name);
        fs::write(&path, format!("#!/bin/sh\ntouch {name}-ran\nexit 1\n")).expect("a script");
        nasty::set_mode(&path, 0o755).expect("a mode");
    };
    let names = ["there", "other", "third"];
    names.iter().for_each(|name| script(name));
    let ran = || -> Vec<&str> {
        let paths = names.map(|name| (name, home.0.path().join(format!("{name}-ran"))));
        let ran = paths.into_iter().filter(|(_, path)| fs::remove_file(path).is_ok());
        ran.map(|(name, _)| name).collect()
    };
    assert_eq!(home.run(&["ls", "nas:"]).status.code(), Some(3));
    assert_eq!(ran(), ["there"]);
    let mut command = home.command(&["ls", "nas:"]);
    command.env("HAUL_RSH", "./other").output().expect("haul starts");
    assert_eq!(ran(), ["other"]);
    let mut command = home.command(&["ls", "-e", "./third", "nas:"]);
    command.env("HAUL_RSH", "./other").output().expect("haul starts");
    assert_eq!(ran(), ["third"]);
    // Mirrors take rsync's variable, too, and below haul's own.
    for (words, own, expected) in
        [(&[][..], "", "third"), (&[], "./other", "other"), (&["-e", "./there"], "", "there")]
    {
        let mut command = home.command(&["sync", "-a"]);
        command.args(words).args(["nas:a", "b"]).env("HAUL_RSH", own).env("RSYNC_RSH", "./third");
        command.output().expect("haul starts");
        assert_eq!(ran(), [expected]);
    }
}
