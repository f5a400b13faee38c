//! The progress of a job between two hosts, read from the messages that pass through: the entries
//! without an outcome, and the reports about them. Its memory is bounded by the listing's window
//! and the depth of directories, whatever either host sends.

use crate::control::{Control, CopyStep, Reporter};
use crate::in_flight::InFlight;
use crate::job::Job;
use crate::link::wire::{ReadEnd, refused};
use crate::receiver::WINDOW_SLACK;
use crate::{Progress, Summary};
use haul_model::{Entry, Kind, MAX_DEPTH, Name, Policy, Resume, Task, words};
use haul_proto::{
    ARRIVED_MAX, Arrived, Extra, LIST_WINDOW, Late, ListItem, Named, OutcomeItem, Want, Warning,
};
use haul_store::RESUME_LEN_MIN_REMOTE;
use parking_lot::Mutex;
use std::sync::Arc;

/// The progress of one job.
pub(super) struct JobTracker<'a> {
    control: &'a Control<'a>,
    reporter: Reporter<'a>,
    task: Task,
    /// The destination as the user wrote it.
    dest: Vec<u8>,
    state: Mutex<OpenEntries>,
}

#[derive(Default)]
struct OpenEntries {
    /// The number of the next entry or fault.
    next_index: u64,
    /// The number of the source that is being listed.
    source: u64,
    /// Directories whose listing has not ended, with their numbers. Each contains the next.
    open: Vec<(u64, Arc<DirPath>)>,
    /// Entries and faults without an outcome.
    in_flight: InFlight<Item>,
    /// The number of them whose contents are wanted.
    wanted: usize,
    /// Bytes of wanted contents that have no outcome.
    awaited: u64,
    /// Bytes of contents that have passed and are not accounted to an outcome yet.
    passed: u64,
    /// The receiver has reported the end.
    is_done: bool,
}

/// A directory, by its name in the parent directory. The root has neither.
struct DirPath(Option<(Arc<DirPath>, Option<Name>)>);

/// An entry without an outcome.
struct Item {
    dir_path: Arc<DirPath>,
    name: Option<Name>,
    /// The path of a fault, instead of `dir_path` and `name`.
    shown: Option<Vec<u8>>,
    kind: Kind,
    cost: u64,
    wanted: bool,
    /// Bytes of it that the receiver already had.
    at_dest: u64,
}

impl DirPath {
    /// The path of `name` in this directory.
    fn path_of(&self, name: Option<&Name>) -> Vec<u8> {
        words::path_upwards(name.into_iter().chain(self.upwards()))
    }

    /// Writes that path into `path`, whose memory is reused.
    fn write_path(&self, name: Option<&Name>, path: &mut Vec<u8>) {
        words::join_upwards(name.into_iter().chain(self.upwards()), path);
    }

    /// The names on the path, from the bottom up.
    fn upwards(&self) -> impl Iterator<Item = &Name> + Clone {
        let upwards = std::iter::successors(self.0.as_ref(), |(above, _)| above.0.as_ref());
        upwards.filter_map(|(_, name)| name.as_ref())
    }
}

impl Item {
    fn path(&self) -> Vec<u8> {
        self.shown.clone().unwrap_or_else(|| self.dir_path.path_of(self.name.as_ref()))
    }

    fn size(&self) -> u64 {
        if let Kind::File { size } = self.kind { size } else { 0 }
    }

    /// Bytes of it that are wanted.
    fn awaited(&self) -> u64 {
        if self.wanted { self.size().saturating_sub(self.at_dest) } else { 0 }
    }
}

impl<'a> JobTracker<'a> {
    /// A tracker for `job`, which has not begun.
    pub(super) fn new(job: &Job, control: &'a Control<'a>) -> Self {
        let open = vec![(0, Arc::new(DirPath(None)))];
        let state = OpenEntries { next_index: 1, open, ..OpenEntries::default() };
        let reporter = Reporter::new(control.monitor());
        let state = Mutex::new(state);
        Self { control, reporter, task: job.task, dest: job.dest.path.clone(), state }
    }

    fn progress(&self) -> &Progress {
        self.control.monitor().progress()
    }

    /// Processes listed items.
    pub(super) fn listed(&self, items: Vec<ListItem>) -> Result<(), ReadEnd> {
        let mut state = self.state.lock();
        for item in items {
            let cost = item.cost();
            match item {
                ListItem::Entry { dir, entry } => {
                    self.enter(&mut state, dir, entry, cost, false)?
                }
                ListItem::Rival(rival) => {
                    self.enter(&mut state, rival.dir, rival.entry, cost, true)?;
                }
                ListItem::Fault { dir, name, .. } => {
                    let dir_path = state.dir_path(dir)?;
                    state.add(Item {
                        shown: Some(name),
                        ..Item::of(dir_path, None, Kind::Special, cost)
                    })?;
                }
                ListItem::DirEnd { dir } => {
                    state.dir_path(dir)?;
                    state.open.pop();
                    if dir == 0 {
                        state.in_flight.listed_all = true;
                        self.reporter.listed_all().map_err(ReadEnd::Refused)?;
                    }
                }
                // These have no outcome.
                ListItem::Subdirs { .. }
                | ListItem::Account(_)
                | ListItem::Closed { .. }
                | ListItem::Missing { .. }
                | ListItem::Mover { .. } => {}
            }
        }
        Ok(())
    }

