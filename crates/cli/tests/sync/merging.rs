//! Several sources that become one tree: of what has one name the first stays.

use crate::common::*;
use crate::oracle::Pair;
use std::fs;

/// Trees that have much in one place, and not the same.
fn build(scene: &Scene<'_>) {
    scene.clear(&["src", "dst"]);
    for (at, tree) in ["one", "two", "three"].iter().enumerate() {
        let name = |name: &str| format!("src/{tree}/{name}");
        scene.file(name("same"), "of all");
        scene.file(name("other"), format!("of {tree}"));
        scene.file(name("d/other"), format!("of {tree}, and deeper"));
        scene.file(name(&format!("d/sole-{tree}")), *tree);
        scene.file(name(&format!("only-{tree}/in")), *tree);
        scene.file(name(&format!("d/deep/{tree}/in")), *tree);
        mode(scene.path(name("d")), 0o711 + 0o11 * at as u32);
        mode(scene.path(format!("src/{tree}")), 0o700 + at as u32);
    }
    // Neither is of one kind in all.
    scene.file("src/one/file-or-dir", "a file");
    scene.file("src/two/file-or-dir/in", "a file in it");
    scene.symlink("same", "src/three/file-or-dir");
    scene.file("src/two/dir-or-file", "a file");
    scene.file("src/one/dir-or-file/in", "a file in it");
    scene.file("src/three/link-or-file", "a file");
    scene.symlink("same", "src/two/link-or-file");
    for extra in ["extra", "d/extra", "d/deep/extra", "only-two/extra", "x/y/extra"] {
        scene.file(format!("dst/{extra}"), "extra");
        scene.file(format!("dst/one/{extra}"), "extra");
    }
    scene.file("dst/other", "of none, and long");
    scene.file("dst/same", "of all");
}

const SOURCES: &[&[&str]] = &[
    &["src/one/", "src/two/", "src/three/"],
    &["src/three/", "src/two/", "src/one/"],
    &["src/one/d", "src/two/d", "src/three/d"],
    &["src/one/d", "src/two/d/", "src/three"],
    &["src/one/", "src/three/d", "src/two/other"],
    &["src/two/other", "src/one/", "src/three/other"],
    &["src/two/file-or-dir", "src/one/file-or-dir", "src/three/file-or-dir"],
    &["src/one/file-or-dir", "src/two/file-or-dir", "src/one/"],
    &["src/one", "src/one/", "src/one"],
];

#[test]
fn several_sources_become_one_and_the_first_wins() {
    everywhere_by_pipe(|scene| {
        for sources in scene.share(SOURCES) {
            build(scene);
            let pair = Pair::of(scene);
            pair.run(&["-ain"], sources, "dst");
            pair.run(&["-ai"], sources, "dst");
            pair.settles(&["-ai"], sources, "dst");
        }
    });
}

#[test]
fn what_none_of_several_sources_has_is_removed() {
    everywhere_by_pipe(|scene| {
        for (at, sources) in scene.share(SOURCES.iter().enumerate()) {
            build(scene);
            let pair = Pair::of(scene);
            pair.run(&["-ain", "--delete"], sources, "dst");
            let when = ["--delete", "--delete-after", "--delete-before"][at / 3];
            pair.run(&["-ai", when], sources, "dst");
        }
        for flags in scene.share([
            &["-di", "-lpt", "--delete"][..],
            &["-aim", "--delete"],
            &["-aim", "--filter=P empty"],
            &["-aic", "--delete"],
            &["-ai", "--delete-before", "--exclude=only-*"],
            &["-ai", "--delete-excluded", "--exclude=only-two"],
            &["-ai", "--delete", "--max-delete=3"],
        ]) {
            build(scene);
            scene.mkdir("src/two/e/empty");
            let _ = fs::remove_dir_all(scene.path("dst/one"));
            Pair::of(scene).run(flags, &["src/two/", "src/one/d", "src/three/"], "dst");
        }
    });
}

#[test]
fn a_source_that_cannot_be_read_holds_back_all_removals() {
    each_way_by_pipe(|scene| {
        for flags in scene.share([
            &["-ai", "--delete"][..],
            &["-ai", "--delete-after"],
            &["-ai", "--delete-before"],
        ]) {
            build(scene);
            let pair = Pair::of(scene);
            pair.run(flags, &["src/one/", "src/nowhere", "src/two/"], "dst");
            pair.run(flags, &["src/nowhere/", "src/two/"], "dst");
            pair.run(flags, &["src/one/d", "src/nowhere"], "dst");
        }
    });
}

#[test]
fn rules_backups_and_bases_apply_to_several_sources_as_to_one() {
    each_way_by_pipe(|scene| {
        for (flags, sources) in scene.share([
            (&["-aib", "--delete"][..], &["src/one/", "src/two/"][..]),
            (&["-ai", "--backup-dir=../kept", "--delete"], &["src/two/", "src/one/d"]),
            (&["-aibR", "--delete"], &["src/./one/d"]),
            (&["-aix", "--delete"], &["src/one/", "src/two/"]),
            (&["-aiRF", "--delete"], &["src/./one/d", "src/./two"]),
            (&["-ai", "--filter=P extra", "--delete"], &["src/one/", "src/two/d"]),
            (&["-aiu", "--existing"], &["src/one/", "src/two/"]),
            (&["-ai", "--ignore-existing"], &["src/one/", "src/two/"]),
            (&["-rlptiO"], &["src/one/", "src/two/"]),
        ]) {
            build(scene);
            scene.file("src/one/.rsync-filter", "- only-*\n");
            scene.file("src/two/d/.rsync-filter", "- other\n");
            Pair::of(scene).run(flags, sources, "dst");
        }
    });
}

#[test]
fn a_fifo_that_is_named_is_passed_over_as_any_other() {
    each_way_by_pipe(|scene| {
        build(scene);
        run(std::process::Command::new("mkfifo").arg(scene.path("src/fifo")));
        let pair = Pair::of(scene);
        pair.run(&["-rti"], &["src/fifo", "src/one"], "dst");
        pair.run(&["-tiR"], &["src/./fifo", "src/./one/other"], "dst");
        pair.run(&["-ai"], &["src/fifo", "src/one"], "dst");
    });
}
