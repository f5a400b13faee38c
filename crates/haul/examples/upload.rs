//! Uploads several directories to a host over one connection: `upload HOST:DIR SOURCE...`.

use haul::{Copy, Error, Location, Session, Silent};
use std::process::ExitCode;
use std::sync::Arc;

/// Copies each of `sources` into `dest`, one after the other. Returns the numbers of copied files
/// and of failed entries.
pub(crate) fn upload(sources: Vec<Location>, dest: &Location) -> Result<(u64, u64), Error> {
    // Prints ssh's messages, such as a warning about a host key.
    let session = Session::with_diagnostics(Arc::new(|line: &[u8]| {
        eprintln!("ssh: {}", haul::escape_bytes(line));
    }));
    let (mut files, mut failed) = (0, 0);
    for source in sources {
        let copy = Copy::new([source], dest.clone()).flush(true);
        let summary = copy.run_in(&session, &Silent::default())?;
        (files, failed) = (files + summary.copied, failed + summary.failed);
    }
    Ok((files, failed))
}

fn main() -> Result<ExitCode, Error> {
    let mut words = std::env::args().skip(1);
    let dest = words.next().unwrap_or_default().parse()?;
    let sources = words.map(|word| word.parse()).collect::<Result<_, _>>()?;
    let (files, failed) = upload(sources, &dest)?;
    println!("{files} files, {failed} failed");
    Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
