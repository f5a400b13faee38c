//! Files that keep their place, and get new content.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::mount::Mount;
use haul_testkit::proc::Signal;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::time::Duration;

/// Ways in which the destination is not behind an SFTP server.
const WAYS: [Way; 4] = [Way::Local, Way::Upload, Way::Download, Way::SftpDownload];

/// Content of a file that is sent by its differences.
fn large(seed: u8) -> Vec<u8> {
    let of = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13) as u8;
    let mut content: Vec<u8> = (0..900_000).map(of).collect();
    content[450_000] = seed;
    content
}

/// Trees with files that differ in all ways.
fn prepare<'s, 'w>(scene: &'s Scene<'w>) -> Pair<'s, 'w> {
    scene.clear(&["src", "dst"]);
    let _ = Pair::usual(scene);
    for (name, new, old) in [
        ("grown", "the beginning, and more", "the beginning"),
        ("shrunk", "short", "longer than that"),
        ("other", "aaaa", "bbbb"),
        ("shared", "cccc and more", "cccc"),
    ] {
        scene.file(format!("src/{name}"), new);
        scene.file(format!("dst/{name}"), old);
    }
    scene.file("src/large", large(1));
    scene.file("dst/large", large(2));
    fs::hard_link(scene.path("dst/shared"), scene.path("dst/d/shared-too")).expect("linked");
    scene.file("src/was-link", "a file now");
    scene.symlink("grown", "dst/was-link");
    mode(scene.path("dst/grown"), 0o600);
    Pair::of(scene)
}

fn inode(scene: &Scene<'_>, name: &str) -> u64 {
    fs::symlink_metadata(scene.path(name)).expect("it is there").ino()
}

#[test]
fn files_are_written_into_as_with_rsync() {
    each_of(
        &WAYS,
        |scene| scene.reach_by_pipe(),
        |scene| {
            for flags in scene.share([
                &["-ai", "--inplace"][..],
                &["-aic", "--inplace", "--delete"],
                &["-rti", "--inplace"],
                &["-ain", "--inplace"],
                &["-ai", "--append"],
                &["-ai", "--append-verify"],
                &["-aic", "--append"],
                &["-aiI", "--append"],
                &["-ai", "--append", "--no-append", "--existing"],
            ]) {
                let pair = prepare(scene);
                let before = ["grown", "large"].map(|name| inode(scene, &format!("dst/{name}")));
                pair.run(flags, &["src/"], "dst");
                let after = ["grown", "large"].map(|name| inode(scene, &format!("dst/{name}")));
                let keeps = !flags.contains(&"--no-append");
                assert_eq!(before == after, keeps, "{flags:?}");
                assert_no_strays(&scene.path("dst"));
            }
        },
    );
}

#[test]
fn what_was_there_is_backed_up_apart() {
    each_way_by_pipe(|scene| {
        for flags in [&["-aib", "--inplace"][..], &["-aib", "--append", "--suffix=.old"]] {
            let pair = prepare(scene);
            pair.run(flags, &["src/"], "dst");
        }
        assert_eq!(scene.read("dst/grown.old"), "the beginning");
        assert_eq!(scene.read("dst/d/shared-too"), "cccc and more");
        assert_eq!(scene.read("dst/shared.old"), "cccc");
    });
}

#[test]
fn what_is_not_the_beginning_of_its_source_becomes_it() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "the right beginning, and more");
        scene.file("dst/a", "the wrong beginning");
        for flags in [&["-a", "--append"][..], &["-a", "--append-verify"]] {
            let run = scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run();
            run.expect_ok();
            assert_eq!(scene.read("dst/a"), "the right beginning, and more");
            scene.file("dst/a", "the wrong beginning");
        }
    });
}

#[test]
fn a_link_is_not_written_through() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "new");
        scene.file("elsewhere", "not of this job");
        scene.symlink("../elsewhere", "dst-link");
        scene.mkdir("dst");
        fs::rename(scene.path("dst-link"), scene.path("dst/a")).expect("moved");
        let flags = ["-a", "--inplace"];
        scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok();
        assert_eq!(scene.read("elsewhere"), "not of this job");
        assert!(!fs::symlink_metadata(scene.path("dst/a")).expect("there").is_symlink());
    });
}

