//! Runs both programs on the trees of a case, and compares what they make of them.

use crate::case::{Case, Way};
use crate::codes;
use crate::common::{HAUL, World, mode, run, script};
use crate::entry::{USER, is_in};
use crate::exceptions::{self, Fact};
use crate::facts::{self, Facts};
use crate::faking;
use crate::lines::Said;
use crate::making;
use haul_model::escape_bytes;
use haul_testkit::Haul;
use haul_testkit::haul::{Outcome, Running};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long one run of a program may take. The trees are small.
const LIMIT: Duration = Duration::from_secs(20);

/// A place for trials, with haul where each user can run it.
pub(crate) struct Bench {
    world: World,
    program: PathBuf,
    pipe: PathBuf,
    home: PathBuf,
}

/// A way in which the two programs differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Difference {
    /// haul has not ended in time.
    Hang,
    Code {
        rsync: Option<i32>,
        haul: Option<i32>,
    },
    Tree(Vec<String>),
    Lines(Vec<String>),
}

/// The results of both programs for a case.
pub(crate) struct Trial {
    pub(crate) found: Vec<Difference>,
    pub(crate) rsync: Outcome,
    pub(crate) haul: Outcome,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let program = world.path().join("haul");
        run(std::process::Command::new("cp").arg(HAUL).arg(&program));
        let pipe = script(&world.path().join("pipe"), "shift\neval \"exec $*\"");
        let home = world.path().join("home");
        fs::create_dir(&home).expect("a directory");
        mode(&home, 0o777);
        Self { world, program, pipe, home }
    }

    /// Runs both, in a directory `name` that is made and removed again.
    pub(crate) fn try_out(&self, name: &str, case: &Case) -> Trial {
        let root = self.world.path().join(name);
        fs::create_dir(&root).expect("a directory");
        mode(&root, 0o755);
        let began = seconds();
        let sides = ["rsync", "haul"].map(|side| {
            let dir = root.join(side);
            fs::create_dir(&dir).expect("a directory");
            making::make(&dir, &case.state);
            if !case.is_root && crate::common::is_root() {
                chown(&dir, Some(USER), Some(USER)).expect("an owner");
            }
            dir
        });
        let rsync = self.run(&sides[0], "rsync".as_ref(), case);
        let haul = self.run(&sides[1], &self.program, case);
        let run = began - 2..=seconds() + 2;
        let [theirs, ours] = sides.map(|dir| facts::read(&dir, &run, case.has('U')));
        let before = || {
            let dir = root.join("before");
            fs::create_dir(&dir).expect("a directory");
            making::make(&dir, &case.state);
            facts::read(&dir, &run, case.has('U'))
        };
        let found = compare(case, (&rsync, &theirs), (&haul, &ours), before);
        fs::remove_dir_all(&root).expect("removed");
        Trial { found, rsync, haul }
    }

    fn run(&self, dir: &Path, program: &Path, case: &Case) -> Outcome {
        let mut haul = match case.is_root || !crate::common::is_root() {
            true => Haul::new(program),
            false => {
                let user = [format!("--reuid={USER}"), format!("--regid={USER}")];
                Haul::new("setpriv").args(user).arg("--clear-groups").arg(program)
            }
        };
        haul = haul.home(&self.home).cwd(dir).limit(LIMIT).env("LC_ALL", "C");
        if program.ends_with("rsync") {
            return ended(&haul.arg("-8").args(case.words()));
        }
        haul = haul.arg("sync");
        if case.way == Way::Local {
            return ended(&haul.args(case.words()));
        }
        haul = haul.arg("--rsh").arg(&self.pipe).arg("--remote-haul").arg(&self.program);
        haul = haul.args(faking::flags(case)).arg("--");
        let here = |path: &[u8]| {
            let mut text = dir.as_os_str().to_owned();
            text.push("/");
            text.push(std::os::unix::ffi::OsStrExt::from_bytes(path) as &std::ffi::OsStr);
            text
        };
        let there = |path: &[u8]| {
            let mut text = std::ffi::OsString::from("host:");
            text.push(here(path));
            text
        };
        let sources = case.sources.iter().map(|source| match case.way {
            Way::Download => there(source),
            _ => here(source),
        });
        let dest = if case.way == Way::Upload { there(&case.dest) } else { here(&case.dest) };
        ended(&haul.args(sources).arg(dest))
    }
}

/// Runs it to its end, or until its time is up.
fn ended(program: &Haul) -> Outcome {
    program.spawn().and_then(Running::wait).expect("it runs")
}

fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
    i64::try_from(since.as_secs()).expect("it is not so late")
}

