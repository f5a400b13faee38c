//! The listing as it arrives: where it stands, and what may be in it. A Sender
//! far away can list no more than the job covers, and must account for all of it.

use super::dirs::RecvDir;
use super::{Receiver, compare};
use crate::CopyJob;
use haul_model::words;
use haul_model::{Entry, Kind, MAX_DEPTH, Name};
use haul_proto::{OutcomeItem, Rival};
use haul_tree::lock;
use std::sync::Arc;

/// The Sender broke a rule of the conversation.
pub(super) struct Broken(pub(super) &'static str);

/// Where the listing stands.
pub(super) struct Listing {
    /// The number that the next entry or fault has.
    pub(super) next_index: u64,
    /// Directories whose end was not listed yet, with their numbers: the root,
    /// and each in the one before it.
    pub(super) open: Vec<(u64, Arc<RecvDir>)>,
}

impl Listing {
    /// One that begins in `root`.
    pub(super) fn of(root: Arc<RecvDir>) -> Self {
        Self { next_index: 1, open: vec![(0, root)] }
    }
}

/// What a job asked a Sender far away for.
pub(crate) struct Asked {
    /// Sources that were not listed yet, but for those that have no name under
    /// which anything could be listed.
    sources: Vec<AskedSource>,
    /// Sources of which nothing was told yet.
    unanswered: usize,
    /// Directories may be listed, with what is in them.
    recursive: bool,
    /// Symbolic links are followed, and none is listed.
    follow: bool,
}

/// A source that was asked for.
struct AskedSource {
    /// The name under which it travels, if it has one.
    name: Option<Name>,
    /// It ended with a slash: what a link leads to is meant.
    slash: bool,
}

impl Asked {
    /// What `job` asks for.
    pub(crate) fn of(job: &CopyJob) -> Self {
        let removes = job.check.is_some_and(|check| check.remove.is_some());
        let source = |path: &Vec<u8>| {
            let path = words::without_tilde(path);
            let name = words::travel_name(path).ok()?;
            Some(AskedSource { name, slash: words::split(path).slash && !removes })
        };
        Self {
            sources: job.sources.iter().filter_map(source).collect(),
            unanswered: job.sources.len(),
            // At the end of a move directories are walked, and no link is followed.
            recursive: job.recursive || removes,
            follow: job.follow && !removes,
        }
    }

    /// Whether there can be such a thing in the job at all.
    fn check_kind(&self, entry: &Entry) -> Result<(), Broken> {
        match entry.kind {
            Kind::Dir if !self.recursive => {
                Err(Broken("it listed a directory where none was asked for"))
            }
            Kind::Symlink { .. } if self.follow => {
                Err(Broken("it listed a symbolic link where links are followed"))
            }
            _ => Ok(()),
        }
    }

    /// Takes an entry as one of the sources.
    fn take(&mut self, entry: &Entry) -> Result<(), Broken> {
        let is_link = matches!(entry.kind, Kind::Symlink { .. });
        let is_it = |source: &AskedSource| source.name == entry.name && !(source.slash && is_link);
        let at = self.sources.iter().position(is_it);
        self.sources.swap_remove(at.ok_or(Broken("it listed a name that was not asked for"))?);
        self.answer()
    }

    /// One of the sources has its entry, or its fault.
    fn answer(&mut self) -> Result<(), Broken> {
        let left = self.unanswered.checked_sub(1);
        self.unanswered = left.ok_or(Broken("it told of more than was asked for"))?;
        Ok(())
    }
}

impl Receiver<'_> {
    /// The number of the next entry, and the directory that it is in.
    pub(super) fn number(&self, dir: u64) -> Result<(u64, Arc<RecvDir>), Broken> {
        let mut listing = lock(&self.listing);
        let parent = listing.open.last().filter(|(number, _)| *number == dir);
        let (_, parent) = parent.ok_or(Broken("it listed into a directory that is not open"))?;
        let parent = Arc::clone(parent);
        let index = listing.next_index;
        listing.next_index += 1;
        Ok((index, parent))
    }

    /// The name that an entry gets, if the job covers it and it is in order.
    pub(super) fn check_name(
        &self,
        dir: u64,
        parent: &RecvDir,
        entry: &Entry,
    ) -> Result<Option<Name>, Broken> {
        if entry.kind == Kind::Dir && lock(&self.listing).open.len() > MAX_DEPTH {
            return Err(Broken("it listed a tree deeper than 2048 directories"));
        }
        if let Some(asked) = &self.asked {
            lock(asked).check_kind(entry)?;
        }
        if dir != 0 {
            let name = entry.name.clone().ok_or(Broken("it listed an entry without a name"))?;
            let mut last = lock(&parent.last_names);
            let (files, dirs) = &mut *last;
            // What is no directory comes first.
            let late = entry.kind != Kind::Dir && dirs.is_some();
            let last = if entry.kind == Kind::Dir { dirs } else { files };
            if late || last.as_ref().is_some_and(|last| *last >= name) {
                return Err(Broken("it listed a directory out of order, or a name twice"));
            }
            *last = Some(name.clone());
            return Ok(Some(name));
        }
        if entry.name.is_none() && entry.kind != Kind::Dir {
            return Err(Broken("it listed an entry without a name"));
        }
        if let Some(asked) = &self.asked {
            lock(asked).take(entry)?;
        }
        if self.rename.is_none() {
            return Ok(entry.name.clone());
        }
        let mut last = lock(&parent.last_names);
        if last.0.is_some() {
            return Err(Broken("it listed several sources for one name"));
        }
        last.0.clone_from(&self.rename);
        Ok(self.rename.clone())
    }

    /// Settles an entry whose place an earlier source has.
    pub(super) fn take_rival(&self, rival: &Rival, cost: u64) -> Result<OutcomeItem, Broken> {
        let Rival { dir, entry, .. } = rival;
        let (index, parent) = self.number(*dir)?;
        let has_place = matches!(entry.kind, Kind::File { .. } | Kind::Symlink { .. });
        if self.checks() || !has_place {
            return Err(Broken("it listed a rival of what has no place"));
        }
        let _name = self.check_name(*dir, &parent, entry)?;
        self.reporter.listed(entry);
        let outcome = compare::rival(rival, self.policy.conflict);
        self.report(|| parent.path_of(entry.name.as_ref()), &entry.kind, 0, &outcome);
        self.close(cost);
        Ok(OutcomeItem { index, outcome })
    }

    /// A fault in `dir` may be listed.
    pub(super) fn check_fault(&self, dir: u64) -> Result<(), Broken> {
        match &self.asked {
            Some(asked) if dir == 0 => lock(asked).answer(),
            _ => Ok(()),
        }
    }

    /// The listing may end: all that was asked for is accounted for.
    pub(super) fn check_end(&self) -> Result<(), Broken> {
        match &self.asked {
            Some(asked) if lock(asked).unanswered > 0 => {
                Err(Broken("it ended the listing before it had told of all that was asked for"))
            }
            _ => Ok(()),
        }
    }
}
