//! A case: trees, and the words with which both programs are run.

use crate::drawing::{derive, fill, name};
use crate::entry::{Content, Entry, Kind, TreeState, entry, is_in};
use crate::faking;
use crate::lot::Lot;
use crate::relations::is_of_rules;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Where the two sides are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Local,
    Upload,
    Download,
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    /// Both programs run as root, or else as a user.
    pub(crate) is_root: bool,
    pub(crate) way: Way,
    pub(crate) state: TreeState,
    /// Flags, each with its value.
    pub(crate) flags: Vec<String>,
    pub(crate) sources: Vec<Vec<u8>>,
    pub(crate) dest: Vec<u8>,
}

impl Case {
    /// Draws the case of `seed`.
    pub(crate) fn draw(seed: u64, can_be_root: bool) -> Self {
        let mut lot = Lot::new(seed);
        let lot = &mut lot;
        let is_root = can_be_root && lot.chance(75);
        let way = match lot.below(12) {
            0 => Way::Upload,
            1 => Way::Download,
            _ => Way::Local,
        };
        let mut state = TreeState::new();
        let top = entry(lot, Kind::Dir, is_root);
        state.insert(b"src".to_vec(), Entry { mode: 0o755, ..top });
        fill(lot, &mut state, b"src", is_root, 0);
        let (sources, dest) = places(lot, &mut state, is_root);
        let mut flags = base(lot);
        extra(lot, &mut flags, &state, is_root);
        bases(lot, &mut flags, &mut state, is_root);
        faking::draw(lot, &mut flags, &mut state, is_root);
        let mut case = Self { seed, is_root, way, state, flags, sources, dest };
        case.avoid_what_is_known();
        case
    }

    /// True if that letter is among the flags, or `-a` is and stands for it.
    pub(crate) fn has(&self, letter: char) -> bool {
        let mut has = false;
        for flag in &self.flags {
            let is_short = |rest: &&str| !rest.starts_with('-') && !rest.starts_with("M--");
            if let Some(letters) = flag.strip_prefix('-').filter(is_short) {
                has |= letters.contains(letter);
                has |= letters.contains('a') && "rlptgoD".contains(letter);
            } else if *flag == format!("--no-{letter}") {
                has = false;
            }
        }
        has
    }

    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.flags.iter().any(|flag| flag == word || flag.starts_with(&format!("{word}=")))
    }

    /// True if rules may leave something out.
    pub(crate) fn has_rules(&self) -> bool {
        let is_rule = |flag: &String| flag.contains("clude") || flag.starts_with("--filter");
        self.has('C') || self.has('F') || self.flags.iter().any(is_rule)
    }

    pub(crate) fn deletes(&self) -> bool {
        self.flags.iter().any(|flag| flag.starts_with("--del"))
    }

    /// The path of the destination.
    pub(crate) fn dest(&self) -> &[u8] {
        self.dest.strip_suffix(b"/").unwrap_or(&self.dest)
    }

    /// The flags, the sources and the destination.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let flags = self.flags.iter().map(OsString::from);
        let paths = self.sources.iter().chain([&self.dest]);
        let paths = paths.map(|path| OsString::from_vec(path.clone()));
        flags.chain(["--".into()]).chain(paths).collect()
    }
}