#[test]
fn no_source_is_written_through_another_name_of_it() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    for (flags, new, old) in [
        (&["-a", "--inplace"][..], "of b, before a", "of c"),
        (&["-ab", "--inplace"], "of b, before a", "of c"),
        (&["-a", "--append"], "of c, and more", "of c"),
    ] {
        scene.clear(&["src", "dst"]);
        for name in ["src/a", "src/b", "src/d/f"] {
            scene.file(name, new);
        }
        scene.file("src/d/c", old);
        scene.mkdir("dst");
        // Before the source that it belongs to was listed, and after it.
        for (source, name) in [("src/d/c", "dst/b"), ("src/d/c", "dst/f")] {
            fs::hard_link(scene.path(source), scene.path(name)).expect("linked");
        }
        scene.file("dst/a", old);
        fs::hard_link(scene.path("dst/a"), scene.path("dst/a-too")).expect("linked");
        let args = ["src/", "src/d/f", "dst"];
        scene.haul().arg("sync").args(flags).args(args).run().expect_ok();
        assert_eq!(scene.read("src/d/c"), old, "{flags:?}");
        assert_eq!([scene.read("dst/b"), scene.read("dst/f")], [new, new], "{flags:?}");
        assert_eq!(scene.read("dst/a-too"), new, "{flags:?}: its own names stay");
    }
}

#[test]
fn no_source_is_written_through_a_connection_to_the_same_machine() {
    each_of(
        &[Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            for (flags, new, old) in [
                (&["-a", "--inplace"][..], large(1), large(2)),
                (&["-ab", "--inplace"], b"of b".into(), b"of c".into()),
                (&["-a", "--append"], b"of c, and more".into(), b"of c".into()),
            ] {
                scene.clear(&["src", "dst"]);
                for name in ["src/a", "src/b"] {
                    scene.file(name, &new);
                }
                scene.file("src/d/c", &old);
                scene.mkdir("dst");
                fs::hard_link(scene.path("src/d/c"), scene.path("dst/b")).expect("linked");
                scene.file("dst/a", &old);
                let number = inode(scene, "dst/a");
                let run = scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run();
                assert_eq!(run.code, Some(23), "{run}");
                assert!(
                    run.err().contains("the file at the destination is a source, too"),
                    "{run}"
                );
                let read = |name: &str| fs::read(scene.path(name)).expect("read");
                assert!(read("src/d/c") == old, "{flags:?}");
                assert!(read("dst/a") == new, "{flags:?}");
                assert_eq!(inode(scene, "dst/a"), number, "{flags:?}");
            }
        },
    );
}

#[test]
fn no_source_is_written_through_a_mount() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    for (name, content) in [("src/a", "of a, and newer"), ("src/b", "of b"), ("dst/a", "")] {
        scene.file(name, content);
    }
    let Some(_mounted) = Mount::bind_at(&scene.path("src/b"), &scene.path("dst/a")) else { return };
    let run = scene.haul().args(["sync", "-a", "--inplace", "src/", "dst"]).run();
    assert_eq!(run.code, Some(23), "{run}");
    assert_eq!(scene.read("src/b"), "of b");
}

#[test]
fn no_source_behind_a_link_is_written_through() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    for follows in ["-rLt", "-rkt", "-rlt --copy-unsafe-links"] {
        scene.clear(&["src", "dst", "data"]);
        scene.file("data/a", "of a, and newer");
        scene.file("data/b", "of b");
        scene.mkdir("src");
        scene.symlink("../data", "src/l");
        scene.symlink("../data", "src/again");
        scene.symlink("..", "data/circle");
        scene.mkdir("dst/l");
        fs::hard_link(scene.path("data/b"), scene.path("dst/l/a")).expect("linked");
        let words = follows.split(' ').chain(["--inplace", "--exclude=circle", "src/", "dst"]);
        scene.haul().arg("sync").args(words).run();
        assert_eq!(scene.read("data/b"), "of b", "{follows}");
        assert_eq!(scene.read("dst/l/a"), "of a, and newer", "{follows}");
    }
}

#[test]
fn what_may_not_be_written_to_fails_and_stays() {
    each_of(
        &[Way::Local, Way::Upload, Way::Download],
        |scene| scene.reach_by_pipe(),
        |scene| {
            scene.file("src/a", "new");
            scene.file("src/b", "new");
            let program = scene.mkdir("dst").join("a");
            // By a process of its own: a file that this one has open for writing can't be
            // run while a child of another test inherits it.
            run(Command::new("cp").arg("/bin/sleep").arg(&program));
            mode(&program, 0o755);
            let before = fs::read(&program).expect("read");
            // Nobody can write to what runs.
            let mut running = Command::new(&program).arg("60").spawn().expect("runs");
            let flags = ["-a", "--inplace"];
            let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
            running.kill().expect("killed");
            running.wait().expect("waited for");
            assert_eq!(run.code, Some(23), "{run}");
            assert!(run.err().contains("write into the file"), "{run}");
            assert!(before == fs::read(&program).expect("read"));
            assert_eq!(scene.read("dst/b"), "new");
        },
    );
}

