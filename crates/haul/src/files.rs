//! Files of this user: those that a person writes, and the TOML files that haul writes. haul's own
//! files are private, replaced in one step, and locked.

use haul_model::{escape_bytes, is_missing};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum length of a file that a person writes, in bytes: enough for hundreds of hosts.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Maximum length of a file that haul writes itself, in bytes: enough for 10,000 clients of a
/// server.
const OWN_BYTES_MAX: u64 = 16 << 20;

/// The mode bits that allow others than the owner to write.
const OTHERS_WRITE: u32 = 0o022;

/// Maximum time to wait for a lock.
const LOCK_MAX: Duration = Duration::from_secs(5);

/// Interval between two attempts to lock.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// The reason why a file of this user can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{file}{problem}")]
pub struct FileError {
    /// The path, escaped, and `: ` or `:LINE: `. Empty if the problem names the file.
    file: String,
    problem: FileProblem,
}

/// The problem with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant has its message")]
pub enum FileProblem {
    #[error("can't read it: {0}")]
    Unreadable(io::Error),
    #[error("not a regular file")]
    NotRegular,
    #[error("longer than {0} bytes")]
    TooLong(u64),
    #[error("not UTF-8")]
    NotUtf8,
    #[error("it belongs to another user")]
    OtherOwner,
    #[error("other users can write to it")]
    OthersWrite,
    #[error("unknown key, or not a value for it")]
    Value,
    #[error("it is empty")]
    Empty,
    #[error("another process is changing the {0}")]
    Locked(String),
    #[error("{0}")]
    Io(io::Error),
    #[error("{0}")]
    Unwritable(toml::ser::Error),
}

impl FileProblem {
    /// True if a person must change the file.
    pub fn is_usage_error(&self) -> bool {
        !matches!(self, Self::Locked(_) | Self::Io(_) | Self::Unwritable(_))
    }
}

impl FileError {
    /// An error of the file system at `path`.
    pub fn io(path: &Path, error: io::Error) -> Self {
        Self::at(&shown(path), FileProblem::Io(error))
    }

    fn at(shown: &str, problem: FileProblem) -> Self {
        Self { file: format!("{shown}: "), problem }
    }

    fn in_line(shown: &str, line: usize, problem: FileProblem) -> Self {
        Self { file: format!("{shown}:{line}: "), problem }
    }

    /// The problem.
    pub fn problem(&self) -> &FileProblem {
        &self.problem
    }
}

/// `path`, escaped.
pub fn shown(path: &Path) -> String {
    escape_bytes(path.as_os_str().as_bytes())
}

/// Reads the text of a file. `None` if it does not exist.
///
/// # Errors
/// If the file can't be read, another user may have written it, or it is not UTF-8.
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    read_up_to(FILE_BYTES_MAX, path)
}

fn read_up_to(len_max: u64, path: &Path) -> Result<Option<String>, FileError> {
    let shown = shown(path);
    let unreadable = |error: io::Error| FileError::at(&shown, FileProblem::Unreadable(error));
    // Opening a FIFO would wait for a writer.
    match fs::metadata(path) {
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
        Ok(found) if !found.is_file() => {
            return Err(FileError::at(&shown, FileProblem::NotRegular));
        }
        Ok(_) => {}
    }
    let file = File::open(path).map_err(unreadable)?;
    let user = haul_engine::effective_user();
    if let Some(problem) = by_others(&file.metadata().map_err(unreadable)?, user) {
        return Err(FileError::at(&shown, problem));
    }
    let mut bytes = Vec::new();
    file.take(len_max + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    check_len(&bytes, len_max, &shown)?;
    text(bytes, &shown).map(Some)
}

fn check_len(bytes: &[u8], len_max: u64, shown: &str) -> Result<(), FileError> {
    let is_too_long = bytes.len() as u64 > len_max;
    if is_too_long { Err(FileError::at(shown, FileProblem::TooLong(len_max))) } else { Ok(()) }
}

/// Converts the content of the file with the shown name to text.
fn text(bytes: Vec<u8>, shown: &str) -> Result<String, FileError> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = line_at(error.as_bytes(), valid);
        FileError::in_line(shown, line, FileProblem::NotUtf8)
    })
}

