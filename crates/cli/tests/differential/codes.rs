//! Where haul ends with another exit code than rsync on purpose. Each has its reason in
//! docs/reference/rsync-options.md.

use crate::case::Case;
use crate::entry::{Content, Entry, Kind};
use crate::lines::Said;
use crate::relations::{is_bounded_in_the_way, is_in_base, is_of_rules};
use haul_model::escape_bytes;

/// True if what one of both has made of the trees is of no matter: rsync has ended before all
/// was done, or haul has left a directory, of which it does not know the rules.
pub(crate) fn is_cut_short(case: &Case, rsync: &Said, haul: &Said) -> bool {
    let is_lost = ["(code 2)", "(code 12)", "(code 13)"];
    case.has('H') && is_lost.iter().any(|code| rsync.errors.contains(code))
        || haul.errors.contains("can't use its filter rules")
        || leads_to_itself(haul)
}

/// True if haul has kept what a link leads to that would replace it.
fn leads_to_itself(haul: &Said) -> bool {
    haul.errors.contains("the link points to the file or directory that it would replace")
}

/// True if rsync has looked for something where a directory would be, and something else is.
pub(crate) fn is_taken(rsync: &Said) -> bool {
    let whys = ["failed: Not a directory (20)", "failed: Too many levels of symbolic links (40)"];
    whys.iter().any(|why| rsync.errors.contains(why))
}

/// True if haul has ended before it began.
pub(crate) fn is_refused(haul: &Said) -> bool {
    haul.errors.contains("kept/: can't create the directory")
}

/// True if it is meant that the programs end with other codes.
pub(crate) fn is_in_codes(case: &Case, rsync: &Said, haul: &Said) -> bool {
    IN_CODES.iter().any(|(_, covers)| covers(case, rsync, haul))
}

pub(crate) type Covers = fn(&Case, &Said, &Said) -> bool;

/// Where exit codes differ on purpose, each with the words of docs/reference/rsync-options.md.
pub(crate) const IN_CODES: &[(&str, Covers)] = &[
    ("A link that points to the file or directory that it would replace fails", |_, _, haul| {
        leads_to_itself(haul)
    }),
    ("entries below a name that is no directory in DEST are skipped", |case, rsync, _| {
        let fails = ["Not a directory (20)", "No such file or directory (2)", "Too many levels of"];
        case.has_word("--ignore-existing") && fails.iter().any(|why| rsync.errors.contains(why))
    }),
    ("entries of a replaced directory that is not writable", |case, rsync, haul| {
        !case.is_root && rsync.errors.contains("could not make way for") && haul.errors.is_empty()
    }),
    ("A new directory that its owner may not write does not fail", |case, rsync, _| {
        let fails = |line: &str| line.contains("Permission denied (13)");
        let is_made = |line: &str| line.contains("mkstemp") || line.contains("mkdir");
        let mut told = rsync.errors.lines();
        !case.is_root && told.any(|line| fails(line) && is_made(line))
    }),
    ("A DEST that can't be used", |_, rsync, haul| {
        rsync.errors.contains("refusing to follow a symlink owned by an untrusted user")
            && haul.errors.contains("is a symbolic link of another user")
    }),
    ("`--compare-dest` removes nothing from DEST", |case, rsync, haul| {
        let failed = || haul.errors.lines().filter(|line| line.starts_with("haul: "));
        let is_of_base = |line: &str| {
            let mut there = case.state.keys().filter(|path| is_in_base(case, path));
            line.contains("can't set the file's attributes")
                && there.any(|path| line.contains(&format!("{}: ", escape_bytes(path))))
        };
        let fails = failed().next().is_some() && failed().all(is_of_base);
        case.has_word("--compare-dest") && rsync.errors.is_empty() && fails
    }),
    ("or has an invalid rule, fails its directory", |case, _, haul| {
        let is_damaged = |(path, entry): (&Vec<u8>, &Entry)| match &entry.kind {
            Kind::File(Content::Text(text)) => is_of_rules(path) && text == "x\n",
            _ => is_of_rules(path),
        };
        haul.errors.contains("can't use its filter rules") && case.state.iter().any(is_damaged)
    }),
    ("for names of one file below a name that is no directory", |case, rsync, haul| {
        case.has('H') && case.has('n') && is_taken(rsync) && haul.errors.is_empty()
    }),
    (
        "haul also reports in a dry run that a file can't replace a directory",
        |case, rsync, haul| {
            let stays = "can't make way: some entries of the directory there stay";
            let backs_up = case.has('b') || case.has_word("--backup-dir");
            case.has('n') && backs_up && rsync.errors.is_empty() && haul.errors.contains(stays)
        },
    ),
    ("for a new directory that a base has", |case, rsync, _| {
        let fails = rsync.errors.contains("gen_entry_copy_xattrs: ");
        let has_bases = case.flags.iter().any(|flag| flag.contains("-dest="));
        case.has('n') && case.has('X') && has_bases && fails
    }),
    ("where it can't read an access list", |case, rsync, _| {
        case.has('A') && rsync.errors.contains("get_acl: sys_acl_get_file")
    }),
    ("with unreadable attributes fails, even an unchanged one", |case, _, haul| {
        !case.is_root
            && case.has('X')
            && haul.errors.contains("can't read the metadata of the destination")
    }),
    ("and fails if it can't link to it", |case, rsync, haul| {
        let is_told = |line: &str| line.contains("] link ") && line.contains("not permitted");
        let mut fails = rsync.errors.lines().filter(|line| line.contains("rsync: ")).peekable();
        let has_failed = fails.peek().is_some();
        !case.is_root && case.has('H') && haul.errors.is_empty() && has_failed && fails.all(is_told)
    }),
    ("rsync may end with code 2", |case, rsync, _| {
        let is_lost = ["protocol incompatibility (code 2)", "Hlink node data for"];
        case.has('H') && is_lost.iter().any(|why| rsync.errors.contains(why))
    }),
    ("rsync counts a directory that stays", |case, rsync, haul| {
        let is_bounded = case.has_word("--max-delete") && rsync.errors.contains("(code 25)");
        let failed = |line: &str| line.starts_with("haul: ") && !line.starts_with("haul: warning");
        let stays = "keeping the directory: some of its entries stay";
        let is_told = haul.errors.contains(stays) && !haul.errors.lines().any(failed);
        is_bounded && is_told
    }),
    ("other entries may go where a file replaces a directory", |case, _, haul| {
        is_bounded_in_the_way(case, &haul.errors)
    }),
    ("if that fails, the command ends", |case, _, haul| {
        case.has_word("--backup-dir") && haul.errors.contains("kept/: can't create the directory")
    }),
    ("an entry that can't be backed up fails", |case, _, haul| {
        let backs_up = case.has('b') || case.has_word("--backup-dir");
        let whys = ["back it up", "with its backup suffix, the name is longer"];
        backs_up && whys.iter().any(|why| haul.errors.contains(why))
    }),
];
