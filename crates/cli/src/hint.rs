//! Hints: sentences that tell the user what to do about an error. They name options and commands,
//! which the libraries do not know.

use haul::files::FileProblem;
use haul::{LocationError, LocationProblem};
use haul_model::{Conflict, Fault, FaultKind, Kept, Mirror, Sameness, Side, Task};
use haul_net::ConnectError;
use std::io::ErrorKind;

/// An error for which there may be a hint.
pub(crate) trait Hint {
    /// The type of the text: allocated or constant.
    type Text;

    /// The hint, if there is one.
    fn hint(&self) -> Option<Self::Text>;
}

/// A phrase of hints, and its replacement if the same command copies everything again.
const FINISHED: &str = "finished files are skipped";
const COPIED_AGAIN: &str = "finished files are copied again";

/// Adapts `hint` to a command that copies everything again.
pub(crate) fn for_full_copy(hint: &str) -> String {
    hint.replace(FINISHED, COPIED_AGAIN)
}

/// Adapts `hint` to a command that only asks, and finishes no files.
pub(crate) fn for_query(hint: &str) -> String {
    hint.replace(&format!(": {FINISHED}"), "")
}

/// True if the same job, run again, recognises and skips finished files.
pub(crate) fn skips_finished(task: &Task) -> bool {
    let Some(policy) = task.copies() else { return true };
    let by_time = |mirror: &Mirror| mirror.sameness == Sameness::SizeAndTime;
    let sees_times = policy.conflict == Conflict::Keep || policy.keeps.has(Kept::TIMES);
    policy.conflict != Conflict::ReplaceAll && (sees_times || !task.mirrors().is_some_and(by_time))
}

/// The hint for a full destination that has only an SFTP server.
pub(crate) const NO_SPACE_BY_SFTP: &str = "free space at the destination, then run the same command again: finished files are skipped; remove partial files there with sftp's 'rm'";

/// The hint for a destination with a trailing slash, if parents of its last directory are missing.
pub(crate) const CREATE_PARENTS: &str = "create the directories above it first";

/// The hint for a destination whose directory is missing.
pub(crate) const CREATE_FIRST: &str =
    "create the directory first, or end the destination with a slash to create it";

/// The hint for both in a mirror, which creates only the last directory, with or without a slash.
pub(crate) const CREATE_PARENTS_MIRROR: &str =
    "create the directories above it first, or use --mkpath";

impl Hint for ConnectError {
    type Text = String;

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::HostName { .. } => {
                "write './' before the name of a local file that contains ':'".into()
            }
            Self::UserName { .. } => "check the part before '@'".into(),
            Self::RemoteShell { .. } => {
                "give --rsh a program and its options, such as: --rsh 'ssh -F my_config'".into()
            }
            Self::RemoteHaul { .. } => {
                "give --remote-haul one path, without arguments; it may start with '~/'".into()
            }
            Self::Start { cause, .. } if cause.kind() != ErrorKind::NotFound => return None,
            Self::Start { .. } => {
                "install an OpenSSH client, or use another program with --rsh COMMAND".into()
            }
            Self::Unreachable { host, .. } => {
                format!("check host name, port and network, until 'ssh {host}' works")
            }
            Self::HostKey { host, changed: false } => {
                format!("run 'ssh {host}' once, check the key that it shows, and accept it")
            }
            Self::HostKey { host, changed: true } => format!(
                "ask the administrator of {host} whether its key was replaced; only then remove the old one with 'ssh-keygen -R'"
            ),
            Self::LoginRefused { host, .. } => format!(
                "check the user name, until 'ssh {host}' logs in; 'ssh-add -l' lists the offered keys"
            ),
            Self::Setup { host, .. } => {
                format!("run 'ssh -v {host}' to find the setting that fails")
            }
            Self::HaulMissing { tried: None, address, .. } => format!(
                "run 'haul deploy {address}' to install it, or name an installed haul with --remote-haul PATH"
            ),
            Self::HaulMissing { host, tried: Some(_), address } => format!(
                "correct --remote-haul ('ssh {host} ls -l PATH' must find it), or leave it out and run 'haul deploy {address}'"
            ),
            Self::HaulUnusable { host, .. } => {
                format!("check that the haul on {host} is executable and built for that machine")
            }
            Self::NoHaul { host, tried: Some(path) } => format!(
                "correct --remote-haul, until 'ssh {host} {path} --version' prints haul's version"
            ),
            Self::NoHaul { host, tried: None } => format!(
                "check that 'ssh {host} haul --version' prints a version: ForceCommand in sshd_config or command= in authorized_keys may run another program"
            ),
            Self::NotDirect { .. } | Self::DirectLost { .. } => {
                "leave out --via tcp to use ssh, or name open ports with --port-range".into()
            }
            Self::SftpOnly { host } | Self::NoShell { host, .. } => {
                format!("ask the administrator of {host} for a login that can run haul")
            }
            Self::SubsystemMissing { host, name } => format!(
                "ask the administrator of {host} for a 'Subsystem {name}' line in sshd_config, or install haul there"
            ),
            Self::NoisyShell { host, .. } => format!(
                "make the shell's startup files on the host silent: 'ssh {host} true' must print nothing"
            ),
            Self::Lost { .. } => "run the same command again: finished files are skipped".into(),
            Self::Silent { .. } => "check the host and the network, then run the same command again: finished files are skipped; --timeout SECONDS waits longer".into(),
            Self::Unanswered { host, .. } => format!(
                "check that 'ssh {host} true' ends soon; --timeout SECONDS waits longer"
            ),
            Self::ServerKey { host, .. } => format!(
                "ask the administrator of {host} whether its key was replaced; only then run 'haul server enroll {host}' again"
            ),
            Self::NotEnrolled { host } => format!(
                "run 'haul server enroll {host}', or ask its administrator for an invitation"
            ),
            Self::Busy { .. } => "run the command again when one of them has ended; 'jobs-per-client' in the server's settings allows more".into(),
            Self::NoServer { host, .. } => format!(
                "'haul server status {host}' asks through ssh whether it runs, and where it listens"
            ),
            Self::Unserved { host } => {
                format!("ask the administrator of {host}, or run the command again later")
            }
            Self::Agent { .. } | Self::Stopped { .. } => return None,
        })
    }
}

