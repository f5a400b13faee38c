//! The test programs that cargo builds, run side by side: most of them wait for
//! servers, media and other processes, and one after the other they would leave
//! the processors idle.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::iter;
use std::mem;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use haul_testkit::Mount;
use serde_json::Value;

use super::suite_progress::{REPORT_INTERVAL, SuiteProgress};
use crate::{Result, repo};

/// The programs that take longest, which start first: the last to end is
/// waited for by one processor alone. The others follow as cargo names them.
const SLOW: &[&str] = &[
    "sync",
    "connection",
    "retry",
    "sftp",
    "power",
    "scarce",
    "hostile",
    "xtask",
    "memory",
    "resume",
    "semantics",
    "odd",
    "moving",
    "bad_input",
    "restricted",
    "output",
    "between",
    "durable",
    "conformance",
    "deploy",
    "check",
    "client",
    "differential",
    "haul_engine",
    "ends",
    "haul_net",
    "child",
];

/// The programs that wait for more than half of their time, for servers, media, and the
/// ends of pauses: some of them run beside those that keep the processors busy.
const IO_BOUND: &[&str] = &[
    "power",
    "sftp",
    "hostile",
    "memory",
    "retry",
    "xtask",
    "restricted",
    "output",
    "between",
    "haul_net",
    "child",
];

/// Patient programs that run at the same time.
const IO_BOUND_AT_ONCE: usize = 2;

/// The programs that work in memory: the files that they make by the thousand and
/// remove again cost a disk several times as much, and which file system holds them
/// is not their question. Those that ask for one of a kind make it in an image.
const IN_MEMORY: &[&str] = &[
    "check",
    "client",
    "conformance",
    "differential",
    "ends",
    "haul_engine",
    "haul_store",
    "haul_testkit",
    "hostile",
    "memory",
    "moving",
    "odd",
    "output",
    "power",
    "readme",
    "restricted",
    "retry",
    "scarce",
    "semantics",
    "sync",
    "xtask",
];

/// The same with large files, whose smaller holes are not their question.
const IN_LARGE_PAGES: &[&str] = &["bad_input", "between", "connection", "deploy", "resume", "sftp"];

/// The programs that `--quick` leaves out.
const LONG: &[&str] = &[
    "bad_input",
    "between",
    "client",
    "connection",
    "deploy",
    "differential",
    "durable",
    "ends",
    "hostile",
    "lab",
    "memory",
    "moving",
    "odd",
    "output",
    "power",
    "readme",
    "restricted",
    "resume",
    "retry",
    "scarce",
    "server",
    "sftp",
    "sync",
    "xtask",
];

/// A program with tests in it.
#[derive(Debug)]
struct Program {
    /// Package and target, as in `haul sftp`.
    name: String,
    target: String,
    path: PathBuf,
    /// The package's directory, in which cargo starts its tests.
    dir: PathBuf,
}

/// The programs of the workspace, built if they aren't yet.
pub(crate) struct Programs {
    waiting: VecDeque<Program>,
    memory: Memory,
}

/// File systems in memory, where they can be mounted.
#[derive(Debug)]
struct Memory {
    small_pages: Option<Mount>,
    large_pages: Option<Mount>,
}

impl Memory {
    /// Each may grow to half of the machine's memory: together to all of it.
    fn mount() -> Self {
        let (small, large) = (Mount::try_tmpfs_for_all(), Mount::try_tmpfs_of_large_pages());
        Self { small_pages: small.ok(), large_pages: large.ok() }
    }

    /// Where a program works, if its question is not which file system that is.
    fn temp_dir_for(&self, program: &Program) -> Option<&Path> {
        let is_in = |names: &[&str]| names.contains(&&*program.target);
        let (small, large) = (self.small_pages.as_ref(), self.large_pages.as_ref());
        let mount = if is_in(IN_LARGE_PAGES) { large.or(small) } else { small };
        mount.filter(|_| is_in(IN_LARGE_PAGES) || is_in(IN_MEMORY)).map(Mount::path)
    }
}

/// Whose turn it is when a program has ended.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// A program that computes; a patient one where there is no other.
    Any,
    /// A patient program, and no other.
    IoBound,
    /// A patient program; one that computes where there is no other.
    IoBoundFirst,
}

impl Turn {
    /// Takes the next program from those that wait.
    fn of(self, waiting: &mut VecDeque<Program>) -> Option<Program> {
        let of = |io_bound| {
            waiting.iter().position(|program| IO_BOUND.contains(&&*program.target) == io_bound)
        };
        let at = match self {
            Self::Any => of(false).or_else(|| of(true)),
            Self::IoBound => of(true),
            Self::IoBoundFirst => of(true).or_else(|| of(false)),
        };
        waiting.remove(at?)
    }
}