    fn enter(
        &self,
        state: &mut OpenEntries,
        dir: u64,
        entry: Entry,
        cost: u64,
        is_rival: bool,
    ) -> Result<(), ReadEnd> {
        let dir_path = state.dir_path(dir)?;
        if dir == 0 {
            state.source += 1;
        }
        let (source, is_dir) = (state.source, entry.kind == Kind::Dir);
        let index = state.next_index;
        let listed = self.reporter.listed(index, &entry, |place| {
            (place.source, place.is_dir, place.is_rival) = (source, is_dir, is_rival);
            dir_path.write_path(entry.name.as_ref(), &mut place.path);
        });
        listed.map_err(ReadEnd::Refused)?;
        if is_dir {
            if state.open.len() > MAX_DEPTH {
                return Err(refused("the peer listed directories that are too deep"));
            }
            let below = DirPath(Some((Arc::clone(&dir_path), entry.name.clone())));
            state.open.push((index, Arc::new(below)));
        }
        state.add(Item::of(dir_path, entry.name, entry.kind, cost))
    }

    /// Counts `len` bytes of content that pass through.
    pub(super) fn passed(&self, len: u64) {
        Progress::add(&self.progress().relayed, len);
        self.moved(len);
    }

    /// Counts content that passed through here or was sent directly. Content that is sent again
    /// after a loss does not count beyond the wanted length.
    fn moved(&self, len: u64) {
        if len > 0 {
            let counted = {
                let mut state = self.state.lock();
                let counted = len.min(state.awaited.saturating_sub(state.passed));
                state.passed += counted;
                counted
            };
            self.reporter.count_work(CopyStep::Moved(len));
            self.reporter.is_done(counted);
        }
    }

    /// Processes a report of the receiver about directly received content.
    pub(super) fn arrived(&self, arrived: Arrived) -> Result<(), ReadEnd> {
        let Arrived { bytes, index, blocks, size } = arrived;
        let is_length = size.is_none_or(|size| size <= i64::MAX as u64);
        if bytes > ARRIVED_MAX || blocks > 1 || !is_length {
            return Err(refused("the peer acknowledged too much at once"));
        }
        self.moved(bytes);
        if let (Some(index), Some(size)) = (index, size) {
            self.sized(index, size);
            return Ok(());
        }
        match index {
            Some(index) if blocks > 0 => self.sealed(index),
            Some(index) => {
                let mut state = self.state.lock();
                let item = state.in_flight.get_mut(index);
                item.into_iter().for_each(|item| self.reporter.at(|| item.path()));
            }
            None => {}
        }
        Ok(())
    }

