//! How far a run of the test programs is: what has ended, and what is at work.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it is told while nothing ends.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(20);

/// The programs of a run.
pub(super) struct SuiteProgress {
    all: usize,
    begun: Instant,
    state: Mutex<ProgramState>,
}

#[derive(Default)]
struct ProgramState {
    finished: usize,
    /// In the order of their beginnings.
    running: Vec<String>,
}

impl SuiteProgress {
    /// That of so many programs.
    pub(super) fn of(all: usize) -> Self {
        Self { all, begun: Instant::now(), state: Mutex::default() }
    }

    /// A program begins.
    pub(super) fn start_program(&self, name: &str) {
        self.state().running.push(name.to_owned());
    }

    /// A program has ended: its number, and that of all.
    pub(super) fn finish_program(&self, name: &str) -> String {
        let mut state = self.state();
        state.finished += 1;
        state.running.retain(|running| running != name);
        format!("{}/{}", state.finished, self.all)
    }

    /// Tells on standard error how far it is.
    pub(super) fn print(&self) {
        let _ = writeln!(io::stderr(), "xtask: {}", self.line(self.begun.elapsed()));
    }

    fn line(&self, time: Duration) -> String {
        let state = self.state();
        let seconds = time.as_secs();
        let running = state.running.join(", ");
        let (finished, all) = (state.finished, self.all);
        format!(
            "{}:{:02}: {finished} of {all} programs have ended; running: {running}",
            seconds / 60,
            seconds % 60
        )
    }

    fn state(&self) -> MutexGuard<'_, ProgramState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_has_ended_and_what_is_at_work() {
        let suite_progress = SuiteProgress::of(3);
        ["cli sync", "cli retry"].iter().for_each(|name| suite_progress.start_program(name));
        assert_eq!(suite_progress.finish_program("cli sync"), "1/3");
        let line = suite_progress.line(Duration::from_secs(65));
        assert_eq!(line, "1:05: 1 of 3 programs have ended; running: cli retry");
    }
}
