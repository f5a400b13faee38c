//! `-V` sees a medium that does not hold what was written to it, while
//! the page cache does.

use super::*;

/// The journals and small files are shorter, so that only contents are damaged.
const AT: usize = 300_000;

#[test]
fn what_the_medium_damaged_is_not_published() {
    each_way_by_pipe(|scene| {
        let Some(target) = Target::new(scene, Names::Posix) else { return };
        scene.mkdir("src");
        tree::random_file(scene.path("src/packed"), 400_000, 1).expect("a file");
        tree::random_file(scene.path("src/pieces"), 5_000_000, 2).expect("a file");
        tree::random_file(scene.path("src/resumable"), 65 << 20, 3).expect("a file");
        scene.file("src/short", "it is not damaged");
        scene.copy(&["-r"], &["src"], "to/").run().expect_ok();
        let old = scene.snapshot("to/src");

        target.disk.damage_at(AT);
        for name in ["packed", "pieces", "resumable", "short"] {
            // Others of the same length.
            let path = scene.path("src").join(name);
            let len = fs::metadata(&path).expect("there").len();
            tree::random_file(&path, len, 4).expect("a file");
        }
        let run = scene.copy(&["-r", "-V", "--force"], &["src"], "to/").run().expect_code(1);
        let errors = errors(&run);
        assert_eq!(errors.len(), 3, "{run}");
        assert!(
            errors.iter().all(|error| error.contains("the disk returned a file with hash")),
            "{run}"
        );
        let read = |path: &str| fs::read(scene.path(path)).expect("read");
        assert!(read("src/short") == read("to/src/short"));
        let now = scene.snapshot("to/src");
        for name in ["packed", "pieces", "resumable"] {
            assert_eq!(now.get(name), old.get(name), "{name} was published");
        }
        assert_eq!(scene.list("to/src").len(), 4, "something of haul's is left");

        target.disk.heal();
        scene.copy(&["-r", "-V", "--force"], &["src"], "to/").run().expect_ok();
        for name in ["packed", "pieces", "resumable"] {
            let (from, to) = (format!("src/{name}"), format!("to/src/{name}"));
            assert!(read(&from) == read(&to), "{name} differs");
        }
    });
}
