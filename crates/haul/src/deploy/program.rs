//! The program to install: a local file, opened once.

use super::DeployError;
use haul_model::{
    ContentHash, ContentHasher, EXECUTABLE_HEAD_LEN, Executable, ExecutableError, escape_bytes,
};
use haul_net::DEPLOY_MARKER;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Maximum length of a program in bytes. A debug build of haul has a tenth of it.
const PROGRAM_LEN_MAX: u64 = 1 << 30;

/// Bytes that are read at once.
const READ_LEN: usize = 1 << 20;

/// A program that can be installed.
#[derive(Debug)]
pub struct Program {
    pub(super) file: File,
    pub(super) len: u64,
    pub(super) hash: ContentHash,
    pub(super) machine: Executable,
}

impl Program {
    /// Opens the program at `path`. Its headers name the machine that it is for.
    ///
    /// # Errors
    /// [`DeployError::Program`] if it can't be read, or is not an ELF program.
    pub fn open(path: &Path) -> Result<Self, DeployError> {
        Self::read(path, Executable::parse)
    }

    /// Opens the running program, which is at `path`. On a system without ELF, it counts as one for
    /// this machine.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn own(path: &Path) -> Result<Self, DeployError> {
        Self::read(path, |head| match Executable::parse(head) {
            Err(ExecutableError::NotElf) => Ok(Executable {
                system: std::env::consts::OS,
                processor: std::env::consts::ARCH,
                dynamic: true,
            }),
            read => read,
        })
    }

    fn read(
        path: &Path,
        parse: impl FnOnce(&[u8]) -> Result<Executable, ExecutableError>,
    ) -> Result<Self, DeployError> {
        let failed = |why: String| {
            let path = escape_bytes(path.as_os_str().as_bytes());
            DeployError::Program { path, why }
        };
        let not_read = |error: io::Error| failed(format!("can't read it: {error}"));
        // Opening a FIFO would wait for a writer.
        if !fs::metadata(path).map_err(not_read)?.is_file() {
            return Err(failed("it is not a regular file".into()));
        }
        let file = File::open(path).map_err(not_read)?;
        let len = file.metadata().map_err(not_read)?.len();
        if len > PROGRAM_LEN_MAX {
            let most = PROGRAM_LEN_MAX >> 20;
            return Err(failed(format!("it is larger than {most} MiB, so it is not haul")));
        }
        let mut buffer = vec![0; READ_LEN];
        let read = file.read_at(&mut buffer, 0).map_err(not_read)?;
        let head = parse(&buffer[..read.min(EXECUTABLE_HEAD_LEN)]);
        let machine = head.map_err(|error| failed(error.to_string()))?;
        let mut hasher = ContentHasher::new();
        loop {
            match file.read_at(&mut buffer, hasher.len()).map_err(not_read)? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        // The hash of the uploaded file detects later changes.
        let (hash, len) = (hasher.finish(), hasher.len());
        Ok(Self { file, len, hash, machine })
    }

    /// True if the file contains haul's marker. A packed haul does not, so a missing marker is no
    /// proof.
    pub(super) fn looks_like_haul(&self) -> bool {
        let words = DEPLOY_MARKER.as_bytes();
        let mut buffer = vec![0; READ_LEN];
        let mut at = 0;
        loop {
            let read = self.file.read_at(&mut buffer, at).unwrap_or(0);
            if buffer[..read].windows(words.len()).any(|window| window == words) {
                return true;
            }
            // A match may begin in this part and end in the next.
            match read.saturating_sub(words.len() - 1) {
                0 => return false,
                step => at += step as u64,
            }
        }
    }

    /// The machine that the program is for.
    pub fn machine(&self) -> Executable {
        self.machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_program_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let script = dir.path().join("a\x1bscript");
        fs::write(&script, "#!/bin/sh\n").expect("a file");
        let huge = dir.path().join("huge");
        File::create(&huge).and_then(|file| file.set_len(PROGRAM_LEN_MAX + 1)).expect("a file");
        let text = |path: &Path| Program::open(path).expect_err("no program").to_string();
        let script_text = text(&script);
        assert!(script_text.ends_with("/a\\x1bscript: not an ELF program"), "{script_text}");
        assert!(text(&huge).ends_with("it is larger than 1024 MiB, so it is not haul"));
        assert!(text(dir.path()).ends_with("it is not a regular file"));
        assert!(text(Path::new("/nowhere")).contains("can't read it: "));
        assert!(text(Path::new("/dev/zero")).ends_with("it is not a regular file"));
        fs::write(&script, "").expect("a file");
        assert!(text(&script).ends_with("not an ELF program"));
    }

    #[test]
    fn the_marker_is_found_at_any_offset() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("program");
        let own = Executable { system: "linux", processor: "x86_64", dynamic: true };
        let has = |content: &[u8]| {
            fs::write(&path, content).expect("a file");
            Program::read(&path, |_| Ok(own)).expect("a program").looks_like_haul()
        };
        let words = DEPLOY_MARKER.as_bytes();
        for at in [0, 1, READ_LEN - words.len(), READ_LEN - 5, READ_LEN - 1, READ_LEN, READ_LEN + 1]
        {
            let content = [&vec![b'x'; at][..], words, b"x"].concat();
            assert!(has(&content), "{at}");
            assert!(!has(&content[..content.len() - 2]), "{at}");
        }
        assert!(!has(b""));
    }

    #[test]
    fn the_hash_is_the_hash_of_the_file() {
        let own = std::env::current_exe().expect("a path");
        let program = Program::own(&own).expect("a program");
        let content = fs::read(&own).expect("a file");
        assert_eq!(program.len, content.len() as u64);
        assert_eq!(program.hash, ContentHash::of(&content));
        assert_eq!(program.machine().processor, std::env::consts::ARCH);
    }
}
