//! Rights that a process gives up for good: root's rights, unlimited files and memory, and running
//! after its parent's end.

use nix::unistd::User;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;

/// Resource limits of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Maximum number of open files.
    pub open_files_max: u64,
    /// Address space, in bytes.
    pub memory_max: u64,
}

impl ResourceLimits {
    /// Applies the limits to this process and those that it starts.
    ///
    /// # Errors
    /// Errors of `setrlimit`.
    pub fn apply(self) -> io::Result<()> {
        let bounds = [(Resource::Nofile, self.open_files_max), (Resource::As, self.memory_max)];
        for (resource, max) in bounds {
            // An existing lower limit stays.
            let before = rustix::process::getrlimit(resource);
            let max = before.maximum.map_or(max, |before| before.min(max));
            setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) })?;
        }
        Ok(())
    }
}

/// The ID of the user `name`; `None` if there is none.
///
/// # Errors
/// When the user database can't be read.
pub fn user_id(name: &str) -> io::Result<Option<u32>> {
    Ok(User::from_name(name)?.map(|user| user.uid.as_raw()))
}

/// Gives the directory `path` to the user `name`, if this process is root's.
///
/// # Errors
/// If there is no such user, and those of `chown`.
pub fn give_to_user(path: &std::path::Path, name: &str) -> io::Result<()> {
    let user = user_named(name)?;
    match rustix::process::geteuid().is_root() {
        true => std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())),
        false => Ok(()),
    }
}

/// Makes this process run as the user `name`, with that user's groups and without root's rights.
/// **Call it before any other thread is started.** Does nothing if it runs as that user already.
///
/// # Errors
/// If there is no such user, or this process may not become one.
pub fn become_user(name: &str) -> io::Result<()> {
    let user = user_named(name)?;
    let is_it = || rustix::process::geteuid().as_raw() == user.uid.as_raw();
    if !rustix::process::geteuid().is_root() {
        let refused =
            || io::Error::new(io::ErrorKind::PermissionDenied, "only root can become another user");
        return is_it().then_some(()).ok_or_else(refused);
    }
    set_ids(name, &user)?;
    crate::limits::forget_user();
    let groups = [rustix::process::getgid(), rustix::process::getegid()];
    let is_root = rustix::process::getuid().is_root() || rustix::process::geteuid().is_root();
    let is_done = is_it()
        && is_root == user.uid.is_root()
        && groups.iter().all(|group| group.as_raw() == user.gid.as_raw());
    is_done.then_some(()).ok_or_else(|| io::Error::other("the system has not changed the user"))
}

fn user_named(name: &str) -> io::Result<User> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such user");
    User::from_name(name)?.ok_or_else(missing)
}

#[cfg(target_os = "linux")]
fn set_ids(name: &str, user: &User) -> io::Result<()> {
    let name = std::ffi::CString::new(name)?;
    nix::unistd::initgroups(&name, user.gid)?;
    nix::unistd::setgid(user.gid)?;
    Ok(nix::unistd::setuid(user.uid)?)
}

#[cfg(not(target_os = "linux"))]
fn set_ids(_: &str, _: &User) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this needs Linux"))
}

/// Makes the system kill this process when its parent, the process `parent`, ends. Call it after
/// [`become_user`], which would undo it.
///
/// # Errors
/// If the parent has ended already, and those of `prctl`.
#[cfg(target_os = "linux")]
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match getppid().is_some_and(|pid| pid.as_raw_nonzero().get().unsigned_abs() == parent) {
        true => Ok(()),
        false => Err(io::Error::other("its parent has ended")),
    }
}

elsewhere!(pub fn die_with_parent(u32) -> io::Result<()> = Ok(()));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_number() {
        assert_eq!(user_id("root").expect("read"), Some(crate::ROOT));
        assert_eq!(user_id("no such user").expect("read"), None);
    }

    #[test]
    fn a_process_cannot_become_a_missing_user() {
        let error = become_user("no such user").expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
