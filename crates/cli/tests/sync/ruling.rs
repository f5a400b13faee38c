//! Rules that leave out entries on one side or the other, and the files that they are in.

use crate::common::*;
use crate::oracle::Pair;
use rustix::fs::XattrFlags;
use std::fs;
use std::os::unix::fs::chown;

/// Trees in which rules find something: the names say what they are for.
fn trees(scene: &Scene<'_>) {
    scene.clear(&["src", "dst"]);
    for name in ["a", "a.o", "keep.o", "d/a.o", "d/keep", "d/e/a.bak", "d/e/f/a.o", "CVS/x", "tags"]
    {
        scene.file(format!("src/{name}"), name);
        scene.file(format!("dst/{name}"), format!("old {name}"));
    }
    for name in ["x", "x.o", "d/x.o", "d/x.bak", "gone/x.o", "gone/deep/x", "gone/keep", "d/e/x"] {
        scene.file(format!("dst/{name}"), name);
    }
}

/// Runs both with each of the rules, with and without removals.
fn each(scene: &Scene<'_>, rules: &[&[&str]]) {
    let deletes = [&["-ai"][..], &["-ai", "--delete"], &["-ai", "--delete-excluded"]];
    let cases = rules.iter().flat_map(|rules| deletes.map(|deletes| (rules, deletes)));
    for (rules, deletes) in scene.share(cases) {
        trees(scene);
        let words: Vec<String> = rules.iter().map(|rule| format!("--filter={rule}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Pair::of(scene).run(&[deletes, &words].concat(), &["src/"], "dst");
    }
}

#[test]
fn rules_are_for_the_sides_that_they_name() {
    everywhere_by_pipe(|scene| {
        each(
            scene,
            &[
                &["- *.o"],
                &["hide *.o", "protect x"],
                &["H *.o", "P *.bak"],
                &["S keep.o", "-s *.o", "-r gone/"],
                &["R gone/deep/", "P **/x", "exclude,! */"],
                &["-p *.o"],
                &["-_*.o", "!", "- *.bak"],
            ],
        );
    });
}

#[test]
fn whole_paths_are_those_of_each_side() {
    each_way_by_pipe(|scene| {
        each(scene, &[&["-/ src/d/keep", "-/ dst/gone"], &["-/ d/e/*", "+/ /**/x", "- x"]]);
    });
}

#[test]
fn files_name_rules_and_further_files() {
    everywhere_by_pipe(|scene| {
        scene.file("rules", "# none\n- *.o\n\nmerge more\n");
        scene.file("more", "P x\n+ d/\n");
        scene.file("words", "*.bak keep\n\t#x");
        let rules = [&[". rules"][..], &["merge,- words"], &[".w- words"], &[".es more", "- *.o"]];
        for rules in scene.share(rules) {
            trees(scene);
            let words: Vec<String> = rules.iter().map(|rule| format!("--filter={rule}")).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let flags = [&["-ai", "--delete"], &*words].concat();
            Pair::of(scene).with_files(&["rules", "more", "words"]).run(&flags, &["src/"], "dst");
        }
    });
}

#[test]
fn directories_have_rules_of_their_own() {
    everywhere_by_pipe(|scene| {
        let prepare = || {
            trees(scene);
            scene.file("src/.rules", "- *.o\n- /d/keep\n");
            scene.file("src/d/.rules", "+ a.o\n- /e/f/\n");
            scene.file("src/d/e/.rules", "!\n- *.bak");
            scene.file("dst/.rules", "P x.o\nP /d/x.bak\n");
            scene.file("dst/gone/.rules", "P keep\n");
        };
        let rules = [
            &["--filter=: .rules"][..],
            &["--filter=:e .rules"],
            &["--filter=:n .rules", "--filter=- f"],
            &["--filter=dir-merge,- .rules"],
            &["-F"],
            &["-FF"],
        ];
        let deletes =
            [&["-ai", "--delete"][..], &["-ai", "--delete-after"], &["-ai", "--delete-excluded"]];
        let cases = rules.into_iter().flat_map(|rules| deletes.map(|deletes| (rules, deletes)));
        // With a side of their own, rules in them must not name one.
        let sided = &["--filter=:s .rules", "--filter=- x"][..];
        for (rules, deletes) in scene.share(cases.chain([(sided, &["-ai"][..])])) {
            // Of several sources, rsync looks for rules above the first one alone.
            let sources: &[&str] = match deletes.last() {
                Some(&"--delete-after") if !rules[0].starts_with("-F") => &["src/d", "src/CVS"],
                _ => &["src/"],
            };
            prepare();
            if rules[0].starts_with("-F") || rules[0].contains(",-") {
                for (tree, dirs) in [("src", &["", "d/", "d/e/"][..]), ("dst", &["", "gone/"])] {
                    for dir in dirs {
                        let from = scene.path(format!("{tree}/{dir}.rules"));
                        let to = scene.path(format!("{tree}/{dir}.rsync-filter"));
                        if rules[0].starts_with("-F") {
                            fs::rename(from, to).expect("renamed");
                        } else {
                            fs::write(from, "*.o\n/d/keep\n").expect("written");
                        }
                    }
                }
            }
            Pair::of(scene).run(&[deletes, rules].concat(), sources, "dst");
        }
    });
}

#[test]
fn rules_above_the_job_are_found() {
    everywhere_by_pipe(|scene| {
        let prepare = || {
            trees(scene);
            scene.file("src/.rsync-filter", "- *.o\n- /d/e/f\n");
            scene.file("dst/.rsync-filter", "P x\n");
        };
        for (flag, source, dest) in scene.share([
            ("-F", "src/d", "dst"),
            ("-F", "src/d/", "dst/d"),
            ("-F", "src/d/e/", "dst/gone"),
            ("--filter=: ../.rsync-filter", "src/d/", "dst/d"),
            ("--filter=: ../.rsync-filter", "src/d/e/", "dst/gone"),
        ]) {
            prepare();
            Pair::of(scene).run(&["-ai", "--delete", flag], &[source], dest);
        }
    });
}

#[test]
fn rules_above_the_job_are_found_in_directories_that_may_only_be_entered() {
    everywhere_as_nobody(|scene| {
        trees(scene);
        for (tree, rules) in [("src", "- *.o\n"), ("dst", "P x\n")] {
            scene.file(format!("{tree}/.rsync-filter"), rules);
            scene.give_to_nobody(tree);
            chown(scene.path(tree), Some(0), Some(0)).expect("given");
            mode(scene.path(tree), 0o711);
        }
        let run = Pair::of(scene).run(&["-aiF", "--delete"], &["src/d/"], "dst/gone");
        assert!(!run.out().contains("a.o") && scene.exists("dst/gone/deep/x"), "{run}");
        // One of which nothing can be known fails the command.
        chown(scene.path("src/.rsync-filter"), Some(0), Some(0)).expect("given");
        mode(scene.path("src/.rsync-filter"), 0o600);
        let (route, flags) = (scene.route(), ["-aF", "--delete"]);
        let run = scene.transfer("sync", &route, &flags, &["src/d/"], "dst/gone").run();
        let run = run.expect_code(23);
        assert!(run.err().contains("can't use its filter rules: .rsync-filter"), "{run}");
    });
}

#[test]
fn what_cvs_ignores_is_left_out() {
    everywhere_by_pipe(|scene| {
        let prepare = || {
            trees(scene);
            scene.file("src/.cvsignore", "a  d\n");
            scene.file("src/d/.cvsignore", "!\nkeep");
        };
        for flags in scene.share([
            &["-aiC"][..],
            &["-aiC", "--delete"],
            &["-aiC", "--delete-excluded"],
            &["-ai", "--filter=-C", "--delete"],
            &["-ai", "--filter=:C", "--filter=- x", "--delete"],
            &["-aiC", "--include=*.o"],
        ]) {
            prepare();
            Pair::of(scene).run(flags, &["src/"], "dst");
        }
    });
}

#[test]
fn a_file_with_rules_that_is_none_fails_its_directory() {
    everywhere_by_pipe(|scene| {
        scene.file("src/a", "a");
        scene.file("src/d/.rules", "nonsense\n");
        scene.file("src/d/b", "b");
        scene.file("dst/extra", "x");
        scene.file("dst/d/extra", "x");
        let route = scene.route();
        let flags = ["-a", "--delete", "--filter=: .rules"];
        let run = scene.transfer("sync", &route, &flags, &["src/"], "dst").run();
        let run = run.expect_code(23);
        assert!(run.err().contains("can't use its filter rules: .rules: rule 1"), "{run}");
        assert!(!run.err().contains("nonsense"), "{run}");
        assert!(scene.exists("dst/a") && !scene.exists("dst/d/b"));
        assert!(scene.exists("dst/d/extra"), "{run}");
        // Nor is anything removed or copied where the destination's own rules are none.
        scene.file("src/d/.rules", "- none\n");
        scene.file("dst/d/.rules", "nonsense\n");
        let run = scene.transfer("sync", &route, &flags, &["src/"], "dst").run();
        let run = run.expect_code(23);
        assert!(scene.exists("dst/d/extra") && !scene.exists("dst/d/b"), "{run}");
        assert!(!scene.exists("dst/extra"), "{run}");
    });
}

#[test]
fn a_directory_in_the_place_of_a_file_with_rules_has_none() {
    everywhere_by_pipe(|scene| {
        for rule in ["--filter=:- .rules", "--filter=: .rules"] {
            scene.clear(&["src", "dst"]);
            scene.file("src/a.o", "a");
            scene.file("src/d/b.o", "b");
            scene.file("src/d/.rules/c", "c");
            scene.file("dst/.rules/x", "x");
            scene.file("dst/e/f", "f");
            Pair::of(scene).run(&["-ai", "--delete", rule], &["src/"], "dst");
        }
    });
}

#[test]
fn files_with_rules_have_others_looked_for() {
    everywhere_by_pipe(|scene| {
        for flags in
            scene.share([&["-ai"][..], &["-ai", "--delete"], &["-ai", "--delete-excluded"]])
        {
            trees(scene);
            for (tree, outer) in [("src", "- *.o\n: .inner\n"), ("dst", "P x\n: .inner\n")] {
                scene.file(format!("{tree}/.outer"), outer);
                scene.file(format!("{tree}/.inner"), "- keep\n");
                // In the directories below both are found, the inner ones first, whoever
                // has them looked for again.
                scene.file(format!("{tree}/d/.inner"), "+ /e/keep\n: .inner\n: .third\n");
                scene.file(format!("{tree}/d/e/.third"), "- f\n: .outer\n");
            }
            let flags = [flags, &["--filter=: .outer"]].concat();
            Pair::of(scene).run(&flags, &["src/"], "dst");
        }
    });
}

#[test]
fn a_link_to_a_file_with_rules_is_followed_unless_it_is_of_another_user() {
    each_way_by_pipe(|scene| {
        scene.file("rules", "- *.o\n");
        scene.file("src/d/a.o", "a");
        scene.file("src/d/b", "b");
        scene.symlink("../../rules", "src/d/.rules");
        let sync = || {
            let flags = ["-a", "--filter=:e .rules"];
            scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run()
        };
        sync().expect_ok();
        assert_eq!(scene.list("dst"), ["d", "d/b"]);
        if is_root() {
            own(scene.path("src/d/.rules"), (12345, 12345));
            let run = sync().expect_code(23);
            assert!(run.err().contains("can't use its filter rules: .rules: "), "{run}");
            assert_eq!(scene.list("dst"), ["d", "d/a.o", "d/b"]);
        }
    });
}

#[test]
fn nothing_is_removed_where_a_file_with_rules_is_passed_over() {
    if !is_root() {
        return;
    }
    each_way_by_pipe(|scene| {
        for (tree, held) in [("src", &["d/x", "e/x"][..]), ("dst", &["d/sub/x", "d/x", "gone/x"])] {
            scene.clear(&["src", "dst"]);
            scene.file("rules", "P x\n");
            for path in ["d/a", "d/sub/a", "e/a"] {
                scene.file(format!("src/{path}"), path);
            }
            for path in ["d/x", "d/sub/x", "e/x", "gone/x"] {
                scene.file(format!("dst/{path}"), path);
            }
            scene.mkdir(format!("{tree}/gone"));
            for dir in ["d", "gone"] {
                let link = format!("{tree}/{dir}/.rules");
                scene.symlink("../../rules", &link);
                own(scene.path(link), (12345, 12345));
            }
            let flags = ["-r", "--delete", "--filter=: .rules"];
            let run = scene.transfer("sync", &scene.route(), &flags, &["src/"], "dst").run();
            let run = run.expect_code(23);
            let found = scene.list("dst");
            for path in held.iter().chain(&["d/a", "d/sub/a", "e/a"]) {
                assert!(found.contains(&path.to_string()), "{path} in {tree}: {found:?}\n{run}");
            }
            // Beside such a directory extra files are removed, unless the source may lack some.
            assert_eq!(found.contains(&"e/x".to_owned()), tree == "src", "{found:?}\n{run}");
            assert!(run.err().contains("d: can't use its filter rules: .rules: "), "{run}");
        }
    });
}

#[test]
fn rules_about_extended_attributes_leave_them_alone() {
    each_way_by_pipe(|scene| {
        for rules in scene.share([
            &["-x user.s*"][..],
            &["-xs user.s*"],
            &["-xr user.s*"],
            &["+x *.keep", "-x *"],
        ]) {
            scene.clear(&["src", "dst"]);
            for name in ["same", "changed", "d/same"] {
                scene.file(format!("src/{name}"), "content");
                scene.file(format!("dst/{name}"), "content");
            }
            scene.file("dst/changed", "another");
            for name in ["same", "changed", "d", "d/same"] {
                for (tree, xattr) in [
                    ("src", "user.keep"),
                    ("src", "user.secret"),
                    ("dst", "user.keep"),
                    ("dst", "user.stays"),
                    ("dst", "user.goes"),
                ] {
                    let value = tree.as_bytes();
                    let path = scene.path(format!("{tree}/{name}"));
                    let flags = XattrFlags::empty();
                    rustix::fs::setxattr(path, xattr, value, flags).expect("an attribute");
                }
            }
            let words: Vec<String> = rules.iter().map(|rule| format!("--filter={rule}")).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            Pair::of(scene).run(&[&["-aiX"], &*words].concat(), &["src/"], "dst");
        }
    });
}

#[test]
fn a_rule_that_is_none_is_a_mistake() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    scene.file("src/a", "a");
    scene.file("rules", "- a\nnonsense\n");
    for (rule, why) in [
        ("nonsense", "not a rule: it must begin with '+ ', '- ', 'merge ' or similar"),
        ("-w a", "no modifier 'w'"),
        (". rules", "rules: rule 2: not a rule"),
        (". missing", "no such file"),
    ] {
        let run = scene.haul().args(["sync", "-a", "-f", rule, "src/", "dst"]).run();
        let run = run.expect_code(1);
        assert!(run.err().contains(why), "{rule}: {run}");
    }
}
