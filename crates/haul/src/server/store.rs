//! TOML files that haul writes itself. Each is private to its user, and replaced in one step.

use super::place::{failed, shown};
use crate::config;
use crate::error::{CommandError, ErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The value in the file `path`, or the default if there is no file.
///
/// # Errors
/// When the file can't be read, when others may have written it, or when it has other words
/// than it may. They name the line, and never show what is in it.
pub(crate) fn load<T: DeserializeOwned + Default>(path: &Path) -> Result<T, CommandError> {
    let Some(text) = config::read_file(path)? else { return Ok(T::default()) };
    toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count() + 1;
        // The words of the error could show the value.
        let message = format!("{}:{line}: unknown key, or not a value for it", shown(path));
        CommandError::usage(message)
    })
}

/// Replaces the file `path` by one with `value`.
///
/// # Errors
/// Those of the file system.
pub(crate) fn save<T: Serialize>(path: &Path, value: &T) -> Result<(), CommandError> {
    let text = toml::to_string(value).map_err(|error| CommandError::new(ErrorKind::Io, error))?;
    replace(path, text.as_bytes()).map_err(|error| failed(path, &error))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let staged = path.with_extension(format!("new-{}", std::process::id()));
    // One that an earlier process with this number has left.
    let _ = fs::remove_file(&staged);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let named = written.and_then(|()| fs::rename(&staged, path));
    if named.is_err() {
        let _ = fs::remove_file(&staged);
    }
    named?;
    File::open(dir)?.sync_all()
}
