//! Results of rsync, found once for all ways of a scenario: they begin with the
//! same trees, and to start rsync, with its three processes, takes longer than what it does.

use crate::common::*;
use haul_model::ContentHash;
use haul_testkit::haul::Outcome;
use haul_testkit::{Duplicates, Snapshot, TempDir};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Times that tests give are further back.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);

/// A run of rsync.
pub(crate) struct Finding {
    pub(crate) run: Outcome,
    /// The destination after it, if there is one then.
    pub(crate) made: Option<Snapshot>,
    /// Where it ran.
    dir: PathBuf,
}

/// Runs by all that rsync was told and could see. The first way that asks for one makes it.
type Findings = HashMap<String, Arc<OnceLock<Arc<Finding>>>>;

/// Has rsync run with these words on a copy of `trees`, or gives what it has made of the same
/// ones before. The copy is in `oracle` then.
pub(crate) fn of(
    scene: &Scene<'_>,
    trees: &[&str],
    flags: &[&str],
    sources: &[&str],
    dest: &str,
) -> Arc<Finding> {
    static FOUND: Mutex<Option<Findings>> = Mutex::new(None);
    let world = scene.path("").parent().expect("it is in its world").to_owned();
    let beside = fs::metadata(scene.path("")).expect("it is there");
    // Each program works in a directory of its user.
    let user = (beside.uid(), beside.gid());
    let reads = flags.iter().any(|flag| match flag.strip_prefix("--") {
        Some(word) => word.contains("atime"),
        None => flag.contains('U'),
    });
    let entries = told(scene, trees, reads);
    let key = format!("{} {user:?} {flags:?} {sources:?} {dest}\n{entries}", world.display());
    let finding = {
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(found.get_or_insert_default().entry(key).or_default())
    };
    let finding = finding.get_or_init(|| {
        let dir = TempDir::with_prefix_in("oracle-", &world).expect("a directory").keep();
        mode(&dir, 0o755);
        let mut duplicates = Duplicates::default();
        for tree in trees {
            let made = duplicates.make(&scene.path(tree), &dir.join(tree));
            made.expect("a copy");
        }
        chown(&dir, Some(user.0), Some(user.1)).expect("given");
        let rsync = scene.program("rsync").cwd(&dir).args(flags).args(sources).arg(dest);
        let run = rsync.run();
        let made = dir.join(dest);
        let made = fs::symlink_metadata(&made).is_ok().then(|| scene.snapshot(made));
        Arc::new(Finding { run, made, dir })
    });
    let oracle = scene.path("oracle");
    let _ = fs::remove_file(&oracle);
    scene.symlink(&finding.dir, "oracle");
    Arc::clone(finding)
}

/// All that rsync could see of these trees, a line for each entry. When they were read is for
/// jobs that ask for it, for the ways read them at different times. So they make
/// directories: of these it says that they are of now, but for the sources and the destination.
fn told(scene: &Scene<'_>, trees: &[&str], reads: bool) -> String {
    let mut lines = String::new();
    // The first name of each object that has several.
    let mut names = HashMap::new();
    let mut open: Vec<PathBuf> = trees.iter().rev().map(|tree| tree.into()).collect();
    while let Some(name) = open.pop() {
        let path = scene.path(&name);
        let stat = fs::symlink_metadata(&path).expect("it is there");
        if stat.is_dir() {
            let children = fs::read_dir(&path).expect("a directory");
            let mut children: Vec<_> =
                children.map(|child| name.join(child.expect("an entry").file_name())).collect();
            children.sort_unstable();
            open.extend(children.into_iter().rev());
        }
        let first = names.entry((stat.dev(), stat.ino())).or_insert_with(|| name.clone());
        let read = reads.then(|| (stat.atime(), stat.atime_nsec()));
        let counts = !stat.is_dir() || name.starts_with("src") || name.starts_with("dst");
        let age = stat.modified().ok().and_then(|time| time.elapsed().ok());
        let is_of_now = age.is_none_or(|age| age < RECENT);
        let changed = (counts || !is_of_now).then(|| (stat.mtime(), stat.mtime_nsec()));
        let owner = (stat.uid(), stat.gid(), stat.mode(), stat.rdev(), stat.nlink());
        let content = content_of(&path, &stat);
        let line = format!("{name:?} {first:?} {changed:?} {read:?} {owner:?} {content} ");
        lines.push_str(&line);
        lines.push_str(&xattrs_of(&path));
        lines.push('\n');
    }
    lines
}

/// The room and the hash of a file's content, or a link's target.
fn content_of(path: &Path, stat: &Metadata) -> String {
    if stat.is_file() {
        let content = fs::read(path).expect("it can be read");
        return format!("{} {}", stat.blocks(), ContentHash::of(&content));
    }
    let target = stat.is_symlink().then(|| fs::read_link(path).expect("it can be read"));
    format!("{target:?}")
}

/// The extended attributes, access control lists among them.
fn xattrs_of(path: &Path) -> String {
    let mut names = [0; 4096];
    let len = rustix::fs::llistxattr(path, &mut names[..]).expect("its attributes are listed");
    let mut names: Vec<&[u8]> = names[..len].split(|&byte| byte == 0).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    let told = names.into_iter().map(|name| {
        let mut value = [0; 4096];
        let name = OsStr::from_bytes(name);
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("an attribute");
        format!("{name:?}={:x?} ", &value[..len])
    });
    told.collect()
}
