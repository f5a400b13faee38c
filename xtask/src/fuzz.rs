//! The fuzz targets: built with coverage on stable Rust, and run for a while.
//!
//! cargo-fuzz would want a nightly compiler, for AddressSanitizer. haul's
//! decoders are safe Rust, where a panic or a runaway allocation is the bug to
//! find, so coverage is enough, and stable Rust can do that.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use haul_testkit::TempDir;

use crate::{Result, repo};

/// Instrumentation as cargo-fuzz does it, without the sanitizer.
const RUSTFLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing";

/// A decoder that needs more than this for a small input trusts its lengths.
const RSS_LIMIT_MIB: u32 = 1024;

/// One input may take this long.
const INPUT_SECONDS_MAX: u32 = 10;

/// How much of a failing target's output is shown.
const LINES_SHOWN: usize = 60;

/// The targets to run, and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Time for each target
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u32,
    /// Only the target of this name
    pub(crate) target: Option<String>,
    /// Begin from this seed and from the seeds in the repository alone, so that
    /// the same inputs come in the same order
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// Builds the targets, then runs as many at a time as there are processors.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(targets) = Targets::build(args)? else {
        println!("no fuzz targets yet");
        return Ok(());
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| targets.run());
        }
    });
    targets.end()
}

/// Targets that are built, and those of them that wait to be run.
pub(crate) struct Targets<'a> {
    args: &'a Args,
    dir: PathBuf,
    /// Where their programs are.
    built: PathBuf,
    waiting: Mutex<VecDeque<String>>,
    failed: Mutex<Vec<String>>,
}

impl<'a> Targets<'a> {
    /// Builds those that are wanted. None where the repository has none at all.
    pub(crate) fn build(args: &'a Args) -> Result<Option<Self>> {
        let dir = repo::root().join("fuzz");
        if !dir.exists() {
            return Ok(None);
        }
        let mut targets = targets(&dir)?;
        if let Some(wanted) = &args.target {
            targets.retain(|target| target == wanted);
        }
        if targets.is_empty() {
            return Err("no such fuzz target in fuzz/fuzz_targets".into());
        }
        let built = build(&dir, &targets)?;
        let waiting = Mutex::new(targets.into());
        Ok(Some(Self { args, dir, built, waiting, failed: Mutex::default() }))
    }

    /// Runs one after the other of those that wait, until there is none. Several threads
    /// can share them.
    pub(crate) fn run(&self) {
        let next = || self.waiting.lock().ok()?.pop_front();
        while let Some(target) = next() {
            let ran = run_target(&self.dir, &self.built.join(&target), &target, self.args);
            if let (Err(error), Ok(mut failed)) = (ran, self.failed.lock()) {
                failed.push(error.to_string());
            }
        }
    }

    /// Tells if any of those that ran has found something.
    pub(crate) fn end(self) -> Result<()> {
        let failed = self.failed.into_inner().unwrap_or_default();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
    }
}

/// Builds for an explicit target triple, so that build scripts and procedural
/// macros, which run on the host, are not instrumented.
fn build(dir: &Path, targets: &[String]) -> Result<PathBuf> {
    let triple = repo::host_triple()?;
    let target_dir = dir.join("target");
    let mut build = repo::cargo();
    build
        .args(["build", "--release", "--quiet", "--target", &triple, "--manifest-path"])
        .arg(dir.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        .env("RUSTFLAGS", RUSTFLAGS)
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true");
    for target in targets {
        build.args(["--bin", target]);
    }
    println!("building {} fuzz targets", targets.len());
    repo::run(&mut build)?;
    Ok(target_dir.join(triple).join("release"))
}

/// Runs one target on its corpus, which grows, and its seeds, which don't. With a
/// seed it begins without what earlier runs have found.
fn run_target(dir: &Path, program: &Path, target: &str, args: &Args) -> Result<()> {
    let fresh = TempDir::with_prefix("haul-fuzz-")?;
    let corpus = match args.seed {
        Some(_) => fresh.path().to_owned(),
        None => dir.join("corpus").join(target),
    };
    let artifacts = dir.join("artifacts").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let mut command = Command::new(program);
    command
        // It goes on until more whole seconds than these have passed.
        .arg(format!("-max_total_time={}", args.seconds.saturating_sub(1).max(1)))
        // To libFuzzer 0 is a seed made from the time.
        .arg(format!("-seed={}", args.seed.map_or(0, |seed| seed as u32)))
        .arg(format!("-rss_limit_mb={RSS_LIMIT_MIB}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(&corpus)
        .stdin(Stdio::null());
    let seeds = dir.join("seeds").join(target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    let ran = command.output().map_err(|e| format!("can't start the fuzz target {target}: {e}"))?;
    let stderr = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let lines: Vec<_> = stderr.lines().collect();
        for line in &lines[lines.len().saturating_sub(LINES_SHOWN)..] {
            eprintln!("{line}");
        }
        return Err(format!(
            "the fuzz target {target} found something; the input is in fuzz/artifacts/{target}"
        )
        .into());
    }
    let done = stderr.lines().rev().find(|line| line.starts_with("Done ")).unwrap_or("done");
    println!("fuzz {target}: {done}");
    Ok(())
}

/// The names of the targets, in order.
fn targets(dir: &Path) -> Result<Vec<String>> {
    let sources = dir.join("fuzz_targets");
    let entries = match fs::read_dir(&sources) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "rs")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