impl Hint for LocationError {
    type Text = String;

    fn hint(&self) -> Option<String> {
        match self.problem() {
            LocationProblem::Name(error) => error.hint(),
            LocationProblem::OtherHome => Some(
                "write the whole path, such as /home/USER; for a name that begins with ~, write host:./~name".to_owned(),
            ),
            LocationProblem::Daemon => Some(
                "use HOST:PATH, through ssh; for a name with '::', write ./a::b or host:./:b".to_owned(),
            ),
            _ => None,
        }
    }
}

/// The reason why haul rejects a configuration file that other users may have written.
macro_rules! names_programs {
    ($remedy:literal) => {
        concat!("haul refuses it because it can name a program (rsh) to run as you; ", $remedy)
    };
}

impl Hint for FileProblem {
    type Text = &'static str;

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotUtf8 => Some("save the file as UTF-8"),
            Self::OtherOwner => Some(names_programs!("create a file of your own")),
            Self::OthersWrite => Some(names_programs!("run 'chmod go-w' on it")),
            Self::Empty => Some("restore it, or remove it if nothing was in it"),
            _ => None,
        }
    }
}

impl Hint for Fault {
    type Text = &'static str;

    fn hint(&self) -> Option<&'static str> {
        if self.side == Side::Source
            && matches!(
                self.kind,
                FaultKind::IsDirectory | FaultKind::NotDirectory | FaultKind::Link
            )
        {
            return None;
        }
        Some(match self.kind {
            FaultKind::NotFound if self.side == Side::Destination => CREATE_FIRST,
            FaultKind::NoSpace => {
                "free space at the destination, then run the same command again: finished files are skipped; 'haul clean -a DIR' on that machine removes partial files"
            }
            FaultKind::ReadOnly if self.side == Side::Source => {
                "remount the source writable: nothing can be removed from it now"
            }
            FaultKind::ReadOnly => "remount the destination writable, or choose another one",
            FaultKind::PermissionDenied => match self.side {
                Side::Source => {
                    "you need read permission there, and search permission on the directories above"
                }
                Side::Destination => {
                    "get read, write and search permission on the directory; only the owner of a file can change its mode or mtime"
                }
            },
            FaultKind::TooLong => "rename the source, or choose a file system with longer names",
            FaultKind::TooLarge if self.side == Side::Source => return None,
            FaultKind::TooLarge => "raise 'ulimit -f', or choose a file system with larger files",
            FaultKind::IsDirectory => {
                "remove or rename the directory at the destination, or copy to another name"
            }
            FaultKind::NotDirectory => "remove or rename the entry at the destination",
            FaultKind::NotRecursive => "use -r to copy directories",
            FaultKind::IntoItself => "choose a destination outside of the source",
            FaultKind::Changed => "run the same command again when nothing writes to it",
            FaultKind::Corrupt => {
                "run the same command again (the existing file is unchanged); if this happens again, check memory and disks"
            }
            FaultKind::Lossy => {
                "use --lossy to drop it, or copy with a tool that preserves it (cp -a, rsync -aHAX)"
            }
            FaultKind::Taken => "rename one of the two, or copy them to different directories",
            FaultKind::Busy => {
                "run the same command again when the other haul has ended; one without a connection ends within a minute, or after its --timeout"
            }
            FaultKind::Link => {
                "remove the symbolic link, or copy to its target: haul does not write through links"
            }
            FaultKind::ForeignLink => {
                "name the target of the link, or, if you trust all who can create links there, use --insecure-links (-M--insecure-links for the other side)"
            }
            _ => return None,
        })
    }
}

/// The hint for a fault of `path`; `is_remote`: on a host. A missing path may have been quoted for
/// a remote shell.
pub(crate) fn for_fault_at(fault: &Fault, is_remote: bool, path: &[u8]) -> Option<&'static str> {
    let is_missing = fault.side == Side::Source && fault.kind == FaultKind::NotFound;
    let for_a_shell = if is_remote && is_missing { for_shell_syntax(path) } else { None };
    for_a_shell.or_else(|| fault.hint())
}

