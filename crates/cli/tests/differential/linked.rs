//! Lines about files of several names: which name is the one that is sent, and what the others
//! are told of, depends on the name that a program comes to first.

use crate::case::Case;
use crate::entry::{Entry, Kind, is_in};
use crate::faking;
use crate::lines::{Said, both, names_in};
use crate::naming::{names_of, names_with_base};
use crate::relations::{is_in_base, tells, told};
use haul_model::escape_bytes;
use std::collections::BTreeSet;
use std::mem::discriminant;

/// How a new entry is told to differ, behind the letter of its content, and one that is the
/// same, or has been changed as another name.
const NEW: &str = "++++++++";
const SAME: &str = "        ";
const NOTHING: &str = "........";
const NOTHING_AT_ALL: &str = ".........";

/// With `-H`: names of one file in a source. Which of them is sent, and which are linked to
/// that, is not the same; how each name differed is. One that differs in nothing but that it
/// is a name of the file now need not be told. What is no file is made anew where anything
/// differs, and with it all its names; rsync changes it. Where a base has one of the names, only
/// of those that neither it nor the destination has is it known how they are told.
pub(crate) fn in_sources(case: &Case, rsync: &mut Said, haul: &mut Said) {
    let names = names(case, |path| case.has('H') && is_in(path, b"src"));
    let swapped = there(case, is_file_swapped);
    let special =
        there(case, |case, _, entry| !matches!(file(case, entry).kind, Kind::Dir | Kind::File(_)));
    let own = || case.state.keys().filter(|path| is_in(path, b"src"));
    let of_base = own().filter(|path| !names_with_base(case, path).is_empty());
    let of_base: BTreeSet<_> = of_base.flat_map(|path| told(case, path)).collect();
    let has_it = own().filter(|path| is_in_base(case, path));
    let mut has_it: BTreeSet<_> = has_it.flat_map(|path| told(case, path)).collect();
    has_it.extend(there(case, |_, _, _| true));
    // Where there is no DEST to go to, rsync looks for them where it is.
    let is_lost = case.has('n') && !case.state.keys().any(|path| is_in(path, case.dest()));
    both(rsync, haul, |lines| {
        lines.retain_mut(|line| {
            let Some(name) = name_of(line, &names) else { return true };
            if of_base.contains(&name) && has_it.contains(&name) {
                return false;
            }
            let is_new = is_lost || swapped.contains(&name) || of_base.contains(&name);
            let how = if is_new { NEW.to_owned() } else { attributes(case, &line[3..11]) };
            let is_changed = line.get(1..2) != Some("f") && special.contains(&name);
            let is_told = how == NEW || !(is_changed || [NOTHING, SAME].contains(&&*how));
            *line = format!("?{}.{how} {name}", &line[1..2]);
            is_told
        });
    });
}

/// The letters behind that of content, without those of which rsync tells by what it did with
/// the first name: a time that is not kept, extended attributes, and access lists with modes.
fn attributes(case: &Case, how: &str) -> String {
    let is_told = |letter: char| match letter {
        'T' => false,
        'x' => !case.has('X'),
        'a' | 'p' => !case.has('A'),
        _ => true,
    };
    how.chars().map(|letter| if is_told(letter) { letter } else { '.' }).collect()
}

/// Names of one file in the destination: what is changed of one is changed of all, so it is
/// not found to differ any more where another comes first. It is replaced all the same.
pub(crate) fn in_destination(case: &Case, rsync: &mut Said, haul: &mut Said) {
    let mut names = names(case, |path| !is_in(path, b"src"));
    for name in there(case, is_file_swapped) {
        names.remove(&name);
    }
    both(rsync, haul, |lines| {
        lines.retain_mut(|line| {
            if name_of(line, &names).is_none() || line.contains("+++") {
                return true;
            }
            // In a dry run they are names of one file still.
            let is_linked = line.starts_with('h') && line.contains(" => ") && !case.has('n');
            let is_sent =
                line.get(1..2) == Some("f") && (is_linked || !line.starts_with(['h', '.']));
            let content = if line.get(2..11) == Some("         ") { 2 } else { 4 };
            line.replace_range(content..11, &NOTHING_AT_ALL[content - 2..]);
            is_sent
        });
    });
}

