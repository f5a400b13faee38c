//! `haul hash`: prints the BLAKE3 hashes of files. Each is computed on the file's machine, or here
//! if its host has no haul.

use super::{PathQuestion, ask_each_path};
use crate::args::Asked;
use crate::error::ExitCode;
use crate::json;
use crate::progress::{Counts, SignalProgress, while_ticking};
use crate::report::{Lazy, Show};
use haul::Location;
use haul_engine::Hashing;
use haul_model::{ContentHash, escape_bytes};
use parking_lot::Mutex;
use std::io::IsTerminal;

/// Prints a line for each file.
pub(super) fn run(asked: &Asked) -> ExitCode {
    ask_each_path(asked, |requests, PathQuestion { location, report, .. }| {
        let hashing = Mutex::default();
        let mut signal_progress = SignalProgress::new();
        let mut on_progress = |now| {
            *hashing.lock() = now;
            if let Some(line) = signal_progress.line(|| counts(location, now)) {
                report.output().error_line(&line);
            }
        };
        let mut work = || requests.hash(&location.path, &mut on_progress);
        let hash = match report.draws_progress() {
            true => {
                while_ticking(|| report.progress(Some(counts(location, *hashing.lock()))), work)
            }
            false => work(),
        };
        report.progress(None);
        let hash = hash?;
        let (host, path) = (location.machine.name(), &location.path);
        report.message(&Lazy {
            level: Show::Quiet,
            // On a terminal the name is escaped: it could contain control sequences.
            text: || match std::io::stdout().is_terminal() {
                true => format!("{hash}  {}\n", escape_bytes(path)),
                false => check_line(hash, path),
            },
            json: || json::hash(host.as_deref(), path, &hash.to_string()),
        });
        // The next hash may take long, so this one is shown now.
        report.output().flush();
        Ok(())
    })
}

/// The progress of hashing one file.
fn counts(location: &Location, hashing: Hashing) -> Counts {
    Counts {
        files_total: 1,
        bytes_done: hashing.done,
        bytes_total: hashing.size,
        bytes_moved: hashing.read,
        listed_all: true,
        reached: true,
        current: location.path.clone(),
        ..Counts::default()
    }
}

/// The line that `b3sum --check` reads. A name with backslashes or line ends has them escaped, and
/// the line then starts with a backslash. Bytes that are not UTF-8 are replaced.
fn check_line(hash: ContentHash, path: &[u8]) -> String {
    let name = String::from_utf8_lossy(path);
    if !name.contains(['\\', '\n', '\r']) {
        return format!("{hash}  {name}\n");
    }
    let name = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    format!("\\{hash}  {name}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_b3sum() {
        let hash = ContentHash::of(b"");
        let hex = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        for (path, expected) in [
            (&b"a b"[..], format!("{hex}  a b\n")),
            (b"a\nb\r\\", format!("\\{hex}  a\\nb\\r\\\\\n")),
            (b"a\xffb", format!("{hex}  a\u{fffd}b\n")),
            (b"tab\t", format!("{hex}  tab\t\n")),
        ] {
            assert_eq!(check_line(hash, path), expected);
        }
    }
}
