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

enum Question {
    Name(AccountKind, u32),
    Number(AccountKind, String),
}

enum Answer {
    Name(Option<String>),
    Number(Option<u32>),
}

type Request = (Question, mpsc::Sender<Answer>);

/// The sender to the answering thread, once it runs.
static RESOLVER: OnceLock<Mutex<mpsc::Sender<Request>>> = OnceLock::new();

/// Makes lookups work from now on, also in threads that confine themselves.
///
/// # Errors
/// When no thread can be started.
pub fn preload_accounts() -> io::Result<()> {
    if RESOLVER.get().is_some() {
        return Ok(());
    }
    let (ask, asked) = mpsc::channel::<Request>();
    std::thread::Builder::new().name("accounts".to_owned()).spawn(move || {
        while let Ok((question, answer)) = asked.recv() {
            // The caller may be gone.
            let _ = answer.send(answer_to(question));
        }
    })?;
    let _ = RESOLVER.set(Mutex::new(ask));
    Ok(())
}

/// The name of the account with this ID, if there is one.
pub fn account_name(kind: AccountKind, number: u32) -> Option<String> {
    match ask(Question::Name(kind, number)) {
        Answer::Name(name) => name,
        Answer::Number(_) => None,
    }
}

/// The ID of the account with this name, if there is one.
pub fn account_number(kind: AccountKind, name: &str) -> Option<u32> {
    match ask(Question::Number(kind, name.to_owned())) {
        Answer::Number(number) => number,
        Answer::Name(_) => None,
    }
}

fn ask(question: Question) -> Answer {
    let Some(way) = RESOLVER.get() else { return answer_to(question) };
    let (answer, answered) = mpsc::channel();
    let way = way.lock().clone();
    let nothing = match question {
        Question::Name(..) => Answer::Name(None),
        Question::Number(..) => Answer::Number(None),
    };
    match way.send((question, answer)) {
        Ok(()) => answered.recv().unwrap_or(nothing),
        Err(_) => nothing,
    }
}

fn answer_to(question: Question) -> Answer {
    match question {
        Question::Name(AccountKind::User, number) => {
            let user = User::from_uid(Uid::from_raw(number)).ok().flatten();
            Answer::Name(user.map(|user| user.name))
        }
        Question::Name(AccountKind::Group, number) => {
            let group = Group::from_gid(Gid::from_raw(number)).ok().flatten();
            Answer::Name(group.map(|group| group.name))
        }
        Question::Number(AccountKind::User, name) => {
            let user = User::from_name(&name).ok().flatten();
            Answer::Number(user.map(|user| user.uid.as_raw()))
        }
        Question::Number(AccountKind::Group, name) => {
            let group = Group::from_name(&name).ok().flatten();
            Answer::Number(group.map(|group| group.gid.as_raw()))
        }
    }
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
