//! The help texts of all options, in the order of the help.

use super::OptionHelp;

const COPIES: &[&str] = &["copy", "move"];
const SYNC: &[&str] = &["sync"];
const MOVE: &[&str] = &["move"];
const CHECK: &[&str] = &["check"];

/// The options that `-h` shows for commands with many options.
pub(super) const COMMON: &[(&str, &str)] = &[
    (
        "copy",
        "recursive dereference exclude force no-clobber update archive dry-run verify sync \
         rsh parallel bwlimit quiet verbose",
    ),
    ("move", "force no-clobber update verify lossy rsh parallel bwlimit quiet verbose json"),
    ("check", "recursive dereference content exclude archive rsh quiet verbose json"),
    (
        "sync",
        "archive recursive one-file-system exclude update checksum hard-links acls xattrs \
         dry-run backup link-dest mkpath delete max-delete rsh bwlimit itemize-changes \
         verbose stats",
    ),
];

/// The texts, by heading.
pub(super) const SECTIONS: &[(&str, &[OptionHelp])] = &[
    ("Selection", SELECTION),
    ("Comparison", COMPARISON),
    ("Attributes", ATTRIBUTES),
    ("Writing", WRITING),
    ("Deletion", DELETION),
    ("Connection", CONNECTION),
    ("Output", OUTPUT),
];

const SELECTION: &[OptionHelp] = &[
    OptionHelp::new("recursive", "Recurse into directories"),
    OptionHelp::new("dereference", "Follow symbolic links").details(
        "Without -r, copy and check follow a link that is named. With -r, links stay links.",
    ),
    OptionHelp::new("P", "Copy symbolic links as links").of(&["copy", "check"]).details(
        "This is -P of cp. Resuming and progress, for which rsync has -P, need no option.",
    ),
    OptionHelp::new("to-all", "Copy local SOURCEs to several DESTs, from the first host:path on"),
    OptionHelp::new("links", "Copy symbolic links as links (else skip them)"),
    OptionHelp::new("copy-links", "Follow symbolic links"),
    OptionHelp::new("copy-unsafe-links", "Follow symbolic links that point outside the tree"),
    OptionHelp::new("copy-dirlinks", "Follow symbolic links to directories"),
    OptionHelp::new("keep-dirlinks", "Treat a symlinked directory in DEST as a directory"),
    OptionHelp::new("safe-links", "Skip symbolic links that point outside the tree"),
    OptionHelp::new("munge-links", "Make symbolic links from a host unusable; undo it elsewhere"),
    OptionHelp::new("insecure-links", "Follow links of other users in the paths of the command"),
    OptionHelp::new("dirs", "Copy directories without recursing"),
    OptionHelp::new("relative", "Keep the paths of sources below DEST; a/./b/c keeps b/c"),
    OptionHelp::new("no-implied-dirs", "Skip the attributes of implied directories"),
    OptionHelp::new("one-file-system", "Stay on one file system; twice: skip mount points too"),
    OptionHelp::new("prune-empty-dirs", "Skip chains of empty directories"),
    OptionHelp::new("exclude", "Exclude what matches PATTERN: '*.o', 'cache/', '/top/only'")
        .details("Patterns have the syntax of rsync. The first pattern that matches decides."),
    OptionHelp::new("include", "Include what matches PATTERN; the first match decides"),
    OptionHelp::new("exclude-from", "Read exclude patterns from FILE, one per line"),
    OptionHelp::new("include-from", "Read include patterns from FILE, one per line"),
    OptionHelp::new(
        "filter",
        "Add a filter rule: '- *.o', 'protect keep', 'merge FILE', ': .rules'",
    ),
    OptionHelp::new("F", "Read rules from .rsync-filter files; twice: exclude these files too"),
    OptionHelp::new("cvs-exclude", "Exclude what CVS ignores, also by .cvsignore"),
    OptionHelp::new("files-from", "Read the paths of sources from FILE, one per line (-: stdin)")
        .details("They are below SOURCE. Implies -R and -d; -a does not imply -r then."),
    OptionHelp::new("from0", "Read NUL-terminated rules and paths from files"),
    OptionHelp::new("ignore-missing-args", "Ignore missing sources"),
    OptionHelp::new("delete-missing-args", "Remove the destinations of missing sources"),
    OptionHelp::new("existing", "Skip files that are missing in DEST"),
    OptionHelp::new("ignore-existing", "Skip files that exist in DEST"),
    OptionHelp::new("min-size", "Skip files smaller than SIZE"),
    OptionHelp::new("max-size", "Skip files larger than SIZE"),
    OptionHelp::new("all", "Remove partial files that can be resumed, too"),
];

