//! Measuring haul against the tools that people use now: every workload, every
//! tool in turn, round by round, in one run on one machine.
//!
//! Compared figures are always from the same round, seconds apart, so that a
//! machine that is busy for a while slows both. The tools share one ssh server
//! on loopback and one client configuration, with the ciphers that each would
//! choose by itself; `cat`, which is there to show what one stream can do, has AES-GCM.

mod chart;
#[cfg(target_os = "linux")]
mod lab;
mod machine;
mod measure;
mod merge;
mod question;
mod report;
mod safety;
mod server;
mod tool;
mod workload;

use std::path::{Path, PathBuf};

use haul_testkit::{Mount, Sshd};
use tempfile::TempDir;

use self::measure::Bench;
use self::question::{BenchContext, Question};
use self::report::{Marks, Report};
use self::safety::QUESTIONS;
use self::workload::{Scale, WORKLOADS, Workload};
use crate::{Result, repo, setup};

/// The tables, and the chart that is drawn from them.
const PAGE: &str = "docs/benchmarks.md";
const CHART: &str = "docs/benchmarks.svg";

/// Room for the workloads: each 1 GiB source with a copy by each tool, and the
/// 10,000 files with theirs.
const SPACE_BYTES: u64 = 10 << 30;

/// Where memory is a file system, when none may be mounted.
const SHARED_MEMORY: &str = "/dev/shm";

/// Rounds that count unless told otherwise.
const ROUNDS: u32 = 5;

/// The same over a link that takes its time.
const LAB_ROUNDS: u32 = 3;

/// How many times shorter files are in a quick run, for the questions.
const QUICK_SHRINK: u64 = 64;

/// The rows to measure, and how.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Put the tables, or with --only their rows, into docs/benchmarks.md, and draw
    /// docs/benchmarks.svg
    #[arg(long, conflicts_with_all = ["quick", "haul"])]
    write: bool,
    /// Measure nothing, and draw docs/benchmarks.svg anew from docs/benchmarks.md
    #[arg(long, exclusive = true)]
    chart: bool,
    /// Measure over slow and long links in the lab, which needs root
    #[cfg(target_os = "linux")]
    #[arg(long)]
    lab: bool,
    /// Rounds that count, 5 or in the lab 3; one more warms up and measures memory
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Only the workloads whose name contains this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Small workloads, to see that everything works; figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Work here instead of on a tmpfs of its own
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Measure this program instead of building haul
    #[arg(long, value_name = "PATH")]
    haul: Option<PathBuf>,
}

impl Args {
    /// The command that repeats the run, as it goes into the report.
    fn command(&self) -> String {
        let mut command = String::from("cargo xtask bench");
        if self.write {
            command.push_str(" --write");
        }
        if self.in_lab() {
            command.push_str(" --lab");
        }
        command.push_str(&format!(" --rounds {}", self.rounds()));
        if let Some(name) = &self.only {
            command.push_str(&format!(" --only {name}"));
        }
        if self.quick {
            command.push_str(" --quick");
        }
        command
    }

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.in_lab() { LAB_ROUNDS } else { ROUNDS })
    }

    #[cfg(target_os = "linux")]
    fn in_lab(&self) -> bool {
        self.lab
    }

    #[cfg(not(target_os = "linux"))]
    fn in_lab(&self) -> bool {
        false
    }

    fn scale(&self) -> Scale {
        if self.quick { Scale::QUICK } else { Scale::FULL }
    }

    /// The program to measure, built if none was given.
    fn program(&self) -> Result<PathBuf> {
        match &self.haul {
            Some(path) => {
                Ok(path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?)
            }
            None => build(),
        }
    }
}