/// Draws sources and a destination, and what the latter has.
fn places(lot: &mut Lot, state: &mut TreeState, is_root: bool) -> (Vec<Vec<u8>>, Vec<u8>) {
    let tops: Vec<_> = state
        .keys()
        .filter(|path| path.iter().filter(|byte| **byte == b'/').count() == 1)
        .cloned()
        .collect();
    let plain = |lot: &mut Lot, state: &mut TreeState, path: &[u8]| {
        let dir = entry(lot, Kind::Dir, is_root);
        state.insert(path.to_vec(), Entry { mode: 0o755, ..dir });
    };
    match lot.below(20) {
        0..2 => {
            let dest = *lot.pick(&[&b"new"[..], b"new/"]);
            (vec![lot.pick(&[b"src/".to_vec(), b"src".to_vec()]).clone()], dest.to_vec())
        }
        2..5 => {
            plain(lot, state, b"dst");
            derive(lot, state, b"src", b"dst/src", is_root);
            (vec![b"src".to_vec()], lot.pick(&[b"dst".to_vec(), b"dst/".to_vec()]).clone())
        }
        5..7 if !tops.is_empty() => {
            derive(lot, state, b"src", b"dst", is_root);
            let mut sources: Vec<_> = tops.iter().filter(|_| lot.chance(60)).cloned().collect();
            if sources.is_empty() {
                sources.push(tops[0].clone());
            }
            (sources, b"dst/".to_vec())
        }
        7 if !tops.is_empty() => {
            let from = lot.pick(&tops).clone();
            derive(lot, state, &from, b"dst", is_root);
            let is_dir = state[&from].kind == Kind::Dir;
            let slash: &[u8] = if is_dir { b"/" } else { b"" };
            (vec![[&from[..], slash].concat()], b"dst".to_vec())
        }
        8 => {
            derive(lot, state, b"src", b"dst", is_root);
            (vec![b"src/.".to_vec()], b"dst".to_vec())
        }
        _ => {
            derive(lot, state, b"src", b"dst", is_root);
            (vec![b"src/".to_vec()], lot.pick(&[b"dst".to_vec(), b"dst/".to_vec()]).clone())
        }
    }
}

/// The flags that say what is kept.
fn base(lot: &mut Lot) -> Vec<String> {
    let mut flags = vec![lot.pick(&["-i", "-i", "-i", "-i", "-ii", "-i"]).to_string()];
    match lot.below(20) {
        0..13 => flags.push("-a".into()),
        13..17 => {
            let mut letters = String::from("-r");
            letters.extend("lptgoD".chars().filter(|_| lot.chance(55)));
            flags.push(letters);
        }
        17 => flags.push("-d".into()),
        18 => flags.push("-dlt".into()),
        _ => flags.push("-l".into()),
    }
    for no in ["--no-p", "--no-t", "--no-o", "--no-g", "--no-l", "--no-D"] {
        if flags[1] == "-a" && lot.chance(3) {
            flags.push(no.into());
        }
    }
    for (flag, percent) in [
        ("-H", 25),
        ("-A", 18),
        ("-X", 18),
        ("-S", 6),
        ("-U", 5),
        ("-O", 4),
        ("-J", 4),
        ("-E", 5),
        ("--numeric-ids", 5),
        ("-n", 18),
        ("-x", 3),
        ("-W", 4),
        ("-L", 5),
    ] {
        if lot.chance(percent) {
            flags.push(flag.into());
        }
    }
    flags
}

/// Flags that select, compare, change and remove.
fn extra(lot: &mut Lot, flags: &mut Vec<String>, state: &TreeState, is_root: bool) {
    for (flag, percent) in [
        ("-u", 7),
        ("-c", 7),
        ("-I", 4),
        ("-m", 6),
        ("--size-only", 5),
        ("--existing", 5),
        ("--ignore-existing", 5),
        ("--force", 5),
        ("--fsync", 1),
        ("--mkpath", 3),
    ] {
        if lot.chance(percent) {
            flags.push(flag.into());
        }
    }
    for (all, percent) in [
        (&["--modify-window=1", "--modify-window=-1", "--modify-window=3600"][..], 5),
        (&["--min-size=1", "--min-size=6", "--min-size=1K"], 4),
        (&["--max-size=0", "--max-size=5", "--max-size=4K", "--max-size=4095b"], 4),
        (
            &[
                "--chmod=go-w",
                "--chmod=D2755,F640",
                "--chmod=ugo=rwX",
                "--chmod=Fu+x,Dg-rx",
                "--chmod=a-w",
                "--chmod=+t",
            ],
            5,
        ),
    ] {
        if lot.chance(percent) {
            flags.push(lot.pick(all).to_string());
        }
    }
    let owners: &[&str] = &[
        "--chown=daemon:bin",
        "--chown=:2",
        "--usermap=root:daemon,*:bin",
        "--groupmap=root:3,*:4",
        "--usermap=0-1:7,12000-13000:8",
        "--groupmap=bin:daemon",
    ];
    if is_root && lot.chance(6) {
        flags.push(lot.pick(owners).to_string());
    }
    rules(lot, flags, state);
    if lot.chance(50) {
        deleting(lot, flags);
    }
    if lot.chance(8) {
        flags.push("-b".into());
        if lot.chance(50) {
            flags.push(lot.pick(&["--backup-dir=../kept", "--backup-dir=kept"]).to_string());
        }
        if lot.chance(30) {
            flags.push("--suffix=.old".into());
        }
    }
}