const COMPARISON: &[OptionHelp] = &[
    OptionHelp::new("force", "Replace files even if size and mtime match").of(COPIES),
    OptionHelp::new("no-clobber", "Skip files that exist in DEST; their sources stay").of(MOVE),
    OptionHelp::new("no-clobber", "Skip files that exist in DEST"),
    OptionHelp::new("update", "Replace only files that are older in DEST").of(COPIES),
    OptionHelp::new("update", "Skip files that are newer in DEST"),
    OptionHelp::new("content", "Compare contents by their BLAKE3 hashes"),
    OptionHelp::new("ignore-times", "Copy files even if size and mtime match"),
    OptionHelp::new("size-only", "Skip files that match in size"),
    OptionHelp::new("checksum", "Skip files that match in size and content (both sides read them)"),
    OptionHelp::new("modify-window", "Accept mtimes up to SECONDS apart; -1: compare nanoseconds"),
    OptionHelp::new("whole-file", "Send changed files whole, without delta"),
    OptionHelp::new("block-size", "Find deltas by blocks of SIZE bytes"),
    OptionHelp::new("fuzzy", "Send a missing file as a delta against a similar name"),
    OptionHelp::new("compare-dest", "Skip files that match in DIR, on DEST's machine"),
    OptionHelp::new("copy-dest", "Copy matching files from DIR, on DEST's machine"),
    OptionHelp::new("link-dest", "Hard-link matching files to DIR, on DEST's machine"),
];

const ATTRIBUTES: &[OptionHelp] = &[
    OptionHelp::new("archive", "Recurse, and preserve attributes: -rlptgoD").of(SYNC),
    OptionHelp::new("archive", "Recurse, and preserve all but access times").details(
        "The same as -r --owner --group -A -X -H --devices --specials; also preserves the times \
         of links. Modes and mtimes are always preserved.",
    ),
    OptionHelp::new("p", "Preserve modes and times (always on)"),
    OptionHelp::new("perms", "Preserve permissions"),
    OptionHelp::new("executability", "Preserve executability (without -p)"),
    OptionHelp::new("chmod", "Change modes: 'Du=rwx,Fgo-w'"),
    OptionHelp::new("times", "Preserve mtimes"),
    OptionHelp::new("atimes", "Preserve access times"),
    OptionHelp::new("open-noatime", "Leave access times of sources unchanged, where permitted"),
    OptionHelp::new("omit-dir-times", "Omit directories from --times"),
    OptionHelp::new("omit-link-times", "Omit symbolic links from --times"),
    OptionHelp::new("owner", "Preserve owners and set-ID bits (needs root)").of(&["copy", "check"]),
    OptionHelp::new("owner", "Preserve owners (needs root)"),
    OptionHelp::new("group", "Preserve groups and set-ID bits")
        .of(&["copy", "check"])
        .details("Without root: the groups that the user is in."),
    OptionHelp::new("group", "Preserve groups")
        .details("Without root: the groups that the user is in."),
    OptionHelp::new("chown", "Set owner and group of all entries"),
    OptionHelp::new("usermap", "Map users: names, numbers or patterns"),
    OptionHelp::new("groupmap", "Map groups: names, numbers or patterns"),
    OptionHelp::new("numeric-ids", "Keep the numbers of users and groups, not their names"),
    OptionHelp::new("acls", "Preserve access control lists").details("In haul sync it implies -p."),
    OptionHelp::new("xattrs", "Preserve extended attributes")
        .details("Attributes of the user namespace; with root, attributes of the system too."),
    OptionHelp::new("hard-links", "Preserve hard links"),
    OptionHelp::new("devices", "Preserve device files (needs root)"),
    OptionHelp::new("specials", "Preserve FIFOs and sockets"),
    OptionHelp::new("D", "Preserve device files, FIFOs and sockets"),
    OptionHelp::new("sparse", "Make holes of runs of zeros; source holes are always kept"),
    OptionHelp::new("fake-super", "Store privileged attributes in extended attributes"),
    OptionHelp::new("super", "Act as root where possible (--no-super: no owners, no devices)"),
    OptionHelp::new("remote-option", "Send WORD to the other side, such as --fake-super")
        .details("WORD is --fake-super, --super or --insecure-links."),
    OptionHelp::new("lossy", "Move what DEST can't hold whole, without the rest").details(
        "An owner or an attribute that DEST can't hold is dropped, and hard links become \
         separate files. Without this option such entries stay.",
    ),
];

