//! Copies files and directories, with a progress bar: `copy SOURCE... DESTINATION`.

use haul::{Copy, Error, Event, Location, Monitor, Progress, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use std::env;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// A monitor that draws a bar.
struct Bar {
    progress: Progress,
    bar: ProgressBar,
}

impl Monitor for Bar {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    // The fate of each entry is an event.
    fn event(&self, event: Event<'_>) {
        self.bar.set_length(self.progress.bytes_total.load(Ordering::Relaxed));
        self.bar.set_position(self.progress.bytes_done.load(Ordering::Relaxed));
        if let Event::Warning { path, message, .. } = event {
            self.bar.println(format!("{}: {message}", haul::escape_bytes(path)));
        }
    }

    fn cancelled(&self) -> bool {
        false
    }
}

/// Copies all but the last location to that.
pub(crate) fn copy(mut locations: Vec<Location>) -> Result<Summary, Error> {
    let dest = locations.pop().expect("a destination");
    let style = ProgressStyle::with_template("{bytes}/{total_bytes} {bar} {eta}");
    let bar = ProgressBar::new(0).with_style(style.expect("a template that parses"));
    let bar = Bar { progress: Progress::default(), bar };
    let copied = Copy::new(locations, dest).run(&bar);
    bar.bar.finish();
    copied
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
