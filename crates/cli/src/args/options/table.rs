//! The help texts of all options, in the order of the help.

use super::Text;

const COPIES: &[&str] = &["copy", "move"];
const SYNC: &[&str] = &["sync"];
const MOVE: &[&str] = &["move"];
const CHECK: &[&str] = &["check"];

/// The options that `-h` shows for commands with many options.
pub(super) const COMMON: &[(&str, &[&str])] = &[
    (
        "copy",
        &[
            "recursive",
            "dereference",
            "exclude",
            "force",
            "no-clobber",
            "update",
            "archive",
            "dry-run",
            "verify",
            "sync",
            "rsh",
            "parallel",
            "bwlimit",
            "quiet",
            "verbose",
        ],
    ),
    (
        "move",
        &[
            "force",
            "no-clobber",
            "update",
            "verify",
            "lossy",
            "rsh",
            "parallel",
            "bwlimit",
            "quiet",
            "verbose",
            "json",
        ],
    ),
    (
        "check",
        &[
            "recursive",
            "dereference",
            "content",
            "exclude",
            "archive",
            "rsh",
            "quiet",
            "verbose",
            "json",
        ],
    ),
    (
        "sync",
        &[
            "archive",
            "recursive",
            "one-file-system",
            "exclude",
            "update",
            "checksum",
            "hard-links",
            "acls",
            "xattrs",
            "dry-run",
            "backup",
            "link-dest",
            "mkpath",
            "delete",
            "max-delete",
            "rsh",
            "bwlimit",
            "itemize-changes",
            "verbose",
            "stats",
        ],
    ),
];

/// The texts, by heading.
pub(super) const SECTIONS: &[(&str, &[Text])] = &[
    ("Selection", SELECTION),
    ("Comparison", COMPARISON),
    ("Attributes", ATTRIBUTES),
    ("Writing", WRITING),
    ("Deletion", DELETION),
    ("Connection", CONNECTION),
    ("Output", OUTPUT),
];

const SELECTION: &[Text] = &[
    Text::new("recursive", "Recurse into directories"),
    Text::new("dereference", "Follow symbolic links")
        .more("Without -r, copy and check follow a link that is named. With -r, links stay links."),
    Text::new("P", "Copy symbolic links as links")
        .of(&["copy", "check"])
        .more("This is -P of cp. Resuming and progress, for which rsync has -P, need no option."),
    Text::new("to-all", "Copy local SOURCEs to several DESTs, from the first host:path on"),
    Text::new("links", "Copy symbolic links as links (else skip them)"),
    Text::new("copy-links", "Follow symbolic links"),
    Text::new("copy-unsafe-links", "Follow symbolic links that point outside the tree"),
    Text::new("copy-dirlinks", "Follow symbolic links to directories"),
    Text::new("keep-dirlinks", "Treat a symlinked directory in DEST as a directory"),
    Text::new("safe-links", "Skip symbolic links that point outside the tree"),
    Text::new("munge-links", "Make symbolic links from a host unusable; undo it elsewhere"),
    Text::new("insecure-links", "Follow links of other users in the paths of the command"),
    Text::new("dirs", "Copy directories without recursing"),
    Text::new("relative", "Keep the paths of sources below DEST; a/./b/c keeps b/c"),
    Text::new("no-implied-dirs", "Skip the attributes of implied directories"),
    Text::new("one-file-system", "Stay on one file system; twice: skip mount points too"),
    Text::new("prune-empty-dirs", "Skip chains of empty directories"),
    Text::new("exclude", "Exclude what matches PATTERN: '*.o', 'cache/', '/top/only'")
        .more("Patterns have the syntax of rsync. The first pattern that matches decides."),
    Text::new("include", "Include what matches PATTERN; the first match decides"),
    Text::new("exclude-from", "Read exclude patterns from FILE, one per line"),
    Text::new("include-from", "Read include patterns from FILE, one per line"),
    Text::new("filter", "Add a filter rule: '- *.o', 'protect keep', 'merge FILE', ': .rules'"),
    Text::new("F", "Read rules from .rsync-filter files; twice: exclude these files too"),
    Text::new("cvs-exclude", "Exclude what CVS ignores, also by .cvsignore"),
    Text::new("files-from", "Read the paths of sources from FILE, one per line (-: stdin)")
        .more("They are below SOURCE. Implies -R and -d; -a does not imply -r then."),
    Text::new("from0", "Read NUL-terminated rules and paths from files"),
    Text::new("ignore-missing-args", "Ignore missing sources"),
    Text::new("delete-missing-args", "Remove the destinations of missing sources"),
    Text::new("existing", "Skip files that are missing in DEST"),
    Text::new("ignore-existing", "Skip files that exist in DEST"),
    Text::new("min-size", "Skip files smaller than SIZE"),
    Text::new("max-size", "Skip files larger than SIZE"),
    Text::new("all", "Remove partial files that can be resumed, too"),
];

