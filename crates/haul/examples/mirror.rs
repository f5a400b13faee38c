//! Shows what a mirror would change, asks, and then changes it: `mirror SOURCE/ DESTINATION`.

use haul::{Error, Event, Location, Monitor, Outcome, Progress, Silent, Summary, Sync};
use std::io::{self, BufRead};
use std::sync::Mutex;

/// A monitor that collects a line for each change.
#[derive(Default)]
struct Changes {
    progress: Progress,
    lines: Mutex<Vec<String>>,
}

impl Monitor for Changes {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        let (word, path) = match event {
            Event::Deleted { path, .. } => ("remove", path),
            Event::Entry { outcome: Outcome::Synced(_), path, .. } => ("change", path),
            _ => return,
        };
        let line = format!("{word} {}", haul::escape_bytes(path));
        self.lines.lock().expect("no thread has panicked").push(line);
    }

    fn cancelled(&self) -> bool {
        false
    }
}

/// Makes `dest` like `source`, if `agrees` returns true for the changes.
pub(crate) fn mirror(
    source: Location,
    dest: Location,
    agrees: impl FnOnce(&[String]) -> bool,
) -> Result<Option<Summary>, Error> {
    let mirror = Sync::new([source], dest).delete(true);
    let changes = Changes::default();
    let tried = mirror.clone().dry_run(true).run(&changes)?;
    // Entries that could not be read are not in the list.
    if tried.failed > 0 {
        return Ok(None);
    }
    let lines = changes.lines.into_inner().expect("no thread has panicked");
    if !agrees(&lines) {
        return Ok(None);
    }
    mirror.run(&Silent::default()).map(Some)
}

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let mut location = || words.next().unwrap_or_default().parse();
    let (source, dest) = (location()?, location()?);
    let asks = |lines: &[String]| {
        println!("{}\ngo on? [y/N]", lines.join("\n"));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).is_ok() && answer.trim() == "y"
    };
    match mirror(source, dest, asks)? {
        Some(summary) => println!("{} copied, {} removed", summary.copied, summary.deleted),
        None => println!("nothing was changed"),
    }
    Ok(())
}
