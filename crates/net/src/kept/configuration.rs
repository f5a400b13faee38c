//! The files of ssh's configuration, as far as a change of one makes another connection.

use rustix::process::geteuid;
use std::env;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that are looked at, at most. A configuration that includes more can't be kept track of.
const FILES_MAX: usize = 256;

/// The longest file that is read for what it includes, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// The identity, length and time of a file.
pub(super) fn stamp(file: &Metadata) -> Vec<u8> {
    [file.dev(), file.ino(), file.size(), file.mtime() as u64, file.mtime_nsec() as u64]
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// The stamps of all configuration files of ssh that are there, where it is called with `words`.
pub(super) fn stamps(words: &[String]) -> Vec<Vec<u8>> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let user = home.join(".ssh");
    // Root's configuration includes from the system's directory, too.
    let system = Path::new("/etc/ssh");
    let named = named(words).map(|file| (file.to_owned(), user.clone()));
    let mut files: Vec<(PathBuf, PathBuf)> = named.collect();
    files.extend([(user.join("config"), user), (system.join("ssh_config"), system.into())]);
    let mut stamps = vec![geteuid().as_raw().to_le_bytes().to_vec()];
    let mut next = 0;
    while next < files.len() && next < FILES_MAX {
        let (file, base) = files[next].clone();
        next += 1;
        let Ok(found) = fs::metadata(&file) else { continue };
        stamps.push(stamp(&found));
        if found.is_file() && found.size() <= FILE_LEN_MAX {
            let text = fs::read(&file).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let words = text.lines().filter_map(included).flatten();
            let paths = words.map(|word| resolve(&word, &base, &home));
            let found: Vec<_> = paths.flat_map(|path| expand(&path)).collect();
            files.extend(found.into_iter().map(|file| (file, base.clone())));
        }
    }
    stamps
}

/// The files that the words of ssh name as its configuration.
fn named(words: &[String]) -> impl Iterator<Item = &Path> {
    // It may stand behind letters that take no value, as in `-4F`.
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

/// The words of a line that includes files.
fn included(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start();
    let (key, rest) = line.split_once(|c: char| c.is_whitespace() || c == '=')?;
    let rest = rest.trim_start().trim_start_matches('=');
    let words = || shell_words::split(rest).unwrap_or_default();
    key.eq_ignore_ascii_case("include").then(words)
}

/// The path that `word` stands for in a file whose relative paths begin in `base`.
fn resolve(word: &str, base: &Path, home: &Path) -> PathBuf {
    match word.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => base.join(word),
    }
}

/// The files of a path whose last name may be a pattern. All files of its directory count then:
/// one more that changes costs a connection, and nothing else.
fn expand(path: &Path) -> Vec<PathBuf> {
    let is_pattern = |path: &Path| path.to_string_lossy().contains(['*', '?', '[', '%', '$']);
    if !is_pattern(path) {
        return vec![path.to_owned()];
    }
    let mut dir = path;
    while is_pattern(dir) {
        let Some(above) = dir.parent() else { return Vec::new() };
        dir = above;
    }
    // The directory's own time tells of files that come and go.
    let mut files = vec![dir.to_owned()];
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    files.extend(entries.map(|entry| entry.path()).filter(|path| path.is_file()));
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_included_are_found() {
        let words = |line: &str| included(line).unwrap_or_default();
        assert_eq!(words("Include a b"), ["a", "b"]);
        assert_eq!(words("Include \"a b\" c"), ["a b", "c"]);
        assert_eq!(words("Include = a"), ["a"]);
        assert_eq!(words("  include=\"a\""), ["a"]);
        assert!(words("Host include").is_empty());
        let words = ["-v", "-F", "one", "-Ftwo", "-4F", "three"].map(str::to_owned);
        assert!(named(&words).eq(["one", "two", "three"].map(Path::new)));
        let base = Path::new("/base");
        assert_eq!(resolve("a", base, Path::new("/home")), Path::new("/base/a"));
        assert_eq!(resolve("~/a", base, Path::new("/home")), Path::new("/home/a"));
        assert_eq!(resolve("/a", base, Path::new("/home")), Path::new("/a"));
        let temp = tempfile::tempdir().expect("a directory");
        for name in ["one", "two"] {
            fs::write(temp.path().join(name), "").expect("written");
        }
        let found = expand(&temp.path().join("*.conf"));
        assert_eq!(
            found,
            [temp.path().to_owned(), temp.path().join("one"), temp.path().join("two")]
        );
        assert_eq!(expand(Path::new("/a/b")), [Path::new("/a/b")]);
    }
}
