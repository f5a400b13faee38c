//! Runs both programs.

use crate::common::*;
use crate::found;
use haul_model::ContentHash;
use haul_testkit::haul::Outcome;
use haul_testkit::{duplicate, nasty};
use std::fs;
use std::path::Path;

/// The trees `src` and `dst` of a scene, and what both programs make of them.
pub(crate) struct Pair<'s, 'w> {
    pub(crate) scene: &'s Scene<'w>,
    files: Vec<String>,
}

impl<'s, 'w> Pair<'s, 'w> {
    /// Trees with some of everything that a mirror meets.
    pub(crate) fn usual(scene: &'s Scene<'w>) -> Self {
        let name = |name: &str| format!("src/{name}");
        for (at, dir) in ["", "d/", "d/e/", "z/"].iter().enumerate() {
            scene.file(name(&format!("{dir}same")), format!("same {at}"));
            scene.file(name(&format!("{dir}changed")), format!("new {at}"));
            scene.file(name(&format!("{dir}fresh")), format!("fresh {at}"));
        }
        duplicate(scene.path("src"), scene.path("dst")).expect("a copy");
        for dir in ["", "d/", "d/e/", "z/"] {
            scene.file(format!("dst/{dir}changed"), "old, and longer");
            scene.file(format!("dst/{dir}extra"), "extra");
            fs::remove_file(scene.path(format!("dst/{dir}fresh"))).expect("removed");
        }
        scene.file("dst/x/y/1", "extra");
        scene.file("dst/x/2", "extra");
        scene.file("src/empty/none", "gone at once");
        fs::remove_file(scene.path("src/empty/none")).expect("removed");
        scene.symlink("same", "src/link");
        mode(scene.path("src/d/same"), 0o640);
        Self::of(scene)
    }

    /// Trees that `build` has made.
    pub(crate) fn of(scene: &'s Scene<'w>) -> Self {
        for tree in ["src", "dst"] {
            if scene.exists(tree) {
                give_times(&scene.path(tree), tree, "");
            }
        }
        Self::with_times(scene)
    }

    /// Trees with the times that they have.
    pub(crate) fn with_times(scene: &'s Scene<'w>) -> Self {
        Self { scene, files: Vec::new() }
    }

    /// The same with files beside the trees, which both programs are told of.
    pub(crate) fn with_files(mut self, files: &[&str]) -> Self {
        for file in files.iter().filter(|file| self.scene.exists(file)) {
            give_times(&self.scene.path(file), file, "");
        }
        self.files = files.iter().map(|&file| file.to_owned()).collect();
        self
    }

    /// Path, owner, group and mode of all in `tree`.
    pub(crate) fn owners(&self, tree: &str) -> Vec<String> {
        owners(&self.scene.path(tree))
    }

    /// Runs haul alone once more: it finds nothing to do.
    #[track_caller]
    pub(crate) fn settles(&self, flags: &[&str], sources: &[&str], dest: &str) {
        let scene = self.scene;
        let run = scene.transfer("sync", &scene.route(), flags, sources, dest).run();
        assert_eq!(run.out(), "", "{flags:?} {sources:?}: {run}");
    }

