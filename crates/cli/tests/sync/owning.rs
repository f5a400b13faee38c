//! The files of a user who is not root, and those of others.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::nasty;
use std::fs;
use std::process::Command;

/// Modes with which their owner may not do all with a file.
const MODES: [u32; 5] = [0o000, 0o200, 0o400, 0o044, 0o2300];

/// The ways in which both sides can keep all that users can give.
fn with_haul(scenario: impl Fn(&Scene<'_>) + Sync) {
    everywhere_as_nobody(|scene| {
        if !scene.is_sftp() {
            scenario(scene);
        }
    });
}

fn again(scene: &Scene<'_>) {
    scene.clear(&["src", "dst"]);
}

#[test]
fn what_its_owner_may_not_read_is_given_attributes_all_the_same() {
    with_haul(|scene| {
        for flags in scene.share([
            &["-ai"][..],
            &["-rpi", "--size-only"],
            &["-rti", "--size-only"],
            &["-aA"],
            &["-rlpti", "--chmod=Fu-r"],
        ]) {
            again(scene);
            for of_source in [0o644, 0o400] {
                for of_dest in MODES {
                    let name = format!("{of_source:o}-{of_dest:o}");
                    let [from, to] = ["src", "dst"].map(|tree| {
                        let same = scene.file(format!("{tree}/same-{name}"), "the same");
                        nasty::set_mtime(&same, 1_500_000_000, 0).expect("a time");
                        let timed = scene.file(format!("{tree}/timed-{name}"), "the same");
                        let time = if tree == "src" { 1_500_000_000 } else { 1_400_000_000 };
                        nasty::set_mtime(&timed, time, 0).expect("a time");
                        [same, timed]
                    });
                    if flags[0] == "-aA" {
                        run(Command::new("setfacl").args(["-m", "u:12345:r"]).args(&from));
                    }
                    from.iter().for_each(|path| mode(path, of_source));
                    to.iter().for_each(|path| mode(path, of_dest));
                }
            }
            scene.give_to_nobody("src");
            scene.give_to_nobody("dst");
            // A new owner takes such bits away.
            for of_source in ["644", "400"] {
                mode(scene.path(format!("dst/same-{of_source}-2300")), 0o2300);
            }
            nasty::set_mtime(scene.path("src"), 1_500_000_000, 0).expect("a time");
            let pair = Pair::with_times(scene);
            pair.run(&[flags, &["-n"]].concat(), &["src/"], "dst");
            pair.run(flags, &["src/"], "dst");
            assert_eq!(pair.owners("dst"), pair.owners("oracle/dst"), "{flags:?}");
            if flags == ["-aA"] {
                // rsync takes rights of the group away from what lent its rights.
                assert_eq!(attributes(&scene.path("dst")), attributes(&scene.path("src")));
            }
        }
    });
}

#[test]
fn a_file_of_another_user_has_a_backup_like_all_others() {
    with_haul(|scene| {
        for (flags, bits) in [
            (&["-rlti", "-b"][..], 0o644),
            (&["-ai", "-b"], 0o664),
            (&["-ai", "--backup-dir=../kept"], 0o4755),
            (&["-ai", "-b", "--delete"], 0o644),
        ] {
            again(scene);
            let _ = fs::remove_dir_all(scene.path("kept"));
            scene.file("src/a", "new");
            scene.file("dst/a", "old, and longer");
            scene.file("dst/extra", "extra");
            for tree in ["src", "dst"] {
                scene.give_to_nobody(tree);
            }
            for name in ["dst/a", "dst/extra"] {
                own(scene.path(name), (12345, 12346));
                mode(scene.path(name), bits);
            }
            let pair = Pair::of(scene);
            pair.run(flags, &["src/"], "dst");
            for tree in ["", "oracle/"] {
                let backup = match flags.contains(&"-b") {
                    true => scene.path(format!("{tree}dst/a~")),
                    false => scene.path(format!("{tree}kept/a")),
                };
                assert_eq!(fs::read(&backup).expect("read"), b"old, and longer");
                // What is copied lends the rights of its owner to nobody.
                let lent = if tree.is_empty() { 0 } else { bits & 0o7000 };
                assert_eq!(mode_of(&backup), bits & 0o777 | lent, "{tree} {flags:?}");
            }
        }
    });
}

#[test]
fn a_directory_that_its_owner_may_not_enter_stays_like_that() {
    with_haul(|scene| {
        for flags in scene.share([&["-ai"][..], &["-rti"], &["-rpi", "--delete"], &["-rli"]]) {
            for bits in [0o600, 0o400, 0o500] {
                again(scene);
                for tree in ["src", "dst"] {
                    scene.file(format!("{tree}/d/e/same"), "the same");
                    scene.file(format!("{tree}/d/same"), "the same");
                    scene.give_to_nobody(tree);
                    mode(scene.path(format!("{tree}/d/e")), bits | 0o500);
                }
                mode(scene.path("dst/d"), bits);
                mode(
                    scene.path("src/d"),
                    if flags[0].contains('a') { bits | 0o500 } else { 0o755 },
                );
                let route = scene.route();
                let run = scene.transfer("sync", &route, flags, &["src/"], "dst").run();
                run.expect_ok();
                let keeps = flags[0].contains(['a', 'p']);
                let expected = if keeps { mode_of(scene.path("src/d")) } else { bits };
                assert_eq!(mode_of(scene.path("dst/d")), expected, "{flags:?} {bits:o}");
            }
        }
    });
}

#[test]
fn a_directory_whose_time_cant_be_set_is_reported_once() {
    with_haul(|scene| {
        again(scene);
        scene.file("src/d/new", "new");
        scene.mkdir("dst/d");
        for tree in ["src", "dst"] {
            scene.give_to_nobody(tree);
        }
        own(scene.path("dst/d"), (12345, 12346));
        mode(scene.path("dst/d"), 0o777);
        nasty::set_mtime(scene.path("src/d"), 1_500_000_000, 0).expect("a time");
        let flags = ["-rt", "--json"];
        let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
        assert_eq!(run.code, Some(23), "{run}");
        let out = run.out();
        let of_it = out.lines().filter(|line| line.contains("\"path\":\"d\"")).collect::<Vec<_>>();
        assert!(matches!(&*of_it, [one] if one.contains("can't set the directory's")), "{run}");
        assert!(out.contains("\"updated\":0") && out.contains("\"failed\":1"), "{run}");
        assert_eq!(scene.read("dst/d/new"), "new");
    });
}
