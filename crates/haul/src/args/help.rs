//! Usage and examples, as the help shows them.

pub(super) const EXAMPLES: &str = "\
Examples:
  haul copy -r photos /mnt/backup/          a tree into a directory
  haul copy -r photos host:backup/          the same to a host, through ssh
  haul copy host:notes.txt .                a file from a host
  haul ls -l host:backup                    what is there
  haul hash host:backup/a.iso               its BLAKE3 hash, as b3sum prints it";

pub(super) const COPY_USAGE: &str = "haul copy [OPTIONS] SOURCE... DEST";

/// The meaning of the words of a copy, for its help and its man page.
macro_rules! copy_words {
    () => {
        "\
SOURCE and DEST are a path, [user@]host:path, or ssh://[user@]host[:port]/path;
sftp:// means a host's SFTP server, which serves also where haul is not found.
./a:b is a path here. A relative path on a host starts in the home directory.
host:'logs/*.gz' stands for what it matches on the host: with *, ? and [...].
A DEST that is a directory, or ends in \"/\", receives the sources under their
names; else it is the new name, also when the same words are given again.
A SOURCE directory keeps its name with or without a \"/\" at its end; \"dir/.\" is
what is in it. A symbolic link is followed without -r, and stays a link with it."
    };
}

pub(super) const COPY_WORDS: &str = copy_words!();

pub(super) const COPY_HELP: &str =
    concat!("{about}\n\n{usage-heading} {usage}\n\n", copy_words!(), "\n\n{all-args}{after-help}");

pub(super) const COPY_EXAMPLES: &str = "\
Examples:
  haul copy a.iso b.iso                     a file under another name
  haul copy -r photos host:backup/          a tree to a host: backup/photos
  haul copy host:a.txt host:b.txt .         two files from a host
  haul copy -r one:www two:/srv/            from host to host, straight if it can
  haul copy -r www a:/srv/ b:/srv/ --to-all to several hosts at once
  haul copy -rn photos /mnt/backup/         what would be copied?
  haul copy -r -e 'ssh -p 2222' src host:   with a command in place of ssh

Run again, a copy does what was left: files whose size and modification time
agree are skipped, and a large file that was interrupted goes on where it
stopped. A file is replaced at once when its new content is whole and
verified; until then the old one stays. So is a symbolic link to a file in the
place of DEST: the file that it points to is not written to.

Exit codes: 0 all done, 1 some files failed, 2 wrong usage, 3 no connection,
4 destination unusable, 130 interrupted.";

pub(super) const MOVE_USAGE: &str = "haul move [OPTIONS] SOURCE... DEST";

pub(super) const MOVE_EXAMPLES: &str = "\
SOURCEs are here or on hosts, and so is DEST, but not from host to host; it means
what it means to \"haul copy\". On one file system sources just get new names.
Elsewhere they are copied and made durable, then both sides hash what they have,
and each source file is removed whose content DEST has, unless it changed since.
What failed stays, and so do the directories that it is in. A directory that
DEST has already is filled, not replaced. Owners, groups, set-ID bits, ACLs,
extended attributes, hard links and devices come along: what has some of these
that DEST can't hold stays, and is told, unless --lossy is given.

