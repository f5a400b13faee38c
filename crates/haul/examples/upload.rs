//! Uploads several directories to a host over one connection: `upload HOST:DIR SOURCE...`.

use haul::{Copy, Error, Location, Session, Silent};
use std::sync::Arc;

/// Copies each of `sources` into `dest`, one after the other; gives the number of files.
pub(crate) fn upload(sources: Vec<Location>, dest: &Location) -> Result<u64, Error> {
    // What ssh has to say, such as a warning about a host key.
    let session = Session::with_diagnostics(Arc::new(|line: &[u8]| {
        eprintln!("ssh: {}", haul::escape_bytes(line));
    }));
    let mut files = 0;
    for source in sources {
        let copy = Copy::new([source], dest.clone()).sync(true);
        files += copy.run_in(&session, &Silent::default())?.copied;
    }
    Ok(files)
}

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let dest = words.next().unwrap_or_default().parse()?;
    let sources = words.map(|word| word.parse()).collect::<Result<_, _>>()?;
    println!("{} files", upload(sources, &dest)?);
    Ok(())
}
