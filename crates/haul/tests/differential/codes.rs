//! Where haul ends with another exit code than rsync on purpose. Each has its reason in
//! docs/rsync.md.

use crate::case::Case;
use crate::lines::Said;

/// True if it is meant that the programs end with other codes.
pub(crate) fn is_in_codes(case: &Case, rsync: &Said, haul: &Said) -> bool {
    IN_CODES.iter().any(|(_, covers)| covers(case, rsync, haul))
}

pub(crate) type Covers = fn(&Case, &Said, &Said) -> bool;

/// Where exit codes differ on purpose, with the words of docs/rsync.md that say so.
pub(crate) const IN_CODES: &[(&str, Covers)] = &[
    ("what would be in a directory whose place is taken is left out", |case, rsync, _| {
        let fails = ["Not a directory (20)", "No such file or directory (2)", "Too many levels of"];
        case.has_word("--ignore-existing") && fails.iter().any(|why| rsync.errors.contains(why))
    }),
    ("what is in a directory that makes way for something else", |case, rsync, haul| {
        !case.is_root && rsync.errors.contains("could not make way for") && haul.errors.is_empty()
    }),
    ("Nor does a new directory that its owner may not write fail", |case, rsync, _| {
        !case.is_root && case.has('X') && rsync.errors.contains("mkstemp")
    }),
    ("A DEST that can't be had", |_, rsync, haul| {
        rsync.errors.contains("refusing to follow a symlink owned by an untrusted user")
    }),
    ("for names of one file in a directory whose place is taken", |case, rsync, haul| {
        let is_told = rsync.errors.contains("Not a directory (20)") && haul.errors.is_empty();
        case.has('H') && case.has('n') && is_told
    }),
    ("haul says in a dry run, too, what can't make way", |case, rsync, haul| {
        let stays = "can't make way: something in the directory that stands there stays";
        let backs_up = case.has('b') || case.has_word("--backup-dir");
        case.has('n') && backs_up && rsync.errors.is_empty() && haul.errors.contains(stays)
    }),
    ("it looks for a new directory that `--copy-dest` has", |case, rsync, _| {
        let fails = rsync.errors.contains("gen_entry_copy_xattrs: openat");
        case.has('n') && case.has('X') && case.has_word("--copy-dest") && fails
    }),
    ("where it can't ask for an access list", |case, rsync, _| {
        case.has('A') && rsync.errors.contains("get_acl: sys_acl_get_file")
    }),
    ("whose attributes can't be read fails, also where it would be left", |case, _, haul| {
        !case.is_root && case.has('X') && haul.errors.contains("can't look at the destination")
    }),
    ("rsync may end with code 2 there", |case, rsync, _| {
        case.has('H') && rsync.errors.contains("protocol incompatibility (code 2)")
    }),
    ("one that can't be made ends the command", |case, _, haul| {
        case.has_word("--backup-dir") && haul.errors.contains("kept/: can't make the directory")
    }),
    ("one that can't be backed up fails", |case, _, haul| {
        let backs_up = case.has('b') || case.has_word("--backup-dir");
        backs_up && (haul.errors.contains("back it up") || haul.errors.contains("too long"))
    }),
];