/// The hint for a remote path with quotes, escapes or patterns for a shell.
fn for_shell_syntax(path: &[u8]) -> Option<&'static str> {
    let has = |byte: u8| path.contains(&byte);
    let has_escaped = || path.windows(2).any(|pair| matches!(pair, b"\\ " | b"\\'" | b"\\\""));
    let has_quotes = || {
        let is_between = |quote: u8| path.iter().filter(|byte| **byte == quote).count() > 1;
        is_between(b'"') || is_between(b'\'')
    };
    let has_braces = || {
        let (open, close) =
            (path.iter().position(|b| *b == b'{')?, path.iter().rposition(|b| *b == b'}')?);
        path.get(open..close).map(|inside| inside.contains(&b','))
    };
    if has_quotes() || has_escaped() {
        return Some("quote the path once, for the local shell: 'host:a b'");
    }
    if has_braces() == Some(true) {
        return Some(
            "write braces outside of quotes, for the local shell, or name each path; a host expands *, ? and [...]",
        );
    }
    has(b'$').then_some(
        "write the path without variables: no shell expands them on the host; a relative path starts in the home directory",
    )
}

#[cfg(test)]
mod messages_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use haul_net::SshTarget;
    use std::io;

    fn of(error: &ConnectError) -> String {
        error.hint().expect("a hint")
    }

    #[test]
    fn where_haul_is_missing_deploying_is_the_hint() {
        let missing = |tried: Option<&str>| ConnectError::HaulMissing {
            host: "box".into(),
            tried: tried.map(str::to_owned),
            address: "ssh://box:7".into(),
        };
        for tried in [None, Some("/opt/haul")] {
            let hint = of(&missing(tried));
            assert!(hint.contains("'haul deploy ssh://box:7'"), "{hint}");
            assert!(hint.contains("--remote-haul"), "{hint}");
        }
    }

    #[test]
    fn what_is_missing_here_or_there_is_named() {
        let start = |kind: ErrorKind| ConnectError::Start {
            host: "box".into(),
            program: "ssh".into(),
            cause: io::Error::from(kind),
        };
        assert!(of(&start(ErrorKind::NotFound)).contains("OpenSSH"));
        assert_eq!(start(ErrorKind::PermissionDenied).hint(), None);
        let missing = ConnectError::SubsystemMissing { host: "box".into(), name: "sftp" };
        assert!(of(&missing).contains("Subsystem sftp"));
        for bad in ["", "-x", "a b"] {
            assert!(SshTarget::new(None, bad).expect_err("no name").hint().is_some(), "{bad:?}");
        }
    }

    #[test]
    fn no_hint_says_that_files_are_skipped_where_all_is_done_again_or_nothing_is() {
        let lost = ConnectError::Lost { host: "box".into(), detail: String::new() };
        let silent = ConnectError::Silent { host: "box".into(), seconds: 60 };
        let full = Fault::new(Side::Destination, FaultKind::NoSpace, "full");
        let hints = [of(&lost), of(&silent), full.hint().expect("a hint").to_owned()];
        for hint in hints.iter().map(String::as_str).chain([NO_SPACE_BY_SFTP]) {
            assert!(hint.contains(FINISHED), "{hint}");
            let anew = for_full_copy(hint);
            assert!(anew.contains(COPIED_AGAIN) && !anew.contains("skipped"), "{anew}");
            assert!(!for_query(hint).contains(FINISHED), "{hint}");
        }
    }

    #[test]
    fn a_mount_point_is_not_waited_for() {
        // EBUSY.
        let busy = io::Error::from_raw_os_error(16);
        assert_eq!(Fault::from_io(Side::Source, "remove it", &busy).hint(), None);
        let own = Fault::from_io(Side::Destination, "write", &ErrorKind::ResourceBusy.into());
        assert!(own.hint().is_some_and(|hint| hint.contains("--timeout")));
    }

    #[test]
    fn signs_for_a_shell_are_spoken_of_where_nothing_has_that_name_on_a_host() {
        let missing = Fault::new(Side::Source, FaultKind::NotFound, "nothing is there");
        let hint = |path: &str| for_fault_at(&missing, true, path.as_bytes());
        for (path, said) in [
            ("\"a b\"", "quote the path once"),
            ("dir/'a b'/c", "quote the path once"),
            ("a\\ b", "quote the path once"),
            ("{a,b}", "write braces outside of quotes"),
            ("dir/{a,b}.txt", "write braces outside of quotes"),
            ("$HOME/a", "write the path without variables"),
        ] {
            assert!(hint(path).is_some_and(|hint| hint.contains(said)), "{path}");
            assert_eq!(for_fault_at(&missing, false, path.as_bytes()), None, "{path}");
            let denied = Fault::new(Side::Source, FaultKind::PermissionDenied, "no");
            assert_eq!(for_fault_at(&denied, true, path.as_bytes()), denied.hint());
        }
        for path in ["a", "it's", "{a}", "}a,b{", "{a},b", "5\"", "a\\b"] {
            assert_eq!(hint(path), None, "{path}");
        }
    }
}
