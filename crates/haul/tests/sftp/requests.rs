//! `haul ls`, `haul stat` and `haul hash` through a host's SFTP server.

use crate::common::*;
use haul_testkit::{Haul, Sshd, nasty};
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// haul on a path of the scene's directory, as an `sftp://` location.
fn ask(scene: &Scene<'_>, words: &[&str], paths: &[&str]) -> Haul {
    let paths = paths.iter().map(|path| url(scene, path));
    scene.haul().args(words).args(["--rsh", &scene.sshd().rsh(), "--"]).args(paths)
}

fn url(scene: &Scene<'_>, path: &str) -> OsString {
    let mut url = OsString::from("sftp://haul-test");
    url.push(scene.path(path));
    url
}

fn a_tree(scene: &Scene<'_>) {
    let time = |path, seconds| nasty::set_mtime(scene.path(path), seconds, 5).expect("a time");
    mode(scene.file("tree/b", "12345"), 0o640);
    mode(scene.file("tree/a\n", ""), 0o600);
    scene.file("tree/dir/inside", "x");
    mode(scene.path("tree/dir"), 0o1777);
    for (target, link) in [("b", "link"), ("dir", "to-dir"), ("missing", "dangling")] {
        scene.symlink(target, format!("tree/{link}"));
        nasty::set_mtime(scene.path("tree").join(link), 1_600_000_000, 0).expect("a time");
    }
    time("tree/b", 1_700_000_000);
    time("tree/a\n", 0);
    time("tree/dir", 4_000_000_000);
}

#[test]
fn ls_says_what_it_says_with_haul_there() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    a_tree(&scene);
    let out = |words: &[&str], paths: &[&str]| {
        let run = ask(&scene, words, paths).run().expect_ok();
        assert_eq!(run.err(), "", "{run}");
        run.out()
    };
    assert_eq!(out(&["ls"], &["tree"]), "a\\n\nb\ndangling\ndir/\nlink\nto-dir\n");
    assert_eq!(out(&["ls"], &["tree/to-dir"]), "inside\n");
    assert_eq!(out(&["ls", "-0"], &["tree"]), "a\n\0b\0dangling\0dir\0link\0to-dir\0");
    assert_eq!(
        out(&["ls"], &["tree/dangling"]),
        format!("{}\n", scene.path("tree/dangling").display())
    );
    assert_eq!(
        out(&["ls", "-l"], &["tree"]),
        "-rw-------              0 1970-01-01T00:00:00Z a\\n\n\
         -rw-r-----              5 2023-11-14T22:13:20Z b\n\
         lrwxrwxrwx              0 2020-09-13T12:26:40Z dangling -> missing\n\
         drwxrwxrwt              0 2096-10-02T07:06:40Z dir/\n\
         lrwxrwxrwx              0 2020-09-13T12:26:40Z link -> b\n\
         lrwxrwxrwx              0 2020-09-13T12:26:40Z to-dir -> dir\n"
    );
}

#[test]
fn ls_of_a_large_directory_is_complete_and_its_links_lead_where_they_do() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    scene.mkdir("many");
    for n in 0..1500 {
        let name = format!("many/{n:04}-{}", "x".repeat(100));
        let _ = match n % 3 {
            0 => scene.symlink(format!("to-{n}"), name),
            _ => scene.file(name, ""),
        };
    }
    let lines = ask(&scene, &["ls", "-l"], &["many"]).run().expect_ok().out();
    let names: Vec<&str> =
        lines.lines().map(|line| line.split_once("Z ").expect("a time").1).collect();
    assert_eq!(names.len(), 1500);
    for (n, name) in names.iter().enumerate() {
        let link = if n % 3 == 0 { format!(" -> to-{n}") } else { String::new() };
        assert_eq!(*name, format!("{n:04}-{}{link}", "x".repeat(100)));
    }
    scene.mkdir("empty");
    assert_eq!(ask(&scene, &["ls"], &["empty"]).run().expect_ok().out(), "");
}

#[test]
fn stat_tells_all_but_parts_of_a_second() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    a_tree(&scene);
    let out = |words: &[&str], path| ask(&scene, words, &[path]).run().expect_ok().out();
    assert_eq!(
        out(&["stat"], "tree/b"),
        format!(
            "{}\n  kind      file, 5 bytes\n  mode      0640 (-rw-r-----)\n  \
             modified  2023-11-14T22:13:20Z\n",
            url(&scene, "tree/b").display()
        )
    );
    assert!(out(&["stat"], "tree/dir").contains("  kind      directory\n  mode      1777 "));
    assert!(out(&["stat"], "tree/link").contains("  kind      symbolic link to b\n"));
    assert!(out(&["stat", "-L"], "tree/link").contains("  kind      file, 5 bytes\n"));
    run(Command::new("mkfifo").arg(scene.path("fifo")));
    assert!(out(&["stat"], "fifo").contains("  kind      FIFO, socket or device\n"));
    let json = out(&["stat", "--json"], "tree/b");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["host"], &json["mtime_nanos"]), (&"haul-test".into(), &0.into()));
}

