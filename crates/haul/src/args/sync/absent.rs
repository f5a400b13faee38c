//! The words of rsync that `haul sync` has not.

use crate::error::CommandError;
/// A word of rsync that haul has not.
#[derive(Debug)]
pub(super) struct Absent {
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) takes_value: bool,
    /// Advice.
    pub(super) instead: &'static str,
}

impl Absent {
    /// The error.
    pub(super) fn refused(&self) -> CommandError {
        let short = self.short.map(|short| format!(" (-{short})")).unwrap_or_default();
        CommandError::usage(format!("'haul sync' has no --{}{short}", self.long))
            .with_hint(self.instead)
    }
}

const fn absent(long: &'static str, short: Option<char>, instead: &'static str) -> Absent {
    Absent { long, short, takes_value: false, instead }
}

const fn absent_value(long: &'static str, instead: &'static str) -> Absent {
    Absent { takes_value: true, ..absent(long, None, instead) }
}

const OF_DAEMON: &str = "it is for rsync's daemon, which haul does not reach";
const OF_WIRE: &str = "between two hauls there is nothing to choose here";
const OF_HASHES: &str = "haul verifies by BLAKE3";
const OF_BATCHES: &str = "haul writes and reads no batches of rsync's";
const NO_DEVICES: &str = "haul copies devices as devices (--devices), never their content";

/// The words of rsync that haul has not, each told as that.
pub(super) const ABSENT: &[Absent] = &[
    absent("crtimes", Some('N'), "this system lets nobody set them, as rsync says here, too"),
    absent_value("iconv", "names are bytes, and stay as they are"),
    absent_value("password-file", OF_DAEMON),
    absent_value("address", OF_DAEMON),
    absent_value("port", "ssh is told that: -e 'ssh -p PORT'"),
    absent_value("sockopts", OF_DAEMON),
    absent_value("config", OF_DAEMON),
    absent_value("dparam", OF_DAEMON),
    absent_value("early-input", OF_DAEMON),
    absent("daemon", None, OF_DAEMON),
    absent("no-detach", None, OF_DAEMON),
    absent("no-motd", None, OF_DAEMON),
    absent("ipv4", Some('4'), "ssh is told that: -e 'ssh -4', or a line in its configuration"),
    absent("ipv6", Some('6'), "ssh is told that: -e 'ssh -6', or a line in its configuration"),
    absent("blocking-io", None, OF_WIRE),
    absent_value("checksum-seed", OF_HASHES),
    absent_value("compress-threads", OF_WIRE),
    absent_value("zt", OF_WIRE),
    absent("old-compress", None, OF_WIRE),
    absent("new-compress", None, OF_WIRE),
    absent_value("write-batch", OF_BATCHES),
    absent_value("only-write-batch", OF_BATCHES),
    absent_value("read-batch", OF_BATCHES),
    absent("copy-devices", None, NO_DEVICES),
    absent("write-devices", None, NO_DEVICES),
    absent("drop-D", None, "--no-D leaves them out"),
    absent_value("copy-as", "run haul as that user: -e 'ssh -l USER', or sudo"),
    absent_value("confine-root", "a key is kept below a directory by haul serve --root"),
    absent("trust-sender", None, "no other side is trusted"),
    absent("old-dirs", None, "--dirs (-d) is meant"),
    absent("old-d", None, "--dirs (-d) is meant"),
    absent_value("stderr", "errors go to standard error, and lines to standard output"),
];
