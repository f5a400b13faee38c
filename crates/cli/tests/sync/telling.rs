//! Messages, and the exit codes.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::nasty;
use std::process::Command;

#[test]
fn nothing_is_reported_unless_it_was_asked_for() {
    each_way_by_pipe(|scene| {
        Pair::usual(scene);
        let route = scene.route();
        let sync = |flags: &[&str]| scene.transfer("sync", &route, flags, &["src/"], "dst").run();
        let run = sync(&["-an", "--delete"]).expect_ok();
        assert_eq!((run.out(), run.err()), (String::new(), String::new()));
        let run = sync(&["-avn", "--delete"]).expect_ok();
        assert!(run.out().contains("deleting x/y/1\n") && run.out().contains("\nd/e/changed\n"));
        assert!(
            run.out().contains("\ntotal size is ") && run.out().ends_with("(dry run)\n"),
            "{run}"
        );
        let run = sync(&["-a", "--out-format=%o %l %n"]).expect_ok();
        assert!(run.out().contains(" 5 d/changed\n"), "{run}");
    });
}

#[test]
fn lines_come_in_the_order_of_the_listing() {
    each_way_by_pipe(|scene| {
        // The first file takes longest.
        scene.file("src/a", "a".repeat(3 << 20));
        for name in ["b", "c", "d/a", "d/b", "d/e/a", "f/a"] {
            scene.file(format!("src/{name}"), name);
        }
        let sync = |flags: &[&str]| {
            scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run().expect_ok().out()
        };
        let names = sync(&["-r", "--out-format=%n"]);
        assert_eq!(names, "./\na\nb\nc\nd/\nd/a\nd/b\nd/e/\nd/e/a\nf/\nf/a\n");
    });
}

#[test]
fn hashes_in_lines_are_those_of_the_contents() {
    each_way_by_pipe(|scene| {
        scene.file("src/large", "large".repeat(1 << 20));
        scene.file("src/small", "small");
        let sync = |flags: &[&str], format| {
            let flags = [&["-a", format], flags].concat();
            scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok().out()
        };
        let hash = |name: &str| {
            let run = scene.haul().arg("hash").arg(scene.path(format!("src/{name}"))).run();
            run.expect_ok().out()[..64].to_owned()
        };
        let (large, small, none) = (hash("large"), hash("small"), " ".repeat(64));
        let expected = format!("{none} ./\n{large} large\n{small} small\n");
        assert_eq!(sync(&[], "--out-format=%C %n"), expected);
        let lines = sync(&["-cii"], "--out-format=%i %C %n");
        for line in [format!(" {large} large\n"), format!(" {small} small\n")] {
            assert!(lines.contains(&line), "{lines}");
        }
    });
}

#[test]
fn a_created_destination_is_reported_as_by_rsync() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "new");
    for words in [
        "-av src/ new/",
        "-ai src/ new",
        "-ain src/ new",
        "-a src/ new",
        "-av --info=name0 src/ new",
        "-av src new",
        "-av src/a new/",
        "-av src/a name",
        "-av --mkpath src/a new/dir/",
        "-av --mkpath src/a new/dir/name",
    ] {
        let created = |program: &str| {
            scene.clear(&["new"]);
            let run = match program {
                "haul" => scene.haul().arg("sync").args(words.split(' ')).run(),
                _ => scene.program(program).cwd(scene.path("")).args(words.split(' ')).run(),
            };
            let out = run.expect_ok().out();
            out.lines().filter(|line| line.starts_with("created ")).collect::<Vec<_>>().concat()
        };
        assert_eq!(created("haul"), created("rsync"), "{words}");
    }
}

#[test]
fn a_created_destination_is_reported_wherever_it_is() {
    everywhere_by_pipe(|scene| {
        scene.file("src/a", "new");
        for flags in [&["-rvn"][..], &["-rvn", "--delete-before"], &["-rv"], &["-rv"]] {
            let is_missing = !scene.exists("new");
            let sync = scene.transfer("sync", &scene.route(), flags, &["src/"], "new");
            let out = sync.run().expect_ok().out();
            let line = format!("created directory {}\n", scene.path("new").display());
            assert_eq!(out.matches(&line).count(), usize::from(is_missing), "{flags:?}: {out}");
        }
    });
}

