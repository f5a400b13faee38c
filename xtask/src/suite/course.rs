//! How far a run of the test programs is: what has ended, and what is at work.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it is told while nothing ends.
pub(super) const TOLD_EVERY: Duration = Duration::from_secs(20);

/// The programs of a run.
pub(super) struct Course {
    all: usize,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: usize,
    /// In the order of their beginnings.
    at_work: Vec<String>,
}

impl Course {
    /// That of so many programs.
    pub(super) fn of(all: usize) -> Self {
        Self { all, begun: Instant::now(), state: Mutex::default() }
    }

    /// A program begins.
    pub(super) fn begins(&self, name: &str) {
        self.state().at_work.push(name.to_owned());
    }

    /// A program has ended: its number, and that of all.
    pub(super) fn ends(&self, name: &str) -> String {
        let mut state = self.state();
        state.ended += 1;
        state.at_work.retain(|at_work| at_work != name);
        format!("{}/{}", state.ended, self.all)
    }

    /// Tells on standard error how far it is.
    pub(super) fn tell(&self) {
        let _ = writeln!(io::stderr(), "xtask: {}", self.line(self.begun.elapsed()));
    }

    fn line(&self, time: Duration) -> String {
        let state = self.state();
        let seconds = time.as_secs();
        let at_work = state.at_work.join(", ");
        let (ended, all) = (state.ended, self.all);
        format!(
            "{}:{:02}: {ended} of {all} programs have ended; running: {at_work}",
            seconds / 60,
            seconds % 60
        )
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_has_ended_and_what_is_at_work() {
        let course = Course::of(3);
        ["cli sync", "cli retry"].iter().for_each(|name| course.begins(name));
        assert_eq!(course.ends("cli sync"), "1/3");
        let line = course.line(Duration::from_secs(65));
        assert_eq!(line, "1:05: 1 of 3 programs have ended; running: cli retry");
    }
}
