//! Owners: the attributes that a listed entry gets here. Maps users and groups to this machine's
//! numbers, and leaves out attributes that can't be set.

pub(super) mod loss_check;

use super::{JobContext, ProtocolViolation, RecvDir};
use crate::monitor::{Event, Monitor};
use crate::{Job, Munging, not_kept};
use haul_model::{
    AccountMap, AclWho, Altered, Attributes, Entry, Extended, FilterSide, Kept, Kind, MapTo,
    SET_ID_MODE, Side, Xattr, escape_text, links,
};
use haul_proto::{ACCOUNTS_MAX, Account};
use haul_sys::{AccountKind, ROOT};
use haul_tree::Owner;
use loss_check::LossCheck;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maps the Sender's numbers of users and groups to this machine's.
pub(super) struct IdMap {
    altered: Altered,
    /// Names are ignored: numbers stay unless the job maps them.
    is_numeric: bool,
    /// The Sender sends the names of its accounts.
    gets_names: bool,
    /// Symbolic links are changed so that they lead nowhere.
    munges: bool,
    /// Everything that root can set can be set here.
    as_root: bool,
    /// Root is warned, once, that owners are not kept.
    warns_about_owners: bool,
    has_warned_owner: AtomicBool,
    /// The numbers here of accounts whose names a remote Sender has sent.
    received: Mutex<HashMap<(AccountKind, u32), u32>>,
    /// The numbers here of other accounts that the job may map.
    found: Mutex<HashMap<(AccountKind, u32), u32>>,
}

impl IdMap {
    /// Those of a job.
    pub(super) fn of(job: &Job, gets_names: bool, as_root: bool) -> Self {
        let is_numeric = job.task.copies().is_some_and(|policy| policy.numeric_ids);
        let (received, found) = (Mutex::default(), Mutex::default());
        let munges = job.munging == Munging::Done;
        let (altered, has_warned_owner) = (job.altered.clone(), AtomicBool::new(false));
        let warns_about_owners = not_kept::warns_about_owners(&job.task);
        Self {
            altered,
            is_numeric,
            gets_names,
            munges,
            as_root,
            warns_about_owners,
            has_warned_owner,
            received,
            found,
        }
    }

    /// The targets of the job's mappings that do not exist on this machine.
    pub(super) fn unknown(&self) -> Vec<String> {
        let Altered { users, groups, .. } = &self.altered;
        let of = |kind, map: &AccountMap| {
            let unknown = |to: &&MapTo| number_of(kind, to).is_none();
            let name = |to: &MapTo| match to {
                MapTo::Name(name) => format!("{} {}", kind_name(kind), escape_text(name)),
                MapTo::Number(number) => number.to_string(),
            };
            map.targets().filter(unknown).map(name).collect::<Vec<_>>()
        };
        [of(AccountKind::User, users), of(AccountKind::Group, groups)].concat()
    }

    /// The number to which the job maps an account, if it does.
    fn altered(&self, kind: AccountKind, number: u32, name: &[u8]) -> Option<u32> {
        let map = self.map(kind);
        // The Sender does not send the name of root, which is the same everywhere.
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

    /// Records the name of an account of the Sender.
    fn record_name(
        &self,
        kind: AccountKind,
        number: u32,
        name: &[u8],
    ) -> Result<(), ProtocolViolation> {
        let altered = self.altered(kind, number, name);
        // An account whose name is unknown here keeps its number, as in rsync.
        let named = || haul_sys::account_number(kind, std::str::from_utf8(name).ok()?);
        let mut received = self.received.lock();
        if received.len() >= ACCOUNTS_MAX {
            return Err(ProtocolViolation("it named more users and groups than it may"));
        }
        let is_own = number == ROOT || self.is_numeric;
        if let Some(local) = altered.or_else(|| if is_own { None } else { named() }) {
            received.insert((kind, number), local);
        }
        Ok(())
    }

    /// The number here of an account of the Sender.
    fn local(&self, kind: AccountKind, number: u32) -> u32 {
        if self.gets_names
            && let Some(local) = self.received.lock().get(&(kind, number))
        {
            return *local;
        }
        if self.map(kind).is_empty() {
            return number;
        }
        if let Some(local) = self.found.lock().get(&(kind, number)) {
            return *local;
        }
        let has_name = !self.gets_names && !self.is_numeric;
        let name = if has_name { haul_sys::account_name(kind, number) } else { None };
        let local = self.altered(kind, number, name.unwrap_or_default().as_bytes());
        let local = local.unwrap_or(number);
        let mut found = self.found.lock();
        if found.len() < ACCOUNTS_MAX {
            found.insert((kind, number), local);
        }
        local
    }
}

/// The number of an account on this machine.
fn number_of(kind: AccountKind, account: &MapTo) -> Option<u32> {
    match account {
        MapTo::Name(name) => haul_sys::account_number(kind, name),
        MapTo::Number(number) => Some(*number),
    }
}

fn kind_name(kind: AccountKind) -> &'static str {
    match kind {
        AccountKind::User => "user",
        AccountKind::Group => "group",
    }
}

/// Adapts the owners and attributes of entries to this side.
pub(super) struct Owners<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) numbers: IdMap,
    /// See [`LossCheck`].
    pub(super) loss_check: LossCheck,
}

impl<'a> Owners<'a> {
    /// The owners of a job whose destination can set the attributes `settable`.
    pub(super) fn of(context: &Arc<JobContext<'a>>, numbers: IdMap, settable: Kept) -> Arc<Self> {
        let loss_check = LossCheck::of(context.plan.lossless, settable);
        Arc::new(Self { job: Arc::clone(context), numbers, loss_check })
    }
}

