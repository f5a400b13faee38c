//! Draws trees: sources, and what a destination has of them already.

use crate::entry::{Content, Entry, Kind, TreeState, below, content, entry, is_in, remove, time};
use crate::lot::Lot;
use haul_testkit::nasty::NAMES;

const USUAL: &[&str] = &["a", "b", "c", "d", "e", "f.txt", "g.o", "h~", "z", "a-b", "a.b", "core"];

/// Further names than the nasty ones.
const ODD: &[&[u8]] = &[
    b"x\\#012y",
    b"[a]",
    b"a*",
    b"back\\slash",
    b"\\",
    b"a ",
    b" ",
    b"\n",
    b"d.d",
    b"d-",
    b"d\x01",
    b".rsync-filter",
    b".cvsignore",
    b"a -> b",
    b"a => b",
];

pub(crate) fn name(lot: &mut Lot) -> Vec<u8> {
    match lot.below(100) {
        0..80 => lot.pick(USUAL).as_bytes().to_vec(),
        80..88 => lot.pick(NAMES).to_vec(),
        88..98 => lot.pick(ODD).to_vec(),
        _ => vec![b'l'; 240 + lot.below(16)],
    }
}

/// Draws what is in `dir`, which is in `state`.
pub(crate) fn fill(lot: &mut Lot, state: &mut TreeState, dir: &[u8], is_root: bool, depth: usize) {
    let many = match lot.below(30) {
        0 if depth == 0 => 40,
        1..4 if depth > 0 => 0,
        _ => 1 + lot.below(6),
    };
    for _ in 0..many {
        let name = match many {
            40 => format!("{:03}", lot.below(500)).into_bytes(),
            _ => name(lot),
        };
        let path = below(dir, &name);
        if state.contains_key(&path) || path.len() > 700 {
            continue;
        }
        let kind = kind(lot, state, dir, &name, is_root);
        let is_dir = kind == Kind::Dir;
        let made = entry(lot, kind, is_root);
        state.insert(path.clone(), made);
        if is_dir && depth < 4 {
            fill(lot, state, &path, is_root, depth + 1);
        }
    }
}

fn kind(lot: &mut Lot, state: &TreeState, dir: &[u8], name: &[u8], is_root: bool) -> Kind {
    if is_rules(name) {
        return Kind::File(rules(lot, name));
    }
    match lot.below(100) {
        0..52 => Kind::File(content(lot)),
        52..74 => Kind::Dir,
        74..84 => Kind::Link(target(lot, state, dir)),
        84..92 => {
            let tree = dir.split(|byte| *byte == b'/').next().unwrap_or(dir);
            let files: Vec<_> = state
                .iter()
                .filter(|(path, entry)| {
                    is_in(path, tree)
                        && !matches!(entry.kind, Kind::Dir | Kind::Name(_))
                        && path[..] < below(dir, name)[..]
                })
                .map(|(path, _)| path.clone())
                .collect();
            match files.is_empty() {
                true => Kind::File(content(lot)),
                false => Kind::Name(lot.pick(&files).clone()),
            }
        }
        92..95 => Kind::Fifo,
        95..97 => Kind::Socket,
        97..99 if is_root => {
            let (is_char, minor) = (lot.chance(60), *lot.pick(&[3, 5]));
            Kind::Device(is_char, if is_char { 1 } else { 7 }, minor)
        }
        _ => Kind::File(Content::Text("text\n".into())),
    }
}

/// True if a file of that name has rules in it.
fn is_rules(name: &[u8]) -> bool {
    matches!(name, b".rsync-filter" | b".cvsignore")
}

fn rules(lot: &mut Lot, name: &[u8]) -> Content {
    let lines: &[&str] = match name {
        b".cvsignore" => &["*.txt\n", "a b\n", "!\nc\n", "z*\n"],
        _ => &[
            "- a\n",
            "- /b\n+ *.o\n- *~\n",
            "P c\n",
            "H z\n",
            "- d/\n",
            "+ /d/\n- *\n",
            "# no rule\n\nS b\nR c\n",
            "-p e\n",
        ],
    };
    Content::Text((*lot.pick(lines)).to_owned())
}

fn target(lot: &mut Lot, state: &TreeState, dir: &[u8]) -> Vec<u8> {
    match lot.below(10) {
        0 => b"missing".to_vec(),
        1 => b"../outside".to_vec(),
        2 => b"/etc/hostname".to_vec(),
        3 => b".".to_vec(),
        4 => b"\xff odd\n".to_vec(),
        5 => b"..".to_vec(),
        _ => {
            let beside: Vec<_> = state
                .keys()
                .filter_map(|path| path.strip_prefix(dir)?.strip_prefix(b"/"))
                .filter(|name| !name.contains(&b'/'))
                .collect();
            if beside.is_empty() { b"a".to_vec() } else { lot.pick(&beside).to_vec() }
        }
    }
}