const WRITING: &[OptionHelp] = &[
    OptionHelp::new("dry-run", "Show what would be done, and change nothing"),
    OptionHelp::new("strict", "Re-read all partial data before resuming"),
    OptionHelp::new("no-resume", "Restart interrupted files, and leave nothing to resume"),
    OptionHelp::new("partial", "Keep partial files (always on)"),
    OptionHelp::new("partial-dir", "Keep partial files as --partial does; exclude DIR"),
    OptionHelp::new("P", "Select --partial --progress").of(SYNC),
    OptionHelp::new("verify", "Read each file back from the disk before renaming it into place"),
    OptionHelp::new("sync", "Flush everything to stable storage before exiting"),
    OptionHelp::new("fsync", "Flush everything to stable storage before exiting"),
    OptionHelp::new(
        "strict-source",
        "Fail files that change while they are read, even if they only grow",
    ),
    OptionHelp::new("fast", "Send contents unhashed; rely on TLS or ssh, and resume nothing")
        .details("Changed files are sent whole."),
    OptionHelp::new("checksum-choice", "Verify contents: always BLAKE3, or none (as --fast)"),
    OptionHelp::new("backup", "Back up what is replaced or removed"),
    OptionHelp::new("backup-dir", "Make backups in DIR, on DEST's machine"),
    OptionHelp::new("suffix", "Set the suffix of backups (default: ~, none with --backup-dir)"),
    OptionHelp::new("mkpath", "Create missing parents of DEST"),
    OptionHelp::new("preallocate", "Allocate space for each file before writing it"),
    OptionHelp::new("delay-updates", "Rename all files into place at the end"),
    OptionHelp::new("temp-dir", "Create temporary files in DIR, on DEST's machine"),
    OptionHelp::new("inplace", "Update files in place, and with them their hard links"),
    OptionHelp::new("append", "Append to files that are shorter, and skip others"),
    OptionHelp::new("append-verify", "Do the same as --append"),
    OptionHelp::new("stop-after", "Stop after MINUTES"),
    OptionHelp::new("stop-at", "Stop at TIME: 2030-12-31T23:59, 12-31, 14:00 or :30"),
    OptionHelp::new("binary", "Install the haul at PATH instead of this one"),
    OptionHelp::new("remove", "Remove haul from the host"),
    OptionHelp::new("root", "Restrict the client to DIR"),
    OptionHelp::new("read-only", "Refuse all changes"),
    OptionHelp::new("name", "Name the client NAME"),
    OptionHelp::new("run-as", "Run the client's jobs as USER; needed on a server of root"),
    OptionHelp::new("listen", "Listen on ADDRESS, not on those of server.toml"),
    OptionHelp::new("address", "Have the guest call ADDRESS"),
    OptionHelp::new("host", "Store the server as HOST, not as its first address"),
    OptionHelp::new("user", "Install a service of this user, not of the system"),
];

const DELETION: &[OptionHelp] = &[
    OptionHelp::new("delete", "Remove extraneous entries from DEST's directories"),
    OptionHelp::new("delete-before", "Remove them before the copy"),
    OptionHelp::new("delete-during", "Remove them during the copy"),
    OptionHelp::new("delete-after", "Remove them after the copy"),
    OptionHelp::new("delete-delay", "Remove them after the copy"),
    OptionHelp::new("delete-excluded", "Remove excluded entries, too"),
    OptionHelp::new("max-delete", "Remove at most N entries"),
    OptionHelp::new("ignore-errors", "Remove even if some sources could not be read"),
    OptionHelp::new("force", "Remove non-empty directories that block other entries").of(SYNC),
    OptionHelp::new("no-moves", "Send large renamed files instead of renaming them in DEST"),
    OptionHelp::new(
        "remove-source-files",
        "Remove source files, not directories, that have arrived",
    ),
    OptionHelp::new("yes", "Install and start what is needed without a question").of(&["enroll"]),
    OptionHelp::new("yes", "Skip the question before most of DEST is removed"),
];

