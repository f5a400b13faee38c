//! Users and groups of this machine, by name and ID.
//!
//! The system looks them up in files, libraries and sockets, which a confined thread can't reach.
//! So a job that needs them calls [`preload_accounts`] before it confines itself. A thread that
//! stays unconfined then answers lookups by name and by ID.

use nix::unistd::{Gid, Group, Uid, User};
use parking_lot::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::mpsc;

/// The kind of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccountKind {
    /// A user.
    User,
    /// A group.
    Group,
}

type Lookup = Box<dyn FnOnce() + Send>;

/// The sender to the thread that looks up accounts, once it runs.
static RESOLVER: OnceLock<Mutex<mpsc::Sender<Lookup>>> = OnceLock::new();

/// Makes lookups work from now on, also in threads that confine themselves.
///
/// # Errors
/// When no thread can be started.
pub fn preload_accounts() -> io::Result<()> {
    if RESOLVER.get().is_some() {
        return Ok(());
    }
    let (sender, lookups) = mpsc::channel::<Lookup>();
    std::thread::Builder::new()
        .name("accounts".to_owned())
        .spawn(move || lookups.into_iter().for_each(|lookup| lookup()))?;
    let _ = RESOLVER.set(Mutex::new(sender));
    Ok(())
}

/// The name of the account with this ID, if there is one.
pub fn account_name(kind: AccountKind, number: u32) -> Option<String> {
    resolve(move || match kind {
        AccountKind::User => Some(User::from_uid(Uid::from_raw(number)).ok()??.name),
        AccountKind::Group => Some(Group::from_gid(Gid::from_raw(number)).ok()??.name),
    })
}

/// The ID of the account with this name, if there is one.
pub fn account_number(kind: AccountKind, name: &str) -> Option<u32> {
    let name = name.to_owned();
    resolve(move || match kind {
        AccountKind::User => Some(User::from_name(&name).ok()??.uid.as_raw()),
        AccountKind::Group => Some(Group::from_name(&name).ok()??.gid.as_raw()),
    })
}

/// Runs `lookup` in the thread that looks up accounts, or in this one if there is none.
fn resolve<T: Send + 'static>(lookup: impl FnOnce() -> Option<T> + Send + 'static) -> Option<T> {
    let Some(resolver) = RESOLVER.get() else { return lookup() };
    let (answer, answered) = mpsc::channel();
    let resolver = resolver.lock().clone();
    // The caller may be gone.
    resolver.send(Box::new(move || drop(answer.send(lookup())))).ok()?;
    answered.recv().ok()?
}

/// The home directory of this process's user in the user database.
pub fn home_of_user() -> Option<PathBuf> {
    User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.dir)
}

/// True if this process may give files to the group with this ID.
pub fn is_in_group(group: u32) -> bool {
    static GROUPS: OnceLock<Vec<u32>> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| {
        let found = rustix::process::getgroups().unwrap_or_default();
        found.into_iter().map(rustix::process::Gid::as_raw).collect()
    });
    crate::is_root() || crate::effective_group() == group || groups.contains(&group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_with_a_thread_and_without() {
        for _ in 0..2 {
            assert_eq!(account_name(AccountKind::User, 0).as_deref(), Some("root"));
            assert_eq!(account_number(AccountKind::User, "root"), Some(0));
            assert_eq!(account_number(AccountKind::Group, "no such group"), None);
            preload_accounts().expect("a thread");
        }
    }
}
