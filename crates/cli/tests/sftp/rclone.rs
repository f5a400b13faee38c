//! Jobs through an SFTP server that shares no code with OpenSSH.

use crate::common::*;
use crate::{strays, summary};
use haul_testkit::haul::Outcome;
use haul_testkit::snapshot::FileFacts;
use haul_testkit::{Rclone, Snapshot, tree};
use std::io;
use std::path::Path;

/// Names and contents, which is all that it keeps for sure.
fn contents(tree: &Snapshot) -> Vec<(Vec<u8>, u64, [u64; 2])> {
    let facts = |(path, file): (&[u8], &FileFacts)| (path.to_vec(), file.size, file.digest);
    tree.files().map(facts).collect()
}

#[test]
fn trees_go_to_rclone_and_back_and_are_unchanged_then() {
    std::thread::scope(|scope| {
        for serve in [Rclone::serve, Rclone::serve_cached] {
            scope.spawn(move || goes_and_comes_back(serve));
        }
    });
}

fn goes_and_comes_back(serve: fn(&Path) -> io::Result<Rclone>) {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    let server = serve(&scene.mkdir("there")).expect("rclone starts");
    tree::many(scene.path("tree"), 40, 900, 3, 8).expect("made");
    tree::random_file(scene.path("tree/large"), (6 << 20) + 1, 8).expect("made");
    tree::random_file(scene.path("tree/huge"), (66 << 20) + 1, 9).expect("made");
    scene.file("tree/empty", "");
    scene.file("tree/with space \u{fc}", "x");
    let run = |words: &[&str], from: &str, to: &str| -> Outcome {
        let haul = scene.haul().args(words).args(["--rsh", &server.rsh(), from, to]);
        haul.run().expect_ok()
    };
    let far = format!("sftp://{}/tree", server.host());
    let copy = ["copy", "-r", "--json"];
    let up = run(&copy, "tree", &far);
    assert_eq!(summary(&up)["copied"], 44, "{up}");
    assert_eq!(scene.list("there/tree"), scene.list("tree"), "{up}");
    let source = contents(&scene.snapshot("tree"));
    assert_eq!(source, contents(&scene.snapshot("there/tree")));
    let again = run(&copy, "tree/.", &far);
    assert_eq!(summary(&again)["copied"], 0, "{again}");
    // An existing file is kept with --no-clobber.
    scene.file("there/tree/dir-000/file-00000", "other");
    run(&["copy", "-r", "--no-clobber"], "tree/.", &far);
    assert_eq!(scene.read("there/tree/dir-000/file-00000"), "other");
    // An existing file is replaced, in however many steps.
    let over = run(&["copy", "-r", "--json", "--force"], "tree/.", &far);
    assert_eq!(summary(&over)["copied"], 44, "{over}");
    assert_eq!(source, contents(&scene.snapshot("there/tree")));
    assert_eq!(strays(&scene.path("there")).len(), 0);
    let down = run(&copy, &far, "back");
    assert_eq!(summary(&down)["copied"], 44, "{down}");
    assert_eq!(source, contents(&scene.snapshot("back")));
    let again = run(&copy, &format!("{far}/."), "back");
    assert_eq!(summary(&again)["copied"], 0, "{again}");
    run(&["check", "-r", "--content"], &format!("{far}/."), "back");
    let moved = run(&["move"], &far, "moved");
    assert!(moved.out().starts_with("moved 44 in "), "{moved}");
    assert_eq!(source, contents(&scene.snapshot("moved")));
    assert_eq!(scene.list("there"), [""; 0]);
}