#[test]
fn room_is_reserved() {
    each_of(
        &WAYS,
        |scene| scene.reach_by_pipe(),
        |scene| {
            let len = 8 << 20;
            for (name, flags) in [("holes", &["-a"][..]), ("reserved", &["-a", "--preallocate"])] {
                scene.mkdir(format!("src-{name}"));
                let file = fs::File::create(scene.path(format!("src-{name}/f"))).expect("made");
                file.set_len(len).expect("a hole");
                scene.file(format!("src-{name}/small"), "small");
                let source = format!("src-{name}/");
                let run = scene.transfer("sync", &scene.route(), flags, &[&*source], name).run();
                run.expect_ok();
                let there = fs::metadata(scene.path(format!("{name}/f"))).expect("there");
                assert_eq!(there.len(), len);
                let has_room = there.blocks() * 512 >= len;
                assert!(has_room || name == "holes", "{name}: {}", there.blocks());
                assert_eq!(scene.read(format!("{name}/small")), "small");
            }
        },
    );
}

#[test]
fn no_room_is_reserved_for_holes_of_a_sparse_file() {
    each_way_by_pipe(|scene| {
        scene.mkdir("src");
        let file = fs::File::create(scene.path("src/f")).expect("made");
        file.set_len(8 << 20).expect("a hole");
        let flags = ["-aS", "--preallocate"];
        scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run().expect_ok();
        let there = fs::metadata(scene.path("dst/f")).expect("there");
        assert_eq!((there.len(), there.blocks()), (8 << 20, 0));
    });
}

#[test]
fn zeros_become_holes_of_a_sparse_file_alone() {
    const LEN: usize = 6 << 20;
    each_of(
        &WAYS,
        |scene| scene.reach_by_pipe(),
        |scene| {
            let mut content = vec![0; LEN];
            content[1 << 20..(1 << 20) + 8192].fill(7);
            content[LEN - 5000..LEN - 4500].fill(8);
            let mut old = content.clone();
            old[3 << 20..].fill(9);
            let blocks = |name: &str| fs::metadata(scene.path(name)).expect("there").blocks();
            for (flags, is_sparse) in scene.share([
                (&["-a"][..], false),
                (&["-aS", "--no-S"], false),
                (&["-aS"], true),
                (&["-aS", "--fast"], true),
                (&["-aS", "--preallocate"], true),
                (&["-aS", "--inplace"], true),
            ]) {
                scene.clear(&["src", "dst"]);
                scene.file("src/new", &content);
                scene.file("src/zeros", vec![0; LEN]);
                scene.file("src/old", &content);
                scene.file("dst/old", &old);
                assert!(blocks("src/zeros") * 512 >= LEN as u64, "zeros are written as such");
                let flags = &[flags, &["-i"]].concat();
                let sync = || scene.transfer("sync", &scene.route(), flags, &["src/"], "dst").run();
                sync().expect_ok();
                for name in ["new", "zeros", "old"] {
                    let path = |tree: &str| scene.path(format!("{tree}/{name}"));
                    let same = fs::read(path("src")).unwrap() == fs::read(path("dst")).unwrap();
                    assert!(same, "{flags:?}: {name}");
                }
                let writes_into = flags.contains(&"--inplace");
                for (name, most) in [("new", 64), ("zeros", 0), ("old", 64)] {
                    let there = blocks(&format!("dst/{name}"));
                    let is_held = is_sparse && !(writes_into && name == "old");
                    assert!(there <= most || !is_held, "{flags:?}: {name}: {there}");
                    assert!(is_sparse || there * 512 >= LEN as u64, "{flags:?}: {name}: {there}");
                }
                assert_eq!(sync().expect_ok().out(), "", "{flags:?}: nothing is sent again");
                assert_no_strays(&scene.path("dst"));
            }
        },
    );
}

#[test]
fn what_excludes_each_other_is_refused() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "new");
    for flags in [
        &["--inplace", "--partial-dir=x"][..],
        &["--append", "--partial-dir=x"],
        &["--append", "-W"],
    ] {
        let run = scene.haul().args(["sync", "-a"]).args(flags).args(["src/", "dst"]).run();
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.err().contains("can't be used with"), "{run}");
        assert!(!scene.exists("dst"));
    }
    let scene = world.scene(Way::SftpUpload);
    scene.file("src/a", "new");
    let flags = ["-a", "--inplace"];
    let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.err().contains("SFTP can't update files in place: it replaces them"), "{run}");
    let flags = ["-a", "--preallocate"];
    let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.err().contains("SFTP can't allocate space for files"), "{run}");
    assert!(!scene.exists("dst"));
}