/// The number of the line that contains the byte at `at`, from 1.
pub fn line_at(bytes: &[u8], at: usize) -> usize {
    bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// The problem with a file that another user than `user` or root may have written. A configuration
/// file can name a program that runs with the user's rights.
fn by_others(file: &Metadata, user: u32) -> Option<FileProblem> {
    if file.uid() != user && file.uid() != 0 {
        return Some(FileProblem::OtherOwner);
    }
    (file.mode() & OTHERS_WRITE != 0).then_some(FileProblem::OthersWrite)
}

/// Locks the file `path` until the returned file is closed. `None` if another process has the lock.
///
/// # Errors
/// Errors of the file system.
pub fn try_lock(path: &Path) -> Result<Option<File>, FileError> {
    let mut open = OpenOptions::new();
    open.write(true).create(true).truncate(false).mode(0o600);
    let locked = open.open(path).and_then(|file| Ok(haul_engine::try_lock(&file)?.then_some(file)));
    locked.map_err(|error| FileError::io(path, error))
}

/// Locks the file `path`, and waits for a process that has the lock. `what` names the locked data
/// in the error.
///
/// # Errors
/// Errors of the file system, or a timeout.
pub fn lock(path: &Path, what: &str) -> Result<File, FileError> {
    let begin = Instant::now();
    loop {
        match try_lock(path)? {
            Some(lock) => return Ok(lock),
            None if begin.elapsed() > LOCK_MAX => {
                let problem = FileProblem::Locked(what.to_owned());
                return Err(FileError { file: String::new(), problem });
            }
            None => thread::sleep(LOCK_POLL),
        }
    }
}

/// The value in the TOML file `path`, or the default if the file does not exist.
///
/// # Errors
/// If the file can't be read, another user may have written it, or it has unknown keys or invalid
/// values. The error names the line, and never shows its content.
pub fn load<T: DeserializeOwned + Default>(path: &Path) -> Result<T, FileError> {
    load_up_to(FILE_BYTES_MAX, path)
}

fn load_up_to<T: DeserializeOwned + Default>(len_max: u64, path: &Path) -> Result<T, FileError> {
    let Some(text) = read_up_to(len_max, path)? else { return Ok(T::default()) };
    toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = line_at(text.as_bytes(), start);
        // The parser's message could show the value.
        FileError::in_line(&shown(path), line, FileProblem::Value)
    })
}

/// The value in a file that haul writes itself, which is never empty; see [`load`].
///
/// # Errors
/// See [`load`].
pub fn load_own<T: DeserializeOwned + Default>(path: &Path) -> Result<T, FileError> {
    match fs::metadata(path) {
        Ok(found) if found.len() == 0 => Err(FileError::at(&shown(path), FileProblem::Empty)),
        _ => load_up_to(OWN_BYTES_MAX, path),
    }
}

/// Replaces the file `path` by one with `value`, in TOML, which [`load_own`] can read.
///
/// # Errors
/// Errors of the file system, and [`FileProblem::TooLong`].
pub fn save<T: Serialize>(path: &Path, value: &T) -> Result<(), FileError> {
    let unwritable = |error| FileError::at(&shown(path), FileProblem::Unwritable(error));
    let text = toml::to_string(value).map_err(unwritable)?;
    check_len(text.as_bytes(), OWN_BYTES_MAX, &shown(path))?;
    replace(path, text.as_bytes()).map_err(|error| FileError::io(path, error))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let staged = path.with_extension(format!("new-{}", std::process::id()));
    // An earlier process with the same number may have left one.
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

/// The time `seconds` after the beginning of 1970. `None` if it can't be represented.
pub fn unix_time(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_haul_writes_is_never_empty() {
        type Table = std::collections::HashMap<String, u8>;
        let files = tempfile::tempdir().expect("a directory");
        let path = files.path().join("servers.toml");
        assert_eq!(load_own::<Table>(&path).expect("there is none"), Table::new());
        fs::write(&path, "").expect("written");
        let error = load_own::<Table>(&path).expect_err("it is empty");
        assert!(matches!(error.problem(), FileProblem::Empty), "{error}");
        assert_eq!(load::<Table>(&path).expect("a person may write it"), Table::new());
        fs::write(&path, "a = 1\n").expect("written");
        assert_eq!(load_own::<Table>(&path).expect("read").len(), 1);
    }

    #[test]
    fn a_file_that_haul_writes_can_be_read_again() {
        type Table = std::collections::BTreeMap<String, String>;
        let files = tempfile::tempdir().expect("a directory");
        let path = files.path().join("clients.toml");
        let table = |len: u64| Table::from([("a".to_owned(), "x".repeat(len as usize))]);
        let many = table(FILE_BYTES_MAX);
        save(&path, &many).expect("written");
        assert_eq!(load_own::<Table>(&path).expect("read"), many);
        let error = load::<Table>(&path).expect_err("no person wrote that");
        assert!(matches!(error.problem(), FileProblem::TooLong(FILE_BYTES_MAX)), "{error}");
        let error = save(&path, &table(OWN_BYTES_MAX)).expect_err("it could not be read");
        assert!(matches!(error.problem(), FileProblem::TooLong(OWN_BYTES_MAX)), "{error}");
        assert_eq!(load_own::<Table>(&path).expect("it is as before"), many);
    }

    #[test]
    fn text_that_is_not_utf_8_is_reported_with_its_line() {
        for (bytes, line) in [
            (&b"rsh = \"caf\xe9\""[..], 1),
            (b"\xff", 1),
            (b"timeout = 3\n# caf\xc3\xa9\nrsh = \"\xe9\"\n", 3),
            (b"a\n\n\xe2\x82", 3),
        ] {
            let error = text(bytes.to_vec(), "/c/haul.toml").expect_err("no text");
            let start = format!("/c/haul.toml:{line}: ");
            assert!(error.to_string().starts_with(&start), "{error}");
            assert!(error.to_string().contains("not UTF-8"), "{error}");
        }
        assert!(text("café".into(), "x").is_ok());
    }
}
