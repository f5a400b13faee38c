//! The entries that a move could not copy. They stay, whatever the destination has by
//! then: the comparison leaves them out, with all that is below them.

use crate::{Event, Monitor, Progress};
use haul_model::{Action, Filter, Kind, Outcome, Pattern, Rule, words};
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Paths that are remembered, at most. Of more, the directories that they are in are.
const PATHS_MAX: usize = 4096;

/// Bytes that they have, at most; so the rules that they become fit into a message.
const BYTES_MAX: usize = 128 << 10;

/// The longest path that is remembered, in bytes. As a pattern it may have twice as many.
const PATH_LEN_MAX: usize = Pattern::LEN_MAX / 2 - 1;

/// The paths of entries that could not be copied, as [`Event::Entry`] has them.
#[derive(Debug, Default)]
pub struct NotCopied(Mutex<Paths>);

#[derive(Debug, Default)]
struct Paths {
    paths: BTreeSet<Vec<u8>>,
    /// Their bytes.
    len: usize,
    /// Some of them are directories of what failed.
    is_coarse: bool,
}

impl NotCopied {
    /// A monitor of a job that copies: it remembers what fails, and tells `monitor`
    /// everything.
    pub fn watch<'m>(&'m self, monitor: &'m dyn Monitor) -> impl Monitor {
        Watch { monitor, not_copied: self }
    }

    fn add(&self, path: &[u8]) {
        self.0.lock().add(path);
    }

    /// True if the source at `path` has failed as a whole.
    pub(super) fn has_source(&self, path: &[u8]) -> bool {
        let paths = &self.0.lock().paths;
        let name = words::split(path).name.unwrap_or_default();
        paths.contains(name) || paths.contains(path) || paths.contains(&b""[..])
    }

    /// True if the job has failed in its root, and so all of it may have.
    pub fn has_all(&self) -> bool {
        self.has_source(b".")
    }

    /// Rules that leave them out, of a job in which paths begin below the one source if
    /// `without_source` says so.
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

    /// Tells if more stays than what has failed.
    pub(super) fn tell(&self, monitor: &dyn Monitor) {
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

    /// Has the directories of the deepest paths in their place, until there is room again
    /// or all are sources.
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

/// The directory that `path` is in, unless it is a source's.
fn dir_of(path: &[u8]) -> Option<&[u8]> {
    path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..slash])
}

/// The pattern that matches `path` and nothing else.
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

    fn shows(&self, kind: &Kind, outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Failed(_)) || self.monitor.shows(kind, outcome)
    }

    fn cancelled(&self) -> bool {
        self.monitor.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_left_out_with_all_below_it_and_nothing_else() {
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
    fn of_too_many_failures_the_directories_stay() {
        let not_copied = NotCopied::default();
        let failed = |n: usize| format!("tree/{}/{n}", n % 7).into_bytes();
        (0..3 * PATHS_MAX).for_each(|n| not_copied.add(&failed(n)));
        not_copied.add(b"tree/other/f");
        not_copied.add(&[b"tree/deep".to_vec(), b"/d".repeat(PATH_LEN_MAX)].concat());
        let rules = not_copied.rules(false);
        assert!(rules.encoded_len_max() < BYTES_MAX);
        let leaves_out = |path: &[u8]| {
            let mut above = std::iter::successors(Some(path), |&path| dir_of(path));
            above.any(|path| rules.hides(path, true) == Some(true))
        };
        assert!((0..3 * PATHS_MAX).all(|n| leaves_out(&failed(n))));
        assert!(leaves_out(b"tree/other/f") && !leaves_out(b"tree/other/g"));
        assert!(!not_copied.has_source(b"tree"));
    }
}
