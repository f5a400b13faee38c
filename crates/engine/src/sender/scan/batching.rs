//! Sends the listing to the Receiver, in batches.

use super::{Earlier, Scan, Stopped};
use crate::JobError;
use crate::dirs::DirNode;
use crate::in_flight::InFlight;
use crate::sender::Item;
use crate::sender::item::Version;
use haul_model::{Entry, Fault, FaultKind, Kind, MAX_DEPTH, Name, Side, words};
use haul_proto::{LIST_WINDOW, ListItem};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most items in one listing message.
const BATCH_ITEMS_MAX: usize = 256;

/// The approximate cost, in bytes, of the items in one listing message. A frame holds twice that.
const BATCH_COST_MAX: u64 = 64 << 10;

/// The most names in one [`ListItem::Subdirs`]. With the longest names, its frame is far below its
/// bound.
const NAMES_MAX: usize = 128;

/// The age at which an incomplete batch is sent. Entries of a slow directory should not wait for
/// others.
const BATCH_AGE_MAX: Duration = Duration::from_millis(20);

/// Items between two checks of the clock, which is expensive for many items.
const LOOK_EVERY: usize = 8;

/// The error of a job with more accounts than can be sent.
const TOO_MANY: &str =
    "the sources have more than 65,536 users and groups: preserve them by number instead";

/// Listed items that are not sent yet.
#[derive(Default)]
pub(super) struct Batch {
    items: Vec<ListItem>,
    /// The approximate cost of the items, in bytes.
    cost: u64,
    /// When the first item was added.
    since: Option<Instant>,
}

impl Batch {
    /// Adds an item. Returns true if the batch should be sent now.
    fn add(&mut self, listed: ListItem) -> bool {
        self.since.get_or_insert_with(Instant::now);
        self.cost += match &listed {
            ListItem::Subdirs { names, .. } => {
                names.iter().map(|name| name.as_bytes().len() as u64).sum()
            }
            ListItem::Account(account) => 8 + account.name.len() as u64,
            listed => listed.cost(),
        };
        self.items.push(listed);
        let is_full = self.items.len() >= BATCH_ITEMS_MAX || self.cost >= BATCH_COST_MAX;
        is_full || self.items.len().is_multiple_of(LOOK_EVERY) && self.is_old()
    }

    fn is_old(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() > BATCH_AGE_MAX)
    }
}

impl Scan<'_, '_> {
    pub(super) fn entry(
        &mut self,
        parent: u64,
        dir: &Arc<DirNode>,
        (name, follow): (Option<Name>, bool),
        entry: Entry,
    ) -> Result<(), Stopped> {
        if parent == 0 {
            self.earlier.iter_mut().for_each(Earlier::listed);
        }
        let earlier = self.earlier.as_ref().filter(|_| entry.kind != Kind::Dir);
        let rival = earlier.and_then(|earlier| earlier.rival(parent, &entry));
        if let Some(reporter) = self.sender.reporter {
            let listed = reporter.listed(self.next_index, &entry, |place| {
                (place.source, place.is_dir) = (self.nth_source, entry.kind == Kind::Dir);
                place.is_rival = rival.is_some();
                dir.write_path(name.as_ref(), &mut place.path);
            });
            if let Err(error) = listed {
                self.sender.control.fail(error);
                return Err(Stopped);
            }
        }
        if let Some(sent) = &mut self.accounts {
            let Some(accounts) = sent.of(&entry.attributes) else {
                self.sender.control.fail(JobError::Usage(TOO_MANY.to_owned()));
                return Err(Stopped);
            };
            for account in accounts {
                self.push(ListItem::Account(account))?;
            }
        }
        let mtime = Some(entry.attributes.mtime);
        let listed = Version { id: entry.id, mtime, ctime: entry.ctime };
        let item = Item::of(self.next_index, Some(Arc::clone(dir)), name, entry.kind.clone());
        let item = Item { follow, listed, ..item };
        let listed = match rival {
            Some(rival) => ListItem::Rival(rival),
            None => ListItem::Entry { dir: parent, entry },
        };
        self.push_item(listed, item)
    }

    pub(super) fn fault(
        &mut self,
        parent: u64,
        dir: Option<Arc<DirNode>>,
        name: Option<Name>,
        shown: Option<Vec<u8>>,
        fault: Fault,
    ) -> Result<(), Stopped> {
        let shown = match (shown, &dir) {
            (Some(shown), _) => shown,
            (None, Some(dir)) => dir.path_of(name.as_ref()),
            (None, None) => Vec::new(),
        };
        let shown = words::shown(shown);
        let item = Item::of(self.next_index, dir, name, fault.kind.listed_kind());
        let item = Item { shown: Some(shown.clone()), ..item };
        self.push_item(ListItem::Fault { dir: parent, name: shown, fault }, item)
    }

    /// Sends the names of the subdirectories of `dir`, if the Receiver reports extras. The
    /// subdirectories themselves are listed one by one afterwards.
    pub(super) fn subdirs(&mut self, dir: u64, names: &[Name]) -> Result<(), Stopped> {
        if !self.sender.plan.finds_extras {
            return Ok(());
        }
        names
            .chunks(NAMES_MAX)
            .try_for_each(|names| self.push(ListItem::Subdirs { dir, names: names.to_vec() }))
    }

    pub(super) fn push_item(&mut self, listed: ListItem, mut item: Item) -> Result<(), Stopped> {
        item.cost = listed.cost();
        let (ledger, cost) = (&self.sender.ledger, item.cost);
        let is_full = |in_flight: &InFlight<Item>| in_flight.cost + cost > LIST_WINDOW;
        if is_full(&ledger.in_flight.lock()) {
            self.flush();
            if !ledger.wait_while(is_full) {
                return Err(Stopped);
            }
        }
        self.next_index += 1;
        self.sender.ledger.insert(item);
        self.push(listed)
    }

    pub(super) fn push(&mut self, listed: ListItem) -> Result<(), Stopped> {
        if self.sender.control.stopped() {
            return Err(Stopped);
        }
        if self.batch.add(listed) {
            self.flush();
        }
        Ok(())
    }

    /// Sends an old batch before the walk waits for the next directory.
    pub(super) fn flush_old(&mut self) {
        if self.batch.is_old() {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        let Batch { items, .. } = std::mem::take(&mut self.batch);
        if !items.is_empty() {
            self.sender.receiver.list(items);
        }
    }
}

pub(super) fn too_deep() -> Fault {
    let message = format!("the tree is deeper than {MAX_DEPTH} directories");
    Fault::new(Side::Source, FaultKind::TooLong, message)
}

pub(super) fn not_recursive() -> Fault {
    Fault::new(Side::Source, FaultKind::NotRecursive, "it is a directory")
}

pub(super) fn not_a_directory() -> Fault {
    Fault::new(Side::Source, FaultKind::NotDirectory, "it is not a directory")
}
