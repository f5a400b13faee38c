//! The hosts that the configuration of ssh names, in its own files and those that they include.

use haul_engine::{Requests, expand};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of a file that are read, at most.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Files that include each other, at most, as in ssh.
const DEPTH_MAX: usize = 16;

/// Files that are read, at most.
const FILES_MAX: usize = 256;

/// The names of hosts, without patterns.
pub(super) fn hosts() -> BTreeSet<String> {
    let home = std::env::home_dir();
    let mut found = Found { home: home.clone(), hosts: BTreeSet::new(), files: 0 };
    if let Some(home) = home {
        let dir = home.join(".ssh");
        found.read(&dir.join("config"), &dir, 0);
    }
    found.read(Path::new("/etc/ssh/ssh_config"), Path::new("/etc/ssh"), 0);
    found.hosts
}

struct Found {
    home: Option<PathBuf>,
    hosts: BTreeSet<String>,
    /// Files that were read.
    files: usize,
}

impl Found {
    /// Reads the file at `path`; what it includes begins in `dir`. What can't be read names no
    /// host.
    fn read(&mut self, path: &Path, dir: &Path, depth: usize) {
        if depth > DEPTH_MAX || self.files >= FILES_MAX {
            return;
        }
        self.files += 1;
        let mut text = Vec::new();
        let opened = File::open(path).map(|file| file.take(FILE_LEN_MAX));
        if opened.and_then(|mut file| file.read_to_end(&mut text)).is_err() {
            return;
        }
        for line in String::from_utf8_lossy(&text).lines() {
            let mut words = line
                .split(|c: char| c.is_whitespace() || c == '=')
                .map(|word| word.trim_matches('"'))
                .filter(|word| !word.is_empty())
                .take_while(|word| !word.starts_with('#'));
            match words.next().map(str::to_ascii_lowercase).as_deref() {
                Some("host") => {
                    let names = words.filter(|word| !word.contains(['*', '?', '!']));
                    self.hosts.extend(names.map(str::to_owned));
                }
                Some("include") => words.for_each(|word| self.include(word, dir, depth)),
                _ => {}
            }
        }
    }

    fn include(&mut self, word: &str, dir: &Path, depth: usize) {
        let path = match (word.strip_prefix("~/"), &self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => dir.join(word),
        };
        let found = expand(&mut Requests::local(), path.as_os_str().as_bytes());
        for path in found.map(|found| found.paths).unwrap_or_default() {
            self.read(Path::new(OsStr::from_bytes(&path)), dir, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn hosts_of_all_files_are_found_and_patterns_are_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let write =
            |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        fs::create_dir(dir.path().join("more")).expect("made");
        write(
            "config",
            "# Host no\nInclude more/*.conf\nHost nas \"web1\" *.lan !x # my box\n host=db\n",
        );
        write("more/a.conf", "Host a\nInclude config\nMatch host b\n");
        write("more/b.txt", "Host none\n");
        let mut found = Found { home: None, hosts: BTreeSet::new(), files: 0 };
        found.read(&dir.path().join("config"), dir.path(), 0);
        assert_eq!(Vec::from_iter(found.hosts), ["a", "db", "nas", "web1"]);
        // The two that include each other, until they are too deep.
        assert_eq!(found.files, DEPTH_MAX + 1);
    }
}
