//! Compares a backup with its source, by content: `verify SOURCE BACKUP`. Exits with 1 if they
//! differ.

use haul::{Check, Error, Location, Silent, Summary};
use std::process::ExitCode;

/// Compares `source` with `backup`.
pub(crate) fn verify(source: Location, backup: Location) -> Result<Summary, Error> {
    Check::new([source], backup).content(true).run(&Silent::default())
}

fn main() -> Result<ExitCode, Error> {
    let mut words = std::env::args().skip(1);
    let mut location = || words.next().unwrap_or_default().parse();
    let found = verify(location()?, location()?)?;
    println!(
        "{} differ, {} are missing, {} are extra",
        found.different, found.missing, found.extra
    );
    Ok(if found.has_differences() || found.failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