const COMPARISON: &[Text] = &[
    Text::new("force", "Replace files even if size and mtime match").of(COPIES),
    Text::new("no-clobber", "Skip files that exist in DEST; their sources stay").of(MOVE),
    Text::new("no-clobber", "Skip files that exist in DEST"),
    Text::new("update", "Replace only files that are older in DEST").of(COPIES),
    Text::new("update", "Skip files that are newer in DEST"),
    Text::new("content", "Compare contents by their BLAKE3 hashes"),
    Text::new("ignore-times", "Copy files even if size and mtime match"),
    Text::new("size-only", "Skip files that match in size"),
    Text::new("checksum", "Skip files that match in size and content (both sides read them)"),
    Text::new("modify-window", "Accept mtimes up to SECONDS apart; -1: compare nanoseconds"),
    Text::new("whole-file", "Send changed files whole, without delta"),
    Text::new("block-size", "Find deltas by blocks of SIZE bytes"),
    Text::new("fuzzy", "Send a missing file as a delta against a similar name"),
    Text::new("compare-dest", "Skip files that match in DIR, on DEST's machine"),
    Text::new("copy-dest", "Copy matching files from DIR, on DEST's machine"),
    Text::new("link-dest", "Hard-link matching files to DIR, on DEST's machine"),
];

const ATTRIBUTES: &[Text] = &[
    Text::new("archive", "Recurse, and preserve attributes: -rlptgoD").of(SYNC),
    Text::new("archive", "Recurse, and preserve all but access times").more(
        "The same as -r --owner --group -A -X -H --devices --specials; also preserves the times \
         of links. Modes and mtimes are always preserved.",
    ),
    Text::new("p", "Preserve modes and times (always on)"),
    Text::new("perms", "Preserve permissions"),
    Text::new("executability", "Preserve executability (without -p)"),
    Text::new("chmod", "Change modes: 'Du=rwx,Fgo-w'"),
    Text::new("times", "Preserve mtimes"),
    Text::new("atimes", "Preserve access times"),
    Text::new("open-noatime", "Leave access times of sources unchanged, where permitted"),
    Text::new("omit-dir-times", "Omit directories from --times"),
    Text::new("omit-link-times", "Omit symbolic links from --times"),
    Text::new("owner", "Preserve owners and set-ID bits (needs root)").of(&["copy", "check"]),
    Text::new("owner", "Preserve owners (needs root)"),
    Text::new("group", "Preserve groups and set-ID bits")
        .of(&["copy", "check"])
        .more("Without root: the groups that the user is in."),
    Text::new("group", "Preserve groups").more("Without root: the groups that the user is in."),
    Text::new("chown", "Set owner and group of all entries"),
    Text::new("usermap", "Map users: names, numbers or patterns"),
    Text::new("groupmap", "Map groups: names, numbers or patterns"),
    Text::new("numeric-ids", "Keep the numbers of users and groups, not their names"),
    Text::new("acls", "Preserve access control lists").more("In haul sync it implies -p."),
    Text::new("xattrs", "Preserve extended attributes")
        .more("Attributes of the user namespace; with root, attributes of the system too."),
    Text::new("hard-links", "Preserve hard links"),
    Text::new("devices", "Preserve device files (needs root)"),
    Text::new("specials", "Preserve FIFOs and sockets"),
    Text::new("D", "Preserve device files, FIFOs and sockets"),
    Text::new("sparse", "Make holes of runs of zeros; source holes are always kept"),
    Text::new("fake-super", "Store privileged attributes in extended attributes"),
    Text::new("super", "Act as root where possible (--no-super: no owners, no devices)"),
    Text::new("remote-option", "Send WORD to the other side, such as --fake-super")
        .more("WORD is --fake-super, --super or --insecure-links."),
    Text::new("lossy", "Move what DEST can't hold whole, without the rest").more(
        "An owner or an attribute that DEST can't hold is dropped, and hard links become \
         separate files. Without this option such entries stay.",
    ),
];