#[test]
fn what_is_reported_is_what_rsync_reports() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    // Haul's figures are one line, and rsync's are two.
    let is_of_figures = |line: &str| {
        ["sent ", "total size ", "sending ", "(new) backup_dir", "Number of", "Total "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let told = |text: String| {
        let lines = text.lines().filter(|line| !line.is_empty() && !is_of_figures(line));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort();
        (lines, text.contains("sent ") || text.contains(" copied, "))
    };
    for words in [
        "-av",
        "-av --info=none",
        "--info=none -av",
        "-av --info=name0",
        "-v -a --info=name0,del,stats0",
        "-a --info=name,DEL",
        "-a --info=del1",
        "-av --info=del0",
        "-av --info=none,name",
        "-av --info=stats0,flist0,skip0,misc0",
        "-ai --info=none",
        "-ai --info=name0",
        "-a --stats --info=none",
        "-a --info=ALL0,nonreg",
        "-a --info=all1,backup2,COPY,flist0,misc,mount,nonreg,progress0,remove,skip,stats0,symsafe",
        "-av --no-v",
        "-avi -q",
        "-a --stats -q --info=progress",
        "-aq --info=name2",
        "-a --out-format=%n",
        "-av --out-format=<%n>",
        "-a --out-format=%i_%n",
        "-aub --info=skip,backup",
        "-ab --backup-dir=old --info=backup",
        "-a --ignore-existing --info=skip",
    ] {
        scene.clear(&["src", "ours", "theirs"]);
        for name in ["a", "newer", "other"] {
            scene.file(format!("src/{name}"), "new");
        }
        nasty::set_mtime(scene.path("src/newer"), 1, 0).expect("a time");
        for dest in ["ours", "theirs"] {
            scene.file(format!("{dest}/extra"), "extra");
            scene.file(format!("{dest}/newer"), "newer");
            scene.file(format!("{dest}/other"), "another");
            nasty::set_mtime(scene.path(format!("{dest}/other")), 1, 0).expect("a time");
        }
        let flags: Vec<_> = words.split(' ').chain(["--delete", "src/"]).collect();
        let ours = scene.haul().arg("sync").args(&flags).arg("ours").run().expect_ok();
        let theirs = scene.program("rsync").cwd(scene.path("")).args(&flags).arg("theirs").run();
        assert_eq!(told(ours.out()), told(theirs.out()), "{words}: {ours}\n{theirs}");
    }
}

#[test]
fn words_that_haul_has_not_are_errors() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "a");
    for (flags, message) in [
        (&["-a", "--iconv=utf-8"][..], "has no --iconv"),
        (&["-a", "--info=nope"], "not a flag of rsync"),
        (&["-a", "--no-foo"], "has no --no-foo\n  hint: 'haul sync --help' shows the options"),
        (&["-aN"], "has no --crtimes (-N)\n  hint: this system can't set creation times"),
        (&["--delete"], "does not work without --recursive"),
        (&["--max-size=x"], "not a size"),
        (&["--out-format=%Q"], "%Q"),
    ] {
        let run = scene.haul().args(["sync"]).args(flags).args(["src/", "dst"]).run();
        let run = run.expect_code(1);
        assert!(run.err().contains(message), "{run}");
        assert!(!scene.exists("dst"));
    }
}

#[test]
fn exit_codes_are_those_of_rsync() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "a");
    let pair = Pair::of(&scene);
    pair.run(&["-a"], &["src/", "missing"], "dst");
    pair.run(&["-a"], &["src/a"], "dst");
    scene.symlink("nowhere", "src/link");
    let pair = Pair::of(&scene);
    pair.run(&["-aL"], &["src/"], "dst");
    let run = scene.haul().args(["sync", "-a", "src/", "x/y/z"]).run();
    assert_eq!(run.code, Some(11), "{run}");
    let run = scene.haul().args(["sync", "-a", "--mkpath", "src/", "x/y/z"]).run();
    run.expect_ok();
}

#[test]
fn words_that_haul_needs_not_are_taken() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "a");
    let words = "-as --no-s --protect-args --old-args --no-old-args --inc-recursive --i-r \
        --no-inc-recursive --no-i-r --super --no-super --no-iconv --outbuf=L --max-alloc=1G \
        --skip-compress=gz --checksum-choice=auto --cc=blake3 --cc=xxh128,md5 --protocol=30 \
        --compress-choice=zlib \
        --stop-after=60 --time-limit=60 --timeout=1 --no-timeout --no-contimeout --bwlimit=1 \
        --no-bwlimit --no-N --no-crtimes --i-d --no-i-d";
    let run = scene.haul().arg("sync").args(words.split_whitespace()).args(["src/", "dst"]).run();
    run.expect_ok();
    assert_eq!(scene.read("dst/a"), "a");
    for word in [
        "--max-alloc=0",
        "--cc=crc32",
        "--stop-at=2000-01-01T00:00",
        "--stop-at=T12",
        "--stop-after=0",
        "--suffix=",
        "--suffix=a/b",
    ] {
        let run = scene.haul().args(["sync", "-a", word, "src/", "dst"]).run();
        assert_eq!(run.code, Some(1), "{word}: {run}");
    }
}

