//! The words of rsync that `haul sync` has not.

use crate::error::CommandError;
use haul_model::escape_bytes;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Refuses a path that means a daemon of rsync's: `rsync://host/module`, `host::module`.
pub(super) fn refuse_daemon(paths: &[OsString]) -> Result<(), CommandError> {
    for path in paths {
        let bytes = path.as_bytes();
        let host = &bytes[..bytes.iter().position(|byte| *byte == b'/').unwrap_or(bytes.len())];
        let has_module = host.windows(2).any(|two| two == b"::") && !host.contains(&b'[');
        if bytes.starts_with(b"rsync://") || has_module {
            let message = format!("{}: haul reaches no daemon of rsync's", escape_bytes(bytes));
            let hint = "name a path of the host, HOST:PATH, which goes through ssh; a path here that looks like this begins with \"./\"";
            return Err(CommandError::usage(message).with_hint(hint));
        }
    }
    Ok(())
}

/// A word of rsync that haul has not.
pub(super) struct Absent {
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) takes_value: bool,
    /// Advice.
    pub(super) instead: &'static str,
}

const LATER: &str = "it is not there yet";

const fn absent(long: &'static str, short: Option<char>) -> Absent {
    Absent { long, short, takes_value: false, instead: LATER }
}

const fn absent_value(long: &'static str, short: Option<char>) -> Absent {
    Absent { takes_value: true, ..absent(long, short) }
}

/// The words of rsync that haul has not, each told as that.
pub(super) const ABSENT: &[Absent] = &[
    absent("crtimes", Some('N')),
    absent("fake-super", None),
    absent_value("iconv", None),
    absent_value("password-file", None),
];
