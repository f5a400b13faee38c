//! Tests of the walk: its order, with any number of helpers.

use super::*;
use crate::dirs::OpenDirs;
use crate::monitor::Silent;
use crate::threads::with_helpers;
use haul_tree::{LocalTree, Tree};
use proptest::prelude::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

static FILTER: LazyLock<Filter> = LazyLock::new(Filter::default);
static SILENT: LazyLock<Silent> = LazyLock::new(Silent::default);

/// The directories and files below `path` as a walk lists them, found by recursion.
fn by_recursion(path: &Path, shown: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort_by(|one, other| one.as_os_str().as_bytes().cmp(other.as_os_str().as_bytes()));
    let (dirs, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.is_dir());
    shown.extend(files);
    for dir in dirs {
        shown.push(dir.clone());
        by_recursion(&dir, shown);
    }
}

/// Rules that exclude nothing.
fn rules<'w>(control: &'w Control<'w>, prefetch: &'w Prefetch<'w>) -> Rules<'w> {
    Rules {
        control,
        follow: false,
        restores_sources: false,
        dest_lineage: &[],
        filter: &FILTER,
        walking: Walking::default(),
        lists_implied_dirs: true,
        prefetch,
    }
}

fn node_of(root: &Path) -> Arc<DirNode> {
    let dir = LocalTree::PLAIN.open(root.as_os_str().as_bytes()).unwrap();
    DirNode::root(dir, None, &Arc::new(OpenDirs::default())).unwrap()
}

fn by_walk(root: &Path, helpers: usize) -> Vec<PathBuf> {
    let control = Control::new(&*SILENT);
    let walk = Walk::new(rules(&control, &|_, _, _| None));
    let node = node_of(root);
    let path = |node: &DirNode, name: &Name| {
        let below = node.path_of(Some(name));
        root.join(std::ffi::OsStr::from_bytes(&below))
    };
    let mut shown = Vec::new();
    with_helpers(
        &control,
        "walk",
        helpers,
        || walk.help(),
        || {
            let _end = walk.end_on_drop();
            let mut levels = vec![(walk.begin(Merged::of(node, Depth::Open)), 0)];
            while let Some((listed, at)) = levels.last_mut() {
                if *at == 0 {
                    let entries = listed.entries.iter();
                    shown.extend(entries.map(|found| path(&found.dir, &found.name)));
                }
                *at += 1;
                let Some(name) = listed.subdirs.names().get(*at - 1) else {
                    walk.leave(&listed.subdirs);
                    levels.pop();
                    continue;
                };
                shown.push(path(listed.node.as_ref().unwrap(), name));
                let next = walk.take(&listed.subdirs, *at - 1).unwrap();
                levels.push((next, 0));
            }
        },
    );
    shown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_entry_comes_once_and_in_order_however_many_help(
        paths in prop::collection::btree_set("[ab]{1,2}(/[a-c]{1,2}){0,4}", 1..60),
        helpers in 0_usize..5,
    ) {
        let temp = tempfile::tempdir().unwrap();
        for path in &paths {
            let path = temp.path().join(path);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("file"), "").unwrap();
        }
        let mut expected = Vec::new();
        by_recursion(temp.path(), &mut expected);
        prop_assert_eq!(by_walk(temp.path(), helpers), expected);
    }
}

#[test]
fn more_directories_than_the_read_ahead_bound_come_in_order() {
    let temp = tempfile::tempdir().unwrap();
    for n in 0..DIRS_AHEAD_MAX * 5 {
        fs::create_dir_all(temp.path().join(format!("{:03}/{n:03}/x", n / 7))).unwrap();
    }
    let mut expected = Vec::new();
    by_recursion(temp.path(), &mut expected);
    assert_eq!(by_walk(temp.path(), 3), expected);
}

#[test]
fn helpers_look_up_the_destination_for_directories_they_read() {
    const LISTED_AS: u64 = 7;
    let temp = tempfile::tempdir().unwrap();
    for n in 0..DIRS_AHEAD_MAX + 8 {
        fs::create_dir(temp.path().join(format!("{n:03}"))).unwrap();
        fs::write(temp.path().join(format!("{n:03}/of-{n:03}")), "").unwrap();
    }
    let asked = Mutex::new(Vec::new());
    let prefetch = |above: u64, name: &Name, found: &[Found]| {
        asked.lock().push((above, name.clone(), found[0].name.clone()));
        None
    };
    let control = Control::new(&*SILENT);
    let walk = Walk::new(rules(&control, &prefetch));
    let node = node_of(temp.path());
    let work = || {
        let _end = walk.end_on_drop();
        let listed = walk.begin(Merged::of(node, Depth::Open));
        listed.subdirs.listed_as(LISTED_AS);
        // Makes room for further directories, whose parent's number is known.
        for at in 0..DIRS_AHEAD_MAX / 2 {
            walk.take(&listed.subdirs, at).unwrap();
        }
        let begun = Instant::now();
        while asked.lock().is_empty() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    with_helpers(&control, "walk", 1, || walk.help(), work);
    let asked = asked.into_inner();
    assert!(!asked.is_empty(), "nobody has looked ahead");
    for (above, name, entry) in asked {
        assert_eq!(above, LISTED_AS);
        assert_eq!(entry.as_bytes(), [b"of-", name.as_bytes()].concat());
    }
}
