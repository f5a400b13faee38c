//! Moves from a host, and onto itself, through its SFTP server.

use crate::common::*;
use crate::{by_sftp, rules, strays};
use haul_testkit::haul::Outcome;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Mount, assert_same_with, tree};
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

/// How soon a move has to get on.
const SOON: Duration = Duration::from_secs(30);

fn haul(scene: &Scene<'_>, flags: &[&str], source: &str, dest: &str) -> haul_testkit::Haul {
    let haul = scene.haul().arg("move").args(flags).args(by_sftp(scene));
    haul.arg(scene.there(scene.path(source))).arg(scene.path(dest))
}

fn from_host(scene: &Scene<'_>, flags: &[&str], source: &str, dest: &str) -> Outcome {
    haul(scene, flags, source, dest).run()
}

#[test]
fn nothing_is_moved_onto_itself_through_sftp() {
    let world = World::new();
    for way in [Way::SftpUpload, Way::SftpDownload] {
        let mut scene = world.scene(way);
        scene.reach_by_pipe();
        scene.file("dir/f", "precious");
        scene.symlink("f", "dir/l");
        scene.mkdir("dir/hollow");
        let before = scene.list("dir");
        for (source, dest) in [
            ("dir", ""),
            ("dir", "."),
            ("dir/", ""),
            ("dir/f", "dir"),
            ("dir/f", "dir/f"),
            ("dir/l", "dir/"),
            ("dir/hollow", "dir"),
        ] {
            for flags in [&["-q"][..], &["--force"]] {
                let haul = scene.haul().arg("move").args(flags).args(scene.route());
                let (source, dest) = (scene.path(source), scene.path(dest));
                let run = match way {
                    Way::SftpDownload => haul.arg(scene.there(source)).arg(dest),
                    _ => haul.arg(source).arg(scene.there(dest)),
                };
                let run = run.run().expect_code(4);
                assert!(run.err().contains("source and destination are the same"), "{run}");
                assert_eq!(
                    (scene.list("dir"), scene.read("dir/f")),
                    (before.clone(), "precious".into())
                );
            }
        }
        assert_eq!(strays(&scene.path("")).len(), 0);
        // Another name beside it is another file.
        let haul = scene.haul().arg("move").args(scene.route());
        let (source, dest) = (scene.path("dir/f"), scene.path("dir/g"));
        let run = match way {
            Way::SftpDownload => haul.arg(scene.there(source)).arg(dest),
            _ => haul.arg(source).arg(scene.there(dest)),
        };
        run.run().expect_ok();
        assert!(!scene.exists("dir/f") && scene.read("dir/g") == "precious");
    }
}

#[test]
fn a_move_whose_server_or_client_is_killed_loses_nothing_and_continues() {
    let world = World::new();
    let scene = world.scene(Way::Download);
    scene.mkdir("to");
    let mut caught = 0;
    for round in 0..6u64 {
        tree::many(scene.path("tree"), 150, 2_000, 3, round).expect("a tree");
        tree::random_file(scene.path("tree/big"), 5 << 20, round).expect("a file");
        let before = scene.snapshot("tree");
        let len = before.files().count();
        let files = |root: &str| match scene.exists(root) {
            true => scene.snapshot(root).files().count(),
            false => 0,
        };
        let running = haul(&scene, &["-q"], "tree", "to").spawn().expect("it starts");
        let removes = round % 2 == 1;
        running.until(SOON, || match removes {
            false => scene.exists("to/tree") && !scene.list("to/tree").is_empty(),
            true => !scene.exists("tree/big") || !scene.exists("tree/dir-000/file-00000"),
        });
        match round % 3 {
            0 => running.signal(Signal::KILL),
            _ => proc::descendants(running.pid())
                .into_iter()
                .for_each(|pid| proc::signal(pid, Signal::KILL)),
        }
        let run = running.wait().expect("it ends");
        assert!([None, Some(0), Some(3)].contains(&run.code), "{run}");
        // A server is still at it for a moment when its client has gone.
        std::thread::sleep(Duration::from_millis(200));
        for (path, _) in before.files() {
            let path = String::from_utf8(path.to_vec()).expect("the test's own names");
            let (source, dest) = (format!("tree/{path}"), format!("to/tree/{path}"));
            assert!(scene.exists(&source) || scene.exists(&dest), "{path} is lost: {run}");
        }
        // In the middle of removing, that is.
        caught += u32::from(removes && files("tree") > 0 && files("tree") < len);
        if scene.exists("tree") {
            from_host(&scene, &[], "tree", "to").expect_ok();
        }
        assert!(!scene.exists("tree"));
        let rules = rules().ignoring_dir_mtimes();
        assert_same_with(&before, &scene.snapshot("to/tree"), rules);
        fs::remove_dir_all(scene.path("to/tree")).expect("removed");
    }
    assert!(caught > 0, "no move was caught in its middle");
}

