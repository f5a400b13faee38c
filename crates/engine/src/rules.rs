//! Rule files in the trees themselves. Each side reads those of its own tree, directory by
//! directory.

use haul_model::{
    Fault, FaultKind, FilesKind, Filter, FilterItem, Line, Lines, Merge, Name, RuleFiles,
};
use haul_model::{
    RuleError, Scope, Side, Start, Style, cvs_defaults, escape_bytes, is_missing, words,
};
use haul_tree::{Meta, MetaKind, Tree, TreeDir};
use std::io;

/// The most rule files that include one another.
const NESTED_MAX: usize = 8;

/// A rule file that can't be used.
pub(crate) struct RuleFileError {
    /// The file.
    name: Option<Name>,
    why: String,
    kind: FaultKind,
}

impl RuleFileError {
    /// The error for a directory that can't be opened.
    pub(crate) fn of_dir(error: &io::Error) -> Self {
        let why = Fault::from_io(Side::Source, "open the directory", error).message;
        Self { name: None, why, kind: FaultKind::of(error) }
    }

    /// The error for a parent directory that can't be opened.
    fn of_dir_above(dir: &[u8], error: &io::Error) -> Self {
        let action = format!("open the directory /{} above it", escape_bytes(dir));
        let why = Fault::from_io(Side::Source, &action, error).message;
        Self { name: None, why, kind: FaultKind::of(error) }
    }

    fn new(name: &Name, kind: FaultKind, why: impl Into<String>) -> Self {
        Self { name: Some(name.clone()), why: why.into(), kind }
    }

    fn of(name: &Name, error: &io::Error) -> Self {
        let why = Fault::from_io(Side::Source, "read it", error).message;
        Self::new(name, FaultKind::of(error), why)
    }

    /// The first rule file that was skipped in the directory of `scope`.
    pub(crate) fn skipped_files(scope: &Scope) -> Option<Self> {
        let why = "it is behind a symbolic link of another user";
        let name = scope.skipped_files().first()?;
        Some(Self::new(name, FaultKind::Io, why))
    }

    fn in_line(name: &Name, number: usize, error: RuleError) -> Self {
        Self::new(name, FaultKind::Io, format!("rule {number}: {error}"))
    }

    /// The fault of the directory, on `side`.
    pub(crate) fn fault(&self, side: Side) -> Fault {
        let file = self.name.as_ref().map(|name| escape_bytes(name.as_bytes()) + ": ");
        let file = file.unwrap_or_default();
        Fault::new(side, self.kind, format!("can't use its filter rules: {file}{}", self.why))
    }
}

/// The rules of `filter` and of the rule files above, for a job whose paths start in the directory
/// at `path` of `tree`. `with_first` includes the rule files of that directory itself, if parent
/// directories are searched.
pub(crate) fn begin(
    filter: &Filter,
    tree: &dyn Tree,
    path: &[u8],
    with_first: bool,
) -> Result<Scope, RuleFileError> {
    if !filter.needs_whole_paths() {
        return Ok(Scope::default());
    }
    // A path that can't be determined has no parent directories.
    let Ok(whole) = tree.absolute_path(path) else { return Ok(Scope::default()) };
    let mut root: Vec<u8> = words::components(&whole).fold(Vec::new(), |mut root, name| {
        root.extend_from_slice(name);
        root.push(b'/');
        root
    });
    let mut scope = Scope::at(&root);
    if !with_first {
        let above = root.iter().rev().skip(1).position(|byte| *byte == b'/');
        root.truncate(above.map_or(0, |at| root.len() - 1 - at));
    }
    let ends: Vec<_> = [0]
        .into_iter()
        .chain(root.iter().enumerate().filter_map(|(at, byte)| (*byte == b'/').then_some(at + 1)))
        .collect();
    let depth = scope.root().iter().filter(|byte| **byte == b'/').count();
    for (level, end) in ends.into_iter().enumerate() {
        let dir = &root[..end];
        let is_searched = |files: &RuleFiles| match &files.start {
            Start::First => false,
            Start::Above(levels) => level + usize::from(*levels) >= depth,
            Start::At(start) => is_at_or_below(dir, start),
        };
        if !filter.files().any(is_searched) {
            continue;
        }
        let opened = match tree.open_for_search(&[b"/", dir].concat(), None) {
            Ok(opened) => opened,
            // A missing directory has no rules.
            Err(error) if is_missing(&error) => continue,
            // A link that will be replaced has none either. Links to be followed were opened
            // before.
            Err(error) if end == root.len() && FaultKind::of(&error) == FaultKind::ForeignLink => {
                continue;
            }
            Err(error) => return Err(RuleFileError::of_dir_above(dir, &error)),
        };
        if level > 0 {
            scope = scope.below();
        }
        read_files(filter, is_searched, &mut scope, &*opened, Err(dir))?;
        if let Some(unruly) = RuleFileError::skipped_files(&scope) {
            return Err(unruly);
        }
    }
    Ok(scope)
}

