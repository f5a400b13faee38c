//! Things that a test needs of the machine and may not get: the right to mount, a
//! device, a program. Under `cargo xtask test` and in continuous integration its
//! absence fails the test, for a test that returns early proves nothing. Under a
//! plain `cargo test`, which may run without root, the test is skipped, says so,
//! and leaves a line in a file if it is told one.
//!
//! [`missing`] is for what can be had, [`skip`] for a test that has nothing to
//! say on a machine like this one. The latter never fails, and is told too.

use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::panic::Location;
use std::path::Path;
use std::thread;

/// The environment variable that makes a missing fixture a failure: anything but
/// nothing, `0` and `false`.
pub const REQUIRED: &str = "HAUL_TEST_REQUIRE";

/// Continuous integration sets this one, with the same values.
const CI: &str = "CI";

/// The environment variable with the path of the file to which each skip is
/// appended as a line.
pub const SKIPS: &str = "HAUL_TEST_SKIPS";

/// The fixture that was made. None, as with [`missing`], if it could not be;
/// `what` names it.
#[track_caller]
pub fn made<T>(what: impl Display, made: io::Result<T>) -> Option<T> {
    match made {
        Ok(fixture) => Some(fixture),
        Err(error) => {
            missing(format_args!("{what} ({error})"));
            None
        }
    }
}

/// The test, or what would come next in it, can't run without `what`.
///
/// # Panics
///
/// Where fixtures are required.
#[track_caller]
pub fn missing(what: impl Display) {
    let required = [REQUIRED, CI].iter().any(|name| is_on(env::var(name).ok().as_deref()));
    assert!(!required, "a fixture is missing: {what}");
    skip(format_args!("missing: {what}"));
}

/// The test, or what would come next in it, has nothing to say here, for `why`.
#[track_caller]
pub fn skip(why: impl Display) {
    let line = line(thread::current().name(), Location::caller(), &why.to_string());
    eprint!("{line}");
    if let Some(path) = env::var_os(SKIPS) {
        append(Path::new(&path), &line).expect("the file of skips can be written");
    }
}

fn is_on(value: Option<&str>) -> bool {
    !matches!(value, None | Some("" | "0" | "false"))
}

/// A test's thread is called like the test.
fn line(thread: Option<&str>, place: &Location<'_>, why: &str) -> String {
    let name = match thread {
        None | Some("main") => String::new(),
        Some(name) => format!("{name} "),
    };
    let why = why.replace('\n', " ");
    format!("skipped: {name}({}:{}): {why}\n", place.file(), place.line())
}

/// One write, so that lines of several processes don't mix.
fn append(path: &Path, line: &str) -> io::Result<()> {
    File::options().append(true).create(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_is_said_by_a_value_that_is_on() {
        for (value, on) in [
            (None, false),
            (Some(""), false),
            (Some("0"), false),
            (Some("false"), false),
            (Some("1"), true),
            (Some("true"), true),
        ] {
            assert_eq!(is_on(value), on, "{value:?}");
        }
    }

    #[test]
    fn a_line_names_the_test_the_place_and_the_reason() {
        let place = Location::caller();
        let at = format!("({}:{})", place.file(), place.line());
        assert_eq!(line(Some("a_test"), place, "so"), format!("skipped: a_test {at}: so\n"));
        assert_eq!(line(None, place, "two\nlines"), format!("skipped: {at}: two lines\n"));
    }

    #[test]
    fn lines_are_appended() {
        let dir = crate::TempDir::new().expect("a temporary directory");
        let path = dir.path().join("skips");
        append(&path, "one\n").expect("written");
        append(&path, "two\n").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "one\ntwo\n");
    }

    /// Makes the next test do something, in a process of its own.
    const MISSES: &str = "HAUL_TEST_MISSES_A_FIXTURE";

    #[test]
    fn what_misses_a_fixture() {
        if env::var_os(MISSES).is_some() {
            assert_eq!(made("a unicorn", Err::<(), _>(io::Error::other("none is left"))), None);
        }
    }

    #[test]
    fn a_missing_fixture_fails_where_it_is_required_and_is_reported_elsewhere() {
        let dir = crate::TempDir::new().expect("a temporary directory");
        for (required, ci, fails) in [("", "", false), ("1", "", true), ("", "true", true)] {
            let skips = dir.path().join(format!("skips-{required}{ci}"));
            let run = std::process::Command::new(env::current_exe().expect("a running program"))
                .args(["--exact", "fixture::tests::what_misses_a_fixture", "--nocapture"])
                .envs([(MISSES, "1"), (REQUIRED, required), (CI, ci)])
                .env(SKIPS, &skips)
                .output()
                .expect("it starts");
            let said = String::from_utf8_lossy(&run.stderr).into_owned();
            assert_eq!(run.status.success(), !fails, "{said}");
            let told = if fails { "a fixture is missing: a unicorn" } else { "missing: a unicorn" };
            assert!(said.contains(told) && said.contains("none is left"), "{said}");
            let lines = std::fs::read_to_string(&skips).unwrap_or_default();
            assert_eq!(lines.lines().count(), usize::from(!fails), "{lines}");
        }
    }

    #[test]
    fn what_could_be_made_is_given() {
        assert_eq!(made("a number", Ok(1)), Some(1));
    }
}