/// Draws what the tree `to` has of the tree `from` already, and what it has beside that.
pub(crate) fn derive(lot: &mut Lot, state: &mut TreeState, from: &[u8], to: &[u8], is_root: bool) {
    let moved = |path: &[u8]| [to, &path[from.len()..]].concat();
    let originals: Vec<_> = state
        .iter()
        .filter(|(path, _)| is_in(path, from))
        .map(|(path, entry)| (path.clone(), entry.clone()))
        .collect();
    // Of some trees nearly all is the same, of others little.
    let same = *lot.pick(&[40, 60, 85]);
    let mut gone: Vec<Vec<u8>> = Vec::new();
    for (path, original) in originals {
        if gone.iter().any(|dir| is_in(&path, dir)) {
            continue;
        }
        let there = moved(&path);
        let is_top = path == from;
        let mut entry = original.clone();
        if let Kind::Name(first) = &original.kind {
            // It may be in another source.
            let first = is_in(first, from).then(|| moved(first));
            let is_there = |first: &Vec<u8>| {
                state.get(first).is_some_and(|first| first.kind != Kind::Dir) && is_in(first, to)
            };
            entry.kind = match first.filter(|first| is_there(first) && lot.chance(65)) {
                Some(first) => Kind::Name(first),
                None => Kind::File(content(lot)),
            };
        }
        if !(lot.chance(same) || is_top && entry.kind != Kind::Dir) {
            match lot.below(9) {
                0 | 1 if !is_top => {
                    gone.push(path);
                    continue;
                }
                2 if !is_top => {
                    gone.push(path);
                    swap(lot, state, &there, &entry, is_root);
                    continue;
                }
                _ => {
                    change(lot, &mut entry, is_root);
                    if let Kind::File(Content::Text(_)) = entry.kind
                        && let Some(name) = path.rsplit(|byte| *byte == b'/').next()
                        && is_rules(name)
                    {
                        entry.kind = Kind::File(rules(lot, name));
                    }
                }
            }
        }
        state.insert(there, entry);
    }
    add(lot, state, to, is_root);
}

/// Draws entries that only the tree `to` has.
fn add(lot: &mut Lot, state: &mut TreeState, to: &[u8], is_root: bool) {
    for _ in 0..lot.below(4) {
        let dirs: Vec<_> = state
            .iter()
            .filter(|(path, entry)| is_in(path, to) && entry.kind == Kind::Dir)
            .map(|(path, _)| path.clone())
            .collect();
        let Some(dir) = (!dirs.is_empty()).then(|| lot.pick(&dirs).clone()) else { return };
        let name = name(lot);
        let path = below(&dir, &name);
        if state.contains_key(&path) || path.len() > 700 {
            continue;
        }
        let kind = kind(lot, state, &dir, &name, is_root);
        let is_dir = kind == Kind::Dir;
        let made = entry(lot, kind, is_root);
        state.insert(path.clone(), made);
        if is_dir {
            fill(lot, state, &path, is_root, 3);
        }
    }
}

/// Something of another kind stands at `path`.
fn swap(lot: &mut Lot, state: &mut TreeState, path: &[u8], old: &Entry, is_root: bool) {
    let kind = match lot.below(5) {
        0 | 1 if old.kind != Kind::Dir => Kind::Dir,
        2 if !matches!(old.kind, Kind::Link(_)) => Kind::Link(b"a".to_vec()),
        3 if old.kind != Kind::Fifo => Kind::Fifo,
        _ if matches!(old.kind, Kind::File(_)) => Kind::Link(b"missing".to_vec()),
        _ => Kind::File(content(lot)),
    };
    let is_dir = kind == Kind::Dir;
    remove(state, path);
    let made = entry(lot, kind, is_root);
    state.insert(path.to_vec(), made);
    if is_dir {
        fill(lot, state, path, is_root, 3);
    }
}

/// Something about it is another.
fn change(lot: &mut Lot, entry: &mut Entry, is_root: bool) {
    // What is no file is made anew if anything differs, where a user may not be able to
    // change it.
    let is_special = !matches!(entry.kind, Kind::Dir | Kind::File(_));
    if is_special && !is_root {
        if matches!(entry.kind, Kind::Link(_)) {
            entry.kind = Kind::Link(b"elsewhere".to_vec());
        }
        return;
    }
    let fresh = crate::entry::entry(lot, entry.kind.clone(), is_root);
    match (lot.below(8), &entry.kind) {
        (0 | 1, Kind::File(content)) => entry.kind = Kind::File(content.other(lot)),
        (2 | 3, Kind::File(content)) => {
            entry.kind = Kind::File(content.resized(lot));
            if lot.chance(60) {
                entry.mtime = time(lot);
            }
        }
        (0 | 1, Kind::Link(_)) => entry.kind = Kind::Link(b"elsewhere".to_vec()),
        (4, _) => entry.mode = fresh.mode,
        (5, _) => entry.owner = fresh.owner,
        (6, _) => entry.mtime.1 ^= 1,
        (7, _) => {
            entry.xattrs = fresh.xattrs;
            (entry.acl, entry.default_acl) = (fresh.acl, fresh.default_acl);
        }
        _ => entry.mtime = time(lot),
    }
}