#[test]
fn a_kill_while_a_file_is_written_into_harms_nothing_else() {
    const LEN: usize = 24 << 20;
    each_of(
        &Way::ALL,
        |scene| scene.reach_by_pipe(),
        |scene| {
            let mut random = Stream::new(campaign::seed(93 + scene.way as u64));
            let (old, new) = (vec![1; LEN], vec![2; LEN]);
            let flags = ["-a", "--inplace"];
            let sync = || scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst");
            let mut mixtures = 0;
            for _ in 0..campaign::rounds(3) {
                for tree in ["src", "dst"] {
                    let _ = fs::remove_dir_all(scene.path(tree));
                }
                scene.file("src/large", &new);
                let large = scene.file("dst/large", &old);
                let number = inode(scene, "dst/large");
                for name in ["one", "d/two", "d/three"] {
                    scene.file(format!("src/{name}"), format!("new {name}"));
                    scene.file(format!("dst/{name}"), format!("the old {name}"));
                }
                scene.file("dst/beside", "not in the source");
                let running = sync().spawn().expect("it starts");
                let is_begun = || {
                    let mut first = [0];
                    let file = fs::File::open(&large).expect("there");
                    file.read_exact_at(&mut first, 0).expect("read");
                    first == [2]
                };
                let _ = running.until(Duration::from_secs(20), is_begun);
                std::thread::sleep(Duration::from_micros(random.below(4_000)));
                running.signal(Signal::KILL);
                running.wait().expect("it ends");
                std::thread::sleep(Duration::from_millis(100));
                let there = fs::read(&large).expect("read");
                mixtures += usize::from(there != old && there != new);
                assert_eq!((there.len(), inode(scene, "dst/large")), (LEN, number));
                assert_eq!(scene.read("dst/beside"), "not in the source");
                for name in ["one", "d/two", "d/three"] {
                    let content = scene.read(format!("dst/{name}"));
                    let whole = [format!("new {name}"), format!("the old {name}")];
                    assert!(
                        content.is_empty()
                            || whole.contains(&content)
                            || is_mixed(&content, &whole),
                        "{content}"
                    );
                }
                let run = sync().run();
                assert_eq!(run.code, Some(0), "{run}");
                fs::remove_file(scene.path("dst/beside")).expect("removed");
                let rules = scene.rules().ignoring_root();
                let differences = scene.snapshot("src").differences(&scene.snapshot("dst"), rules);
                assert!(differences.is_empty(), "{differences:?}");
                assert_eq!(inode(scene, "dst/large"), number);
                assert_no_strays(&scene.path("dst"));
            }
            eprintln!("{:?}: {mixtures} mixtures", scene.way);
        },
    );
}

/// True if a small file was being written into, too: it begins as one and ends as the other.
fn is_mixed(content: &str, whole: &[String; 2]) -> bool {
    content.len() <= whole[0].len().max(whole[1].len())
        && content
            .bytes()
            .enumerate()
            .all(|(at, byte)| whole.iter().any(|one| one.as_bytes().get(at) == Some(&byte)))
}

/// A killed job leaves the mark on a file that it has backed up and written a part of.
#[test]
fn a_file_that_is_half_written_replaces_no_backup() {
    let reach = |scene: &mut Scene<'_>| scene.reach_by_pipe();
    each_of(&WAYS, reach, |scene| {
        for flags in [&["-ab", "--inplace"][..], &["-rtb", "--inplace"]] {
            scene.clear(&["src", "dst"]);
            scene.file("src/file", "new content");
            scene.file("dst/file~", "old content");
            mode(scene.file("dst/file", "new cold"), 0o1644);
            let sync = || {
                let route = scene.route();
                scene.transfer("sync", &route, flags, &["src/"], "dst").run().expect_ok();
            };
            sync();
            assert_eq!(scene.read("dst/file"), "new content");
            assert_eq!(scene.read("dst/file~"), "old content", "{flags:?}");
            assert_eq!(mode_of(scene.path("dst/file")), 0o644, "{flags:?}");
            scene.file("src/file", "newer than that");
            sync();
            assert_eq!(scene.read("dst/file~"), "new content", "{flags:?}");
        }
    });
}