/// The results of all programs.
#[derive(Debug, Default)]
struct Total {
    passed: u64,
    failed: u64,
    /// Programs that did not end well, by their names.
    failed_programs: Vec<String>,
    /// The failed tests of those that ran to their end, with their program.
    to_retry: Vec<(Program, Vec<String>)>,
    /// True if a program ended without a word of how each of its tests did.
    has_aborted: bool,
    /// Tests that passed in their second try.
    flaky: Vec<String>,
    /// How long each program took.
    took: Vec<(Duration, String)>,
}

/// How many tests that failed beside others get a second try alone. Where more fail, it
/// is not because the machine was busy.
const RETRIED_TESTS_MAX: usize = 10;

/// How many of the slowest programs are named.
const SLOWEST_SHOWN: usize = 8;

impl Programs {
    /// Builds the tests of the workspace, but those in its documentation.
    ///
    /// # Errors
    /// When cargo fails, or says what is not understood.
    pub(crate) fn build() -> Result<Self> {
        let mut build = repo::cargo();
        build.args(["test", "--workspace", "--no-run", "--message-format"]);
        build.arg("json-render-diagnostics").stdin(Stdio::null()).stderr(Stdio::inherit());
        let built = build.output()?;
        if !built.status.success() {
            return Err(format!("the tests don't build: {}", built.status).into());
        }
        let mut programs = Vec::new();
        for line in built.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            programs.extend(Program::from_message(&serde_json::from_slice(line)?));
        }
        let place = |program: &Program| SLOW.iter().position(|name| *name == program.target);
        programs.sort_by_key(|program| place(program).unwrap_or(SLOW.len()));
        Ok(Self { waiting: programs.into(), memory: Memory::mount() })
    }

    /// Only what one runs while working.
    pub(super) fn quick(mut self) -> Self {
        let is_unit_test = |program: &Program| program.target.starts_with("haul");
        self.waiting.retain(|program| is_unit_test(program) || !LONG.contains(&&*program.target));
        self
    }

    /// Only the program of this name, as in `haul sftp`.
    pub(crate) fn only(mut self, name: &str) -> Self {
        self.waiting.retain(|program| program.name == name);
        self
    }

    /// Runs all programs, as many at a time as there are processors and two of the
    /// patient beside them, each with `args` and what `environment` says; prints what one
    /// has said when it has ended. Where no patient one is left, one that computes takes the
    /// place of two: each waits for something now and then. A program that has not ended
    /// after `limit`, counted from the first one's start, is killed with all that descends
    /// from it.
    ///
    /// A few tests that failed are run once more when nothing runs beside them, and
    /// counted as passed if they pass then; their names are told, for each is a fault
    /// of the test or of the program.
    ///
    /// # Errors
    /// When a test has failed, also alone, or a program could not be run.
    pub(crate) fn run(
        self,
        args: &[OsString],
        environment: &(dyn Fn(&mut Command) + Sync),
        limit: Duration,
    ) -> Result<()> {
        self.run_then(args, environment, limit, &|| ())
    }

    /// The same, and each processor for which no program is left does `rest`.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(super) fn run_then(
        self,
        args: &[OsString],
        environment: &(dyn Fn(&mut Command) + Sync),
        limit: Duration,
        rest: &(dyn Fn() + Sync),
    ) -> Result<()> {
        if self.waiting.is_empty() {
            return Err("there is no such test program".into());
        }
        let end = Instant::now() + limit;
        let suite_progress = SuiteProgress::of(self.waiting.len());
        let waiting = Mutex::new(self.waiting);
        let total = Mutex::new(Total::default());
        let next =
            |turn: Turn| turn.of(&mut waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let environment = |program: &Program, command: &mut Command| {
            environment(command);
            if let Some(place) = self.memory.temp_dir_for(program) {
                command.env("TMPDIR", place);
            }
        };
        thread::scope(|scope| {
            let suite_progress = &suite_progress;
            // It hears of the end when the last of the others has ended.
            let (running, all_ended) = mpsc::channel::<()>();
            scope.spawn(move || {
                while all_ended.recv_timeout(REPORT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    suite_progress.print();
                }
            });
            let io_bound = iter::repeat_n(Turn::IoBound, IO_BOUND_AT_ONCE - 1);
            let turns = iter::repeat_n(Turn::Any, processors);
            let turns = turns.chain([Turn::IoBoundFirst]).chain(io_bound);
            for turn in turns {
                let (next, total, environment) = (&next, &total, &environment);
                let running = running.clone();
                scope.spawn(move || {
                    let _at_work = running;
                    while let Some(program) = next(turn) {
                        suite_progress.start_program(&program.name);
                        let left = end.saturating_duration_since(Instant::now());
                        let start = Instant::now();
                        let (output, ended) = program.run(args, environment, left);
                        let took = start.elapsed();
                        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                        total.took.push((took, program.name.clone()));
                        let name = program.name.clone();
                        total.add(program, &output, ended.as_ref().err());
                        // Under the lock, so that reports don't mix.
                        let mut out = io::stdout().lock();
                        let _ = writeln!(
                            out,
                            "\n== {} {name} ({:.1} s)\n{}",
                            suite_progress.finish_program(&name),
                            took.as_secs_f64(),
                            output.trim_end()
                        );
                        if let Err(error) = ended {
                            let _ = writeln!(out, "{error}");
                        }
                    }
                    if matches!(turn, Turn::Any) {
                        rest();
                    }
                });
            }
        });
        let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        total.retry_failed(|program, args| {
            let left = end.saturating_duration_since(Instant::now());
            program.run(args, &environment, left)
        });
        println!("\n{} passed, {} failed\n{}", total.passed, total.failed, total.slowest());
        for test in &total.flaky {
            println!("unsteady: {test} failed beside others, and passed alone");
        }
        if total.failed_programs.is_empty() {
            return Ok(());
        }
        Err(format!("tests failed in: {}", total.failed_programs.join(", ")).into())
    }
}

