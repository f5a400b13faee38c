//! The options of rsync that `haul sync` does not have.

use crate::error::CommandError;
#[derive(Debug)]
pub(super) struct Absent {
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) takes_value: bool,
    /// The hint.
    pub(super) instead: &'static str,
}

impl Absent {
    pub(super) fn refused(&self) -> CommandError {
        let short = self.short.map(|short| format!(" (-{short})")).unwrap_or_default();
        CommandError::usage(format!("'haul sync' has no --{}{short}", self.long))
            .with_hint(self.instead)
    }
}

/// The hint for `word`, if it is one of these options.
pub(in super::super) fn instead(word: &str) -> Option<&'static str> {
    let is_it = |absent: &&Absent| match word.strip_prefix("--") {
        Some(long) => absent.long == long,
        None => absent.short.is_some_and(|short| word == format!("-{short}")),
    };
    ABSENT.iter().find(is_it).map(|absent| absent.instead)
}

const fn absent(long: &'static str, short: Option<char>, instead: &'static str) -> Absent {
    Absent { long, short, takes_value: false, instead }
}

const fn absent_value(long: &'static str, instead: &'static str) -> Absent {
    Absent { takes_value: true, ..absent(long, None, instead) }
}

const OF_DAEMON: &str = "haul does not connect to rsync daemons";
const OF_WIRE: &str = "haul chooses this by itself: leave it out";
const OF_HASHES: &str = "haul verifies with BLAKE3: leave it out";
const OF_BATCHES: &str = "haul does not write or read rsync batches";
const NO_DEVICES: &str = "haul copies devices as devices (--devices), not their content";

/// The options of rsync that haul does not have.
pub(super) const ABSENT: &[Absent] = &[
    absent("crtimes", Some('N'), "this system can't set creation times"),
    absent_value("iconv", "haul copies names byte by byte: leave it out"),
    absent_value("password-file", OF_DAEMON),
    absent_value("address", OF_DAEMON),
    absent_value("port", "use -e 'ssh -p PORT'"),
    absent_value("sockopts", OF_DAEMON),
    absent_value("config", OF_DAEMON),
    absent_value("dparam", OF_DAEMON),
    absent_value("early-input", OF_DAEMON),
    absent("daemon", None, OF_DAEMON),
    absent("no-detach", None, OF_DAEMON),
    absent("no-motd", None, OF_DAEMON),
    absent("ipv4", Some('4'), "use -e 'ssh -4', or ssh_config"),
    absent("ipv6", Some('6'), "use -e 'ssh -6', or ssh_config"),
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
    absent("drop-D", None, "use --no-D"),
    absent_value("copy-as", "run haul as that user, with sudo or -e 'ssh -l USER'"),
    absent_value("confine-root", "restrict the key with 'haul serve --root DIR'"),
    absent("trust-sender", None, "haul trusts no peer: leave it out"),
    absent("old-dirs", None, "use --dirs (-d)"),
    absent("old-d", None, "use --dirs (-d)"),
    absent("msgs2stderr", None, "leave it out: errors go to standard error"),
    absent("no-msgs2stderr", None, "leave it out: errors go to standard error"),
    absent_value("stderr", "errors go to standard error: redirect it in the shell"),
];
