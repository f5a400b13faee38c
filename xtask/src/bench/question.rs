//! Questions about what safety costs: each is a table of its own, of ways that
//! are run in turn, round by round.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use haul_testkit::{FileSystem, Mount, tree};

use super::report::{median, verdict};
use crate::{Result, repo};

/// One question.
pub(crate) struct Question {
    /// Short, for `--only`.
    pub(crate) name: &'static str,
    /// The heading above the answer. Answers with the same one are one table.
    pub(crate) text: &'static str,
    /// Measures the answer.
    pub(crate) ask: fn(&BenchContext) -> Result<Table>,
}

/// The means by which the questions are asked.
pub(crate) struct BenchContext<'a> {
    /// The program.
    pub(crate) haul: &'a Path,
    /// The example of the store, which does a part of a copy at a time.
    pub(crate) parts: PathBuf,
    /// A directory in memory.
    pub(crate) memory: &'a Path,
    pub(crate) rounds: u32,
    /// Files are this many times shorter, to see that everything works.
    pub(crate) shrink: u64,
}

/// An answer.
pub(crate) struct Table {
    pub(crate) columns: &'static [&'static str],
    pub(crate) rows: Vec<Row>,
    /// Figures over their bounds.
    pub(crate) over: usize,
    /// Remarks for the reader.
    pub(crate) notes: Vec<&'static str>,
}

/// A row of a table.
pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    /// True if it is for those who change haul, and left out of the page.
    pub(crate) is_detail: bool,
}

/// A way to do something: prepares, and gives the seconds of what counts.
pub(crate) type Variant<'w> = Box<dyn FnMut() -> Result<f64> + 'w>;

impl BenchContext<'_> {
    /// `mib` MiB, or less in a quick run; at least one block.
    pub(crate) fn mib(&self, mib: u64) -> u64 {
        (mib / self.shrink).max(4)
    }

    /// Runs the ways in turn: one round that does not count, then those that
    /// do. Gives the seconds of each way, round by round.
    pub(crate) fn interleave(
        &self,
        name: &str,
        variants: &mut [Variant<'_>],
    ) -> Result<Vec<Vec<f64>>> {
        let mut seconds = vec![Vec::new(); variants.len()];
        for round in 0..=self.rounds {
            let mut line = format!("{name} {round}/{}:", self.rounds);
            for (variant, seconds) in variants.iter_mut().zip(&mut seconds) {
                let took = variant()?;
                line.push_str(&format!(" {took:.3} s"));
                if round > 0 {
                    seconds.push(took);
                }
            }
            eprintln!("{line}");
        }
        Ok(seconds)
    }

    /// One part of a copy; the seconds that it says it took.
    pub(crate) fn part<S: AsRef<OsStr>>(&self, words: &[S]) -> Result<f64> {
        let output = Command::new(&self.parts).args(words).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("{}: {}", self.parts.display(), output.status).into());
        }
        Ok(text.trim().parse::<f64>()?)
    }

    /// Runs haul; the seconds until it has ended.
    pub(crate) fn haul<S: AsRef<OsStr>>(&self, words: &[S]) -> Result<f64> {
        timed(Command::new(self.haul).args(words))
    }
}

impl Table {
    pub(crate) fn new(columns: &'static [&'static str]) -> Table {
        Table { columns, rows: Vec::new(), over: 0, notes: Vec::new() }
    }

    /// A row that compares with another way, and has a bound or has none.
    pub(crate) fn compare(
        &mut self,
        title: impl Into<String>,
        ours: &[f64],
        other: (&str, &[f64]),
        bound: Option<f64>,
    ) {
        let ratio = median(ours.iter().zip(other.1).map(|(ours, other)| ours / other).collect());
        let is_within_bound = bound.is_none_or(|bound| ratio <= bound);
        self.over += usize::from(!is_within_bound);
        let cells = vec![
            title.into(),
            seconds(ours),
            other.0.to_owned(),
            seconds(other.1),
            format!("{ratio:.3}"),
            bound.map_or("-".to_owned(), |bound| format!("{bound:.2}")),
            bound.map_or("", |_| verdict(is_within_bound)).to_owned(),
        ];
        self.rows.push(Row { cells, is_detail: false });
    }

    /// Leaves all rows but the last `count` out of the page.
    pub(crate) fn hide_all_but_last(&mut self, count: usize) {
        let details = self.rows.len().saturating_sub(count);
        self.rows[..details].iter_mut().for_each(|row| row.is_detail = true);
    }
}

/// The columns of [`Table::compare`].
pub(crate) const COMPARISON: &[&str] =
    &["what", "its time", "against", "its time", "ratio", "bound", ""];

/// The median, as it is printed.
pub(crate) fn seconds(values: &[f64]) -> String {
    let value = median(values.to_vec());
    if value < 0.1 { format!("{:.2} ms", value * 1e3) } else { format!("{value:.3} s") }
}

/// The seconds until a command has ended well.
pub(crate) fn timed(command: &mut Command) -> Result<f64> {
    let begin = Instant::now();
    repo::run(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
    Ok(begin.elapsed().as_secs_f64())
}

/// A file system of its own, whose device is not cached by the machine's.
pub(crate) fn disk(kind: FileSystem, gib: u64) -> Result<Mount> {
    let mount = Mount::try_image(kind, gib << 30)?;
    mount.bypass_host_cache()?;
    Ok(mount)
}

/// A random file in a directory.
pub(crate) fn source(dir: &Path, mib: u64) -> Result<PathBuf> {
    let path = dir.join(format!("source-{mib}"));
    if !path.exists() {
        tree::random_file(&path, mib << 20, mib)?;
        File::open(&path)?.sync_all()?;
    }
    Ok(path)
}

/// Removes what a run before has left, and waits until the disk is quiet.
pub(crate) fn clear(path: &Path) -> Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    repo::run(&mut Command::new("sync"))
}

/// Lets the page cache forget everything that is durable.
pub(crate) fn drop_page_cache() -> Result<()> {
    repo::run(&mut Command::new("sync"))?;
    fs::write("/proc/sys/vm/drop_caches", "1")
        .map_err(|e| format!("the page cache can't be dropped: {e}").into())
}