impl Program {
    /// The program that a message of cargo's tells of, if it tells of one.
    fn from_message(message: &Value) -> Option<Self> {
        let path = message["executable"].as_str()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let dir = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = dir.file_name()?.to_string_lossy().into_owned();
        let target = message["target"]["name"].as_str()?.to_owned();
        let name = format!("{package} {target}");
        Some(Self { name, target, path: path.into(), dir })
    }

    /// Runs it; what it has said, and whether it ended well.
    fn run(
        &self,
        args: &[OsString],
        environment: &dyn Fn(&Program, &mut Command),
        limit: Duration,
    ) -> (String, Result<(), String>) {
        let io_failure = |error: io::Error| (String::new(), Err(error.to_string()));
        let (mut output, out, errors) = match Self::output() {
            Ok(files) => files,
            Err(error) => return io_failure(error),
        };
        let mut command = Command::new(&self.path);
        command.args(args).current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir);
        command.stdin(Stdio::null()).stdout(out).stderr(errors);
        environment(self, &mut command);
        let ended = repo::run_within(limit, &mut command).map_err(|error| error.to_string());
        let read = output.rewind().and_then(|()| io::read_to_string(&output));
        read.map_or_else(io_failure, |output| (output, ended))
    }

    /// A file for what a program says, and two handles with one place in it.
    fn output() -> io::Result<(File, File, File)> {
        let output = tempfile::tempfile()?;
        let (out, errors) = (output.try_clone()?, output.try_clone()?);
        Ok((output, out, errors))
    }
}

impl Total {
    /// A line with the slowest programs and their times, the slowest first.
    fn slowest(&self) -> String {
        let mut took: Vec<_> = self.took.iter().collect();
        took.sort_unstable_by(|one, other| other.cmp(one));
        let shown = took.iter().take(SLOWEST_SHOWN);
        let shown: Vec<_> =
            shown.map(|(took, name)| format!("{name} {:.1} s", took.as_secs_f64())).collect();
        format!("slowest: {}", shown.join(", "))
    }

    /// Runs the failed tests once more, if they are few and no program broke off.
    fn retry_failed(
        &mut self,
        run: impl Fn(&Program, &[OsString]) -> (String, Result<(), String>),
    ) {
        let names = self.to_retry.iter().map(|(_, tests)| tests.len()).sum::<usize>();
        if self.has_aborted || names > RETRIED_TESTS_MAX {
            return;
        }
        for (program, tests) in mem::take(&mut self.to_retry) {
            for test in tests {
                let (output, ended) = run(&program, &["--exact".into(), (&test).into()]);
                println!("\n== {} {test}, again and alone\n{}", program.name, output.trim_end());
                let has_run = output.contains("test result: ok. 1 passed;");
                if ended.is_err() || !has_run {
                    continue;
                }
                self.failed -= 1;
                self.passed += 1;
                self.flaky.push(format!("{} {test}", program.name));
            }
        }
        if self.failed == 0 {
            self.failed_programs.clear();
        }
    }

    /// Adds what a program has said in its closing line, and how it ended.
    fn add(&mut self, program: Program, output: &str, error: Option<&String>) {
        let closing = output.lines().rev().find(|line| line.starts_with("test result: "));
        let count = |what: &str| {
            let before = closing?.split(what).next()?.trim_end();
            before.rsplit(' ').next()?.parse::<u64>().ok()
        };
        self.passed += count("passed;").unwrap_or(0);
        self.failed += count("failed;").unwrap_or(0);
        if error.is_some() || closing.is_none() {
            self.failed_programs.push(program.name.clone());
            let failed = failed_tests(output);
            let is_each_known = closing.is_some() && count("failed;") == Some(failed.len() as u64);
            match is_each_known {
                true => self.to_retry.push((program, failed)),
                false => self.has_aborted = true,
            }
        }
    }
}

