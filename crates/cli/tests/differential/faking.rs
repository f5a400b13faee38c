//! Attributes of root that are written down, on either side or both.

use crate::case::{Case, Way};
use crate::entry::{Content, Entry, Kind, TreeState, USER, is_in};
use crate::lot::Lot;

/// The attribute of the record.
pub(crate) const STAT: &str = "user.rsync.%stat";

/// Records of files, of what files can stand for, and of directories.
const FILES: &[&str] =
    &["100644 0,0 1:2", "100600 0,0 0:0", "104755 0,0 12345:12346", "100444 0,0 65534:65534"];
const OTHERS: &[&str] = &["10644 0,0 0:0", "140600 0,0 1:2", "60640 7,5 0:6", "20666 1,3 0:0"];
/// The owner of what has one: no record says so.
const NOBODYS: (u32, u32) = (9, 9);
const LINK: &str = "120777 0,0 5:6";
const DIRS: &[&str] = &["40755 0,0 1:2", "42755 0,0 0:0", "41777 0,0 12345:0", "40500 0,0 1:1"];

/// Draws flags that have them written down, and records where these are read.
pub(crate) fn draw(lot: &mut Lot, flags: &mut Vec<String>, state: &mut TreeState, is_root: bool) {
    // With bases, sync/faking.rs looks at few cases that are not drawn.
    let has_bases = flags.iter().any(|flag| flag.contains("-dest="));
    if has_bases || !lot.chance(8) {
        return;
    }
    let (words, sources, dest): (&[&str], _, _) = match lot.below(4) {
        // Who is not root can't do what `--super` says.
        0 if is_root => (&["--fake-super", "-M--super"], true, false),
        1 => (&["--fake-super"], true, true),
        _ => (&["-M--fake-super"], false, true),
    };
    flags.extend(words.iter().map(|&word| word.into()));
    // What other names have is theirs as well.
    let linked: Vec<_> = state.values().filter_map(Entry::first).map(<[u8]>::to_vec).collect();
    for (path, entry) in state.iter_mut() {
        let is_read = if is_in(path, b"src") { sources } else { dest };
        if !is_read || !lot.chance(35) {
            continue;
        }
        let record = match (&entry.kind, lot.below(10)) {
            (Kind::Dir, _) => *lot.pick(DIRS),
            (Kind::File(_), 0) if !linked.contains(path) => {
                entry.kind = Kind::File(Content::Text("away/nowhere".into()));
                LINK
            }
            (Kind::File(_), 1 | 2) => {
                entry.kind = Kind::File(Content::Text(String::new()));
                *lot.pick(OTHERS)
            }
            (Kind::File(_), _) => *lot.pick(FILES),
            _ => continue,
        };
        entry.xattrs.insert(STAT, record);
    }
}

/// Takes out of such a case where haul differs on purpose, as docs/reference/rsync-options.md
/// has it.
pub(crate) fn avoid_what_is_known(case: &mut Case) {
    let (is_of_dest, is_of_sources) = (is_of_dest(case), case.has_word("--fake-super"));
    // Where it is read by nobody it is an attribute like others, which rsync keeps with `-XX`.
    for (path, entry) in &mut case.state {
        if !(if is_in(path, b"src") { is_of_sources } else { is_of_dest }) {
            entry.xattrs.remove(STAT);
        }
    }
    if !is_of_dest && !is_of_sources {
        return;
    }
    // Without these, rsync writes down what it was not told.
    for letter in ['p', 'o', 'g'] {
        if !case.has(letter) {
            case.flags.push(format!("-{letter}"));
        }
    }
    for (path, entry) in &mut case.state {
        let is_there = !is_in(path, b"src");
        let is_plain = matches!(entry.kind, Kind::Dir | Kind::File(_) | Kind::Name(_));
        // rsync can't write it down with what really is something else.
        if is_of_dest && is_there && !is_plain {
            entry.kind = Kind::File(Content::Text("in place of another kind\n".into()));
        }
        // What has another form than it would write rsync writes again, also where nothing
        // differs.
        if is_of_dest && is_there {
            let own = if entry.kind == Kind::Dir { 0o700 } else { 0o600 };
            let record = entry.xattrs.get(STAT).and_then(|record| record.split_once(' '));
            let mode = record.map(|(mode, _)| u32::from_str_radix(mode, 8).expect("it is octal"));
            if mode.is_some() {
                entry.owner = NOBODYS;
            }
            entry.mode = mode.unwrap_or(entry.mode) & 0o777 | own;
        }
        // Nor can a user with what is not the own, or may not be written.
        if !case.is_root {
            entry.owner = (USER, USER);
            entry.mode |= if entry.kind == Kind::Dir { 0o700 } else { 0o600 };
        }
    }
}

/// The kind that a file stands for, if it is another one.
pub(crate) fn kind_of(entry: &Entry) -> Option<u32> {
    let (mode, _) = entry.xattrs.get(STAT)?.split_once(' ')?;
    let kind = u32::from_str_radix(mode, 8).expect("it is octal") & 0o170_000;
    (kind != 0o100_000).then_some(kind)
}

/// True if those of the destination are written down.
pub(crate) fn is_of_dest(case: &Case) -> bool {
    let has = |word: &str| case.flags.iter().any(|flag| flag == word);
    has("-M--fake-super") || has("--fake-super") && !has("-M--super")
}

/// The flags of a case as they are where its way leads to another side: the first word there
/// is of the side where the command runs, and the second of the other one.
pub(crate) fn flags(case: &Case) -> Vec<String> {
    let sources = case.flags.iter().any(|flag| flag == "--fake-super");
    let (here, there) = match case.way {
        Way::Local => return case.flags.clone(),
        Way::Upload => (sources, is_of_dest(case)),
        Way::Download => (is_of_dest(case), sources),
    };
    let is_other = |flag: &&String| !flag.contains("-super");
    let mut flags: Vec<_> = case.flags.iter().filter(is_other).cloned().collect();
    flags.extend(here.then(|| "--fake-super".into()));
    flags.extend(there.then(|| "-M--fake-super".into()));
    flags
}
