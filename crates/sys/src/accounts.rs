//! Users and groups of this machine, by their names and numbers.
//!
//! The system reads files, libraries and sockets to know them, which a thread that has
//! confined itself can't reach. So a job that will ask says so before it confines itself
//! ([`expect_accounts`]), and a thread that stays free answers: it takes a name or a
//! number, and gives the other.

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

type Asked = (Question, mpsc::Sender<Answer>);

/// The way to the thread that answers, once there is one.
static ANSWERING: OnceLock<Mutex<mpsc::Sender<Asked>>> = OnceLock::new();

/// Has names and numbers known from now on, also to threads that confine themselves.
///
/// # Errors
/// When the system gives no thread.
pub fn expect_accounts() -> io::Result<()> {
    if ANSWERING.get().is_some() {
        return Ok(());
    }
    let (ask, asked) = mpsc::channel::<Asked>();
    std::thread::Builder::new().name("accounts".to_owned()).spawn(move || {
        while let Ok((question, answer)) = asked.recv() {
            // Who asked may be gone.
            let _ = answer.send(answer_to(question));
        }
    })?;
    let _ = ANSWERING.set(Mutex::new(ask));
    Ok(())
}

/// The name of the account of this number, if there is one.
pub fn account_name(kind: AccountKind, number: u32) -> Option<String> {
    match ask(Question::Name(kind, number)) {
        Answer::Name(name) => name,
        Answer::Number(_) => None,
    }
}

/// The number of the account of this name, if there is one.
pub fn account_number(kind: AccountKind, name: &str) -> Option<u32> {
    match ask(Question::Number(kind, name.to_owned())) {
        Answer::Number(number) => number,
        Answer::Name(_) => None,
    }
}

fn ask(question: Question) -> Answer {
    let Some(way) = ANSWERING.get() else { return answer_to(question) };
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

/// The home directory that the system has on record for the user of this process.
pub fn home_of_user() -> Option<PathBuf> {
    User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.dir)
}

/// True if this process may give files to the group of this number.
pub fn is_of_group(group: u32) -> bool {
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
            expect_accounts().expect("a thread");
        }
    }
}
