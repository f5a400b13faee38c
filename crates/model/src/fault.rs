//! The fault of one entry, in a form that is sent from the side where it occurred to the side that
//! reports it.

use crate::Kind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The role that met the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    /// Reading the source.
    Source,
    /// Writing the destination.
    Destination,
}

/// The class of a fault. It decides which hint is shown, and whether the job can continue. Its
/// serialized names are words of `--json`: renaming a variant changes that schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// No entry has this name, or it vanished.
    NotFound,
    /// The user has no permission.
    PermissionDenied,
    /// The file system, or the user's quota on it, is full.
    NoSpace,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The file system does not accept such a long name.
    TooLong,
    /// A directory exists where something else must be written.
    IsDirectory,
    /// Something else exists where a directory is needed.
    NotDirectory,
    /// A directory was given without the option to recurse.
    NotRecursive,
    /// Source and destination are the same file.
    SameFile,
    /// A directory would be copied into itself.
    IntoItself,
    /// The source changed while it was read.
    Changed,
    /// The received content differs from the sent content.
    Corrupt,
    /// A symbolic link must not be followed, or links form a loop.
    Link,
    /// Another process is writing the same file.
    Busy,
    /// A FIFO, socket or device.
    Special,
    /// The directory above could not be created or read, which was reported for itself.
    Parent,
    /// Another error of the operating system.
    Io,
    /// A move would lose attributes that haul does not keep.
    Lossy,
    /// Another entry of the job has the same name at the destination.
    Taken,
    /// A path that the user named has a symbolic link of another user in it.
    ForeignLink,
    /// The file system, or the user's limit, does not accept such a large file.
    TooLarge,
}

/// The failure of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The role that met it.
    pub side: Side,
    /// Its class.
    pub kind: FaultKind,
    /// The operation and the error, without the path: "can't open: Permission denied". Escape it
    /// before printing if it came from a peer.
    pub message: String,
}

impl Fault {
    /// A fault with its message.
    pub fn new(side: Side, kind: FaultKind, message: impl Into<String>) -> Self {
        Self { side, kind, message: message.into() }
    }

    /// The fault of a named entry that does not exist.
    pub fn missing(side: Side) -> Self {
        Self::new(side, FaultKind::NotFound, MISSING)
    }

    /// The fault of a link that would replace the file or directory that it points to.
    pub fn of_link_to_itself() -> Self {
        let message = "the link points to the file or directory that it would replace";
        Self::new(Side::Destination, FaultKind::SameFile, message)
    }

    /// The fault for an error of the operating system in the operation `action` ("open", "rename").
    /// If the error contains a fault, its kind and message are kept.
    pub fn from_io(side: Side, action: &str, error: &std::io::Error) -> Self {
        if let Some(fault) = error.get_ref().and_then(|error| error.downcast_ref::<Self>()) {
            return Self { side, ..fault.clone() };
        }
        if side == Side::Source && FaultKind::of(error) == FaultKind::NotFound {
            return Self::missing(side);
        }
        let text = os_text(error);
        let cause = if is_mounted(error) { ": a file system may be mounted on it" } else { "" };
        Self::new(side, FaultKind::of(error), format!("can't {action}: {text}{cause}"))
    }

    /// The fault with a message of bounded length, to pass on a fault from a peer.
    #[must_use]
    pub fn clipped(mut self) -> Self {
        let end = self.message.floor_char_boundary(MESSAGE_LEN_MAX);
        self.message.truncate(end);
        self
    }