const WRITING: &[Text] = &[
    Text::new("dry-run", "Show what would be done, and change nothing"),
    Text::new("strict", "Re-read all partial data before resuming"),
    Text::new("no-resume", "Restart interrupted files, and leave nothing to resume"),
    Text::new("partial", "Keep partial files (always on)"),
    Text::new("partial-dir", "Keep partial files as --partial does; exclude DIR"),
    Text::new("P", "Select --partial --progress").of(SYNC),
    Text::new("verify", "Read each file back from the disk before renaming it into place"),
    Text::new("sync", "Flush everything to stable storage before exiting"),
    Text::new("fsync", "Flush everything to stable storage before exiting"),
    Text::new(
        "strict-source",
        "Fail files that change while they are read, even if they only grow",
    ),
    Text::new("fast", "Send contents unhashed; rely on TLS or ssh, and resume nothing")
        .more("Changed files are sent whole."),
    Text::new("checksum-choice", "Verify contents: always BLAKE3, or none (as --fast)"),
    Text::new("backup", "Back up what is replaced or removed"),
    Text::new("backup-dir", "Make backups in DIR, on DEST's machine"),
    Text::new("suffix", "Set the suffix of backups (default: ~, none with --backup-dir)"),
    Text::new("mkpath", "Create missing parents of DEST"),
    Text::new("preallocate", "Allocate space for each file before writing it"),
    Text::new("delay-updates", "Rename all files into place at the end"),
    Text::new("temp-dir", "Create temporary files in DIR, on DEST's machine"),
    Text::new("inplace", "Update files in place, and with them their hard links"),
    Text::new("append", "Append to files that are shorter, and skip others"),
    Text::new("append-verify", "Do the same as --append"),
    Text::new("stop-after", "Stop after MINUTES"),
    Text::new("stop-at", "Stop at TIME: 2030-12-31T23:59, 12-31, 14:00 or :30"),
    Text::new("binary", "Install the haul at PATH instead of this one"),
    Text::new("remove", "Remove haul from the host"),
    Text::new("root", "Restrict the client to DIR"),
    Text::new("read-only", "Refuse all changes"),
    Text::new("name", "Name the client NAME"),
    Text::new("run-as", "Run the client's jobs as USER; needed on a server of root"),
    Text::new("listen", "Listen on ADDRESS, not on those of server.toml"),
    Text::new("address", "Have the guest call ADDRESS"),
    Text::new("host", "Store the server as HOST, not as its first address"),
    Text::new("user", "Install a service of this user, not of the system"),
];

const DELETION: &[Text] = &[
    Text::new("delete", "Remove extraneous entries from DEST's directories"),
    Text::new("delete-before", "Remove them before the copy"),
    Text::new("delete-during", "Remove them during the copy"),
    Text::new("delete-after", "Remove them after the copy"),
    Text::new("delete-delay", "Remove them after the copy"),
    Text::new("delete-excluded", "Remove excluded entries, too"),
    Text::new("max-delete", "Remove at most N entries"),
    Text::new("ignore-errors", "Remove even if some sources could not be read"),
    Text::new("force", "Remove non-empty directories that block other entries").of(SYNC),
    Text::new("no-moves", "Send large renamed files instead of renaming them in DEST"),
    Text::new("remove-source-files", "Remove source files, not directories, that have arrived"),
    Text::new("yes", "Install and start what is needed without a question").of(&["enroll"]),
    Text::new("yes", "Skip the question before most of DEST is removed"),
];