#[test]
fn no_destination_is_made_where_no_source_is_there() {
    let world = World::new();
    for way in [Way::Local, Way::Upload] {
        let scene = world.scene(way);
        for sources in [&["nope/"][..], &["nope"], &["nope", "neither"]] {
            let mut theirs = Command::new("rsync");
            theirs.arg("-a").args(sources).arg("theirs").current_dir(scene.path(""));
            let theirs = theirs.output().expect("rsync is installed");
            let route = scene.route();
            let ours = scene.transfer("sync", &route, &["-a"], sources, "ours").run();
            assert_eq!(ours.code, theirs.status.code(), "{ours}\n{theirs:?}");
            assert_eq!(scene.exists("ours"), scene.exists("theirs"), "{ours}");
            assert_eq!(
                ours.err().matches("no such file or directory").count(),
                sources.len(),
                "{ours}"
            );
        }
        for (command, flags) in [("copy", &["-r"][..]), ("copy", &["-rn"]), ("move", &[])] {
            let run = scene.transfer(command, &scene.route(), flags, &["nope"], "made/").run();
            assert!(!scene.exists("made"), "{run}");
            assert!(run.expect_code(1).err().contains("nope: no such file or directory"));
        }
    }
}

#[test]
fn no_destination_is_made_where_no_source_is_there_on_a_host() {
    each_of(
        &[Way::Local, Way::Download, Way::SftpDownload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            scene.file("dir/there", "a");
            scene.file("list", "nope\n");
            let list = format!("--files-from={}", scene.path("list").display());
            for (command, flags, sources) in [
                ("copy", &["-r"][..], &["nope"][..]),
                ("copy", &["-r"], &["nope", "dir/neither"]),
                ("copy", &[], &["nope"]),
                ("move", &[], &["nope"]),
                ("move", &[], &["nope", "dir/neither"]),
                ("sync", &["-a"], &["nope/"]),
                ("sync", &["-aR"], &["nope"]),
                ("sync", &["-aR"], &["dir/./nope"]),
                ("sync", &["-a", &list], &["dir"]),
            ] {
                let run = scene.transfer(command, &scene.route(), flags, sources, "made/").run();
                assert!(run.code != Some(0), "{run}");
                assert!(!scene.exists("made"), "{command} {flags:?} {sources:?}: {run}");
            }
            if scene.way != Way::Local {
                let haul = scene.haul().arg("move").args(scene.remote()).arg(scene.path("neither"));
                let run = haul.arg(scene.there(scene.path("nope"))).arg(scene.path("made/")).run();
                assert!(!scene.exists("made"), "{run}");
                assert_eq!(errors(&run).len(), 2, "{run}");
            }
            let run = scene.copy(&["-r"], &["nope"], "made/above/").run().expect_code(1);
            assert!(!scene.exists("made"), "{run}");
            // With one that is there, or that is empty, all is made.
            scene.mkdir("empty");
            scene.copy(&["-r"], &["empty/."], "made/above/").run().expect_ok();
            assert!(scene.exists("made/above"));
            scene.copy(&["-r"], &["nope", "dir"], "some/").run().expect_code(1);
            assert_eq!(scene.list("some"), ["dir", "dir/there"]);
        },
    );
}

#[test]
fn a_mirror_into_what_is_missing_names_the_word_that_makes_it() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "a");
    for (sources, dest) in [("src/a", "x/y/"), ("src/a", "x/y"), ("src/", "x/y/"), ("src", "x/y")] {
        let run = scene.haul().args(["sync", "-a", sources, dest]).run();
        assert!(run.err().contains("--mkpath"), "{run}");
        assert!(
            !run.err().contains(
                "create the directory first, or end the destination with a slash to create it"
            ),
            "{run}"
        );
    }
}

#[test]
fn a_daemon_of_rsync_s_is_not_reached() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "a");
    for (source, dest) in [
        ("rsync://host/module", "dst"),
        ("host::module/path", "dst"),
        ("src/", "user@host::module"),
        ("src/", "rsync://user@host:873/module/"),
    ] {
        let run = scene.haul().args(["sync", "-a", source, dest]).run().expect_code(1);
        assert!(run.err().contains("haul does not connect to rsync daemons"), "{run}");
        assert!(run.err().contains("HOST:PATH"), "{run}");
    }
    scene.haul().args(["sync", "-a", "src/", "./odd::name"]).run().expect_ok();
    assert_eq!(scene.read("odd::name/a"), "a");
}
