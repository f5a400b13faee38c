//! Trees that are deeper than any path: the system takes none of more than
//! 4,096 bytes, so everything is reached step by step.

use crate::bench::Bench;
use crate::link::{Link, SFTP};
use haul_engine::Outcome;
use haul_model::{FaultKind, MAX_DEPTH, MAX_NAME_LEN, Name};
use haul_sys::Dir;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

fn long_name() -> Name {
    Name::new(&[b'n'; MAX_NAME_LEN]).expect("the longest name")
}

/// Makes `depth` directories in each other below `root`, and a file in the
/// last one.
fn dig(root: &Path, depth: usize) {
    let name = long_name();
    let mut dir = Dir::open(root).expect("opened");
    for _ in 0..depth {
        dir.make_dir(&name, 0o755).expect("made");
        dir = dir.open_dir(&name).expect("opened");
    }
    let mut file = dir.create_private("bottom").expect("created");
    file.write_all(b"content").expect("written");
}

/// How many directories are in each other below `root`, and what the file in
/// the last one says.
fn sound(root: &Path) -> (usize, Option<String>) {
    let name = long_name();
    let mut dir = Arc::new(Dir::open(root).expect("opened"));
    let mut depth = 0;
    while let Ok(below) = dir.open_dir(&name) {
        dir = Arc::new(below);
        depth += 1;
    }
    let bottom = Name::new(b"bottom").expect("a name");
    let content = dir.open_file(&bottom, false).ok().map(|(mut file, _)| {
        let mut content = String::new();
        file.read_to_string(&mut content).expect("read");
        content
    });
    (depth, content)
}

#[test]
fn the_deepest_tree_with_the_longest_names_is_copied() {
    // The source itself is the first level.
    let bench = Bench::new(&["tree"], |source| {
        std::fs::create_dir(source.join("tree")).expect("made");
        dig(&source.join("tree"), MAX_DEPTH - 1);
    });
    // The wires of a direction differ in where contents go, and there is one small file.
    for link in [Link::UploadBySocket, Link::DownloadBySocket, Link::Memory] {
        let summary = bench.run(link).summary;
        let figures = (summary.copied, summary.dirs_created, summary.failed);
        assert_eq!(figures, (1, MAX_DEPTH as u64, 0), "{link:?}");
        let found = sound(&bench.dest(link).join("tree"));
        assert_eq!(found, (MAX_DEPTH - 1, Some("content".into())), "{link:?}");
    }
}

#[test]
fn what_is_deeper_is_reported_and_left_out() {
    let bench = Bench::new(&["tree"], |source| {
        std::fs::create_dir(source.join("tree")).expect("made");
        dig(&source.join("tree"), MAX_DEPTH + 3);
    });
    // The Sender leaves it out, whatever is behind its link.
    for link in [Link::UploadBySocket, Link::Memory] {
        let came = bench.run(link);
        let figures = (came.summary.copied, came.summary.dirs_created, came.summary.failed);
        assert_eq!(figures, (0, MAX_DEPTH as u64, 1), "{link:?}");
        assert_eq!(sound(&bench.dest(link).join("tree")), (MAX_DEPTH - 1, None), "{link:?}");
        let too_deep = came.outcomes.values().any(|outcome| match outcome {
            Outcome::Failed(fault) => fault.kind == FaultKind::TooLong,
            _ => false,
        });
        assert!(too_deep, "{link:?}");
    }
}

#[test]
fn through_sftp_a_tree_is_as_deep_as_a_path_can_say() {
    let bench = Bench::new(&["tree"], |source| {
        std::fs::create_dir(source.join("tree")).expect("made");
        std::fs::write(source.join("tree/first"), "first").expect("written");
        // One level more than a path has room for.
        dig(&source.join("tree"), 16);
    });
    for link in SFTP {
        let came = bench.run(link);
        let tree = bench.dest(link).join("tree");
        assert_eq!(std::fs::read_to_string(tree.join("first")).expect("read"), "first");
        let (depth, bottom) = sound(&tree);
        assert!((10..16).contains(&depth), "{link:?}: {depth}");
        assert_eq!(bottom, None, "{link:?}");
        let summary = came.summary;
        assert!(summary.copied == 1 && summary.failed > 0, "{link:?}: {summary:?}");
        let too_long = came.outcomes.values().any(|outcome| match outcome {
            Outcome::Failed(fault) => fault.kind == FaultKind::TooLong,
            _ => false,
        });
        assert!(too_long, "{link:?}: {:?}", came.outcomes.values());
    }
}
