//! The words of rsync that `haul sync` has not.

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
    absent("relative", Some('R')),
    absent("no-implied-dirs", None),
    absent("dirs", Some('d')),
    absent("one-file-system", Some('x')),
    absent("prune-empty-dirs", Some('m')),
    absent_value("files-from", None),
    absent("from0", Some('0')),
    absent_value("filter", Some('f')),
    absent("F", Some('F')),
    absent("cvs-exclude", Some('C')),
    absent("checksum", Some('c')),
    absent("copy-dirlinks", Some('k')),
    absent("keep-dirlinks", Some('K')),
    absent("safe-links", None),
    absent("copy-unsafe-links", None),
    absent("munge-links", None),
    absent("executability", Some('E')),
    absent("crtimes", Some('N')),
    absent_value("usermap", None),
    absent_value("groupmap", None),
    absent_value("chown", None),
    absent_value("chmod", None),
    absent("hard-links", Some('H')),
    absent("fake-super", None),
    absent("delete-missing-args", None),
    absent("ignore-missing-args", None),
    absent("inplace", None),
    absent("append", None),
    absent("append-verify", None),
    absent_value("partial-dir", None),
    absent_value("temp-dir", Some('T')),
    absent("delay-updates", None),
    absent("backup", Some('b')),
    absent_value("backup-dir", None),
    absent_value("suffix", None),
    absent_value("link-dest", None),
    absent_value("copy-dest", None),
    absent_value("compare-dest", None),
    absent("fuzzy", Some('y')),
    absent("remove-source-files", None),
    absent("preallocate", None),
    absent_value("log-file", None),
    absent_value("log-file-format", None),
    absent("list-only", None),
    absent_value("debug", None),
    absent_value("contimeout", None),
    absent_value("bwlimit", None),
    absent_value("iconv", None),
    absent_value("password-file", None),
];
