//! Errors that come when a file is closed.

use super::*;

#[test]
fn what_is_lost_when_it_is_closed_is_not_published() {
    for (errno, why) in [(Errno::IO, "Input/output error"), (Errno::DQUOT, "quota")] {
        let quirks = Quirks { at_close: Some(errno), ..Quirks::default() };
        each_way_to(&quirks, |scene, _| {
            for (name, len) in SIZES {
                tree::random_file(scene.path(name), len, 3).expect("a file");
                fs::write(scene.path(format!("to/{name}")), "old").ok();
                let old = scene.read(format!("to/{name}"));
                let run = scene.copy(&[], &[name], "to/").run();
                assert_ne!(run.code, Some(0), "{name}: {run}");
                // The protocol has no word for it.
                let why = if scene.way == Way::SftpUpload { "failure" } else { why };
                assert!(run.err().contains(why), "{name}: {run}");
                assert_eq!(scene.read(format!("to/{name}")), old, "{name}");
                assert_eq!(left(scene), [""; 0], "{name}");
            }
        });
    }
}

#[test]
fn a_move_keeps_what_is_lost_when_it_is_closed() {
    let quirks = Quirks { at_close: Some(Errno::IO), ..Quirks::default() };
    each_way_to(&quirks, |scene, _| {
        tree::random_file(scene.path("file"), 1000, 3).expect("a file");
        let run = moves(scene, &[], &["file"], "to/").run();
        assert_ne!(run.code, Some(0), "{run}");
        assert!(scene.path("file").exists(), "{run}");
        assert_eq!(scene.list("to/"), [""; 0]);
    });
}
