//! ssh's configuration files: those in its standard places, and those that they include.

use haul_sys::{home_of_user, ssh_files, ssh_setting};
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most files to read. Changes in further ones are not detected.
const FILES_MAX: usize = 256;

/// Size limit of a file, in bytes. Larger ones are not read.
const FILE_LEN_MAX: u64 = 1 << 20;

/// The directory of the system's configuration.
const SYSTEM: &str = "/etc/ssh";

/// The hosts that the configuration of ssh names, without patterns.
pub fn configured_hosts() -> BTreeSet<String> {
    let mut hosts = BTreeSet::new();
    for text in Read::of(&[]).texts {
        for (key, words) in text.lines().filter_map(ssh_setting) {
            if key == "host" {
                hosts.extend(words.into_iter().filter(|word| !word.contains(['*', '?', '!'])));
            }
        }
    }
    hosts
}

/// Stamps of all files that ssh reads when called with `words`. They differ if the configuration
/// does.
pub(crate) fn stamps(words: &[String]) -> Vec<Vec<u8>> {
    let mut stamps = vec![geteuid().as_raw().to_le_bytes().to_vec()];
    stamps.extend(Read::of(words).stamps);
    stamps
}

/// The device, inode, length and modification time of a file.
pub(crate) fn stamp(file: &Metadata) -> Vec<u8> {
    [file.dev(), file.ino(), file.size(), file.mtime() as u64, file.mtime_nsec() as u64]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// The configuration as it was read.
#[derive(Default)]
struct Read {
    /// Stamps of files, and of directories that were searched.
    stamps: Vec<Vec<u8>>,
    texts: Vec<String>,
}

impl Read {
    /// Reads the files for a call with `words`. ssh finds the user's files in the home directory
    /// from the user database, whatever `HOME` is.
    fn of(words: &[String]) -> Self {
        let home = home_of_user().unwrap_or_default();
        let (user, system) = (home.join(".ssh"), Path::new(SYSTEM));
        let named = named(words).map(|file| (file.to_owned(), user.clone()));
        let mut files: Vec<(PathBuf, PathBuf)> = named.collect();
        // Root's configuration includes files from the system's directory, too.
        files.extend([(user.join("config"), user), (system.join("ssh_config"), system.into())]);
        Self::from(files, &home)
    }

    /// Reads these files and those that they include. Each comes with the directory that its
    /// relative paths start in. Unreadable files are skipped.
    fn from(mut files: Vec<(PathBuf, PathBuf)>, home: &Path) -> Self {
        let mut read = Self::default();
        let mut next = 0;
        while next < files.len() && next < FILES_MAX {
            let (file, base) = files[next].clone();
            next += 1;
            let Ok(found) = fs::metadata(&file) else { continue };
            read.stamps.push(stamp(&found));
            if !found.is_file() || found.size() > FILE_LEN_MAX {
                continue;
            }
            let text = fs::read(&file).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines = text.lines().filter_map(ssh_setting).filter(|(key, _)| key == "include");
            for word in lines.flat_map(|(_, words)| words) {
                for path in ssh_files(&resolve(&word, &base, home)) {
                    if !files.iter().any(|(known, _)| *known == path) {
                        files.push((path, base.clone()));
                    }
                }
            }
            read.texts.push(text);
        }
        read
    }
}

/// The configuration files that ssh's arguments name (`-F`).
fn named(words: &[String]) -> impl Iterator<Item = &Path> {
    // `F` may follow letters that take no value, as in `-4F`.
    let value = |word: &'_ String| {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        Some(letters.find('F')? + 2)
    };
    words.iter().enumerate().filter_map(move |(at, word)| {
        let path = &word[value(word)?..];
        let path = if path.is_empty() { words.get(at + 1)? } else { path };
        Some(Path::new(path))
    })
}

/// The path that `word` names in a file whose relative paths start in `base`.
fn resolve(word: &str, base: &Path, home: &Path) -> PathBuf {
    match word.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => base.join(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_words_mean_what_they_mean_to_ssh() {
        let words = |line: &str| ssh_setting(line).map(|(key, words)| (key, words.join("|")));
        for (line, key, read) in [
            ("Include a b", "include", "a|b"),
            ("Include \"a b\" c", "include", "a b|c"),
            ("Include = a", "include", "a"),
            ("  include=\"a\"", "include", "a"),
            ("Host nas \"web1\" *.lan !x # my box", "host", "nas|web1|*.lan|!x"),
            ("# Host no", "#", "Host|no"),
        ] {
            assert_eq!(words(line), Some((key.to_owned(), read.to_owned())), "{line}");
        }
        assert_eq!(words("Host"), None);
        let words = ["-v", "-F", "one", "-Ftwo", "-4F", "three"].map(str::to_owned);
        assert!(named(&words).eq(["one", "two", "three"].map(Path::new)));
        let base = Path::new("/base");
        assert_eq!(resolve("a", base, Path::new("/home")), Path::new("/base/a"));
        assert_eq!(resolve("~/a", base, Path::new("/home")), Path::new("/home/a"));
        assert_eq!(resolve("/a", base, Path::new("/home")), Path::new("/a"));
    }

    #[test]
    fn files_that_are_included_are_read_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let write =
            |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        fs::create_dir(dir.path().join("more")).expect("made");
        write("config", "Include mo*/*.conf ~/home-%h\n");
        write("more/a.conf", "Include config\n");
        write("more/b.txt", "Host none\n");
        write("home-x", "Host h\n");
        let read = || {
            let files = vec![(dir.path().join("config"), dir.path().to_owned())];
            Read::from(files, dir.path())
        };
        let first = read();
        let has = |text: &str| first.texts.iter().filter(|read| read.starts_with(text)).count();
        assert_eq!(["Include mo", "Include config", "Host h", "Host none"].map(has), [1, 1, 1, 0]);
        assert_eq!(read().stamps, first.stamps);
        // A file that is added, and one that changes.
        write("more/c.conf", "");
        let second = read();
        assert_ne!(second.stamps, first.stamps);
        write("more/a.conf", "Include config # changed\n");
        assert_ne!(read().stamps, second.stamps);
    }
}