/// Measures and prints. Fails when a row is over its bound, unless the run
/// was a quick one.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.chart {
        return redraw();
    }
    setup::run()?;
    #[cfg(target_os = "linux")]
    if args.lab {
        return lab::run(args);
    }
    let (workloads, questions) = select(args.only.as_deref())?;
    let haul = args.program()?;
    let space = Space::new(args.dir.as_deref())?;
    let cache = space.path().join("cache");
    let sshd = Sshd::builder().usual_logins();
    let sshd = sshd.env("HAUL_CACHE_DIR", cache.display().to_string()).start()?;
    let mut bench = Bench::new(&haul, &sshd, space.path(), args.scale(), args.rounds())?;
    let mut report = Report::new(&haul, space.kind(), "loopback", args);
    for workload in workloads {
        report.add(workload, bench.measure(workload)?);
    }
    drop(sshd);
    let context = BenchContext {
        haul: &haul,
        parts: build_parts()?,
        memory: space.path(),
        rounds: args.rounds(),
        shrink: if args.quick { QUICK_SHRINK } else { 1 },
    };
    for question in questions {
        report.answer(question, (question.ask)(&context)?);
    }
    conclude(&report, args, report::LOOPBACK)
}

fn redraw() -> Result<()> {
    chart::redraw(&repo::root().join(PAGE), &repo::root().join(CHART))
}

/// Prints the report, and writes it if that is wanted. Fails when a row is
/// over its bound, unless the run was a quick one.
fn conclude(report: &Report, args: &Args, marks: Marks) -> Result<()> {
    println!("{}", report.to_markdown());
    if args.write {
        let page = repo::root().join(PAGE);
        match args.only {
            Some(_) => report.merge_into(&page, marks)?,
            None => report.write_into(&page, marks)?,
        }
        redraw()?;
    }
    match report.over() {
        over if over > 0 && !args.quick => Err(format!("{over} rows are over their bounds").into()),
        _ => Ok(()),
    }
}

type Selected = (Vec<&'static Workload>, Vec<&'static Question>);

fn select(only: Option<&str>) -> Result<Selected> {
    let wanted = |name: &str| only.is_none_or(|part| name.contains(part));
    let workloads: Vec<_> = WORKLOADS.iter().filter(|workload| wanted(workload.name)).collect();
    let questions: Vec<_> = QUESTIONS.iter().filter(|question| wanted(question.name)).collect();
    if workloads.is_empty() && questions.is_empty() {
        let names = WORKLOADS.iter().map(|workload| workload.name);
        let names: Vec<_> = names.chain(QUESTIONS.iter().map(|question| question.name)).collect();
        return Err(format!("no such workload; there are {}", names.join(", ")).into());
    }
    Ok((workloads, questions))
}

/// Builds the store's example, which does one part of a copy at a time.
fn build_parts() -> Result<PathBuf> {
    let words = ["build", "--release", "--package", "haul-store", "--example", "parts"];
    repo::run(repo::cargo().args(words))?;
    Ok(repo::target_dir().join("release/examples/parts"))
}

fn build() -> Result<PathBuf> {
    repo::run(repo::cargo().args(["build", "--release", "--package", "haul-cli"]))?;
    Ok(repo::target_dir().join("release").join("haul"))
}

/// Where the files are.
enum Space {
    Tmpfs(Mount),
    Shared(TempDir),
    Given(TempDir),
}

impl Space {
    fn new(given: Option<&Path>) -> Result<Space> {
        if let Some(dir) = given {
            let dir = TempDir::with_prefix_in("haul-bench-", dir);
            return Ok(Space::Given(dir.map_err(|e| format!("can't work there: {e}"))?));
        }
        if let Ok(mount) = Mount::try_tmpfs(SPACE_BYTES) {
            return Ok(Space::Tmpfs(mount));
        }
        let dir = TempDir::with_prefix_in("haul-bench-", SHARED_MEMORY);
        Ok(Space::Shared(dir.map_err(|e| {
            format!("no tmpfs may be mounted and {SHARED_MEMORY} can't be used ({e}); give a --dir")
        })?))
    }

    fn path(&self) -> &Path {
        match self {
            Space::Tmpfs(mount) => mount.path(),
            Space::Shared(dir) | Space::Given(dir) => dir.path(),
        }
    }

    /// The report's words about it.
    fn kind(&self) -> &'static str {
        match self {
            Space::Tmpfs(_) | Space::Shared(_) => "tmpfs",
            Space::Given(_) => "a directory given with --dir",
        }
    }
}