/// The names of the tests that a program says have failed.
fn failed_tests(output: &str) -> Vec<String> {
    let failed = |line: &str| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.trim_end_matches(" - should panic").to_owned())
    };
    output.lines().filter_map(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_with_tests_are_distinguished_from_all_else_that_is_built() {
        let message = json!({
            "reason": "compiler-artifact", "executable": "/t/deps/sftp-1", "profile": {"test": true},
            "manifest_path": "/r/crates/cli/Cargo.toml", "target": {"name": "sftp"},
        });
        let program = Program::from_message(&message).expect("a test program");
        assert_eq!((&*program.name, &*program.dir), ("cli sftp", Path::new("/r/crates/cli")));
        let mut plain = message.clone();
        plain["profile"]["test"] = false.into();
        assert!(Program::from_message(&plain).is_none());
        assert!(Program::from_message(&json!({"reason": "build-finished"})).is_none());
    }

    fn program(name: &str) -> Program {
        let (target, path, dir) = (name.to_owned(), PathBuf::new(), PathBuf::new());
        Program { name: name.to_owned(), target, path, dir }
    }

    #[test]
    fn one_more_program_runs_if_it_is_patient() {
        let mut waiting: VecDeque<_> = ["power", "sync", "retry", "odd"].map(program).into();
        let mut take = |turn: Turn| turn.of(&mut waiting).map(|program| program.name);
        assert_eq!(take(Turn::Any).as_deref(), Some("sync"));
        assert_eq!(take(Turn::IoBound).as_deref(), Some("power"));
        assert_eq!(take(Turn::Any).as_deref(), Some("odd"));
        assert_eq!(take(Turn::Any).as_deref(), Some("retry"));
        assert_eq!(take(Turn::IoBound), None);
        assert_eq!(take(Turn::IoBoundFirst), None);
        assert_eq!(take(Turn::Any), None);
        let mut waiting: VecDeque<_> = ["sync", "power", "odd"].map(program).into();
        let mut take = |turn: Turn| turn.of(&mut waiting).map(|program| program.name);
        assert_eq!(take(Turn::IoBoundFirst).as_deref(), Some("power"));
        assert_eq!(take(Turn::IoBoundFirst).as_deref(), Some("sync"));
        assert_eq!(take(Turn::IoBound), None);
    }

    const TWO_FAILED: &str = "test x ... ok\ntest y::z ... FAILED\ntest p - should panic ... FAILED\n\n\
        test result: FAILED. 3 passed; 2 failed; 0 ignored";

    #[test]
    fn a_program_that_fails_or_prints_nothing_is_bad() {
        let mut total = Total::default();
        let well = "x\ntest result: ok. 12 passed; 0 failed; 0 ignored\n";
        total.add(program("a"), well, None);
        total.add(program("b"), TWO_FAILED, Some(&String::new()));
        assert!(!total.has_aborted);
        total.add(program("c"), "", None);
        assert_eq!((total.passed, total.failed), (15, 2));
        assert_eq!(total.failed_programs, ["b", "c"]);
        assert!(total.has_aborted);
        total.retry_failed(|_, _| panic!("a program broke off: nothing is run again"));
        assert_eq!(total.failed_programs, ["b", "c"]);
    }

    #[test]
    fn a_failed_test_counts_as_passed_if_it_passes_alone() {
        let failed = || {
            let mut total = Total::default();
            total.add(program("b"), TWO_FAILED, Some(&String::new()));
            total
        };
        let well = || ("test result: ok. 1 passed; 0 failed".to_owned(), Ok(()));
        let mut total = failed();
        total.retry_failed(|_, args| match args[1] == "p" {
            true => well(),
            false => (String::new(), Err("exit status: 101".to_owned())),
        });
        assert_eq!((total.passed, total.failed), (4, 1));
        assert_eq!(total.failed_programs, ["b"]);
        assert_eq!(total.flaky, ["b p"]);
        let mut total = failed();
        total.retry_failed(|_, _| well());
        assert_eq!((total.passed, total.failed), (5, 0));
        assert_eq!(total.failed_programs, [""; 0]);
        // One that was not found has not passed.
        let mut total = failed();
        total.retry_failed(|_, _| ("test result: ok. 0 passed; 0 failed".to_owned(), Ok(())));
        assert_eq!(total.failed_programs, ["b"]);
        // Of many, none is tried again.
        let mut total = Total::default();
        for _ in 0..=RETRIED_TESTS_MAX / 2 {
            total.add(program("c"), TWO_FAILED, Some(&String::new()));
        }
        total.retry_failed(|_, _| panic!("too many"));
        assert_eq!(total.passed, 3 * total.failed_programs.len() as u64);
    }
}
