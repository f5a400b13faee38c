//! The options of rsync that `haul sync` does not have.

use crate::error::CommandError;
#[derive(Debug)]
pub(super) struct Unsupported {
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) takes_value: bool,
    /// The hint.
    pub(super) alternative: &'static str,
}

impl Unsupported {
    pub(super) fn to_error(&self) -> CommandError {
        let short = self.short.map(|short| format!(" (-{short})")).unwrap_or_default();
        CommandError::usage(format!("'haul sync' has no --{}{short}", self.long))
            .with_hint(self.alternative)
    }
}

/// The hint for `word`, if it is one of these options.
pub(in super::super) fn alternative(word: &str) -> Option<&'static str> {
    let is_it = |unsupported: &&Unsupported| match word.strip_prefix("--") {
        Some(long) => unsupported.long == long,
        None => unsupported.short.is_some_and(|short| word == format!("-{short}")),
    };
    UNSUPPORTED.iter().find(is_it).map(|unsupported| unsupported.alternative)
}

const fn unsupported(
    long: &'static str,
    short: Option<char>,
    alternative: &'static str,
) -> Unsupported {
    Unsupported { long, short, takes_value: false, alternative }
}

const fn unsupported_value(long: &'static str, alternative: &'static str) -> Unsupported {
    Unsupported { takes_value: true, ..unsupported(long, None, alternative) }
}

const NO_DAEMON: &str = "haul does not connect to rsync daemons";
const AUTOMATIC: &str = "haul chooses this by itself: leave it out";
const ALWAYS_BLAKE3: &str = "haul verifies with BLAKE3: leave it out";
const NO_BATCHES: &str = "haul does not write or read rsync batches";
const NO_DEVICES: &str = "haul copies devices as devices (--devices), not their content";

/// The options of rsync that haul does not have.
pub(super) const UNSUPPORTED: &[Unsupported] = &[
    unsupported("crtimes", Some('N'), "this system can't set creation times"),
    unsupported_value("iconv", "haul copies names byte by byte: leave it out"),
    unsupported_value("password-file", NO_DAEMON),
    unsupported_value("address", NO_DAEMON),
    unsupported_value("port", "use -e 'ssh -p PORT'"),
    unsupported_value("sockopts", NO_DAEMON),
    unsupported_value("config", NO_DAEMON),
    unsupported_value("dparam", NO_DAEMON),
    unsupported_value("early-input", NO_DAEMON),
    unsupported("daemon", None, NO_DAEMON),
    unsupported("no-detach", None, NO_DAEMON),
    unsupported("no-motd", None, NO_DAEMON),
    unsupported("ipv4", Some('4'), "use -e 'ssh -4', or ssh_config"),
    unsupported("ipv6", Some('6'), "use -e 'ssh -6', or ssh_config"),
    unsupported("blocking-io", None, AUTOMATIC),
    unsupported_value("checksum-seed", ALWAYS_BLAKE3),
    unsupported_value("compress-threads", AUTOMATIC),
    unsupported_value("zt", AUTOMATIC),
    unsupported("old-compress", None, AUTOMATIC),
    unsupported("new-compress", None, AUTOMATIC),
    unsupported_value("write-batch", NO_BATCHES),
    unsupported_value("only-write-batch", NO_BATCHES),
    unsupported_value("read-batch", NO_BATCHES),
    unsupported("copy-devices", None, NO_DEVICES),
    unsupported("write-devices", None, NO_DEVICES),
    unsupported("drop-D", None, "use --no-D"),
    unsupported_value("copy-as", "run haul as that user, with sudo or -e 'ssh -l USER'"),
    unsupported_value("confine-root", "restrict the key with 'haul serve --root DIR'"),
    unsupported("trust-sender", None, "haul trusts no peer: leave it out"),
    unsupported("old-dirs", None, "use --dirs (-d)"),
    unsupported("old-d", None, "use --dirs (-d)"),
    unsupported("msgs2stderr", None, "leave it out: errors go to standard error"),
    unsupported("no-msgs2stderr", None, "leave it out: errors go to standard error"),
    unsupported_value("stderr", "errors go to standard error: redirect it in the shell"),
];