/// True if `dir`, written as in [`Scope::at`], is the directory at `start` or below.
fn is_at_or_below(dir: &[u8], start: &[u8]) -> bool {
    let names = |path| <[u8]>::split(path, |byte| *byte == b'/').filter(|name| !name.is_empty());
    let mut dir = names(dir);
    names(start).all(|name| dir.next() == Some(name))
}

/// The rules for the entries of `dir`, which is at `path` in the job, below the rules `above`. As
/// in rsync, a rule file behind another user's link is skipped; see
/// [`RuleFileError::skipped_files`].
pub(crate) fn enter(
    filter: &Filter,
    above: &Scope,
    dir: &dyn TreeDir,
    path: &[u8],
) -> Result<Scope, RuleFileError> {
    let mut scope = above.below();
    read_files(filter, |_| true, &mut scope, dir, Ok(path))?;
    Ok(scope)
}

fn read_files(
    filter: &Filter,
    is_searched: impl Fn(&RuleFiles) -> bool,
    scope: &mut Scope,
    dir: &dyn TreeDir,
    path: Result<&[u8], &[u8]>,
) -> Result<(), RuleFileError> {
    for (at, files) in filter.files().enumerate().filter(|(_, files)| is_searched(files)) {
        read_file(FilesKind::Filter(at), files, scope, dir, path)?;
    }
    // The rule files that other rule files have named, in a parent directory or here.
    for at in 0.. {
        let Some(files) = scope.nested(at).cloned() else { break };
        read_file(FilesKind::Nested(at), &files, scope, dir, path)?;
    }
    Ok(())
}

/// Reads the rule file `files` in `dir`, if it exists.
fn read_file(
    of: FilesKind,
    files: &RuleFiles,
    scope: &mut Scope,
    dir: &dyn TreeDir,
    path: Result<&[u8], &[u8]>,
) -> Result<(), RuleFileError> {
    let text = match read(dir, &files.name) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(()),
        Err(error) if FaultKind::of(&error) == FaultKind::ForeignLink => {
            scope.skip_file(&files.name);
            return Ok(());
        }
        Err(error) => return Err(RuleFileError::of(&files.name, &error)),
    };
    let mut found = Found::default();
    found.take(dir, &files.name, &text, files.style, 0)?;
    let Found { rules, clears } = found;
    for item in &rules {
        if let FilterItem::Files(nested) = item
            && !scope.add_kind(nested)
        {
            let why = format!("more than {} names of rule files", Filter::FILES_MAX);
            return Err(RuleFileError::new(&files.name, FaultKind::TooLong, why));
        }
    }
    if !scope.put((of, files), rules, clears, path, Filter::RULES_MAX) {
        let why = format!("more than {} rules with those above it", Filter::RULES_MAX);
        return Err(RuleFileError::new(&files.name, FaultKind::TooLong, why));
    }
    Ok(())
}