impl Owners<'_> {
    /// Records the name of a user or group of the Sender.
    pub(super) fn take_account(&self, account: &Account) -> Result<(), ProtocolViolation> {
        self.numbers.record_name(kind_of(account.is_group), account.number, &account.name)
    }

    /// Warns about mapping targets that do not exist here.
    pub(super) fn warn_unknown(&self) {
        for name in self.numbers.unknown() {
            let message = format!("no {name} here: ignoring the mapping to it");
            self.job.warn(&self.job.dest, &message);
        }
    }

    /// True if everything that root can set can be set at the destination.
    pub(super) fn acts_as_root(&self) -> bool {
        self.numbers.as_root
    }

    pub(super) fn local_id(&self, kind: AccountKind, number: u32) -> u32 {
        self.numbers.local(kind, number)
    }

    /// Drops an owner that was listed only to warn root, once, that owners are not kept.
    pub(super) fn forget_owner(&self, dir: &RecvDir, entry: &mut Entry) {
        if !self.numbers.warns_about_owners {
            return;
        }
        let Attributes { user, group, .. } = &mut entry.attributes;
        let (Some(user), Some(group)) = (user.take(), group.take()) else { return };
        let owner = Owner { user, group };
        let should_warn = haul_sys::is_root() && not_kept::has_other_owner(owner);
        if should_warn && !self.numbers.has_warned_owner.swap(true, Ordering::Relaxed) {
            let path = dir.path_of(entry.name.as_ref());
            self.job.warn(&path, &not_kept::owner_not_kept(owner));
        }
    }

    /// Changes the attributes of `entry` to those that it can have here.
    pub(super) fn adapt(&self, entry: &mut Entry) {
        if let (Kind::Symlink { target }, true) = (&mut entry.kind, self.numbers.munges) {
            *target = links::munged(target).into();
        }
        let Attributes { mode, user, group, extended, .. } = &mut entry.attributes;
        let local_user =
            |user| self.mover_user(user).unwrap_or_else(|| self.local_id(AccountKind::User, user));
        *user = user.map(local_user);
        *group = group.map(|group| self.local_id(AccountKind::Group, group));
        if self.job.plan.keeps.has(Kept::GROUP) {
            // As in rsync: users other than root set only groups that they belong to.
            *group = group.filter(|group| self.acts_as_root() || haul_sys::is_in_group(*group));
        }
        if entry.kind != Kind::Dir && !self.job.plan.keeps.has(Kept::LENT) {
            // Without its owner or group, the set-ID bit would lend somebody else's rights.
            let lent = |is_known, bit| if is_known { 0 } else { bit };
            *mode &= !(SET_ID_MODE & lent(user.is_some(), 0o4000));
            *mode &= !(SET_ID_MODE & lent(group.is_some(), 0o2000));
        }
        for acl in
            extended.iter_mut().flat_map(|all| all.acl.iter_mut().chain(&mut all.default_acl))
        {
            for line in &mut acl.0 {
                match &mut line.who {
                    AclWho::User(number) => *number = self.local_id(AccountKind::User, *number),
                    AclWho::Group(number) => {
                        *number = self.local_id(AccountKind::Group, *number);
                    }
                    _ => {}
                }
            }
            acl.0.sort_by_key(|line| line.who);
        }
        if let Some(extended) = extended {
            self.drop_root_xattrs(extended);
            extended.xattrs.retain(|xattr| !self.is_protected_xattr(xattr));
        }
        extended.take_if(|extended| extended.is_empty());
    }

    /// True if the rules exclude an extended attribute: it is neither set nor removed.
    fn is_protected_xattr(&self, xattr: &Xattr) -> bool {
        self.job.filter.excludes_xattr(&xattr.name, FilterSide::Receiver)
    }

    /// `attributes` with the extended attributes of `there` that the rules protect.
    pub(super) fn with_protected<'a>(
        &self,
        attributes: &'a Attributes,
        there: Option<&Attributes>,
    ) -> Cow<'a, Attributes> {
        let there = there.map(Attributes::xattrs).unwrap_or_default();
        let mut protected = there.iter().filter(|xattr| self.is_protected_xattr(xattr)).peekable();
        if protected.peek().is_none() {
            return Cow::Borrowed(attributes);
        }
        let mut attributes = attributes.clone();
        let xattrs = &mut attributes.extended.get_or_insert_default().xattrs;
        xattrs.retain(|xattr| !self.is_protected_xattr(xattr));
        xattrs.extend(protected.cloned());
        xattrs.sort_unstable();
        Cow::Owned(attributes)
    }

    /// Removes the extended attributes that only root can set, as rsync does, unless everything can
    /// be set here.
    pub(super) fn drop_root_xattrs(&self, extended: &mut Extended) {
        if !self.acts_as_root() {
            extended.xattrs.retain(|xattr| xattr.name.starts_with(b"user."));
        }
    }
}

fn kind_of(is_group: bool) -> AccountKind {
    if is_group { AccountKind::Group } else { AccountKind::User }
}

/// Warns once if not everything that is `requested` for can be kept in `path`.
pub(super) fn warn_unsupported(monitor: &dyn Monitor, path: &[u8], requested: Kept, kept: Kept) {
    if let Some(message) = not_kept::not_kept_message(requested, kept) {
        monitor.event(Event::Warning { side: Some(Side::Destination), path, message });
    }
}

/// The attributes of `requested` that this process tries to set. As in rsync, users other than root
/// do not try the others, and get no warning.
pub(super) fn allowed(requested: Kept, as_root: bool) -> Kept {
    let of_root = Kept::USER.with(Kept::DEVICES);
    if as_root { requested } else { requested.without(of_root) }
}