    /// True if further entries must fail as well: the destination accepts nothing more.
    pub fn ends_the_job(&self) -> bool {
        self.side == Side::Destination
            && matches!(self.kind, FaultKind::NoSpace | FaultKind::ReadOnly)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// The error of an entry in a directory that could not be created. The fault of the directory has
/// the reason.
#[derive(Debug, thiserror::Error)]
#[error("the directory above it failed")]
pub struct ParentFailed;

/// The error of a path that the user named and that has a link of another user in it. The field is
/// the name of the link.
#[derive(Debug, thiserror::Error)]
#[error("{0} is a symbolic link of another user, and could point anywhere")]
pub struct ForeignLink(pub String);

impl FaultKind {
    /// The class of an operating system error.
    pub fn of(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        match error.kind() {
            E::NotFound => Self::NotFound,
            E::PermissionDenied => Self::PermissionDenied,
            E::StorageFull | E::QuotaExceeded => Self::NoSpace,
            E::ReadOnlyFilesystem => Self::ReadOnly,
            E::ResourceBusy if !is_mounted(error) => Self::Busy,
            E::InvalidFilename => Self::TooLong,
            E::FileTooLarge => Self::TooLarge,
            E::IsADirectory => Self::IsDirectory,
            E::NotADirectory => Self::NotDirectory,
            _ if error.raw_os_error() == Some(ELOOP) => Self::Link,
            _ if error.get_ref().is_some_and(|error| error.is::<ParentFailed>()) => Self::Parent,
            _ if error.get_ref().is_some_and(|error| error.is::<ForeignLink>()) => {
                Self::ForeignLink
            }
            _ => Self::Io,
        }
    }

    /// The kind of an entry that could not be listed because of this fault. An entry that could not
    /// be inspected may be of any kind, and counts as special.
    pub fn listed_kind(self) -> Kind {
        if self == Self::NotRecursive { Kind::Dir } else { Kind::Special }
    }
}

/// The message about a missing source, whatever the operation was.
const MISSING: &str = "no such file or directory";

/// Maximum length of a message that is passed on, in bytes.
const MESSAGE_LEN_MAX: usize = 512;

/// `ELOOP`: a symbolic link where none may be followed. The standard library has no stable name for
/// it.
const ELOOP: i32 = if cfg!(target_os = "macos") { 62 } else { 40 };

/// True if the system refuses to move or remove an entry because it is in use, most often by a
/// mount. haul's own error for a file that another process writes has no number.
pub fn is_mounted(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ResourceBusy && error.raw_os_error().is_some()
}

/// True if nothing is at a path, or an entry in the path is not a directory.
pub fn is_missing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as E;
    matches!(error.kind(), E::NotFound | E::NotADirectory)
}

/// The system's text for an error, without the number that Rust appends. An error of Rust's library
/// is described by its kind.
pub fn os_text(error: &std::io::Error) -> String {
    use std::io::ErrorKind as E;
    if error.raw_os_error().is_none() && error.get_ref().is_none() {
        return match error.kind() {
            E::WriteZero => "no more could be written".to_owned(),
            kind => kind.to_string(),
        };
    }
    let text = error.to_string();
    let Some((before, number)) = text.split_once(" (os error ") else { return text };
    let after = number.split_once(')').map_or("", |(_, after)| after);
    [before, after].concat()
}

/// Makes the error of a side the fault of an entry.
pub trait OrFault<T> {
    /// The result, with the fault of `side` for its error: "can't `action`: ...".
    ///
    /// # Errors
    /// See [`Fault::from_io`].
    fn or_fault(self, side: Side, action: &str) -> Result<T, Fault>;
}

impl<T> OrFault<T> for std::io::Result<T> {
    fn or_fault(self, side: Side, action: &str) -> Result<T, Fault> {
        self.map_err(|error| Fault::from_io(side, action, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_os_error_keeps_its_words_and_loses_its_number() {
        let fault = Fault::from_io(Side::Source, "open", &std::io::Error::from_raw_os_error(13));
        assert_eq!(fault.to_string(), "can't open: Permission denied");
        assert_eq!(fault.kind, FaultKind::PermissionDenied);
    }

    #[test]
    fn no_sentence_of_the_library_is_shown() {
        use std::io::{Read, Write};
        let short = (&b"x"[..]).read_exact(&mut [0; 2]).expect_err("too short");
        assert_eq!(os_text(&short), "unexpected end of file");
        let full = (&mut [0; 1][..]).write_all(b"xy").expect_err("too long");
        assert_eq!(os_text(&full), "no more could be written");
        assert_eq!(os_text(&std::io::Error::other("our own words")), "our own words");
    }

    #[test]
    fn what_is_a_fault_already_keeps_its_kind_and_its_words() {
        // ENOSPC.
        let full = std::io::Error::from_raw_os_error(28);
        let fault = Fault::from_io(Side::Destination, "back it up", &full);
        let passed_on = std::io::Error::other(fault.clone());
        assert_eq!(Fault::from_io(Side::Destination, "replace", &passed_on), fault);
        assert!(fault.ends_the_job());
    }

    #[test]
    fn a_mount_point_is_not_taken_for_a_file_that_another_haul_writes() {
        // EBUSY.
        let busy = std::io::Error::from_raw_os_error(16);
        let fault = Fault::from_io(Side::Source, "remove it", &busy);
        assert_eq!(fault.kind, FaultKind::Io);
        assert!(fault.message.ends_with(": a file system may be mounted on it"), "{fault}");
        let own = std::io::ErrorKind::ResourceBusy.into();
        assert_eq!(Fault::from_io(Side::Destination, "write", &own).kind, FaultKind::Busy);
    }

    #[test]
    fn a_way_over_a_file_leads_nowhere_and_a_closed_one_may_lead_on() {
        // ENOENT, ENOTDIR, EACCES, ELOOP.
        let missing =
            [2, 20, 13, ELOOP].map(|number| is_missing(&std::io::Error::from_raw_os_error(number)));
        assert_eq!(missing, [true, true, false, false]);
    }

    #[test]
    fn what_is_in_a_directory_that_failed_has_failed_with_it() {
        let error = std::io::Error::other(ParentFailed);
        assert_eq!(Fault::from_io(Side::Destination, "make it", &error).kind, FaultKind::Parent);
        let other = std::io::Error::other("the directory above it failed");
        assert_eq!(FaultKind::of(&other), FaultKind::Io);
    }

    #[test]
    fn only_a_full_or_read_only_destination_ends_the_job() {
        let full = std::io::Error::from_raw_os_error(28);
        assert!(Fault::from_io(Side::Destination, "write", &full).ends_the_job());
        assert!(!Fault::from_io(Side::Source, "read", &full).ends_the_job());
        let denied = std::io::Error::from_raw_os_error(13);
        assert!(!Fault::from_io(Side::Destination, "write", &denied).ends_the_job());
    }

    #[test]
    fn each_error_of_the_system_has_its_class() {
        use std::io::{Error, ErrorKind as E};
        for (kind, class) in [
            (E::NotFound, FaultKind::NotFound),
            (E::PermissionDenied, FaultKind::PermissionDenied),
            (E::StorageFull, FaultKind::NoSpace),
            (E::QuotaExceeded, FaultKind::NoSpace),
            (E::ReadOnlyFilesystem, FaultKind::ReadOnly),
            (E::ResourceBusy, FaultKind::Busy),
            (E::InvalidFilename, FaultKind::TooLong),
            (E::FileTooLarge, FaultKind::TooLarge),
            (E::IsADirectory, FaultKind::IsDirectory),
            (E::NotADirectory, FaultKind::NotDirectory),
            (E::BrokenPipe, FaultKind::Io),
        ] {
            assert_eq!(FaultKind::of(&kind.into()), class, "{kind:?}");
        }
        assert_eq!(FaultKind::of(&Error::from_raw_os_error(ELOOP)), FaultKind::Link);
        let foreign = Error::other(ForeignLink("a".into()));
        assert_eq!(FaultKind::of(&foreign), FaultKind::ForeignLink);
    }

    #[test]
    fn a_missing_source_is_reported_in_the_same_words_whatever_was_tried() {
        let missing = std::io::Error::from_raw_os_error(2);
        let fault = Fault::from_io(Side::Source, "open", &missing);
        assert_eq!(fault, Fault::missing(Side::Source));
        assert_eq!(fault.message, MISSING);
        let there = Fault::from_io(Side::Destination, "open it", &missing);
        assert!(there.message.starts_with("can't open it: "), "{there}");
        assert_eq!(there.kind, FaultKind::NotFound);
    }

    #[test]
    fn only_the_number_is_removed_from_the_text_of_the_system() {
        let full = std::io::Error::from_raw_os_error(28);
        let wrapped = std::io::Error::other(format!("{full}; it is partly written"));
        assert_eq!(os_text(&wrapped), os_text(&full) + "; it is partly written");
        assert!(!os_text(&full).contains("os error"), "{full}");
    }

    #[test]
    fn a_message_is_cut_between_two_characters() {
        let clipped = |message: &str| {
            Fault::new(Side::Source, FaultKind::Io, message).clipped().message.len()
        };
        let long = "x".repeat(MESSAGE_LEN_MAX - 1);
        assert_eq!(clipped(&long), MESSAGE_LEN_MAX - 1);
        assert_eq!(clipped(&(long.clone() + "yz")), MESSAGE_LEN_MAX);
        assert_eq!(clipped(&(long + "\u{e9}")), MESSAGE_LEN_MAX - 1);
        let fault = Fault::of_link_to_itself();
        assert_eq!((fault.side, fault.kind), (Side::Destination, FaultKind::SameFile));
    }
}
