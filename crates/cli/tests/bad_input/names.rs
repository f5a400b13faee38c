//! Names that no file system takes.

use crate::common::*;

#[test]
fn a_name_that_is_too_long_is_reported_with_its_path() {
    each_way_by_pipe(|scene| {
        scene.file("a", "a");
        let long = "l".repeat(256);
        let hint = "rename the source, or choose a file system with longer names";
        let run = scene.copy(&[], &["a"], &long).run().expect_code(4);
        let path = format!("{}", scene.path(&long).display());
        assert_one_error(&run, &path, "File name too long", hint);

        scene.mkdir("there");
        let run = scene.copy(&[], &[&long, "a"], "there").run().expect_code(1);
        assert_one_error(&run, &path, "longer than 255 bytes", hint);
        assert_eq!(scene.list("there"), ["a"]);

        // The longest that there can be.
        let long = "l".repeat(255);
        scene.copy(&[], &["a"], &long).run().expect_ok();
        assert_eq!(scene.read(&long), "a");
    });
}

#[test]
fn a_path_that_is_too_long_is_reported() {
    each_way_by_pipe(|scene| {
        scene.file("a", "a");
        let long = "d/".repeat(2100);
        let run = scene.copy(&[], &["a"], format!("{long}x")).run().expect_code(4);
        assert!(run.err().contains("File name too long"), "{run}");
        let run = scene.copy(&[], &[format!("{long}x")], "dest").run().expect_code(1);
        assert!(run.err().contains("File name too long"), "{run}");
    });
}
