//! All that is kept of trees, to be compared.

use crate::entry::is_in;
use crate::faking;
use haul_model::{ContentHash, escape_bytes};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Path to the facts about what is there, each with its name.
pub(crate) type Facts = BTreeMap<Vec<u8>, BTreeMap<&'static str, String>>;

/// Reads all that is below `root`. Times in `run`, in seconds since 1970, are of a run, and
/// nothing is said of them but that.
pub(crate) fn read(root: &Path, run: &RangeInclusive<i64>, atimes: bool) -> Facts {
    let mut facts = Facts::new();
    let mut names: BTreeMap<(u64, u64), Vec<Vec<u8>>> = BTreeMap::new();
    let mut open = vec![Vec::new()];
    let mut found = Vec::new();
    while let Some(dir) = open.pop() {
        for child in fs::read_dir(root.join(OsStr::from_bytes(&dir))).expect("it can be listed") {
            let name = child.expect("an entry").file_name();
            let mut path = dir.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(name.as_bytes());
            let there = root.join(OsStr::from_bytes(&path));
            let meta = fs::symlink_metadata(&there).expect("it is there");
            if meta.is_dir() {
                open.push(path.clone());
            } else {
                names.entry((meta.dev(), meta.ino())).or_default().push(path.clone());
            }
            found.push((path, there, meta));
        }
    }
    // A file is read when all of its names were looked at: that changes when it was read.
    for (path, there, meta) in found {
        let atimes = atimes && !is_in(&path, b"src");
        facts.insert(path, of_one(&there, &meta, run, atimes));
    }
    for mut all in names.into_values().filter(|all| all.len() > 1) {
        all.sort();
        let linked = all.iter().map(|path| escape_bytes(path)).collect::<Vec<_>>().join(" = ");
        for path in all {
            facts.get_mut(&path).expect("it was read").insert("names", linked.clone());
        }
    }
    facts
}

fn of_one(
    path: &Path,
    meta: &fs::Metadata,
    run: &RangeInclusive<i64>,
    atimes: bool,
) -> BTreeMap<&'static str, String> {
    let mut facts = BTreeMap::new();
    let kind = meta.file_type();
    let what = if kind.is_dir() {
        "directory".to_owned()
    } else if kind.is_file() {
        let content = fs::read(path).expect("it can be read");
        format!("file of {} bytes, {}", meta.len(), ContentHash::of(&content))
    } else if kind.is_symlink() {
        let target = fs::read_link(path).expect("it can be read");
        format!("link to {}", escape_bytes(target.as_os_str().as_bytes()))
    } else if kind.is_fifo() {
        "FIFO".to_owned()
    } else if kind.is_socket() {
        "socket".to_owned()
    } else {
        format!("{kind:?} {:x}", meta.rdev())
    };
    facts.insert("kind", what);
    if !kind.is_symlink() {
        facts.insert("mode", format!("{:04o}", meta.mode() & 0o7777));
    }
    facts.insert("owner", format!("{}:{}", meta.uid(), meta.gid()));
    if !kind.is_symlink() {
        for (name, value) in xattrs(path) {
            if name == faking::STAT && read_record(&mut facts, &value).is_some() {
                continue;
            }
            facts.insert("xattrs", {
                let before = facts.get("xattrs").cloned().unwrap_or_default();
                format!("{before}{name}={value} ")
            });
        }
    }
    let time = |seconds: i64, nanos: i64| match run.contains(&seconds) {
        true => "now".to_owned(),
        false => format!("{seconds}.{nanos:09}"),
    };
    facts.insert("mtime", time(meta.mtime(), meta.mtime_nsec()));
    // Of a link nothing is said of it, also where a file stands for one.
    let is_link = facts["kind"].contains(" that stands for 120000 ");
    if atimes && kind.is_file() && !is_link {
        facts.insert("atime", time(meta.atime(), meta.atime_nsec()));
    }
    facts
}

/// Has facts be those of a record of attributes that are written down, `100644 0,0 1:2`. What
/// is really there has a name of its own.
fn read_record(facts: &mut BTreeMap<&'static str, String>, record: &str) -> Option<()> {
    let (mode, rest) = record.split_once(' ')?;
    let (device, owner) = rest.split_once(' ')?;
    let mode = u32::from_str_radix(mode, 8).ok()?;
    let really = format!("{} {}", facts["mode"], facts["owner"]);
    facts.insert("really", really);
    facts.insert("mode", format!("{:04o}", mode & 0o7777));
    facts.insert("owner", owner.to_owned());
    let kind = format!("{} that stands for {:o} {device}", facts["kind"], mode & !0o7777);
    facts.insert("kind", kind);
    Some(())
}

fn xattrs(path: &Path) -> Vec<(String, String)> {
    let mut names = [0_u8; 4096];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let mut all: Vec<_> = names[..len]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .filter_map(|name| {
            let mut value = [0_u8; 4096];
            let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap_or(0);
            // A list of access that is gone rsync writes down as one with nothing in it.
            let is_gone = name == b"user.rsync.%aacl" && value[..len] == [0x80, 0, 0, 0].repeat(4);
            (!is_gone).then(|| (escape_bytes(name), escape_bytes(&value[..len])))
        })
        .collect();
    all.sort();
    all
}

/// Lines about all that is not the same in two trees, the first of which is rsync's, and is
/// not `meant` to be different: that asks for a path, a fact's name, and what both have.
pub(crate) fn differences(
    theirs: &Facts,
    ours: &Facts,
    meant: impl Fn(&[u8], &str, Option<&str>, Option<&str>) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for (path, expected) in theirs {
        let shown = escape_bytes(path);
        let Some(there) = ours.get(path) else {
            if !meant(path, "kind", Some(&expected["kind"]), None) {
                found.push(format!("{shown}: only rsync has it: {}", expected["kind"]));
            }
            continue;
        };
        let is_told_otherwise =
            ["mode", "owner"].iter().any(|of| expected.get(of) != there.get(of));
        for name in ["kind", "mode", "owner", "really", "mtime", "atime", "xattrs", "names"] {
            // What is written down by another mode or owner has other rights.
            if name == "really" && is_told_otherwise {
                continue;
            }
            let fact = |facts: &BTreeMap<_, String>| facts.get(name).cloned();
            let (expected, there) = (fact(expected), fact(there));
            if expected != there && !meant(path, name, expected.as_deref(), there.as_deref()) {
                let text = |fact: Option<String>| fact.unwrap_or_else(|| "none".into());
                let (theirs, ours) = (text(expected), text(there));
                found.push(format!("{shown}: {name}: rsync {theirs}, haul {ours}"));
            }
        }
    }
    for (path, there) in ours.iter().filter(|(path, _)| !theirs.contains_key(*path)) {
        if !meant(path, "kind", None, Some(&there["kind"])) {
            found.push(format!("{}: only haul has it: {}", escape_bytes(path), there["kind"]));
        }
    }
    found
}