#[test]
fn hash_reads_the_content_and_prints_what_haul_there_would() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    // More than one window of requests, and no multiple of any block.
    let large: Vec<u8> = (0..(20u32 << 20) + 7).map(|n| (n % 251) as u8).collect();
    scene.file("large", large);
    scene.file("empty", "");
    scene.symlink("large", "link");
    let names = ["large", "empty", "link", "large"];
    let paths = names.map(|name| scene.path(name));
    let here = scene.haul().arg("hash").args(paths).run().expect_ok().out();
    assert_eq!(ask(&scene, &["hash"], &names).run().expect_ok().out(), here);
}

#[test]
fn what_can_not_be_asked_about_is_told_and_the_others_are_answered() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    scene.file("a", "abc");
    scene.file("dir/x", "x");
    scene.symlink("missing", "dangling");
    run(Command::new("mkfifo").arg(scene.path("fifo")));
    for (words, path, cause) in [
        (&["ls"][..], "missing", "no such file or directory"),
        (&["ls"], "a/x", "no such file or directory"),
        (&["stat"], "missing", "no such file or directory"),
        (&["stat", "-L"], "dangling", "no such file or directory"),
        (&["hash"], "missing", "can't open: no such file or directory"),
        (&["hash"], "dir", "it is a directory"),
        (&["hash"], "dir/", "it is a directory"),
        (&["hash"], "fifo", "it is no regular file"),
    ] {
        let run = ask(&scene, words, &["a", path, "a"]).run().expect_code(1);
        let errors = errors(&run);
        assert_eq!(errors.len(), 1, "{run}");
        let place = format!("haul-test:{}: ", scene.path(path).display());
        assert!(errors[0].starts_with(&place) && errors[0].contains(cause), "{cause}\n{run}");
        assert_eq!(run.out().matches(&scene.path("a").display().to_string()).count(), 2, "{run}");
    }
}

#[test]
fn relative_paths_begin_where_the_session_does_and_so_does_a_tilde() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let start = scene.mkdir("start");
    scene.file("start/marker-of-the-start", "abc");
    scene.file("start/~other", "");
    let server = quick_sshd().sftp(format!("internal-sftp -d {}", start.display()));
    let server = server.start().expect("sshd starts");
    let ask = |server: &Sshd, words: &[&str]| {
        scene.haul().args(words).args(["--rsh", &server.rsh()]).run().expect_ok().out()
    };
    for place in ["sftp://haul-test", "sftp://haul-test/~/"] {
        assert_eq!(ask(&server, &["ls", place]), "marker-of-the-start\n~other\n");
    }
    let by_option = ["ls", "--transport", "sftp", "haul-test:marker-of-the-start"];
    assert_eq!(ask(&server, &by_option), "marker-of-the-start\n");
    assert_eq!(ask(&server, &["ls", "--transport=sftp", "haul-test:~other"]), "~other\n");
    for place in ["haul-test:~", "haul-test:~/", "haul-test:"] {
        let names = ask(&server, &["ls", "--transport", "sftp", place]);
        assert_eq!(names, "marker-of-the-start\n~other\n");
    }
}

#[test]
fn an_sftp_server_that_is_none_or_not_there_is_told_with_what_to_do() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let says = |server: &Sshd, error: &str, hint: &str| {
        let haul = scene.haul().args(["ls", "sftp://haul-test/x", "--rsh", &server.rsh()]);
        let run = haul.run().expect_code(3);
        assert!(run.err().contains(&format!("haul: {error}")), "{run}");
        assert!(run.err().contains("  hint: ") && run.err().contains(hint), "{run}");
    };
    let bare = quick_sshd().without_sftp().start().expect("sshd starts");
    says(&bare, "haul-test offers no sftp\n", "'Subsystem sftp'");
    let talking = quick_sshd().sftp("/bin/echo Welcome to the machine").start();
    says(
        &talking.expect("sshd starts"),
        "haul-test: the host answered with text instead of SFTP: \"Welcome to the machine\"\n",
        "'internal-sftp'",
    );
    let pipe = script(&scene.path("pipe"), "exec cat");
    let haul = scene.haul().args(["ls", "sftp://haul-test/x", "--rsh"]).arg(pipe);
    let run = haul.run().expect_code(2);
    assert!(run.err().contains("remote shell"), "{run}");
}

#[test]
fn a_connection_that_breaks_while_a_file_is_hashed_is_told() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    let large = std::fs::File::create(scene.path("large")).expect("a file");
    large.set_len(1 << 40).expect("a length");
    let running = ask(&scene, &["hash"], &["large"]).limit(Duration::from_secs(30)).spawn();
    let running = running.expect("it starts");
    assert!(running.until(Duration::from_secs(20), || !scene.sshd().sessions().is_empty()));
    // The login, and then some of the content.
    std::thread::sleep(Duration::from_secs(1));
    scene.sshd().cut();
    let run = running.wait().expect("it ends").expect_code(3);
    assert!(errors(&run)[0].starts_with("the connection to haul-test was lost"), "{run}");
    assert!(run.err().contains("  hint: run the same command again"), "{run}");
    assert_eq!(run.out(), "");
}