fn deleting(lot: &mut Lot, flags: &mut Vec<String>) {
    let all = ["--delete", "--delete", "--delete", "--delete-before", "--delete-during"];
    let more = ["--delete-after", "--delete-delay", "--delete-excluded", "--del"];
    flags.push(lot.pick(&[&all[..], &more].concat()).to_string());
    for (flag, percent) in [
        ("--delete-excluded", 8),
        ("--ignore-errors", 5),
        ("--max-delete=0", 2),
        ("--max-delete=1", 2),
        ("--max-delete=3", 3),
    ] {
        if lot.chance(percent) {
            flags.push(flag.into());
        }
    }
}

fn rules(lot: &mut Lot, flags: &mut Vec<String>, state: &TreeState) {
    if lot.chance(6) {
        flags.push("-F".into());
        if lot.chance(20) {
            flags.push("-F".into());
        }
    }
    if lot.chance(5) {
        flags.push("-C".into());
    }
    if !lot.chance(25) {
        return;
    }
    for _ in 0..1 + lot.below(3) {
        let name = match (lot.chance(70), state.len()) {
            (true, len) if len > 0 => {
                let path = state.keys().nth(lot.below(len)).expect("there are so many");
                let path = match lot.chance(70) {
                    true => path.rsplit(|byte| *byte == b'/').next().unwrap_or(path),
                    false => &path[path.iter().position(|byte| *byte == b'/').unwrap_or(0)..],
                };
                escaped(path)
            }
            _ => escaped(&name(lot)),
        };
        let Some(name) = name else { continue };
        let pattern = match lot.below(12) {
            0 => "*.txt".into(),
            1 => "?".into(),
            2 => "[a-c]".into(),
            3 => "*".into(),
            4 => "**/a".into(),
            5 => format!("/{name}"),
            6 => format!("{name}/"),
            7 => format!("{name}/***"),
            8 => format!("{name}/*"),
            _ => name,
        };
        let kind = [
            "--exclude=",
            "--exclude=",
            "--exclude=",
            "--include=",
            "--filter=P ",
            "--filter=R ",
            "--filter=H ",
            "--filter=S ",
            "--filter=- ",
            "--filter=-! ",
            "--filter=-p ",
            "--filter=-s ",
            "--filter=-r ",
        ];
        flags.push(format!("{}{}", lot.pick(&kind), pattern.replace("//", "/")));
    }
    if lot.chance(8) {
        flags.push(
            lot.pick(&["--filter=:- .cvsignore", "--filter=dir-merge .rsync-filter"]).to_string(),
        );
    }
}

/// A name as a pattern, if it is one that can be an argument in this program.
fn escaped(name: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(name).ok()?;
    if text.contains(['*', '?', '[']) {
        let escape = |c: char| match c {
            '*' | '?' | '[' | '\\' => vec!['\\', c],
            c => vec![c],
        };
        return Some(text.chars().flat_map(escape).collect());
    }
    Some(text.to_owned())
}

/// Directories with older trees.
fn bases(lot: &mut Lot, flags: &mut Vec<String>, state: &mut TreeState, is_root: bool) {
    if !lot.chance(9) {
        return;
    }
    let word = *lot.pick(&["--link-dest", "--copy-dest", "--compare-dest"]);
    derive(lot, state, b"src", b"prev", is_root);
    flags.push(format!("{word}=../prev"));
    if lot.chance(25) {
        derive(lot, state, b"src", b"older", is_root);
        flags.push(format!("{word}=../older"));
    }
}

