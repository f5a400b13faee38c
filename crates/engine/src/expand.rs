//! Expands patterns in the paths of hosts, by listing directories component by component. No shell
//! is involved.

use crate::request::{RequestError, Requests};
use haul_model::{Fault, FaultKind, Kind, Side};
use haul_sys::name_matches;

/// The most paths that one pattern may match.
const PATHS_MAX: usize = 64 << 10;

/// The most bytes of these paths, which are kept in memory. The frame of a job holds fewer; a job
/// through SFTP accepts them all.
const PATHS_LEN_MAX: usize = 8 << 20;

/// The paths that match a pattern.
#[derive(Debug, Default)]
pub struct Expanded {
    /// In ascending order of their bytes.
    pub paths: Vec<Vec<u8>>,
    /// Directories that could not be read, raw. Their entries are not among the paths.
    pub faults: Vec<(Vec<u8>, Fault)>,
}

/// True if `path` has a pattern character.
pub fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Finds the paths that match `pattern`: `*`, `?` and `[...]` in any component. Hidden names match
/// only if the component starts with a dot. An existing name that is written exactly so precedes
/// other matches.
///
/// # Errors
/// When the connection fails, or when too many paths match.
pub fn expand(requests: &mut Requests, pattern: &[u8]) -> Result<Expanded, RequestError> {
    match requests.stat(pattern, false) {
        Ok(_) => return Ok(Expanded { paths: vec![pattern.to_vec()], faults: Vec::new() }),
        Err(RequestError::Fault(_)) => {}
        Err(error) => return Err(error),
    }
    let mut found = Expanded { paths: vec![Vec::new()], faults: Vec::new() };
    let (mut rest, mut any_matched, mut must_check) = (pattern, false, false);
    while !rest.is_empty() {
        let start = rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len());
        let (slashes, from) = rest.split_at(start);
        let end = from.iter().position(|byte| *byte == b'/').unwrap_or(from.len());
        let (component, after) = from.split_at(end);
        rest = after;
        must_check = !is_pattern(component);
        if must_check {
            found.paths.iter_mut().for_each(|path| path.extend([slashes, component].concat()));
            continue;
        }
        let only_dirs = !rest.is_empty();
        let mut next = Paths::default();
        for mut dir in std::mem::take(&mut found.paths) {
            dir.extend(slashes);
            match matching(requests, &dir, component, only_dirs, &mut next) {
                Ok(()) => {}
                // It matches but is not a directory, so it has no entries.
                Err(RequestError::Fault(fault)) if any_matched && is_absent(&fault) => {}
                Err(RequestError::Fault(fault)) => found.faults.push((dir, fault)),
                Err(error) => return Err(error),
            }
        }
        if next.is_full {
            let message = format!("it matches more than {PATHS_MAX} paths; name their directory");
            return Err(Fault::new(Side::Source, FaultKind::TooLong, message).into());
        }
        found.paths = next.paths;
        any_matched = true;
    }
    if must_check {
        found.paths = existing(requests, found.paths)?;
    }
    found.paths.sort_unstable();
    Ok(found)
}

/// Paths that were found.
#[derive(Default)]
struct Paths {
    paths: Vec<Vec<u8>>,
    /// The bytes of them all.
    len: usize,
    /// There were too many paths.
    is_full: bool,
}

impl Paths {
    fn add(&mut self, path: Vec<u8>) {
        self.is_full |= self.paths.len() == PATHS_MAX || self.len + path.len() > PATHS_LEN_MAX;
        if !self.is_full {
            self.len += path.len();
            self.paths.push(path);
        }
    }
}

/// Adds the entries of the directory `dir` that match `component`. `dir` is empty or ends with a
/// slash.
fn matching(
    requests: &mut Requests,
    dir: &[u8],
    component: &[u8],
    only_dirs: bool,
    found: &mut Paths,
) -> Result<(), RequestError> {
    let mut matching = Paths::default();
    let mut is_there = false;
    requests.list(dir, &mut |listed| {
        let (name, may_be_dir) = match &listed {
            Ok(entry) => (
                entry.name.as_ref().map_or(&b""[..], |name| name.as_bytes()),
                matches!(entry.kind, Kind::Dir | Kind::Symlink { .. }),
            ),
            Err((name, _)) => (&name[..], true),
        };
        is_there |= name == component;
        if (may_be_dir || !only_dirs) && name_matches(component, name) {
            matching.add([dir, name].concat());
        }
    })?;
    if is_there {
        found.add([dir, component].concat());
        return Ok(());
    }
    found.is_full |= matching.is_full;
    matching.paths.into_iter().for_each(|path| found.add(path));
    Ok(())
}