/// The ways in which two runs of a case differ, with the trees that they left, and what was
/// there before.
pub(crate) fn compare(
    case: &Case,
    theirs: (&Outcome, &Facts),
    ours: (&Outcome, &Facts),
    before: impl FnOnce() -> Facts,
) -> Vec<Difference> {
    let mut found = Vec::new();
    if ours.0.timed_out {
        return vec![Difference::Hang];
    }
    // With `-H` rsync may not end.
    if theirs.0.timed_out && case.has('H') {
        return found;
    }
    let said = |outcome: &Outcome| Said { lines: lines(&outcome.stdout), errors: outcome.err() };
    let (mut rsync, mut haul) = (said(theirs.0), said(ours.0));
    if theirs.0.code != ours.0.code {
        let is_meant = codes::is_in_codes(case, &rsync, &haul);
        if is_meant && codes::is_cut_short(case, &rsync, &haul) {
            return found;
        }
        if is_meant && codes::is_refused(&haul) {
            return after_refusal(before(), ours.1, &haul);
        }
        if !is_meant {
            found.push(Difference::Code { rsync: theirs.0.code, haul: ours.0.code });
        }
    }
    let (errors, ours_all) = (haul.errors.clone(), ours.1);
    let meant = |path: &[u8], name: &str, theirs: Option<&str>, ours: Option<&str>| {
        let all = ours_all;
        exceptions::is_in_tree(&Fact { case, path, name, theirs, ours, errors: &errors, all })
    };
    let differences = facts::differences(theirs.1, ours.1, meant);
    if !differences.is_empty() {
        found.push(Difference::Tree(differences));
    }
    crate::lines::in_lines(case, &mut rsync, &mut haul);
    let (mut rsync, mut haul) = (rsync.lines, haul.lines);
    // rsync sorts directories as if they had a "/" behind their names.
    let is_plain = |byte: &u8| *byte >= b'/';
    let are_plain = case.state.keys().all(|path| path.iter().all(is_plain));
    // Of several names of a file, rsync reports the last one first.
    let mut names = case.state.iter().filter(|(_, entry)| entry.first().is_some());
    let has_links = case.has('H') && names.any(|(path, _)| is_in(path, b"src"));
    let is_in_order = case.has('n') && !case.has('c') && are_plain && !has_links;
    for lines in [&mut rsync, &mut haul] {
        match is_in_order {
            // Where rsync is with its removals depends on how far it reads ahead.
            true => lines.sort_by_key(|line| !line.starts_with('*')),
            false => lines.sort(),
        }
    }
    let deleted = |lines: &mut Vec<String>| {
        let count = lines.iter().take_while(|line| line.starts_with('*')).count();
        lines[..count].sort();
    };
    deleted(&mut rsync);
    deleted(&mut haul);
    if rsync != haul {
        let only = |mark: &str, lines: &[String], others: &[String]| -> Vec<String> {
            let missing = lines.iter().filter(|line| !others.contains(line));
            missing.map(|line| format!("{mark} {line}")).collect()
        };
        let mut told = [only("rsync", &rsync, &haul), only("haul ", &haul, &rsync)].concat();
        if told.is_empty() {
            told.push(format!("the order: rsync {rsync:#?}, haul {haul:#?}"));
        }
        found.push(Difference::Lines(told));
    }
    found
}

/// The differences of a job that haul refused: all must be what it was `before`.
fn after_refusal(before: Facts, after: &Facts, haul: &Said) -> Vec<Difference> {
    let changed = facts::differences(&before, after, |_, _, _, _| false);
    let mut found = Vec::new();
    if !changed.is_empty() {
        found.push(Difference::Tree(changed));
    }
    if !haul.lines.is_empty() {
        found.push(Difference::Lines(haul.lines.clone()));
    }
    found
}

/// Lines about entries, with the escapes of messages. What is sent is marked as what is received,
/// since rsync runs on one machine.
fn lines(text: &[u8]) -> Vec<String> {
    let all = text.split(|byte| *byte == b'\n').filter(|line| {
        line.starts_with(b"*deleting ")
            || (line.len() > 12
                && line[11] == b' '
                && b"<>.ch".contains(&line[0])
                && b"fdLDS".contains(&line[1]))
    });
    let shown = all.map(|line| escape_bytes(&unescaped(line)));
    shown.map(|line| line.replacen('<', ">", usize::from(line.starts_with('<')))).collect()
}

/// The bytes that are written as `\#ooo`.
fn unescaped(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = line;
    while let Some(&byte) = rest.first() {
        let digits = rest
            .get(2..5)
            .filter(|digits| rest.starts_with(b"\\#") && digits.iter().all(u8::is_ascii_digit));
        let value = digits.map(|digits| {
            digits.iter().fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0'))
        });
        match value.and_then(|value| u8::try_from(value).ok()) {
            Some(value) => {
                out.push(value);
                rest = &rest[5..];
            }
            None => {
                out.push(byte);
                rest = &rest[1..];
            }
        }
    }
    out
}
