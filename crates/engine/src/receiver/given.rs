//! The attributes that a listed entry is given here: with this machine's numbers for its
//! users and groups, and without those that can't be given.

use super::losing::Losing;
use super::{Broken, JobContext, RecvDir};
use crate::monitor::{Event, Monitor};
use crate::{Job, Munging, lacks};
use haul_model::{
    AccountMap, AclWho, Altered, Asking, Attributes, Entry, Extended, Kept, Kind, MapTo,
    SET_ID_MODE, Side, Xattr, escape_text, links,
};
use haul_proto::{ACCOUNTS_MAX, Account};
use haul_sys::{AccountKind, ROOT};
use haul_tree::Owner;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// This machine's numbers of users and groups, by the Sender's.
pub(super) struct Numbers {
    altered: Altered,
    /// Names have no meaning: numbers stay unless they are to become others.
    is_numeric: bool,
    /// The Sender tells the names of accounts, which mean nothing here.
    is_far: bool,
    /// Besides, symbolic links are made to lead nowhere.
    munges: bool,
    /// All can be given here that root can give.
    as_root: bool,
    /// Root was told that owners are not kept.
    has_told_owner: AtomicBool,
    /// Those whose names a Sender far away has told.
    told: Mutex<HashMap<(AccountKind, u32), u32>>,
    /// Those of which it has told nothing, as far as they are to become others.
    found: Mutex<HashMap<(AccountKind, u32), u32>>,
}

impl Numbers {
    /// Those of a job.
    pub(super) fn of(job: &Job, is_far: bool, as_root: bool) -> Self {
        let is_numeric = job.task.copies().is_some_and(|policy| policy.numeric_ids);
        let (told, found) = (Mutex::default(), Mutex::default());
        let munges = job.munging == Munging::Done;
        let (altered, has_told_owner) = (job.altered.clone(), AtomicBool::new(false));
        Self { altered, is_numeric, is_far, munges, as_root, has_told_owner, told, found }
    }

    /// Names of accounts that others are to become, and that are none here.
    pub(super) fn unknown(&self) -> Vec<String> {
        let Altered { users, groups, .. } = &self.altered;
        let of = |kind, map: &AccountMap| {
            let unknown = |to: &&MapTo| number_of(kind, to).is_none();
            let name = |to: &MapTo| match to {
                MapTo::Name(name) => format!("{} {}", word_for(kind), escape_text(name)),
                MapTo::Number(number) => number.to_string(),
            };
            map.targets().filter(unknown).map(name).collect::<Vec<_>>()
        };
        [of(AccountKind::User, users), of(AccountKind::Group, groups)].concat()
    }

    /// The number that an account becomes by the words of the job, if it does.
    fn altered(&self, kind: AccountKind, number: u32, name: &[u8]) -> Option<u32> {
        let map = self.map(kind);
        // Its name is told to nobody, and is the same everywhere.
        let root = || haul_sys::account_name(kind, ROOT).unwrap_or_default().into_bytes();
        let of_root = if number == ROOT && !self.is_numeric { root() } else { Vec::new() };
        let name = if number == ROOT { &*of_root } else { name };
        map.find(number, name, move |to| number_of(kind, to))
    }

    fn map(&self, kind: AccountKind) -> &AccountMap {
        match kind {
            AccountKind::User => &self.altered.users,
            AccountKind::Group => &self.altered.groups,
        }
    }

    /// Learns the name of an account of the Sender's.
    fn tell(&self, kind: AccountKind, number: u32, name: &[u8]) -> Result<(), Broken> {
        let altered = self.altered(kind, number, name);
        // A name that is none here keeps its number, as in rsync.
        let named = || haul_sys::account_number(kind, std::str::from_utf8(name).ok()?);
        let mut told = self.told.lock();
        if told.len() >= ACCOUNTS_MAX {
            return Err(Broken("it named more users and groups than it may"));
        }
        let is_own = number == ROOT || self.is_numeric;
        if let Some(here) = altered.or_else(|| if is_own { None } else { named() }) {
            told.insert((kind, number), here);
        }
        Ok(())
    }

    /// The number here of an account of the Sender's.
    fn here(&self, kind: AccountKind, number: u32) -> u32 {
        if self.is_far
            && let Some(here) = self.told.lock().get(&(kind, number))
        {
            return *here;
        }
        if self.map(kind).is_empty() {
            return number;
        }
        if let Some(here) = self.found.lock().get(&(kind, number)) {
            return *here;
        }
        let has_name = !self.is_far && !self.is_numeric;
        let name = if has_name { haul_sys::account_name(kind, number) } else { None };
        let here = self.altered(kind, number, name.unwrap_or_default().as_bytes());
        let here = here.unwrap_or(number);
        let mut found = self.found.lock();
        if found.len() < ACCOUNTS_MAX {
            found.insert((kind, number), here);
        }
        here
    }
}

/// The number of an account of this machine.
fn number_of(kind: AccountKind, account: &MapTo) -> Option<u32> {
    match account {
        MapTo::Name(name) => haul_sys::account_number(kind, name),
        MapTo::Number(number) => Some(*number),
    }
}

fn word_for(kind: AccountKind) -> &'static str {
    match kind {
        AccountKind::User => "user",
        AccountKind::Group => "group",
    }
}

/// The owners and attributes that entries get here.
pub(super) struct Owners<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) numbers: Numbers,
    /// See [`Losing`].
    pub(super) losing: Losing,
}

impl<'a> Owners<'a> {
    /// The owners of a job whose destination `gives` these attributes.
    pub(super) fn of(context: &Arc<JobContext<'a>>, numbers: Numbers, gives: Kept) -> Arc<Self> {
        let losing = Losing::of(&context.task, gives);
        Arc::new(Self { job: Arc::clone(context), numbers, losing })
    }
}

