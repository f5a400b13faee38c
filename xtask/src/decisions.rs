//! Records what rsync does about one entry, in every combination of options, source and
//! destination that a decision may depend on: `crates/plan/tests/rsync.txt`, which the tests of
//! the plan read.
//!
//! The first line names the rsync. Each other line is `options | source | existing | itemized`. An
//! entry is written as its kind and what it has: `file SIZE SECONDS MODE CONTENT`, `link TARGET
//! SECONDS`, `fifo SECONDS MODE`, `dir`, `full` (a directory with something in it), or `-` for
//! nothing. What rsync itemizes is `-` for nothing, and `refused` if it leaves a directory in the
//! way.

use crate::{Result, repo};
use std::fmt::Write as _;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// The file that is written, below the project's directory.
const TABLE: &str = "crates/plan/tests/rsync.txt";

/// The time that most entries have, in seconds of the epoch.
const BASE: u64 = 1_600_000_000;

const OPTIONS: [&str; 28] = [
    "-a",
    "-r",
    "-rl",
    "-rlt",
    "-rlp",
    "-rlptD",
    "-a -J",
    "-a -u",
    "-a -c",
    "-a -I",
    "-a --size-only",
    "-a --ignore-existing",
    "-a --existing",
    "-a --modify-window=1",
    "-a --modify-window=2",
    "-a -u --modify-window=2",
    "-a -u -c",
    "-a -u -I",
    "-a -u --size-only",
    "-a -u --existing",
    "-a --append",
    "-a --append -u",
    "-a --max-size=15",
    "-a --min-size=15",
    "-a --force",
    "-a --existing --ignore-existing",
    "-rp -c",
    "-a -I --size-only",
];

const SOURCES: [&str; 6] = [
    "file 10 0 644 x",
    "file 20 0 644 x",
    "file 0 0 644 x",
    "link a 0",
    "fifo 0 644",
    "file 10 0.5 755 x",
];

const EXISTING: [&str; 30] = [
    "-",
    "file 10 0 644 x",
    "file 10 0 644 y",
    "file 10 0 600 x",
    "file 10 -1 644 x",
    "file 10 1 644 x",
    "file 10 -2 644 x",
    "file 10 2 644 x",
    "file 10 -3 644 y",
    "file 10 3 644 y",
    "file 10 0.5 644 x",
    "file 10 -100 755 y",
    "file 20 0 644 x",
    "file 20 -100 644 x",
    "file 20 100 600 x",
    "file 15 0 644 x",
    "file 0 0 644 x",
    "file 0 -100 600 x",
    "file 5 0 644 x",
    "file 5 -100 644 x",
    "file 5 100 644 x",
    "link a 0",
    "link a -100",
    "link b 0",
    "link b 100",
    "fifo 0 644",
    "fifo -100 644",
    "fifo 100 600",
    "dir",
    "full",
];

pub(crate) fn run() -> Result<()> {
    let temp = tempfile::tempdir()?;
    let version = repo::first_line("rsync", &["--version"]).ok_or("there is no rsync")?;
    let mut table = format!("# {version}\n");
    for (number, options) in OPTIONS.iter().enumerate() {
        let (src, dst) =
            (temp.path().join(format!("s{number}")), temp.path().join(format!("d{number}")));
        fs::create_dir(&src)?;
        fs::create_dir(&dst)?;
        let cases = || {
            let of = |source| EXISTING.iter().map(move |existing| (source, existing));
            SOURCES.iter().flat_map(of).enumerate()
        };
        for (case, (source, existing)) in cases() {
            make(&src.join(name(case)), source)?;
            make(&dst.join(name(case)), existing)?;
        }
        let output = Command::new("rsync")
            .args(options.split(' '))
            .arg("-i")
            .args([src.join(""), dst.clone()])
            .output()?;
        let (lines, errors) = (
            String::from_utf8(output.stdout)?,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        for (case, (source, existing)) in cases() {
            let itemized = |line: &str| {
                let (changes, rest) = line.split_once(' ')?;
                let is_it = rest.split(" -> ").next() == Some(&name(case));
                is_it.then(|| changes.to_owned())
            };
            let result = lines.lines().find_map(itemized);
            let is_refused = errors.lines().any(|line| line.contains(&name(case)));
            let result = if is_refused { "refused".into() } else { result.unwrap_or("-".into()) };
            writeln!(table, "{options} | {source} | {existing} | {result}")?;
        }
    }
    fs::write(repo::root().join(TABLE), table)?;
    Ok(())
}

fn name(case: usize) -> String {
    format!("case{case:03}")
}

/// Makes what these words say.
fn make(path: &Path, words: &str) -> Result<()> {
    let words: Vec<&str> = words.split(' ').collect();
    let mode = |path: &Path, mode: &str| -> Result<()> {
        Ok(fs::set_permissions(path, Permissions::from_mode(u32::from_str_radix(mode, 8)?))?)
    };
    match words[..] {
        ["-"] => {}
        ["file", size, time, bits, content] => {
            fs::write(path, content.repeat(size.parse()?))?;
            let times = FileTimes::new().set_modified(time_of(time)?);
            File::options().write(true).open(path)?.set_times(times)?;
            mode(path, bits)?;
        }
        ["link", target, time] => {
            symlink(target, path)?;
            touch(path, time)?;
        }
        ["fifo", time, bits] => {
            repo::run(Command::new("mkfifo").arg(path))?;
            mode(path, bits)?;
            touch(path, time)?;
        }
        ["dir"] => fs::create_dir(path)?,
        ["full"] => {
            fs::create_dir(path)?;
            fs::write(path.join("something"), "")?;
        }
        _ => return Err(format!("{words:?} is no entry").into()),
    }
    Ok(())
}

fn touch(path: &Path, time: &str) -> Result<()> {
    let since = time_of(time)?.duration_since(SystemTime::UNIX_EPOCH)?;
    let at = format!("@{}.{:09}", since.as_secs(), since.subsec_nanos());
    repo::run(Command::new("touch").args(["-h", "-d", &at]).arg(path))
}

/// The time that is so many seconds from [`BASE`].
fn time_of(words: &str) -> Result<SystemTime> {
    let base = SystemTime::UNIX_EPOCH + Duration::from_secs(BASE);
    let millis = (words.parse::<f64>()? * 1000.0) as i64;
    let by = Duration::from_millis(millis.unsigned_abs());
    Ok(if millis < 0 { base - by } else { base + by })
}