const CONNECTION: &[OptionHelp] = &[
    OptionHelp::new("rsh", "Run COMMAND instead of ssh to connect"),
    OptionHelp::new("remote-haul", "Run the haul at PATH on the host"),
    OptionHelp::new("rsync-path", "Run the haul at PATH on the host"),
    OptionHelp::new("deploy", "Install haul on the host first if it has none"),
    OptionHelp::new("transport", "Use the host's haul, or its SFTP server"),
    OptionHelp::new("timeout", "Fail if the host is silent for SECONDS; 0: never [default: 15]"),
    OptionHelp::new("retries", "Reconnect up to N times after a lost connection [default: 14]"),
    OptionHelp::new("keep", "Keep the ssh connection open afterwards, for 10m or TIME")
        .details("TIME has a unit: s, m or h. The next command to the same host then needs no login."),
    OptionHelp::new("parallel", "Use up to N connections for file contents [default: auto]")
        .details("They are direct connections, or logins. Through SFTP the default is 1."),
    OptionHelp::new("via", "Choose the way: auto, ssh, tcp, server, server-tcp or server-quic")
        .details("ssh uses ssh alone, tcp adds direct TLS connections for contents, and server is a haul server. auto uses the server that you are enrolled at. Without one it logs in with ssh, and sends contents over direct connections as soon as they are open."),
    OptionHelp::new("congestion", "Control congestion in QUIC by bbr (the default), cubic or newreno"),
    OptionHelp::new("port-range", "Open only these ports on the host, such as 7000-7009")
        .details("They are for direct connections."),
    OptionHelp::new("no-cache", "Send all content, and keep nothing in mind of it")
        .details("Without it, chunks of large files that the other side has are not sent, over links of less than 64 MB/s."),
    OptionHelp::new("bwlimit", "Limit content to RATE KiB per second (5m: MiB; 0: no limit)")
        .details("Compressed content counts as it is sent."),
    OptionHelp::new("z", "Compress data where it pays (always on)"),
    OptionHelp::new("compress", "Compress data where it pays (always on)").of(SYNC),
    OptionHelp::new("compress", "Compress data: auto, none, lz4, zstd or zstd:LEVEL")
        .details("auto, the default, compresses where it pays."),
    OptionHelp::new("compress-choice", "Compress data: auto, none, lz4, zstd or zstd:LEVEL")
        .details("auto, the default, compresses where it pays."),
    OptionHelp::new("compress-level", "Compress with zstd at LEVEL, 1 to 19"),
];

const OUTPUT: &[OptionHelp] = &[
    OptionHelp::new("long", "Show mode, size, mtime (UTC) and link target"),
    OptionHelp::new("list-only", "List the sources instead of copying them"),
    OptionHelp::new("human-readable", "Show sizes with units (with -l)").of(&["ls"]),
    OptionHelp::new("human-readable", "Show the sizes in lists and --stats with units"),
    OptionHelp::new("null", "End raw names with NUL instead of a newline")
        .details("Of several PATHs, names follow their PATH."),
    OptionHelp::new("quiet", "Suppress the notice that a host has no haul")
        .of(&["ls", "stat", "hash"]),
    OptionHelp::new("quiet", "Show errors only"),
    OptionHelp::new("verbose", "Show all differences, and what matches").of(CHECK),
    OptionHelp::new("verbose", "Show the names of copied entries, and figures").of(SYNC),
    OptionHelp::new("verbose", "Show each change; -vv: skipped entries, too"),
    OptionHelp::new("itemize-changes", "Show what changes in each entry"),
    OptionHelp::new("out-format", "Show entries in FORMAT, such as '%i %n%L'"),
    OptionHelp::new("progress", "Show progress without a terminal, too, once a second"),
    OptionHelp::new("stats", "Show statistics at the end"),
    OptionHelp::new("info", "Show name, skip, backup, del, symsafe, stats, progress, all, none"),
    OptionHelp::new("debug", "Accept FLAGS; set HAUL_LOG=debug for haul's own log"),
    OptionHelp::new("log-file", "Log copied, removed and failed entries to FILE"),
    OptionHelp::new("log-file-format", "Log entries in FORMAT, such as '%i %n%L'"),
    OptionHelp::new("json", "Print JSON, one object per line"),
    OptionHelp::new("help", "Print all options; -h alone: the common ones")
        .of(&["copy", "move", "check", "sync"]),
    OptionHelp::new("help", "Print this help, as does -h alone").of(&["ls"]),
    OptionHelp::new("help", "Print this help"),
    OptionHelp::new("version", "Print the version"),
];