const CONNECTION: &[Text] = &[
    Text::new("rsh", "Run COMMAND instead of ssh to connect"),
    Text::new("remote-haul", "Run the haul at PATH on the host"),
    Text::new("rsync-path", "Run the haul at PATH on the host"),
    Text::new("deploy", "Install haul on the host first if it has none"),
    Text::new("transport", "Use the host's haul, or its SFTP server"),
    Text::new("timeout", "Fail if the host is silent for SECONDS; 0: never [default: 15]"),
    Text::new("retries", "Reconnect up to N times after a lost connection [default: 14]"),
    Text::new("keep", "Keep the ssh connection open afterwards, for 10m or TIME")
        .more("TIME has a unit: s, m or h. The next command to the same host then needs no login."),
    Text::new("parallel", "Use up to N connections for file contents [default: auto]")
        .more("They are direct connections, or logins. Through SFTP the default is 1."),
    Text::new("via", "Choose the way: auto, ssh, tcp, server, server-tcp or server-quic")
        .more("ssh uses ssh alone, tcp adds direct TLS connections for contents, and server is a haul server. auto uses the server that you are enrolled at. Without one it logs in with ssh, and sends contents over direct connections as soon as they are open."),
    Text::new("congestion", "Control congestion in QUIC by bbr (the default), cubic or newreno"),
    Text::new("port-range", "Open only these ports on the host, such as 7000-7009")
        .more("They are for direct connections."),
    Text::new("no-cache", "Send all content, and keep nothing in mind of it")
        .more("Without it, chunks of large files that the other side has are not sent, over links of less than 64 MB/s."),
    Text::new("bwlimit", "Limit content to RATE KiB per second (5m: MiB; 0: no limit)")
        .more("Compressed content counts as it is sent."),
    Text::new("z", "Compress data where it pays (always on)"),
    Text::new("compress", "Compress data where it pays (always on)").of(SYNC),
    Text::new("compress", "Compress data: auto, none, lz4, zstd or zstd:LEVEL")
        .more("auto, the default, compresses where it pays."),
    Text::new("compress-choice", "Compress data: auto, none, lz4, zstd or zstd:LEVEL")
        .more("auto, the default, compresses where it pays."),
    Text::new("compress-level", "Compress with zstd at LEVEL, 1 to 19"),
];

const OUTPUT: &[Text] = &[
    Text::new("long", "Show mode, size, mtime (UTC) and link target"),
    Text::new("list-only", "List the sources instead of copying them"),
    Text::new("human-readable", "Show sizes with units (with -l)").of(&["ls"]),
    Text::new("human-readable", "Show the sizes in lists and --stats with units"),
    Text::new("null", "End raw names with NUL instead of a newline")
        .more("Of several PATHs, names follow their PATH."),
    Text::new("quiet", "Suppress the notice that a host has no haul").of(&["ls", "stat", "hash"]),
    Text::new("quiet", "Show errors only"),
    Text::new("verbose", "Show all differences, and what matches").of(CHECK),
    Text::new("verbose", "Show the names of copied entries, and figures").of(SYNC),
    Text::new("verbose", "Show each change; -vv: skipped entries, too"),
    Text::new("itemize-changes", "Show what changes in each entry"),
    Text::new("out-format", "Show entries in FORMAT, such as '%i %n%L'"),
    Text::new("progress", "Show progress without a terminal, too, once a second"),
    Text::new("stats", "Show statistics at the end"),
    Text::new("info", "Show name, skip, backup, del, symsafe, stats, progress, all, none"),
    Text::new("debug", "Accept FLAGS; set HAUL_LOG=debug for haul's own log"),
    Text::new("log-file", "Log copied, removed and failed entries to FILE"),
    Text::new("log-file-format", "Log entries in FORMAT, such as '%i %n%L'"),
    Text::new("json", "Print JSON, one object per line"),
    Text::new("help", "Print all options; -h alone: the common ones")
        .of(&["copy", "move", "check", "sync"]),
    Text::new("help", "Print this help, as does -h alone").of(&["ls"]),
    Text::new("help", "Print this help"),
    Text::new("version", "Print the version"),
];
