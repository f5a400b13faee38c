//! The entries that a move could not copy. They stay, whatever the destination has later: the
//! comparison excludes them and everything below them.

use crate::{Event, Monitor, Progress};
use haul_model::{Action, ContentHash, Entry, Filter, Kind, Outcome, Pattern, Rule, words};
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// The most paths that are stored. Beyond that, their parent directories are stored instead.
const PATHS_MAX: usize = 4096;

/// The most bytes of these paths. The rules made from them fit into a message.
const BYTES_MAX: usize = 128 << 10;

/// The longest stored path, in bytes. As a pattern it may be twice as long.
const PATH_LEN_MAX: usize = Pattern::LEN_MAX / 2 - 1;

/// The paths of entries that could not be copied, as in [`Event::Entry`].
#[derive(Debug, Default)]
pub struct NotCopied(Mutex<Paths>);

#[derive(Debug, Default)]
struct Paths {
    paths: BTreeSet<Vec<u8>>,
    /// The bytes of these paths.
    len: usize,
    /// Some of them are parent directories of failed entries.
    is_coarse: bool,
}

impl NotCopied {
    /// A monitor for a job that copies. It stores failures, and passes all events to `monitor`.
    pub fn watch<'m>(&'m self, monitor: &'m dyn Monitor) -> impl Monitor {
        Watch { monitor, not_copied: self }
    }

    fn add(&self, path: &[u8]) {
        self.0.lock().add(path);
    }

    /// True if the source at `path` failed as a whole.
    pub(super) fn has_source(&self, path: &[u8]) -> bool {
        let paths = &self.0.lock().paths;
        let name = words::split(path).name.unwrap_or_default();
        paths.contains(name) || paths.contains(path) || paths.contains(&b""[..])
    }

    /// True if the root of the job failed, and so possibly all of it.
    pub fn has_all(&self) -> bool {
        self.has_source(b".")
    }

    /// Rules that exclude these paths. `without_source` is set for a job whose paths start below
    /// its single source.
    pub fn rules(&self, without_source: bool) -> Filter {
        let mut filter = Filter::default();
        for path in &self.0.lock().paths {
            let start = match path.iter().position(|byte| *byte == b'/') {
                Some(slash) if without_source => slash + 1,
                None if without_source => continue,
                _ => 0,
            };
            let pattern = Pattern::new(&literal(&path[start..])).expect("it is not too long");
            let rule = Rule::new(Action::Exclude, pattern);
            filter.push(rule).expect("there are not that many");
        }
        filter
    }

    /// Warns if more entries stay than have failed.
    pub(super) fn warn_if_coarse(&self, monitor: &dyn Monitor) {
        let noted = self.0.lock();
        if !noted.is_coarse {
            return;
        }
        let message = "too many entries could not be copied: keeping all directories that contain \
                       one; run the same command again to move what was copied";
        let path = noted.paths.first().map(Vec::as_slice).unwrap_or_default();
        monitor.event(Event::Warning { side: None, path, message });
    }
}

impl Paths {
    fn add(&mut self, path: &[u8]) {
        let mut path = path;
        while path.len() > PATH_LEN_MAX
            && let Some(dir) = dir_of(path)
        {
            (path, self.is_coarse) = (dir, true);
        }
        let mut above = std::iter::successors(Some(path), |&path| dir_of(path));
        if above.any(|path| self.paths.contains(path)) {
            return;
        }
        self.insert(path.to_vec());
        if self.paths.len() > PATHS_MAX || self.len > BYTES_MAX {
            self.make_coarse();
        }
    }

    fn insert(&mut self, path: Vec<u8>) {
        let len = path.len();
        if self.paths.insert(path) {
            self.len += len;
        }
    }

    /// Replaces the deepest paths by their parent directories, until there is room or only sources
    /// are left.
    fn make_coarse(&mut self) {
        let depth = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count();
        while self.paths.len() > PATHS_MAX / 2 || self.len > BYTES_MAX / 2 {
            let deepest = self.paths.iter().map(|path| depth(path)).max().unwrap_or(0);
            if deepest == 0 {
                return;
            }
            self.is_coarse = true;
            self.len = 0;
            for path in std::mem::take(&mut self.paths) {
                let dir = dir_of(&path).filter(|_| depth(&path) == deepest).map(<[u8]>::to_vec);
                self.insert(dir.unwrap_or(path));
            }
        }
    }
}

/// The parent directory of `path`; `None` for a source.
fn dir_of(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..slash])
}

/// The pattern that matches only `path`.
fn literal(path: &[u8]) -> Vec<u8> {
    let is_wild = path.iter().any(|byte| b"*[?".contains(byte));
    let mut pattern = vec![b'/'];
    for &byte in path {
        if is_wild && b"*[?\\".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern
}

struct Watch<'m> {
    monitor: &'m dyn Monitor,
    not_copied: &'m NotCopied,
}

impl Monitor for Watch<'_> {
    fn progress(&self) -> &Progress {
        self.monitor.progress()
    }

    fn event(&self, event: Event<'_>) {
        if let Event::Entry { path, outcome: Outcome::Failed(_), .. } = event {
            self.not_copied.add(path);
        }
        self.monitor.event(event);
    }

    fn listed(&self, number: u64, entry: &Entry) {
        self.monitor.listed(number, entry);
    }

    fn shows(&self, kind: &Kind, outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Failed(_)) || self.monitor.shows(kind, outcome)
    }

    fn wants_hashes(&self) -> bool {
        self.monitor.wants_hashes()
    }

    fn hashed(&self, number: u64, hash: ContentHash) {
        self.monitor.hashed(number, hash);
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_entries_are_excluded_with_everything_below_them() {
        let not_copied = NotCopied::default();
        for path in [&b"a/x*"[..], b"a/[d]/\\", b"b", b"b/below", b"a/p\\q"] {
            not_copied.add(path);
        }
        assert!(not_copied.has_source(b"/home/b/") && !not_copied.has_source(b"/home/a"));
        for (without_source, source) in [(false, "a/"), (true, "")] {
            let rules = not_copied.rules(without_source);
            for (path, left_out) in
                [("x*", true), ("xy", false), ("[d]/\\", true), ("d/\\", false), ("p\\q", true)]
            {
                let path = format!("{source}{path}");
                assert_eq!(rules.hides(path.as_bytes(), false), Some(left_out), "{path}");
            }
        }
        assert_eq!(not_copied.rules(false).hides(b"b", true), Some(true));
    }

    #[test]
    fn beyond_the_bound_whole_directories_stay() {
        let not_copied = NotCopied::default();
        let failed = |n: usize| format!("tree/{}/{n}", n % 7).into_bytes();
        (0..3 * PATHS_MAX).for_each(|n| not_copied.add(&failed(n)));
        not_copied.add(b"tree/other/f");
        not_copied.add(&[b"tree/deep".to_vec(), b"/d".repeat(PATH_LEN_MAX)].concat());
        let rules = not_copied.rules(false);
        assert!(rules.encoded_len_max() < BYTES_MAX);
        let excludes = |path: &[u8]| {
            let mut above = std::iter::successors(Some(path), |&path| dir_of(path));
            above.any(|path| rules.hides(path, true) == Some(true))
        };
        assert!((0..3 * PATHS_MAX).all(|n| excludes(&failed(n))));
        assert!(excludes(b"tree/other/f") && !excludes(b"tree/other/g"));
        assert!(!not_copied.has_source(b"tree"));
    }
}