/// The rules of a file.
#[derive(Default)]
struct Found {
    rules: Vec<FilterItem>,
    /// The rules of parent directories are dropped.
    clears: bool,
}

impl Found {
    /// Adds the rules in `text`, the content of the file `name` in `dir`.
    fn take(
        &mut self,
        dir: &dyn TreeDir,
        name: &Name,
        text: &[u8],
        style: Style,
        nested: usize,
    ) -> Result<(), RuleFileError> {
        for (number, line) in (1..).zip(Lines::of(text, style)) {
            match line.map_err(|error| RuleFileError::in_line(name, number, error))? {
                Line::Rule(rule) if rule.of_xattrs => {
                    let why = format!(
                        "rule {number}: a file of a directory can't have rules about extended attributes (modifier x)"
                    );
                    return Err(RuleFileError::new(name, FaultKind::Io, why));
                }
                Line::Rule(rule) => self.rules.push(FilterItem::Rule(rule)),
                Line::Clear => {
                    self.rules.clear();
                    self.clears = true;
                }
                Line::Cvs(style) => {
                    let rules = cvs_defaults(style).filter_map(|line| match line {
                        Ok(Line::Rule(rule)) => Some(FilterItem::Rule(rule)),
                        _ => None,
                    });
                    self.rules.extend(rules);
                }
                Line::Merge(merge) => self.merge(dir, name, &merge, nested)?,
                Line::Files(files) if files.start == Start::First => {
                    self.rules.push(FilterItem::Files(files));
                }
                Line::Files(_) => {
                    let why = format!(
                        "rule {number}: a rule file in a directory can't look for others above it"
                    );
                    return Err(RuleFileError::new(name, FaultKind::Io, why));
                }
            }
            if self.rules.len() > Filter::RULES_MAX {
                let why = format!("more than {} rules", Filter::RULES_MAX);
                return Err(RuleFileError::new(name, FaultKind::TooLong, why));
            }
        }
        Ok(())
    }

    /// Adds the rules of another file in the same directory.
    fn merge(
        &mut self,
        dir: &dyn TreeDir,
        by: &Name,
        merge: &Merge,
        nested: usize,
    ) -> Result<(), RuleFileError> {
        let refused = |why: &str| RuleFileError::new(by, FaultKind::Io, why);
        let Ok(name) = Name::new(&merge.path) else {
            return Err(refused("it names a file in another directory"));
        };
        if nested >= NESTED_MAX {
            return Err(refused("merge-file include depth limit exceeded: files name each other"));
        }
        match read(dir, &name) {
            Ok(Some(text)) => self.take(dir, &name, &text, merge.style, nested + 1),
            Ok(None) => Err(RuleFileError::of(&name, &io::ErrorKind::NotFound.into())),
            Err(error) => Err(RuleFileError::of(&name, &error)),
        }
    }
}

/// The content of the file `name` in `dir`; `None` if it is missing or a directory, which has no
/// rules.
///
/// # Errors
/// Also for another kind of entry, or another user's link: its rules can't be read, but may protect
/// something.
fn read(dir: &dyn TreeDir, name: &Name) -> io::Result<Option<Vec<u8>>> {
    let file = match dir.stat(name, false)? {
        None | Some(Meta { kind: MetaKind::Dir, .. }) => return Ok(None),
        Some(Meta { kind: MetaKind::Symlink, .. }) => dir.open_link_target(name)?,
        Some(Meta { kind: MetaKind::File { .. }, .. }) => dir.open_file(name, false)?,
        Some(_) => return Err(io::Error::other("it is not a regular file")),
    };
    let mut text = vec![0; Filter::FILE_LEN_MAX as usize + 1];
    let mut len = 0;
    while len < text.len() {
        match file.read_at(&mut text[len..], len as u64)? {
            0 => break,
            read => len += read,
        }
    }
    if len as u64 > Filter::FILE_LEN_MAX {
        let message = format!("it is larger than {} KiB", Filter::FILE_LEN_MAX >> 10);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    text.truncate(len);
    Ok(Some(text))
}