impl Owners<'_> {
    /// Learns the name of a user or group of the Sender's.
    pub(super) fn take_account(&self, account: &Account) -> Result<(), Broken> {
        self.numbers.tell(kind_of(account.is_group), account.number, &account.name)
    }

    /// Tells which accounts that others are to become are none here.
    pub(super) fn tell_unknown(&self) {
        for name in self.numbers.unknown() {
            let message = format!("no {name} here: ignoring the mapping to it");
            self.job.warn(&self.job.dest, &message);
        }
    }

    /// True if all can be given at the destination that root can give.
    pub(super) fn acts_as_root(&self) -> bool {
        self.numbers.as_root
    }

    pub(super) fn number_here(&self, kind: AccountKind, number: u32) -> u32 {
        self.numbers.here(kind, number)
    }

    /// Forgets an owner that was told only for this: root is told once that it is not kept.
    pub(super) fn forget_owner(&self, dir: &RecvDir, entry: &mut Entry) {
        if !lacks::forgets_owners(&self.job.task) {
            return;
        }
        let Attributes { user, group, .. } = &mut entry.attributes;
        let (Some(user), Some(group)) = (user.take(), group.take()) else { return };
        let owner = Owner { user, group };
        let is_news = haul_sys::is_root() && lacks::is_of_others(owner);
        if is_news && !self.numbers.has_told_owner.swap(true, Ordering::Relaxed) {
            let path = dir.path_of(entry.name.as_ref());
            self.job.warn(&path, &lacks::owner_not_kept(owner));
        }
    }

    /// Turns the attributes of `entry` into those that it can be given here.
    pub(super) fn adapt(&self, entry: &mut Entry) {
        if let (Kind::Symlink { target }, true) = (&mut entry.kind, self.numbers.munges) {
            *target = links::munged(target).into();
        }
        let Attributes { mode, user, group, extended, .. } = &mut entry.attributes;
        let user_here =
            |user| self.own_user(user).unwrap_or_else(|| self.number_here(AccountKind::User, user));
        *user = user.map(user_here);
        *group = group.map(|group| self.number_here(AccountKind::Group, group));
        if self.job.policy.keeps.has(Kept::GROUP) {
            // As in rsync: others than root give what they can.
            *group = group.filter(|group| self.acts_as_root() || haul_sys::is_of_group(*group));
        }
        if entry.kind != Kind::Dir && !self.job.policy.keeps.has(Kept::LENT) {
            // Nobody is to lend the rights of somebody else.
            let lent = |is_known, bit| if is_known { 0 } else { bit };
            *mode &= !(SET_ID_MODE & lent(user.is_some(), 0o4000));
            *mode &= !(SET_ID_MODE & lent(group.is_some(), 0o2000));
        }
        for acl in
            extended.iter_mut().flat_map(|all| all.acl.iter_mut().chain(&mut all.default_acl))
        {
            for line in &mut acl.0 {
                match &mut line.who {
                    AclWho::User(number) => *number = self.number_here(AccountKind::User, *number),
                    AclWho::Group(number) => {
                        *number = self.number_here(AccountKind::Group, *number);
                    }
                    _ => {}
                }
            }
            acl.0.sort_by_key(|line| line.who);
        }
        if let Some(extended) = extended {
            self.leave_to_root(extended);
            extended.xattrs.retain(|xattr| !self.leaves_alone(xattr));
        }
        extended.take_if(|extended| extended.is_empty());
    }

    /// True if rules leave out an extended attribute: it is neither set nor removed.
    fn leaves_alone(&self, xattr: &Xattr) -> bool {
        self.job.filter.leaves_out_xattr(&xattr.name, Asking::Receiver)
    }

    /// `attributes` with those extended ones of what is `there` that rules spare.
    pub(super) fn with_spared<'a>(
        &self,
        attributes: &'a Attributes,
        there: Option<&Attributes>,
    ) -> Cow<'a, Attributes> {
        let there = there.map(Attributes::xattrs).unwrap_or_default();
        let mut spared = there.iter().filter(|xattr| self.leaves_alone(xattr)).peekable();
        if spared.peek().is_none() {
            return Cow::Borrowed(attributes);
        }
        let mut attributes = attributes.clone();
        let xattrs = &mut attributes.extended.get_or_insert_default().xattrs;
        xattrs.retain(|xattr| !self.leaves_alone(xattr));
        xattrs.extend(spared.cloned());
        xattrs.sort_unstable();
        Cow::Owned(attributes)
    }

    /// Forgets the extended attributes that only root can give, as rsync does, where not all
    /// can be given.
    pub(super) fn leave_to_root(&self, extended: &mut Extended) {
        if !self.acts_as_root() {
            extended.xattrs.retain(|xattr| xattr.name.starts_with(b"user."));
        }
    }
}

fn kind_of(is_group: bool) -> AccountKind {
    if is_group { AccountKind::Group } else { AccountKind::User }
}

/// Tells once that not all that is `asked` for can be kept in `path`.
pub(super) fn tell_lacks(monitor: &dyn Monitor, path: &[u8], asked: Kept, kept: Kept) {
    if let Some(message) = lacks::lacking(asked, kept) {
        monitor.event(Event::Warning { side: Some(Side::Destination), path, message });
    }
}

/// Those of `asked` that this process can give, where nobody is told that others are not:
/// as in rsync, who is not root does not try.
pub(super) fn allowed(asked: Kept, as_root: bool) -> Kept {
    let of_root = Kept::USER.with(Kept::DEVICES);
    if as_root { asked } else { asked.without(of_root) }
}