    /// Sets the actual length of a file, in bytes.
    pub(super) fn sized(&self, index: u64, size: u64) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(item) = state.in_flight.get_mut(index)
            && item.wanted
        {
            state.awaited = state.awaited.saturating_sub(item.awaited());
            item.kind = Kind::File { size };
            state.awaited = state.awaited.saturating_add(item.awaited());
        }
    }

    /// Records that a block of a file has passed.
    pub(super) fn sealed(&self, index: u64) {
        let mut state = self.state.lock();
        let Some(item) = state.in_flight.get_mut(index) else { return };
        let keeps = |policy: &Policy| policy.resume != Resume::Never && policy.wants_hashes();
        self.reporter.at(|| item.path());
        if item.size() >= RESUME_LEN_MIN_REMOTE && self.task.copies().is_some_and(keeps) {
            self.reporter.keeps(index, None, || item.path());
        }
    }

    /// Processes the receiver's requests.
    pub(super) fn wanted(&self, wants: &[Want]) {
        let mut state = self.state.lock();
        let state = &mut *state;
        for want in wants.iter().filter(|want| !want.blocks.is_empty()) {
            // The sender refuses unlisted entries.
            let Some(item) = state.in_flight.get_mut(want.index) else { continue };
            state.awaited = state.awaited.saturating_sub(item.awaited());
            state.wanted += usize::from(!std::mem::replace(&mut item.wanted, true));
            let at_dest = want.blocks.unwanted_len(item.size());
            if at_dest > 0 && item.at_dest == 0 {
                item.at_dest = at_dest;
                self.reporter.resumed(want.index, at_dest);
            }
            state.awaited = state.awaited.saturating_add(item.awaited());
            self.reporter.wanted(want.index);
        }
    }

    /// Processes outcomes.
    pub(super) fn outcomes(&self, outcomes: Vec<OutcomeItem>) -> Result<(), ReadEnd> {
        for OutcomeItem { index, outcome } in outcomes {
            let (item, counted) = {
                let mut state = self.state.lock();
                let state = &mut *state;
                let item = state.in_flight.take(index);
                let item = item
                    .ok_or_else(|| refused("the peer reported an outcome of an unlisted entry"))?;
                state.in_flight.cost -= item.cost;
                let mut counted = item.at_dest;
                if item.wanted {
                    state.wanted -= 1;
                    state.awaited = state.awaited.saturating_sub(item.awaited());
                    let of_it = state.passed.min(item.size() - counted.min(item.size()));
                    state.passed -= of_it;
                    counted += of_it;
                }
                if state.wanted == 0 {
                    // The rest was overhead of frames with contents.
                    let more = std::mem::take(&mut state.passed);
                    Progress::subtract(&self.progress().bytes_done, more);
                }
                (item, counted)
            };
            self.reporter.outcome(index, || item.path(), &item.kind, counted, &outcome);
        }
        Ok(())
    }

    /// Reports entries that only the destination has.
    pub(super) fn extras(&self, extras: &[Extra]) -> Result<(), ReadEnd> {
        if !self.task.finds_extras() && self.task.mirrors().is_none() {
            return Err(refused("the peer reported extras where none are expected"));
        }
        self.reporter.extras(self.task.mirrors().is_some(), extras);
        Ok(())
    }

    /// Reports a warning.
    pub(super) fn warning(&self, warning: &Warning) {
        self.reporter.warning(warning);
    }

    /// Reports a directory that failed after its outcome.
    pub(super) fn late(&self, late: Late) {
        self.reporter.report_late_at_dest(late);
    }

    /// Records the names that entries get at the destination.
    pub(super) fn naming(&self, named: Named) {
        self.control.named(named, &self.dest);
    }

    /// Processes the end of the job. Returns its figures.
    pub(super) fn done(&self, summary: Summary) -> Result<Summary, ReadEnd> {
        let mut state = self.state.lock();
        if !state.in_flight.is_over() {
            let rule = "the peer ended the job before all outcomes";
            return Err(refused(rule));
        }
        state.is_done = true;
        Ok(self.reporter.with_failures(summary))
    }

    /// True once Done may be forwarded to the sender, which then leaves.
    pub(super) fn is_done(&self) -> bool {
        self.state.lock().is_done
    }
}

impl Item {
    fn of(dir_path: Arc<DirPath>, name: Option<Name>, kind: Kind, cost: u64) -> Self {
        Self { dir_path, name, shown: None, kind, cost, wanted: false, at_dest: 0 }
    }
}

impl OpenEntries {
    /// The directory `dir`, which must be the innermost open one.
    fn dir_path(&self, dir: u64) -> Result<Arc<DirPath>, ReadEnd> {
        match self.open.last() {
            Some((number, dir_path)) if *number == dir => Ok(Arc::clone(dir_path)),
            _ => Err(refused("the peer listed the content of a directory that is not open")),
        }
    }

    /// Adds an item with the next number.
    fn add(&mut self, item: Item) -> Result<(), ReadEnd> {
        self.in_flight.add(self.next_index, item.cost, item);
        self.next_index += 1;
        if self.in_flight.cost > LIST_WINDOW + WINDOW_SLACK {
            return Err(refused("the peer listed more than the window allows"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Monitor, Silent};
    use haul_model::{Attributes, BlockRanges, Outcome, Timestamp};
    use haul_proto::How;
    use std::sync::atomic::Ordering;

    #[test]
    fn repeated_content_does_not_count_beyond_the_length_of_a_file() {
        const LEN: u64 = 10 << 20;
        let silent = Silent::default();
        let (control, job) = (Control::new(&silent), Job::default());
        let tracker = JobTracker::new(&job, &control);
        let attributes = Attributes::new(0o644, Timestamp { secs: 1, nanos: 0 });
        let entry = |name: &[u8]| {
            let name = Name::new(name).expect("a name");
            let entry = Entry::new(Some(name), Kind::File { size: LEN }, attributes.clone());
            ListItem::Entry { dir: 0, entry }
        };
        assert!(tracker.listed([entry(b"a"), entry(b"b")].into()).is_ok());
        let done = || silent.progress().bytes_done.load(Ordering::Relaxed);
        for index in [1, 2] {
            let blocks = BlockRanges::all();
            tracker.wanted(&[Want { index, blocks, how: How::PLAIN, into: None }]);
            let before = done();
            for _ in 0..4 {
                let arrived = Arrived { bytes: LEN / 3, index: Some(index), blocks: 0, size: None };
                assert!(tracker.arrived(arrived).is_ok());
            }
            assert_eq!(done(), before + LEN);
            let outcome = OutcomeItem { index, outcome: Outcome::Copied };
            assert!(tracker.outcomes([outcome].into()).is_ok());
            assert_eq!(done(), before + LEN);
        }
        let moved = silent.progress().bytes_transferred.load(Ordering::Relaxed);
        assert_eq!(moved, 8 * (LEN / 3), "what was sent twice has moved twice");
    }
}