    /// Runs both with `flags`, from `sources` to `dest`, and has them compared; gives what haul
    /// said. What rsync makes of the trees is in `oracle`, and not to be changed there. Where rsync
    /// prints lines of `-i`, haul prints the same, in any order.
    pub(crate) fn run(&self, flags: &[&str], sources: &[&str], dest: &str) -> Outcome {
        let scene = self.scene;
        let trees = ["src", "dst", "prev", "older", "kept"].into_iter();
        let trees = trees.chain(self.files.iter().map(String::as_str));
        let trees: Vec<&str> = trees.filter(|tree| scene.exists(tree)).collect();
        let finding = found::of(scene, &trees, flags, sources, dest);
        let expected = &finding.run;
        let route = scene.route();
        let found = scene.transfer("sync", &route, flags, sources, dest).run();
        assert_eq!(
            found.code, expected.code,
            "{flags:?} {sources:?}\nrsync: {expected}\nhaul: {found}"
        );
        let keeps_times =
            flags.iter().any(|flag| !flag.starts_with("--") && flag.contains(['a', 't']));
        let omits_some = flags.iter().any(|flag| is_short(flag, 'J'));
        let rules = match keeps_times && !omits_some {
            true => scene.rules(),
            false => scene.rules().ignoring_mtimes(),
        };
        // Directories that stay by a rule, and from which something went, have the time of
        // that.
        let keeps_paths = |flag: &&str| is_short(flag, 'R') || flag.starts_with("--files-from");
        let covers_root = !flags.iter().any(keeps_paths)
            && sources.iter().any(|source| source.ends_with(['/', '.']));
        let rules = if covers_root { rules } else { rules.ignoring_root() };
        let has_rules = flags.iter().any(|flag| {
            flag.starts_with("--exclude")
                || flag.starts_with("--filter")
                || is_short(flag, 'F')
                || is_short(flag, 'C')
        });
        let omits = flags
            .iter()
            .any(|flag| is_short(flag, 'O') || is_short(flag, 'b') || *flag == "--no-implied-dirs");
        let rules = if has_rules || omits { rules.ignoring_dir_mtimes() } else { rules };
        let is_made = finding.made.is_some();
        assert_eq!(scene.exists(dest), is_made, "{flags:?} {sources:?}: {dest}\nhaul: {found}");
        let differences = match &finding.made {
            Some(made) => made.differences(&scene.snapshot(dest), rules),
            None => Vec::new(),
        };
        assert!(differences.is_empty(), "{flags:?} {sources:?}: {differences:?}\nhaul: {found}");
        if flags.iter().any(|flag| flag.starts_with('-') && flag.contains('i') && flag.len() < 9) {
            let (mut ours, mut theirs) = (lines(&found.out()), lines(&expected.out()));
            let has =
                |letter| flags.iter().any(|flag| !flag.starts_with("--") && flag.contains(letter));
            let is_in_order = has('n') && !has('c');
            for lines in [&mut ours, &mut theirs] {
                if is_in_order {
                    // Where rsync is with its removals depends on how far it reads ahead.
                    lines.sort_by_key(|line| !line.starts_with('*'));
                } else {
                    lines.sort();
                }
            }
            assert_eq!(ours, theirs, "{flags:?} {sources:?}\nhaul: {found}\nrsync: {expected}");
        }
        found
    }
}

/// True if `flag` is short words, one of which is `letter`.
fn is_short(flag: &str, letter: char) -> bool {
    !flag.starts_with("--") && flag.contains(letter)
}

/// Gives what is at `path`, which is called `name` below `tree`, a time in whole seconds:
/// the same to files of the same content, and to nothing else.
fn give_times(path: &Path, tree: &str, name: &str) {
    let metadata = fs::symlink_metadata(path).expect("it is there");
    let mut seed = name.as_bytes().to_vec();
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("read") {
            let entry = entry.expect("read").file_name().into_string().expect("a plain name");
            give_times(&path.join(&entry), tree, &format!("{name}/{entry}"));
        }
        seed.extend(tree.as_bytes());
    } else if metadata.is_file() {
        seed.extend(fs::read(path).expect("read"));
    } else {
        seed.extend(tree.as_bytes());
    }
    let mark = *ContentHash::of(&seed).as_bytes().first_chunk().expect("it is longer");
    let seconds = 1_600_000_000 + u64::from_le_bytes(mark) % 9_999_991;
    nasty::set_mtime(path, seconds.cast_signed(), 0).expect("a time");
}

/// Lines about entries: the mark for what is sent is that for what is received, since
/// rsync runs on one machine.
fn lines(text: &str) -> Vec<String> {
    let is_item = |line: &&str| {
        line.starts_with(['<', '>', '.', 'c', 'h', '*']) && line.find(' ').is_some_and(|at| at >= 9)
    };
    text.lines().filter(is_item).map(|line| line.replacen('<', ">", 1)).collect()
}
