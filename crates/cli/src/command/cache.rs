//! `haul cache`: shows, clears or verifies the chunk cache of this machine.

use crate::args::{CacheAction, CacheCommand};
use crate::error::{CommandError, ExitCode};
use crate::json;
use crate::progress::Screen;
use crate::quantity;
use crate::report::{Detail, Lazy, Report, Show};
use crate::server;
use haul::files::shown;
use haul::state;
use haul_engine::{CacheConfig, CacheFigures, ChunkCache};
use std::io;

pub(super) fn run(command: &CacheCommand) -> ExitCode {
    let detail = if command.json { Detail::Json } else { Detail::Text(Show::Normal) };
    let report = &Report::new(detail, &Screen::default());
    match execute(command, report) {
        Ok(()) => report.finish(ExitCode::Success),
        Err(error) => report.abort(&error, None),
    }
}

fn execute(command: &CacheCommand, report: &Report) -> Result<(), CommandError> {
    let dir = match &command.client {
        Some(client) => server::cache::dir_of(client)?,
        None => state::cache_dir().ok_or_else(|| {
            let message = "there is no place for a cache: HOME is not an absolute path";
            CommandError::io(message)
        })?,
    };
    let place = CacheConfig { dir, kept_max: crate::cache::kept_max() };
    let failed = |error: io::Error| {
        let dir = shown(&place.dir);
        let why = match error.kind() {
            io::ErrorKind::WouldBlock => "another haul uses the cache".to_owned(),
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                "not a directory".to_owned()
            }
            _ => haul_model::os_text(&error),
        };
        CommandError::io(format!("can't use the cache in {dir}: {why}"))
    };
    let hint = "set HAUL_CACHE_DIR to a directory of your own, or to one that can be created";
    let opened = match &command.client {
        // The cache may belong to another user: the one that runs the client's jobs.
        Some(_) => ChunkCache::open_for_other(&place.dir, place.kept_max),
        None => place.open(),
    };
    let cache = opened.map_err(|error| failed(error).with_hint(hint))?;
    match command.action {
        CacheAction::Show => {
            let figures = cache.figures().map_err(failed)?;
            report.message(&Lazy {
                level: Show::Quiet,
                text: || figures_text(&place, figures),
                json: || json::cache(&place.dir.to_string_lossy(), place.kept_max, &figures),
            });
        }
        CacheAction::Clear => cache.clear().map_err(failed)?,
        CacheAction::Verify => {
            let checked = cache.verify().map_err(failed)?;
            let good = quantity::counted(checked.good, "chunk is good", "chunks are good");
            let dropped = quantity::count(checked.dropped);
            report.message(&Lazy {
                level: Show::Quiet,
                text: || format!("{good}, {dropped} dropped\n"),
                json: || json::cache_checked(&checked),
            });
        }
    }
    Ok(())
}

/// The figures of the cache at `place`.
fn figures_text(place: &CacheConfig, figures: CacheFigures) -> String {
    let CacheFigures { chunks, bytes, files, index_len, kept_len, saved } = figures;
    let size = quantity::bytes;
    let dir = shown(&place.dir);
    let chunks = quantity::counted(chunks, "chunk", "chunks");
    let files = quantity::counted(files, "file", "files");
    let kept = match place.kept_max {
        0 => format!("{} (off)", size(kept_len)),
        max => format!("{} of at most {}", size(kept_len), size(max)),
    };
    let saved_parts = quantity::counted(saved.parts, "part", "parts");
    format!(
        "directory: {dir}\nindex: {chunks} of {files}, {} ({} on disk)\nkept: {kept}\nsaved: {} in {saved_parts}\n",
        size(bytes),
        size(index_len),
        size(saved.bytes),
    )
}