#[test]
fn a_directory_that_is_exchanged_for_a_link_after_it_was_copied_leads_nowhere() {
    let world = World::new();
    // The third connection comes when all was copied, and through the fourth sources
    // are removed.
    for (connection, dest, way) in [
        (3, "to", Way::Upload),
        (3, "renamed", Way::Download),
        (4, "to", Way::Download),
        (4, "renamed", Way::Upload),
    ] {
        let name = format!("{connection}-{way:?}-{dest}");
        let scene = world.scene_called(&name, way);
        scene.file("tree/f", "precious");
        scene.file("tree/nil", "");
        scene.mkdir("to");
        scene.mkdir("tree/hollow");
        run(std::process::Command::new("cp")
            .args(["-a", "tree", "other"])
            .current_dir(scene.path("")));
        scene.mkdir("bin");
        let change =
            format!("(cd {} && mv tree away && ln -s other tree)", scene.path("").display());
        let changing = at_connection(&scene, connection, &change);
        // It is also asked what it would do.
        let lines = format!(
            "case \" $* \" in *' -'[GV]' '*) ;; *)\n{changing}\nesac\nexec {} \"$@\"",
            scene.sshd().rsh()
        );
        let ssh = script(&scene.path("bin/ssh"), &lines);
        let remote = ["--transport".as_ref(), "sftp".as_ref(), "--rsh".as_ref(), ssh.as_os_str()];
        let run = scene.transfer("move", &remote, &[], &["tree"], dest).run().expect_code(1);
        assert_eq!(scene.list("other"), ["f", "hollow", "nil"], "{name}: {run}");
        if connection == 3 {
            assert_eq!(scene.list("away"), ["f", "hollow", "nil"], "{name}: {run}");
            assert!(run.out().starts_with("moved nothing in "), "{name}: {run}");
        }
    }
}

#[test]
fn a_directory_that_is_mounted_in_both_places_is_not_moved_onto_itself() {
    let world = World::new();
    for by_haul in [false, true] {
        for (name, way) in [("up", Way::Upload), ("down", Way::Download)] {
            let scene = world.scene_called(&format!("{name}-{by_haul}"), way);
            scene.file("shown/f", "precious");
            scene.mkdir("shown/hollow");
            let Some(mount) = Mount::bind(&scene.path("shown")) else { return };
            let source = scene.path(mount.path().file_name().expect("it has a name"));
            fs::rename(scene.path("shown"), &source).expect("renamed");
            let above = mount.path().parent().expect("it is in a directory");
            let reach: Vec<OsString> = match by_haul {
                true => scene.remote(),
                false => by_sftp(&scene).into_iter().map(Into::into).collect(),
            };
            let haul = scene.haul().arg("move").args(reach);
            let run = match way {
                Way::Download => haul.arg(scene.there(&source)).arg(above),
                _ => haul.arg(&source).arg(scene.there(above)),
            };
            // haul sees it as it copies, and has told it of the source.
            let run = run.run().expect_code(if by_haul { 1 } else { 4 });
            assert!(run.err().contains("source and destination are the same"), "{run}");
            assert_eq!(fs::read(source.join("f")).expect("read"), b"precious");
            assert!(source.join("hollow").exists());
        }
    }
}

#[test]
fn what_was_kept_on_the_host_is_durable_before_its_source_goes() {
    let world = World::new();
    let mut scene = world.scene(Way::SftpUpload);
    let server = haul_testkit::sshd::system_sftp_server().expect("an sftp-server");
    let lines = format!(
        "for word; do [ \"$word\" != -G ] || exit 0; done\nexec {} -e -l VERBOSE 2>> {}",
        server.display(),
        scene.path("log").display()
    );
    scene.reach_by(script(&scene.path("ssh"), &lines));
    for (at, flags) in [&["-q"][..], &["-q", "--no-clobber"], &["-q", "-u"]].iter().enumerate() {
        let (tree, copy) = (format!("tree-{at}"), format!("to/tree-{at}/same"));
        scene.file(format!("{tree}/same"), "x");
        scene.mkdir("to");
        run(std::process::Command::new("cp")
            .args(["-a", &tree, "to/"])
            .current_dir(scene.path("")));
        scene.transfer("move", &scene.route(), flags, &[&tree], "to").run().expect_ok();
        assert!(!scene.exists(&tree), "{flags:?}");
        let synced = format!("fsync \"{}\"", scene.path(copy).display());
        let log = scene.read("log");
        assert!(log.contains(&synced), "{flags:?}: {log}");
    }
}

#[test]
fn a_sync_that_removes_its_sources_does_not_take_a_link_to_the_destination_for_another_tree() {
    each_of(
        &[Way::SftpUpload, Way::SftpDownload],
        |scene| scene.reach_by_pipe(),
        |scene| {
            scene.file("dir/f", "precious");
            scene.symlink("dir", "link");
            for source in ["link/", "link/.", "dir/"] {
                let flags = ["-a", "--remove-source-files"];
                let run = scene.transfer("sync", &scene.route(), &flags, &[source], "dir/").run();
                let run = run.expect_code(11);
                assert!(run.err().contains("source and destination are the same"), "{run}");
                assert_eq!(scene.read("dir/f"), "precious");
            }
        },
    );
}