/// Returns those of `paths` that exist.
fn existing(requests: &mut Requests, paths: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, RequestError> {
    let checked = requests.check_each(&paths)?;
    // If a path can't be inspected, the job reports the reason.
    let may_be_there = |checked: Result<(), Fault>| checked.err().is_none_or(|it| !is_absent(&it));
    let found = paths.into_iter().zip(checked);
    Ok(found.filter_map(|(path, checked)| may_be_there(checked).then_some(path)).collect())
}

fn is_absent(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::NotFound | FaultKind::NotDirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// The paths below `root` that match `pattern`, and the number of faults.
    fn expanded(root: &Path, pattern: &str) -> (Vec<String>, usize) {
        let root = [root.as_os_str().as_bytes(), b"/"].concat();
        let full = [&root[..], pattern.as_bytes()].concat();
        let Expanded { paths, faults } = expand(&mut Requests::local(), &full).expect("listed");
        let below = |path: Vec<u8>| String::from_utf8_lossy(&path[root.len()..]).into_owned();
        (paths.into_iter().map(below).collect(), faults.len())
    }

    #[test]
    fn each_component_can_be_a_pattern() {
        let temp = tempfile::tempdir().expect("a directory");
        for file in ["a/1.gz", "a/2.gz", "a/3.txt", "b/1.gz", "b/.h.gz", ".c/1.gz", "d"] {
            let path = temp.path().join(file);
            fs::create_dir_all(path.parent().expect("above")).expect("made");
            fs::write(path, "").expect("written");
        }
        std::os::unix::fs::symlink("a", temp.path().join("link")).expect("a link");
        let found = |pattern| expanded(temp.path(), pattern);
        let all = |paths: &[&str]| (paths.iter().map(|p| (*p).to_owned()).collect(), 0);
        assert_eq!(found("a/*.gz"), all(&["a/1.gz", "a/2.gz"]));
        assert_eq!(found("*"), all(&["a", "b", "d", "link"]));
        assert_eq!(found("?/*.gz"), all(&["a/1.gz", "a/2.gz", "b/1.gz"]));
        assert_eq!(found("*/1.gz"), all(&["a/1.gz", "b/1.gz", "link/1.gz"]));
        assert_eq!(found("[ab]//[!1]*"), all(&["a//2.gz", "a//3.txt"]));
        assert_eq!(found(".[!.]*/*"), all(&[".c/1.gz"]));
        assert_eq!(found("*/"), all(&["a/", "b/", "link/"]));
        assert_eq!(found("b/.*"), all(&["b/.h.gz"]));
        for nothing in ["*.zip", "d/*", "*/nothing", "x*/*"] {
            let (paths, _) = found(nothing);
            assert_eq!(paths, [""; 0], "{nothing}");
        }
        assert_eq!(found("missing/*"), (Vec::new(), 1));
    }

    #[test]
    fn an_existing_name_precedes_other_matches() {
        let temp = tempfile::tempdir().expect("a directory");
        for file in ["x[1]", "x1", "d*/a", "dd/a"] {
            let path = temp.path().join(file);
            fs::create_dir_all(path.parent().expect("above")).expect("made");
            fs::write(path, "").expect("written");
        }
        assert_eq!(expanded(temp.path(), "x[1]").0, ["x[1]"]);
        assert_eq!(expanded(temp.path(), "x[12]").0, ["x1"]);
        assert_eq!(expanded(temp.path(), "d*/?").0, ["d*/a"]);
    }

    #[test]
    fn paths_are_bounded() {
        let mut paths = Paths::default();
        (0..PATHS_MAX).for_each(|_| paths.add(b"a".to_vec()));
        assert!(!paths.is_full);
        paths.add(b"a".to_vec());
        assert!(paths.is_full && paths.paths.len() == PATHS_MAX);
        let mut paths = Paths::default();
        paths.add(vec![b'a'; PATHS_LEN_MAX]);
        assert!(!paths.is_full);
        paths.add(b"a".to_vec());
        assert!(paths.is_full && paths.paths.len() == 1);
    }
}
