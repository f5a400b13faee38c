//! Makes a case in which the programs differ as small as it can be.

use crate::case::{Case, Way};
use crate::entry::{Content, Entry, Kind, TreeState, USER, remove};
use crate::trial::{Bench, Difference};
use std::collections::BTreeMap;
use std::mem::discriminant;

/// So many trials are made at most.
const TRIALS_MAX: usize = 600;

/// A smaller case that differs in the same respect as `case`, which differs like `found`.
pub(crate) fn shrink(bench: &Bench, name: &str, case: Case, found: &[Difference]) -> Case {
    let mut shrinking = Shrinking { bench, name, found, left: TRIALS_MAX, case };
    while shrinking.round() {}
    shrinking.case
}

struct Shrinking<'a> {
    bench: &'a Bench,
    name: &'a str,
    found: &'a [Difference],
    left: usize,
    case: Case,
}

impl Shrinking<'_> {
    /// Takes away what can be; true if it was anything.
    fn round(&mut self) -> bool {
        let mut is_smaller = false;
        for at in (0..self.case.flags.len()).rev() {
            is_smaller |= self.without(|case| {
                case.flags.remove(at);
            });
            let plain: &[&str] = match &*self.case.flags.get(at).cloned().unwrap_or_default() {
                "-a" => &["-r", "-rt", "-rlt", "-rlpt"],
                "-ii" => &["-i"],
                flag if flag.starts_with("--del") && flag != "--delete" => &["--delete"],
                _ => &[],
            };
            for flag in plain {
                is_smaller |= self.without(|case| case.flags[at] = (*flag).into());
            }
        }
        if self.case.way != Way::Local {
            is_smaller |= self.without(|case| case.way = Way::Local);
        }
        if self.case.sources.len() > 1 {
            for at in (0..self.case.sources.len()).rev() {
                is_smaller |= self.without(|case| {
                    case.sources.remove(at);
                });
            }
        }
        let paths: Vec<_> = self.case.state.keys().rev().cloned().collect();
        for path in paths.iter().rev().chain(&paths) {
            if self.case.state.contains_key(path) {
                is_smaller |= self.without(|case| remove(&mut case.state, path));
            }
        }
        for path in &paths {
            is_smaller |= self.without(|case| hoist(case, path));
        }
        for path in paths {
            let owner: fn(&mut Entry) = match self.case.is_root {
                true => |entry| entry.owner = (0, 0),
                false => |entry| entry.owner = (USER, USER),
            };
            for plain in PLAINER.iter().chain([&owner]) {
                is_smaller |= self.without(|case| {
                    if let Some(entry) = case.state.get_mut(&path) {
                        plain(entry);
                    }
                });
            }
        }
        is_smaller
    }

    /// Keeps what `change` makes of the case if the programs still differ.
    fn without(&mut self, change: impl FnOnce(&mut Case)) -> bool {
        let mut smaller = self.case.clone();
        change(&mut smaller);
        // What is known must not be in the way of what is found.
        smaller.avoid_what_is_known();
        let is_same = smaller.flags == self.case.flags
            && smaller.state == self.case.state
            && smaller.sources == self.case.sources
            && smaller.way == self.case.way;
        let is_whole = smaller.sources.iter().all(|source| {
            let path = source.strip_suffix(b"/.").or_else(|| source.strip_suffix(b"/"));
            smaller.state.contains_key(path.unwrap_or(source))
        });
        if is_same || self.left == 0 || smaller.sources.is_empty() || !is_whole {
            return false;
        }
        self.left -= 1;
        let trial = self.bench.try_out(self.name, &smaller);
        let first = trial.found.first();
        let is_kept = first.is_some_and(|one| match (one, &self.found[0]) {
            (Difference::Code { .. }, found) => one == found,
            (one, found) => discriminant(one) == discriminant(found),
        });
        if is_kept {
            self.case = smaller;
        }
        is_kept
    }
}

/// Puts what is in the directory `path`, and in those of other trees that are called the same,
/// beside it, and takes it away.
fn hoist(case: &mut Case, path: &[u8]) {
    let Some(slash) = path.iter().position(|byte| *byte == b'/') else { return };
    let dir = &path[slash + 1..];
    let above = dir.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let risen = |path: &[u8]| -> Option<Vec<u8>> {
        let slash = path.iter().position(|byte| *byte == b'/')?;
        let (tree, rest) = path.split_at(slash + 1);
        let rest = rest.strip_prefix(dir)?.strip_prefix(b"/")?;
        Some([tree, &dir[..above], rest].concat())
    };
    let mut state = TreeState::new();
    for (path, entry) in &case.state {
        let is_dir =
            path.iter().position(|byte| *byte == b'/').is_some_and(|at| path[at + 1..] == *dir);
        if is_dir && entry.kind == Kind::Dir {
            continue;
        }
        let mut entry = entry.clone();
        if let Kind::Name(first) = &entry.kind {
            entry.kind = Kind::Name(risen(first).unwrap_or_else(|| first.clone()));
        }
        if state.insert(risen(path).unwrap_or_else(|| path.clone()), entry).is_some() {
            return;
        }
    }
    let is_whole = state.iter().all(|(path, entry)| match &entry.kind {
        Kind::Name(first) => first < path && state.contains_key(first),
        _ => true,
    });
    if is_whole {
        case.state = state;
    }
}

const PLAINER: &[fn(&mut Entry)] = &[
    |entry| entry.xattrs = BTreeMap::new(),
    |entry| entry.acl = false,
    |entry| entry.default_acl = false,
    |entry| entry.mode = if entry.kind == Kind::Dir { 0o755 } else { 0o644 },
    |entry| entry.mtime = (1_000_000_000, 0),
    |entry| entry.mtime.1 = 0,
    |entry| entry.atime = 1_100_000_000,
    |entry| {
        // The text of rules stays what it is.
        if matches!(entry.kind, Kind::File(Content::Noise { .. } | Content::Hole { .. })) {
            entry.kind = Kind::File(Content::Text("x\n".into()));
        }
    },
    |entry| {
        if !matches!(entry.kind, Kind::File(_) | Kind::Dir) {
            entry.kind = Kind::File(Content::Text("x\n".into()));
        }
    },
];
