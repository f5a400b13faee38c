//! The program as a user runs it, as far as no job of the engine is needed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

fn haul<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_haul"))
        .args(args)
        .env_remove("HAUL_LOG")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .expect("haul starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [
        &["--help"][..],
        &["copy", "--help"],
        &["cp", "-h"],
        &["ls", "-h"],
        &["stat", "-h"],
        &["sync", "-h"],
        &["sync", "--help"],
        &["sync", "-r", "a", "--help"],
        &["help", "sync"],
        &["serve", "--help"],
        &["help"],
        &["help", "copy"],
        &["help", "help"],
    ] {
        let output = haul(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(output.stderr.is_empty(), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: haul"), "{args:?}");
    }
    assert_eq!(haul(["--version"]).stdout, b"haul 0.1.0\n");
    assert_eq!(haul(["sync", "--version"]).stdout, b"haul 0.1.0\n");
    assert_eq!(haul(["sync", "-aV"]).stdout, b"haul 0.1.0\n");
    assert_eq!(haul(["help", "sync"]).stdout, haul(["sync", "--help"]).stdout);
    assert_eq!(haul(["help"]).stdout, haul(["--help"]).stdout);
    assert_eq!(haul(["help", "cp"]).stdout, haul(["copy", "--help"]).stdout);
}

#[test]
fn man_pages_and_completions_are_where_man_and_shells_look() {
    let dir = tempfile::tempdir().expect("a directory");
    let generated = haul([OsStr::new("generate"), dir.path().as_os_str()]);
    assert_eq!((generated.status.code(), stderr(&generated)), (Some(0), String::new()));
    let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).expect(path);
    for command in ["haul", "haul-copy", "haul-move", "haul-check", "haul-ls", "haul-stat"] {
        let page = read(&format!("man/man1/{command}.1"));
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
    let copy = read("man/man1/haul-copy.1");
    for words in ["SOURCE and DEST are a path", "\\-\\-dry\\-run", "haul copy \\-r photos host"] {
        assert!(copy.contains(words), "{words}: {copy}");
    }
    for (path, words) in [
        ("bash-completion/completions/haul", "--no-clobber"),
        ("zsh/site-functions/_haul", "#compdef haul"),
        ("fish/vendor_completions.d/haul.fish", "no-clobber"),
    ] {
        assert!(read(path).contains(words), "{path}");
    }
    for (shell, path) in [
        ("bash", "bash-completion/completions/haul"),
        ("zsh", "zsh/site-functions/_haul"),
        ("fish", "fish/vendor_completions.d/haul.fish"),
    ] {
        let printed = haul(["completions", shell]);
        assert_eq!((printed.status.code(), stderr(&printed)), (Some(0), String::new()));
        assert_eq!(String::from_utf8_lossy(&printed.stdout), read(path), "{shell}");
    }
    // haul serve is of no use by hand.
    assert!(!dir.path().join("man/man1/haul-serve.1").exists());
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let refused = haul([OsStr::new("generate"), file.as_os_str()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("can't write"), "{}", stderr(&refused));
}

#[test]
fn completions_are_read_by_their_shells_and_have_each_command() {
    let dir = tempfile::tempdir().expect("a directory");
    for (shell, reads) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = haul(["completions", shell]).stdout;
        let text = String::from_utf8_lossy(&script);
        for word in ["copy", "sync", "check", "deploy", "completions", "delete-after", "link-dest"]
        {
            assert!(text.contains(word), "{shell}: {word}");
        }
        let path = dir.path().join(shell);
        std::fs::write(&path, &script).expect("a file");
        // Those that are installed say if it is in order.
        if let Ok(read) = Command::new(shell).arg(reads).arg(&path).output() {
            assert!(read.status.success() && read.stderr.is_empty(), "{shell}: {read:?}");
        }
    }
    let script = dir.path().join("bash");
    let asked = format!(
        ". {}; COMP_WORDS=(haul sync --delete-a); COMP_CWORD=2; _haul haul --delete-a sync; echo ${{COMPREPLY[@]}}",
        script.display()
    );
    let completed = Command::new("bash").args(["-c", &asked]).output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "--delete-after\n", "{completed:?}");
    assert_eq!(haul(["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn bash_completes_quoted_words_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("bash");
    std::fs::write(&script, haul(["completions", "bash"]).stdout).expect("a file");
    // In place of haul, and of a builtin that works only where bash itself completes.
    let offer = "places() { printf 'nas:dir/a\\n'; }; compopt() { :; }";
    for (line, expected) in [
        ("haul copy nas:di", "dir/a\n"),
        ("haul copy my\\ nas:di", "\n"),
        ("haul copy \"nas:di", "\n"),
        ("haul copy 'nas:di", "\n"),
    ] {
        let asked = format!(
            ". {}; {offer}; COMP_LINE=$1; COMP_POINT=${{#1}}; COMP_WORDS=(haul copy nas : di); \
             COMP_CWORD=4; _haul_places places di :; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let run = Command::new("bash").args(["-c", &asked, "bash", line]).output().expect("bash");
        assert_eq!(String::from_utf8_lossy(&run.stdout), expected, "{line}: {run:?}");
    }
}

#[test]
fn wrong_words_exit_with_2_and_say_why() {
    for (args, why) in [
        (&["copy", "a"][..], "the destination is missing"),
        (&["copy", "-f", "-u", "a", "b"], "--force and --update exclude each other"),
        (&["copy", "-q", "-v", "a", "b"], "--quiet and --verbose exclude each other"),
        (&["check", "--watch", "a", "b"], "hint: 'haul check --help' shows the options"),
        (&["copy", "--recursiv", "a", "b"], "hint: do you mean '--recursive'?"),
        (&["copy", "--no-checksum", "a", "b"], "hint: leave it out: without --checksum it is off"),
        (&["copy", "--no-times", "a", "b"], "hint: use 'haul sync', which has --no-times"),
        (&["check", "--checksum", "a", "b"], "hint: use --content to compare contents; for scp's"),
        (&["copy", "--foo.bar", "a", "b"], "'haul copy' has no --foo.bar"),
        (&["transfer", "a", "b"], "'transfer' is not a command of haul"),
        (&["help", "transfer"], "'transfer' is not a command of haul"),
        (&["copy", "-r", "--delete", "a", "b"], "'haul copy' has no --delete"),
        (&["copy", "-P", "2222", "a", "host:"], "use ssh://host:2222/path"),
        (&[], "Usage: haul"),
        (&["move", "a:x", "b:y"], "a:x: can't move from one host to another"),
        (&["copy", "a/x", "b/x", "."], "a/x and b/x have the same destination: x"),
        (&["copy", "--", "-oProxyCommand=true:x", "."], "invalid host name '-oProxyCommand=true'"),
        (&["ls", "scp://host/x"], "unknown scheme scp://"),
        (&["hash", ""], "the path is empty"),
    ] {
        let output = haul(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
        assert!(args.is_empty() || stderr(&output).starts_with("haul: "), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn nothing_exits_with_0_that_was_not_done_for_a_word_that_means_help_elsewhere() {
    let dir = scratch("help-or-job");
    std::fs::write(dir.join("a"), vec![b'x'; 5000]).expect("a file");
    let run = |args: &[&str]| {
        let mut haul = Command::new(env!("CARGO_BIN_EXE_haul"));
        haul.args(args).current_dir(&dir).env("XDG_CONFIG_HOME", "/nonexistent");
        haul.stdin(Stdio::null()).output().expect("haul starts")
    };
    for (command, dest) in [(&["copy", "-ah"][..], "b"), (&["copy", "-avh"], "c")] {
        let output = run(&[command, &["a", dest]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(dir.join(dest).exists(), "{command:?}");
    }
    let listed = run(&["ls", "-lh", "a"]);
    let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(lines.contains(" 4.9 KiB "), "{lines}");
    for args in [&["stat", "-h", "a"][..], &["hash", "a", "-h"], &["clean", "-nh", "."]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("--help' shows"), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_comparison_that_failed_in_part_does_not_say_that_nothing_differs() {
    let dir = scratch("check-failed");
    std::fs::create_dir(dir.join("d")).expect("a directory");
    let [nope, d] = ["nope/", "d"].map(|name| dir.join(name).into_os_string());
    let output = haul([OsStr::new("check"), OsStr::new("-r"), &nope, &d]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("some entries were not compared in "), "{said}");
}

#[test]
fn a_home_of_another_user_is_not_a_name() {
    let output = haul(["copy", "a", "nas:~root/d/"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("haul does not look up the home directories of other users"), "{said}");
    assert!(said.contains("hint: write the whole path") && said.contains("host:./~name"));
}

#[test]
fn names_in_messages_are_escaped() {
    let name = OsStr::from_bytes(b"d/\x1b[2J\xff\n");
    let output = haul([OsStr::new("copy"), name, name, OsStr::new(".")]);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(stderr(&output), @r"
    haul: d/\x1b[2J\xff\n and d/\x1b[2J\xff\n have the same destination: \x1b[2J\xff\n
      hint: copy them separately, to different names or directories
    ");
}

#[test]
fn json_of_a_refused_copy_has_a_start_an_error_and_a_summary() {
    let output = haul(["copy", "--json", "a:x", "b:x", "here"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "");
    let lines: Vec<serde_json::Value> = output
        .stdout
        .split(|&b| b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("each line is JSON"))
        .collect();
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!(types, ["start", "error", "summary"]);
    assert_eq!(lines[1]["kind"], "usage");
    assert_eq!(lines[2]["exit_code"], 2);
}

#[test]
fn a_reader_that_is_gone_is_no_crash() {
    for args in [&["--help"][..], &["copy", "--json", "a:x", "b:x", "here"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_haul"))
            .args(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("haul starts");
        assert!(output.status.code().is_some_and(|code| code <= 2), "{args:?}: {output:?}");
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
}

/// An empty directory for one test.
fn scratch(name: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory of our own");
    path
}

#[test]
fn a_hint_is_given_once_and_the_other_files_are_copied() {
    let dir = scratch("hint-once");
    for name in ["one", "two", "dest"] {
        std::fs::create_dir(dir.join(name)).expect("a directory");
    }
    std::fs::write(dir.join("file"), "content").expect("a file");
    let paths = ["one", "file", "two", "dest"].map(|name| dir.join(name).into_os_string());
    let output = haul(
        [OsStr::new("copy"), OsStr::new("-v")].into_iter().chain(paths.iter().map(AsRef::as_ref)),
    );
    assert_eq!(output.status.code(), Some(1));
    let errors = stderr(&output);
    assert_eq!(errors.matches("haul: ").count(), 2, "{errors}");
    assert_eq!(errors.matches("  hint: use -r").count(), 1, "{errors}");
    let lines = String::from_utf8(output.stdout).expect("lines are UTF-8");
    assert!(lines.starts_with("copied file\ncopied 1 file, 7 B in "), "{lines}");
    assert!(lines.ends_with("; failed 2\n"), "{lines}");
}

#[test]
fn archiving_copies_trees_and_says_once_what_is_not_kept() {
    let dir = scratch("archive");
    std::fs::create_dir_all(dir.join("tree/below")).expect("directories");
    std::fs::write(dir.join("tree/below/file"), "content").expect("a file");
    let run = |flags: &str, dest: &str| {
        let [tree, dest] = ["tree", dest].map(|name| dir.join(name).into_os_string());
        let output = haul([OsStr::new("copy"), OsStr::new(flags), &tree, &dest]);
        assert_eq!(output.status.code(), Some(0), "{flags}: {output:?}");
        assert!(std::path::Path::new(&dest).join("below/file").exists(), "{flags}");
        output
    };
    assert_eq!(stderr(&run("-avz", "plain")), "");
    assert_eq!(stderr(&run("-aq", "quiet")), "");
    assert_eq!(stderr(&run("-rpP", "kept anyway")), "");
}

#[test]
fn a_place_that_is_no_directory_is_no_cache() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    for place in [file.clone(), file.join("below")] {
        let run = Command::new(env!("CARGO_BIN_EXE_haul"))
            .arg("cache")
            .env("HAUL_CACHE_DIR", &place)
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .output();
        let run = run.expect("haul starts");
        let expected = format!(
            "haul: can't use the cache in {}: not a directory\n  hint: set HAUL_CACHE_DIR to a directory of your own, or to one that can be created\n",
            place.display()
        );
        assert_eq!(stderr(&run), expected);
        assert_eq!(run.status.code(), Some(1));
    }
}