impl Case {
    /// Takes out of the case where haul differs on purpose, as
    /// docs/reference/rsync-options.md has it.
    pub(crate) fn avoid_what_is_known(&mut self) {
        // With -L, each link is followed: a file stands for what it leads to.
        if self.has('L') {
            let links: Vec<_> = self
                .state
                .iter()
                .filter(|(_, entry)| matches!(entry.kind, Kind::Link(_)))
                .map(|(path, _)| path.clone())
                .collect();
            for path in links {
                if is_in(&path, b"src") {
                    let file = Content::Text("in place of a link\n".into());
                    self.state.get_mut(&path).expect("it is there").kind = Kind::File(file);
                }
            }
        }
        // Of a file that can't be read rsync makes and removes something all the same.
        if !self.is_root {
            for (path, entry) in &mut self.state {
                if is_in(path, b"src") && !matches!(entry.kind, Kind::Link(_)) {
                    entry.mode |= 0o404;
                }
            }
        }
        // Of what can't be read rsync takes two for the same with -c.
        if !self.is_root {
            self.flags.retain(|flag| flag != "-c");
        }
        // What can't be read in another directory, rsync fails for, also where it is not needed.
        if !self.is_root {
            for (path, entry) in &mut self.state {
                let is_of_base = is_in(path, b"prev") || is_in(path, b"older");
                if is_of_base && !matches!(entry.kind, Kind::Link(_)) {
                    entry.mode |= 0o404;
                }
            }
        }
        // A file with rules that can't be read fails its directory.
        if !self.is_root {
            let of_rules = self.state.iter_mut().filter(|(path, _)| is_of_rules(path));
            of_rules.for_each(|(_, entry)| entry.mode |= 0o404);
        }
        // A pattern of a host stands for several sources, which is another thing where DEST is
        // no directory; rsync is run here. What is there by that name is meant by it.
        let is_pattern = |source: &Vec<u8>| source.iter().any(|byte| b"*?[".contains(byte));
        let is_dir = |entry: &Entry| entry.kind == Kind::Dir;
        let goes_into_dir =
            self.dest.ends_with(b"/") || self.state.get(&self.dest).is_some_and(is_dir);
        if self.way == Way::Download && self.sources.iter().any(is_pattern) && !goes_into_dir {
            self.way = Way::Local;
        }
        // A destination that is a link out of the case would be the same for both.
        if let Some(Entry { kind: Kind::Link(target), .. }) = self.state.get_mut(&self.dest)
            && target.starts_with(b"..")
        {
            *target = b"missing".to_vec();
        }
        // rsync gives a directory in which nothing is the name of a DEST that is missing.
        let is_alone = match &*self.sources {
            [source] => {
                let source = source.strip_suffix(b".").unwrap_or(source);
                let source = source.strip_suffix(b"/").unwrap_or(source);
                let mut below = self.state.keys().filter(|path| is_in(path, source));
                below.nth(1).is_none() || !self.has('r') || self.has_rules() || self.has('m')
            }
            _ => false,
        };
        if is_alone && !self.dest.ends_with(b"/") && !self.state.contains_key(&self.dest) {
            self.dest.push(b'/');
        }
        // DEST is made before it is known that there is nothing for it.
        if !self.has('r') && !self.has('d') && !self.state.contains_key(&b"dst"[..]) {
            self.flags.push("-r".into());
        }
        // The bases don't go with -c.
        if self.flags.iter().any(|flag| flag.contains("-dest=")) {
            self.flags.retain(|flag| flag != "-c");
        }
        faking::avoid_what_is_known(self);
        if self.deletes() && !self.has('r') && !self.has('d') {
            self.flags.retain(|flag| !flag.starts_with("--delete") && flag != "--del");
        }
    }
}
