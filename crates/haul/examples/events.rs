//! Copies, prints the failures, and stops after too many: `events SOURCE... DESTINATION`.

use haul::{Copy, Error, Event, Location, Monitor, Outcome, Progress, Summary};
use std::process::ExitCode;
use std::sync::Mutex;

/// Number of failures after which the copy is cancelled.
const FAILURES_MAX: usize = 100;

/// A monitor that collects failures and their reasons.
#[derive(Default)]
pub(crate) struct Failures {
    progress: Progress,
    pub(crate) lines: Mutex<Vec<String>>,
}

impl Failures {
    fn push(&self, path: &[u8], why: &haul::Fault) {
        let line = format!("{}: {why}", haul::escape_bytes(path));
        self.lines.lock().expect("no thread has panicked").push(line);
    }
}

impl Monitor for Failures {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    // Called by several threads at once.
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Entry { path, outcome: Outcome::Failed(why), .. } => self.push(path, why),
            Event::Stays { path, fault, .. } => self.push(path, fault),
            _ => {}
        }
    }

    // Once this returns true, the job ends with an error of the kind `Interrupted`.
    fn cancelled(&self) -> bool {
        self.lines.lock().expect("no thread has panicked").len() > FAILURES_MAX
    }
}

/// Copies all locations but the last to the last.
pub(crate) fn copy(mut locations: Vec<Location>, failures: &Failures) -> Result<Summary, Error> {
    let dest = locations.pop().expect("a destination");
    Copy::new(locations, dest).run(failures)
}

fn main() -> Result<ExitCode, Error> {
    let words = std::env::args().skip(1).map(|word| word.parse());
    let failures = Failures::default();
    let summary = copy(words.collect::<Result<_, _>>()?, &failures)?;
    for line in failures.lines.into_inner().expect("no thread has panicked") {
        println!("{line}");
    }
    println!("{} copied, {} failed", summary.copied, summary.failed);
    Ok(if summary.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
