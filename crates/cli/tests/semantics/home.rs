//! Paths on a host that say where they start, and those that don't.

use crate::common::*;

/// A world with a directory that sessions start in, as they do in a home
/// directory, and the program to be named with --remote-haul.
fn at_home(world: &World) -> (Scene<'_>, std::path::PathBuf) {
    let scene = world.scene(Way::Upload);
    let home = scene.mkdir("home");
    let haul = format!("cd '{}' && exec '{HAUL}' \"$@\"", home.display());
    let haul = script(&scene.path("haul"), &haul);
    (scene, haul)
}

#[test]
fn relative_paths_on_a_host_start_in_the_home_directory() {
    let world = World::new();
    let (scene, haul) = at_home(&world);
    scene.file("a", "a");
    scene.file("tree/b", "b");
    let copy = |words: &[&str]| {
        let remote = ["--rsh".into(), world.sshd().rsh(), "--remote-haul".into()];
        let run = scene.haul().arg("copy").args(remote).arg(&haul).args(words);
        run.run().expect_ok();
    };
    copy(&["a", "haul-test:"]);
    copy(&["a", "haul-test:~/in-home"]);
    copy(&["a", "haul-test:new/"]);
    copy(&["-r", "tree", "haul-test:new"]);
    copy(&["a", "haul-test:./c:d"]);
    copy(&["a", "ssh://haul-test/~/by-url%20x"]);
    copy(&["a", "ssh://haul-test/~/"]);
    let home = ["a", "by-url x", "c:d", "in-home", "new", "new/a", "new/tree", "new/tree/b"];
    assert_eq!(scene.list("home"), home);

    copy(&["-r", "haul-test:", "all/"]);
    assert_eq!(scene.list("all"), home);
    copy(&["-r", "haul-test:~", "haul-test:new/tree", "again/"]);
    assert_eq!(scene.list("again"), [&home[..], &["tree", "tree/b"]].concat());
    copy(&["haul-test:~/c:d", "haul-test:in-home", "."]);
    assert_eq!(scene.read("c:d") + &scene.read("in-home"), "aa");
}

#[test]
fn sources_on_a_host_and_here_can_be_mixed() {
    let world = World::new();
    let (scene, haul) = at_home(&world);
    scene.file("here", "here");
    scene.file("home/there", "there");
    scene.mkdir("both");
    let remote = ["--rsh".into(), world.sshd().rsh(), "--remote-haul".into()];
    let run = scene.haul().arg("copy").args(remote).arg(haul);
    run.args(["here", "haul-test:there", "both"]).run().expect_ok();
    assert_eq!(scene.list("both"), ["here", "there"]);
}
