//! `haul ls`, `haul stat` and `haul hash`, here and on a host, with haul there and without.

use crate::common::*;
use haul_testkit::{Haul, nasty};
use std::ffi::OsString;
use std::process::Command;

/// Where is asked: here, a haul on a host, and an SFTP server.
const PLACES: [Way; 3] = [Way::Local, Way::Download, Way::SftpDownload];

/// Runs `test` here and on a host.
fn here_and_there(test: impl Fn(&Scene<'_>) + Sync) {
    each_of(&PLACES, |scene| scene.reach_by_pipe(), test);
}

/// Runs `test` here and on a host behind real ssh.
fn here_and_there_by_ssh(test: impl Fn(&Scene<'_>) + Sync) {
    each_of(&PLACES, |_| {}, test);
}

/// A path below the scene's directory, on the side that is asked.
fn at(scene: &Scene<'_>, path: &str) -> OsString {
    match scene.way {
        Way::Local => scene.path(path).into_os_string(),
        _ => scene.there(scene.path(path)),
    }
}

fn ask(scene: &Scene<'_>, words: &[&str], paths: &[&str]) -> Haul {
    let remote = if scene.way == Way::Local { Vec::new() } else { scene.remote() };
    let paths = paths.iter().map(|path| at(scene, path));
    scene.haul().args(words).args(remote).arg("--").args(paths)
}

/// A path as it is shown.
fn shown(scene: &Scene<'_>, path: &str) -> String {
    at(scene, path).to_string_lossy().into_owned()
}

fn a_tree(scene: &Scene<'_>) {
    let time = |path, seconds| nasty::set_mtime(scene.path(path), seconds, 5).expect("a time");
    mode(scene.file("tree/b", "12345"), 0o640);
    mode(scene.file("tree/a\n", ""), 0o600);
    scene.file("tree/dir/inside", "x");
    mode(scene.path("tree/dir"), 0o1777);
    scene.symlink("b", "tree/link");
    scene.symlink("dir", "tree/to-dir");
    scene.symlink("missing", "tree/dangling");
    time("tree/b", 1_700_000_000);
    time("tree/a\n", 0);
    // In SFTP there is none before 1970, and none behind 2106.
    time("tree/dir", if scene.is_sftp() { 4_000_000_000 } else { -1 });
    for link in ["link", "to-dir", "dangling"] {
        nasty::set_mtime(scene.path("tree").join(link), 1_600_000_000, 0).expect("a time");
    }
}

#[test]
fn ls_shows_names_in_order() {
    here_and_there(|scene| {
        a_tree(scene);
        let out = |words: &[&str], paths: &[&str]| ask(scene, words, paths).run().expect_ok().out();
        let names = "a\\n\nb\ndangling\ndir/\nlink\nto-dir\n";
        assert_eq!(out(&["ls"], &["tree"]), names);
        assert_eq!(out(&["ls"], &["tree/to-dir"]), "inside\n");
        assert_eq!(out(&["ls", "-0"], &["tree"]), "a\n\0b\0dangling\0dir\0link\0to-dir\0");
        let path = |name| scene.path(name).display().to_string();
        assert_eq!(out(&["ls"], &["tree/b"]), format!("{}\n", path("tree/b")));
        assert_eq!(out(&["ls"], &["tree/dangling"]), format!("{}\n", path("tree/dangling")));
        assert_eq!(
            out(&["ls"], &["tree", "tree/dir"]),
            format!("{}:\n{names}\n{}:\ninside\n", shown(scene, "tree"), shown(scene, "tree/dir"))
        );
        let time = if scene.is_sftp() { "2096-10-02T07:06:40Z" } else { "1969-12-31T23:59:59Z" };
        assert_eq!(
            out(&["ls", "-l"], &["tree"]),
            format!(
                "-rw-------              0 1970-01-01T00:00:00Z a\\n\n\
                 -rw-r-----              5 2023-11-14T22:13:20Z b\n\
                 lrwxrwxrwx              7 2020-09-13T12:26:40Z dangling -> missing\n\
                 drwxrwxrwt              0 {time} dir/\n\
                 lrwxrwxrwx              1 2020-09-13T12:26:40Z link -> b\n\
                 lrwxrwxrwx              3 2020-09-13T12:26:40Z to-dir -> dir\n"
            )
        );
        run(Command::new("mkfifo").arg(scene.path("fifo")));
        mode(scene.path("fifo"), 0o600);
        nasty::set_mtime(scene.path("fifo"), 1_600_000_000, 0).expect("a time");
        let fifo = format!("prw-------              0 2020-09-13T12:26:40Z {}\n", path("fifo"));
        assert_eq!(out(&["ls", "-l"], &["fifo"]), fifo);
    });
}

#[test]
fn ls_of_a_large_directory_is_complete() {
    here_and_there_by_ssh(|scene| {
        let name = |n| format!("{n:04}-{}", "x".repeat(200));
        scene.mkdir("many");
        for n in 0..1500 {
            let path = format!("many/{}", name(n));
            let _ = match n % 3 {
                0 => scene.symlink(format!("to-{n}"), path),
                _ => scene.file(path, ""),
            };
        }
        let lines = ask(scene, &["ls", "-l"], &["many"]).run().expect_ok().out();
        let names: Vec<&str> =
            lines.lines().map(|line| line.split_once("Z ").expect("a time").1).collect();
        assert_eq!(names.len(), 1500);
        for (n, found) in names.iter().enumerate() {
            let link = if n % 3 == 0 { format!(" -> to-{n}") } else { String::new() };
            assert_eq!(*found, format!("{}{link}", name(n)));
        }
        scene.mkdir("empty");
        assert_eq!(ask(scene, &["ls"], &["empty"]).run().expect_ok().out(), "");
    });
}

#[test]
fn stat_shows_what_stands_there() {
    here_and_there(|scene| {
        a_tree(scene);
        let out = |words: &[&str], path| ask(scene, words, &[path]).run().expect_ok().out();
        assert_eq!(
            out(&["stat"], "tree/b"),
            format!(
                "{}\n  kind      file, 5 bytes\n  mode      0640 (-rw-r-----)\n  \
                 modified  2023-11-14T22:13:20{}Z\n",
                shown(scene, "tree/b"),
                if scene.is_sftp() { "" } else { ".000000005" },
            )
        );
        assert!(out(&["stat"], "tree/dir").contains("  kind      directory\n  mode      1777 "));
        assert!(out(&["stat"], "tree/link").contains("  kind      symbolic link to b\n"));
        assert!(out(&["stat", "-L"], "tree/link").contains("  kind      file, 5 bytes\n"));
        assert!(out(&["stat"], "tree/dir/..").contains("  kind      directory\n"));
        run(Command::new("mkfifo").arg(scene.path("fifo")));
        assert!(out(&["stat"], "fifo").contains("  kind      FIFO\n"));
    });
}

#[test]
fn hash_prints_the_lines_of_b3sum() {
    here_and_there_by_ssh(|scene| {
        // From the official test vectors: the bytes 0 to 250 again and again.
        let pattern: Vec<u8> = (0..102_400u32).map(|n| (n % 251) as u8).collect();
        scene.file("empty", "");
        scene.file("abc", "abc");
        scene.file("pattern", pattern);
        // More than is asked of a server at once, and no multiple of any block.
        let large: Vec<u8> = (0..(20u32 << 20) + 7).map(|n| (n % 253) as u8).collect();
        scene.file("large", &large);
        scene.symlink("large", "link");
        scene.file("back\\slash\nline", "abc");
        let abc = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
        let lines = [
            ("empty", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
            ("abc", abc),
            ("pattern", "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"),
        ]
        .map(|(name, hash)| format!("{hash}  {}\n", scene.path(name).display()));
        let run = ask(scene, &["hash"], &["empty", "abc", "pattern"]).run().expect_ok();
        assert_eq!(run.out(), lines.concat());
        let run_of = |names: &[&str]| ask(scene, &["hash"], names).run().expect_ok().out();
        let here = scene.haul().arg("hash").args(["large", "link"].map(|name| scene.path(name)));
        assert_eq!(run_of(&["large", "link"]), here.run().expect_ok().out());
        let odd = ask(scene, &["hash"], &["back\\slash\nline"]).run().expect_ok();
        let odd_name = scene.path("back\\\\slash\\nline").display().to_string();
        assert_eq!(odd.out(), format!("\\{abc}  {odd_name}\n"));

        if Command::new("b3sum").arg("--version").output().is_ok() {
            let sums = scene.file("sums", run.out() + &odd.out());
            crate::common::run(Command::new("b3sum").arg("--check").arg(sums));
        }
    });
}

#[test]
fn what_cannot_be_asked_about_is_reported_and_the_others_are_answered() {
    here_and_there(|scene| {
        scene.file("a", "abc");
        scene.file("dir/x", "x");
        scene.symlink("missing", "dangling");
        run(Command::new("mkfifo").arg(scene.path("fifo")));
        for (words, path, cause) in [
            (&["ls"][..], "missing", "no such file or directory"),
            // To a server that is no more than not there.
            (&["ls"], "a/x", if scene.is_sftp() { "no such file" } else { "not a directory" }),
            (&["stat"], "missing", "no such file or directory"),
            (&["stat", "-L"], "dangling", "no such file or directory"),
            (&["hash"], "missing", "no such file or directory"),
            (&["hash"], "dir", "s a directory"),
            (&["hash"], "dir/", "s a directory"),
            (&["hash"], "a/", if scene.is_sftp() { "no such file" } else { "not a directory" }),
            (&["stat"], "a/", if scene.is_sftp() { "no such file" } else { "not a directory" }),
            (&["hash"], "fifo", "it is not a regular file"),
        ] {
            let run = ask(scene, words, &["a", path, "a"]).run().expect_code(1);
            let errors = errors(&run);
            assert_eq!(errors.len(), 1, "{run}");
            assert!(errors[0].starts_with(&format!("{}: ", shown(scene, path))), "{run}");
            assert!(errors[0].to_lowercase().contains(cause), "{cause}\n{run}");
            assert_eq!(
                run.out().matches(&scene.path("a").display().to_string()).count(),
                2,
                "{run}"
            );
        }
    });
}

#[test]
fn json_answers_say_the_same() {
    here_and_there(|scene| {
        a_tree(scene);
        let objects = |words: &[&str], path: &str| -> Vec<serde_json::Value> {
            let run = ask(scene, words, &[path]).run().expect_ok();
            let lines = run.out();
            lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        let entries = objects(&["ls", "--json"], "tree");
        let path = |name: &str| scene.path("tree").join(name).display().to_string();
        assert_eq!(entries.len(), 6);
        assert_eq!(entries[1]["path"], path("b"));
        assert_eq!(entries[1]["mode"], "0640");
        let nanos = if scene.is_sftp() { 0 } else { 5 };
        assert_eq!((&entries[1]["size"], &entries[1]["mtime_nanos"]), (&5.into(), &nanos.into()));
        assert_eq!((&entries[4]["kind"], &entries[4]["target"]), (&"symlink".into(), &"b".into()));
        let host = if scene.way == Way::Local { None } else { Some("haul-test") };
        assert_eq!(entries[1]["host"].as_str(), host);
        let stat = objects(&["stat", "--json"], "tree/b");
        assert_eq!(stat[0]["mtime_secs"], 1_700_000_000);
        let hash = objects(&["hash", "--json"], "tree/a\n");
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!((&hash[0]["hash"], &hash[0]["path"]), (&empty.into(), &path("a\n").into()));
    });
}