Examples:
  haul move photos /mnt/backup/             to another disk
  haul move scans/*.pdf host:inbox/         to a host
  haul move host:outbox/a host:b/ .         a file and a tree from a host
  haul move --no-clobber a b dir/           what dir has of that name stays

Exit codes: 0 all moved, 1 something stays that should not, 2 wrong usage,
3 no connection, 4 destination unusable, 130 interrupted. After any of them the
same command goes on with what is left.";

pub(super) const SYNC_USAGE: &str = "haul sync [OPTIONS] SOURCE... DEST";

/// Words and examples of a mirror, for both of its helps.
macro_rules! sync_examples {
    () => {
        "\
The words mean what they mean to rsync; docs/reference/rsync-options.md has what differs. A SOURCE
that ends in \"/\" is what is in the directory, another one is the directory
itself. A file is replaced at once when its new content is whole and verified.

Examples:
  haul sync -a photos/ /mnt/backup/photos   what is in photos
  haul sync -a photos host:backup           the directory: backup/photos
  haul sync -ain --delete src/ host:dst/    what would change?"
    };
}

/// The words that are used most: -h alone shows these.
pub(super) const SYNC_SHORT: &str = concat!(
    "\
Make a tree like another, with the words of rsync

Usage: haul sync [OPTIONS] SOURCE... DEST

The words that are used most; 'haul sync --help' shows all:
  -a, --archive            Directories, links, modes, times, owners, devices
  -H, -A, -X               Hard links, access control lists, extended attributes
  -n, --dry-run            Change nothing: tell what would be done
  -i, --itemize-changes    Tell what changes of each entry
  -v, --verbose            Tell the names of what is copied; --stats: figures
  -u, --update             Skip files that are newer in DEST
  -c, --checksum           Skip files of which size and content agree
  -x, --one-file-system    Not what is mounted below a source
      --exclude <PATTERN>  Leave out what matches: '*.o', 'cache/', '/top/only'
      --delete             Remove from DEST what the sources have not
      --max-delete <N>     Remove no more than N entries
  -b, --backup             Keep what is replaced or removed (--backup-dir DIR)
      --link-dest <DIR>    Make files hard links to equal ones in DIR
      --mkpath             Make the directories above DEST, too
  -e, --rsh <COMMAND>      Reach the host with COMMAND instead of ssh
      --bwlimit <RATE>     Send at most RATE KiB of content a second, counted as
                           sent (5m; 0: no limit)

",
    sync_examples!(),
    "\n"
);

pub(super) const SYNC_EXAMPLES: &str = concat!(
    sync_examples!(),
    "

Exit codes are those of rsync: 0 all done, 1 wrong usage, 11 DEST unusable,
12 no connection, 20 interrupted, 23 some entries failed, 24 some had vanished,
25 more than --max-delete were to be removed."
);

pub(super) const CHECK_USAGE: &str = "haul check [OPTIONS] SOURCE... DEST";

pub(super) const CHECK_EXAMPLES: &str = "\
SOURCE and DEST mean what they mean to \"haul copy\": after a copy, the same
words with \"check\" find no difference. (A directory is compared with DEST
itself if DEST does not hold one of its name and has no \"/\" at its end: the
copy has made it.) Compared are kind, size, modification
time and permission bits, of links where they point, and with --content the
BLAKE3 hashes of files: each side hashes its own, and no content is sent but
from a host without haul. In
directories that both sides have, what only DEST has is shown as extra.

Examples:
  haul check -r photos host:backup/         is the backup up to date?
  haul check -r --content photos host:backup/
                                            ... and intact, to the last byte?

Exit codes: 0 no difference, 1 differences or files that could not be compared,
2 wrong usage, 3 no connection, 4 destination unusable, 130 interrupted.";

pub(super) const LS_EXAMPLES: &str = "\
Examples:
  haul ls -l host:                          the home directory there
  haul ls sftp://host/srv                   asked through SFTP, without haul there
  haul ls -0 photos | xargs -0 ...          names for another program";

pub(super) const HASH_EXAMPLES: &str = "\
Examples:
  haul hash host:a.iso                      hashed there, not moved
  haul hash sftp://host/srv/a.iso           read through SFTP, hashed here
  haul hash a b c > sums; b3sum -c sums     the format is that of b3sum";

pub(super) const CLEAN_EXAMPLES: &str = "\
An unfinished copy is kept in the directory where the file is to appear: under
.haul-NAME-SOURCE.part if it can be continued (files of 64 MiB and more), with
a journal beside it, or under .haul- and 16 digits. A later copy under the same
name continues or removes its own; this removes the others. What another haul
is writing is locked, and left alone. Names with .sftp in them are of uploads
through this machine's SFTP server, which locks nothing: these are left alone
until nothing has changed them for a day, with --all for an hour.

Examples:
  haul clean -n -r /mnt/backup              what would be removed?
  haul clean -r /mnt/backup                 what nothing can continue
  haul clean -r --all /mnt/backup           also what could be continued";

pub(super) const CONFIG_HELP: &str = "\
The file is $XDG_CONFIG_HOME/haul/config.toml, or ~/.config/haul/config.toml:

  timeout = 120                             for all hosts
  verify = true
  [host.nas]                                for nas alone, over the above
  rsh = \"ssh -p 2222\"
  parallel = 4

Its keys are rsh, remote-haul, transport, timeout, parallel, retries, and, for all hosts,
verify and sync: the options of these names. HAUL_RSH, HAUL_REMOTE_HAUL and so on
in the environment hold over the file, options over both; --no-verify and
--no-sync turn off what is on there.";
