//! The syntax of the configuration files of ssh and sshd.

use crate::name_matches;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The keyword of a line in lower case, and its arguments.
pub fn ssh_setting(line: &str) -> Option<(String, Vec<String>)> {
    let line = line.trim_start();
    let (key, rest) = line.split_once(|c: char| c.is_whitespace() || c == '=')?;
    let rest = rest.trim_start().trim_start_matches('=');
    let words = shell_words::split(rest).unwrap_or_default().into_iter();
    let words = words.take_while(|word| !word.starts_with('#'));
    Some((key.trim_matches('"').to_ascii_lowercase(), words.collect()))
}

/// The paths that match a pattern, and the directories that were searched. Their modification times
/// reveal files that are added or removed.
pub fn ssh_files(path: &Path) -> Vec<PathBuf> {
    let (mut paths, mut searched) = (vec![PathBuf::new()], Vec::new());
    for component in path.components() {
        let (Component::Normal(name), true) = (component, is_pattern(component.as_os_str())) else {
            paths.iter_mut().for_each(|path| path.push(component));
            continue;
        };
        // The values of ssh's tokens and variables are not known here, so they match anything.
        let any = name.as_bytes().iter().any(|byte| b"%$".contains(byte));
        let pattern = if any { b"*" } else { name.as_bytes() };
        let mut matching = Vec::new();
        for dir in paths {
            let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name());
            let names = names.filter(|name| name_matches(pattern, name.as_bytes()));
            matching.extend(names.map(|name| dir.join(name)));
            searched.push(dir);
        }
        matching.sort();
        paths = matching;
    }
    searched.extend(paths);
    searched
}

fn is_pattern(name: &OsStr) -> bool {
    name.as_bytes().iter().any(|byte| b"*?[%$".contains(byte))
}