/// With `-H` and `--existing`: names where the destination has something of another kind.
pub(crate) fn swapped_there(case: &Case, rsync: &mut Said, haul: &mut Said) {
    let is_asked = case.has('H') && case.has_word("--existing");
    let names = names(case, |path| is_asked && is_in(path, b"src"));
    let swapped = there(case, is_file_swapped);
    let theirs = &rsync.lines;
    haul.lines.retain(|line| {
        let name = name_of(line, &names);
        theirs.contains(line) || !name.is_some_and(|name| swapped.contains(&name))
    });
}

/// With `-H` and `-u`: names whose files in the destination are newer than the source.
pub(crate) fn newer_there(case: &Case, rsync: &mut Said, haul: &mut Said) {
    let names = names(case, |path| case.has('H') && case.has('u') && is_in(path, b"src"));
    let newer = there(case, |case, path, entry| {
        let own = case.state.iter().filter(|(other, _)| is_in(other, b"src"));
        let mut same = own.filter(|(other, _)| tells(case, other, path));
        same.any(|(_, own)| file(case, own).mtime < file(case, entry).mtime)
    });
    both(rsync, haul, |lines| {
        lines.retain(|line| name_of(line, &names).is_none_or(|name| !newer.contains(&name)));
    });
}

/// With `-H`: where the first name of a file could not be given its attributes, haul tells of
/// others.
pub(crate) fn first_has_failed(case: &Case, rsync: &mut Said, haul: &mut Said) {
    if case.is_root || !case.has('H') {
        return;
    }
    let errors = &haul.errors;
    let failed = case.state.keys().filter(|path| {
        let told = format!("{}: can't set the file's attributes", escape_bytes(path));
        errors.contains(&told)
    });
    let others = failed.flat_map(|path| names_of(case, path));
    let others: BTreeSet<_> = others.flat_map(|path| told(case, path)).collect();
    let theirs = &rsync.lines;
    haul.lines.retain(|line| name_of(line, &others).is_none() || theirs.contains(line));
}

/// True if a source has something of another kind where `entry` of the destination is: that
/// of the file that each is a name of, or stands for.
fn is_file_swapped(case: &Case, path: &[u8], entry: &Entry) -> bool {
    let kind = |entry: &Entry| {
        let file = file(case, entry);
        (discriminant(&file.kind), faking::kind_of(file))
    };
    let there = kind(entry);
    let own = case.state.iter().filter(|(other, _)| is_in(other, b"src"));
    let mut same = own.filter(|(other, _)| tells(case, other, path));
    same.any(|(_, entry)| kind(entry) != there)
}

/// Names, as they are told, of the entries of the destination of which `is_so` says so.
fn there(case: &Case, is_so: impl Fn(&Case, &[u8], &Entry) -> bool) -> BTreeSet<String> {
    let all = case.state.iter().filter(|(path, _)| !is_in(path, b"src"));
    let all = all.filter(|(path, entry)| is_so(case, path, entry));
    all.flat_map(|(path, _)| told(case, path)).collect()
}

/// Names, as they are told, of files that have several among those of which `is_one` says so.
fn names(case: &Case, is_one: impl Fn(&[u8]) -> bool) -> BTreeSet<String> {
    let further = case.state.iter().filter(|(path, _)| is_one(path));
    let further = further.filter_map(|(path, entry)| Some((&**path, entry.first()?)));
    further.flat_map(|(path, first)| [path, first]).flat_map(|path| told(case, path)).collect()
}

/// The entry with what is at it, also where it is another name.
fn file<'c>(case: &'c Case, entry: &'c Entry) -> &'c Entry {
    entry.first().and_then(|first| case.state.get(first)).unwrap_or(entry)
}

/// The one of `names` that a line tells of, if it tells of what is there.
fn name_of(line: &str, names: &BTreeSet<String>) -> Option<String> {
    if line.starts_with('*') {
        return None;
    }
    // The longest: a name may have an arrow in it.
    let named = names_in(line).filter(|name| names.contains(*name));
    named.max_by_key(|name| name.len()).map(str::to_owned)
}
