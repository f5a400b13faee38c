//! Usage, notes and examples in the help.

pub(super) const EXAMPLES: &str = "\
Examples:
  haul copy -r photos /mnt/backup/          copy a tree into a directory
  haul copy -r photos host:backup/          copy it to a host, through ssh
  haul copy host:notes.txt .                copy a file from a host
  haul ls -l host:backup                    list a directory there
  haul check -r photos host:backup/         compare both sides";

pub(super) const COPY_USAGE: &str = "haul copy [OPTIONS] SOURCE... DEST";

pub(super) const COPY_EXAMPLES: &str = "\
SOURCE and DEST are a path, [user@]host:path or ssh://[user@]host[:port]/path.
sftp:// uses the SFTP server of a host, which needs no haul there. ./a:b is a
local path. A relative path on a host starts in the home directory. A host
expands *, ? and [...]: host:'logs/*.gz'.

If DEST is a directory or ends in \"/\", the sources keep their names in it.
Otherwise DEST is the new name. A directory keeps its name with or without \"/\"
at its end; \"dir/.\" is its content.

Run the same command again to resume: files whose size and mtime match are
skipped, and a large partial file is resumed. A file replaces the existing one
in one step, when it is complete and verified. A symbolic link in the place of
DEST is replaced too, not followed.

Examples:
  haul copy a.iso b.iso                     copy a file to another name
  haul copy -r photos host:backup/          copy a tree to backup/photos
  haul copy host:a.txt host:b.txt .         copy two files from a host
  haul copy -r one:www two:/srv/            copy from host to host
  haul copy -r www a:/srv/ b:/srv/ --to-all copy to several hosts at once
  haul copy -rn photos /mnt/backup/         show what would be copied
  haul copy -r -e 'ssh -p 2222' src host:   use another port

Exit codes: 0 success, 1 some files failed, 2 wrong usage, 3 no connection,
4 destination unusable, 130 interrupted.";

pub(super) const MOVE_USAGE: &str = "haul move [OPTIONS] SOURCE... DEST";

pub(super) const MOVE_EXAMPLES: &str = "\
SOURCE and DEST are as in \"haul copy\", but not both on hosts. On one file system
sources are renamed. Elsewhere they are copied and flushed to stable storage,
both sides hash their content, and a source file is removed if the hashes match
and it has not changed. What fails stays, with the directories above it. A
directory that exists in DEST is filled, not replaced. All attributes are
preserved; an entry whose attributes DEST can't hold stays, unless --lossy is
given. Run the same command again to continue.

Examples:
  haul move photos /mnt/backup/             move a tree to another disk
  haul move scans/*.pdf host:inbox/         move files to a host
  haul move host:outbox/a host:b/ .         move a file and a tree from a host
  haul move --no-clobber a b dir/           keep existing files in dir

Exit codes: 0 all moved, 1 some entries stay, 2 wrong usage, 3 no connection,
4 destination unusable, 130 interrupted.";

pub(super) const SYNC_USAGE: &str = "haul sync [OPTIONS] SOURCE... DEST";

pub(super) const SYNC_EXAMPLES: &str = "\
The options mean what they mean in rsync. \"dir/\" is the content of a directory,
\"dir\" the directory itself. A file replaces the existing one in one step, when
it is complete and verified.

Examples:
  haul sync -a photos/ /mnt/backup/photos   make a directory like photos
  haul sync -a photos host:backup           make backup/photos like photos
  haul sync -ain --delete src/ host:dst/    show what would change

Exit codes are those of rsync: 0 success, 1 wrong usage, 11 DEST unusable,
12 no connection, 20 interrupted, 23 some entries failed, 24 some vanished,
25 --max-delete reached.";

pub(super) const CHECK_USAGE: &str = "haul check [OPTIONS] SOURCE... DEST";

pub(super) const CHECK_EXAMPLES: &str = "\
SOURCE and DEST are as in \"haul copy\": after a copy, the same words with
\"check\" find no difference. (A directory is compared with DEST itself if DEST
has none of its name and does not end in \"/\".) haul compares kind, size, mtime,
permissions and the targets of symbolic links. With --content each side hashes
its own files; only a host without haul sends content. Entries that only DEST
has are extra, in directories that both sides have.

Examples:
  haul check -r photos host:backup/         find what differs
  haul check -rc photos host:backup/        compare contents, too

Exit codes: 0 no difference, 1 differences, or files that were not compared,
2 wrong usage, 3 no connection, 4 destination unusable, 130 interrupted.";

pub(super) const LS_EXAMPLES: &str = "\
Examples:
  haul ls -l host:                          list the home directory there
  haul ls sftp://host/srv                   list a host without haul
  haul ls -0 photos | xargs -0 ...          pass names to another program";

pub(super) const HASH_EXAMPLES: &str = "\
Examples:
  haul hash host:a.iso                      hash a file on the host
  haul hash sftp://host/srv/a.iso           read it through SFTP, and hash it here
  haul hash a b c > sums; b3sum -c sums     check the hashes with b3sum";

pub(super) const CLEAN_EXAMPLES: &str = "\
An interrupted copy leaves temporary files next to its destination: partial
files of 64 MiB and more as .haul-NAME-SOURCE.part, with a journal, and others
as .haul- and 16 digits. The next copy of the same file resumes or removes its
own. Files that another haul is writing are locked and skipped. Files with
.sftp in the name are uploads through the local SFTP server, which has no locks:
they are skipped for a day after their last change, with --all for an hour.

Examples:
  haul clean -n -r /mnt/backup              show what would be removed
  haul clean -r /mnt/backup                 remove what can't be resumed
  haul clean -r --all /mnt/backup           remove partial files, too";

pub(super) const CONFIG_HELP: &str = "\
The file is $XDG_CONFIG_HOME/haul/config.toml, or ~/.config/haul/config.toml:

  timeout = 120                             for all hosts
  verify = true
  [host.nas]                                for nas alone
  rsh = \"ssh -p 2222\"
  parallel = 4

A key is the name of an option: one of those above, bwlimit, compress, via or
port-range. verify and sync are for all hosts alone. Environment variables
(HAUL_RSH, HAUL_REMOTE_HAUL and so on) override the file, and options override
both. --no-verify and --no-sync turn off what the file turns on.";

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  haul completions bash > ~/.local/share/bash-completion/completions/haul
  haul completions fish > ~/.config/fish/completions/haul.fish
  haul completions zsh > ~/.zfunc/_haul     for a directory of $fpath";

pub(super) const GENERATE_HELP: &str = "\
DIR is laid out like ~/.local/share and /usr/share.

Examples:
  haul generate ~/.local/share              install for one user";

pub(super) const SERVE_HELP: &str = "\
haul starts this on a host. Use it by hand only to restrict a key, in
authorized_keys: command=\"haul serve --root DIR\".";
