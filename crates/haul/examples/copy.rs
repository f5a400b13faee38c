//! Copies files and directories, with a progress bar: `copy SOURCE... DESTINATION`.

use haul::{Copy, Error, Event, Location, Monitor, Outcome, Progress, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use std::env;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Interval at which the bar is drawn.
const DRAWN_EACH: Duration = Duration::from_millis(50);

/// A monitor that draws a bar.
struct Bar {
    progress: Progress,
    bar: ProgressBar,
}

impl Monitor for Bar {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        let (path, why) = match event {
            Event::Warning { path, message, .. } => (path, message.to_owned()),
            Event::Stays { path, fault, .. } => (path, fault.to_string()),
            Event::Entry { path, outcome: Outcome::Failed(fault), .. } => (path, fault.to_string()),
            _ => return,
        };
        self.bar.println(format!("{}: {why}", haul::escape_bytes(path)));
    }

    fn cancelled(&self) -> bool {
        false
    }
}

/// Copies all locations but the last to the last.
pub(crate) fn copy(mut locations: Vec<Location>) -> Result<Summary, Error> {
    let Some(dest) = locations.pop() else { return Ok(Summary::default()) };
    let style = ProgressStyle::with_template("{bytes}/{total_bytes} {bar} {eta}");
    let bar = ProgressBar::new(0).with_style(style.expect("a template that parses"));
    let bar = Bar { progress: Progress::default(), bar };
    let copy = Copy::new(locations, dest);
    thread::scope(|scope| {
        let copying = scope.spawn(|| copy.run(&bar));
        while !copying.is_finished() {
            bar.bar.set_length(bar.progress.bytes_total.load(Ordering::Relaxed));
            bar.bar.set_position(bar.progress.bytes_done.load(Ordering::Relaxed));
            thread::sleep(DRAWN_EACH);
        }
        bar.bar.finish();
        copying.join().expect("no panic")
    })
}

fn main() -> ExitCode {
    let locations: Result<Vec<_>, _> = env::args().skip(1).map(|word| word.parse()).collect();
    match locations.map_err(Error::from).and_then(copy) {
        Ok(summary) if summary.failed == 0 => ExitCode::SUCCESS,
        Ok(summary) => {
            eprintln!("{} entries failed", summary.failed);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
