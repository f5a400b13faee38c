//! TOML files that haul writes itself, and their locks. Each is private to its user, and replaced
//! in one step.

use super::place::{failed, shown};
use crate::config;
use crate::error::{CommandError, ErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long another process may hold a lock.
const LOCK_MAX: Duration = Duration::from_secs(5);

/// How often it is asked for.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// The lock of the file `path`, as long as the file is open; `None` if another process has it.
///
/// # Errors
/// Those of the file system.
pub(crate) fn try_lock(path: &Path) -> Result<Option<File>, CommandError> {
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(false).mode(0o600);
    let locked = open.open(path).and_then(|file| Ok(haul_engine::try_lock(&file)?.then_some(file)));
    locked.map_err(|error| failed(path, &error))
}

/// The same, once no other process has it: one that changes `what`.
///
/// # Errors
/// Those of the file system, and if it takes too long.
pub(crate) fn lock(path: &Path, what: &str) -> Result<File, CommandError> {
    let begin = Instant::now();
    loop {
        match try_lock(path)? {
            Some(lock) => return Ok(lock),
            None if begin.elapsed() > LOCK_MAX => {
                let message = format!("another process is changing the {what}");
                return Err(CommandError::new(ErrorKind::Io, message));
            }
            None => thread::sleep(LOCK_POLL),
        }
    }
}

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
    let text = toml::to_string(value).map_err(CommandError::io)?;
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
