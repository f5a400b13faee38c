//! Trees, written down, and how two of them differ.
//!
//! A [`Snapshot`] holds for every entry what haul promises to keep. Content is
//! held as a 128-bit digest, so that a tree of gigabytes can be compared; the
//! digest guards against mistakes, not against an adversary. Where two files
//! differ, the files themselves are read again to name the first byte.

use std::array;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::at;

/// How many differences a failed assertion shows.
const SHOWN_MAX: usize = 30;

/// How much of a file is read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A copy of a sparse file may take this much more space than its source
/// before its holes count as lost: file systems round to their own blocks.
const HOLE_SLACK_BYTES: u64 = 256 << 10;

/// A tree at one moment: relative path (bytes, the root is empty) to entry.
#[derive(Debug, Clone)]
pub struct Snapshot {
    root: PathBuf,
    entries: BTreeMap<Vec<u8>, Entry>,
}

/// One file, directory, symlink or other thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its kind and content.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky (0o7777).
    pub mode: u32,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: i128,
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Dir,
    /// A regular file.
    File(FileFacts),
    /// A symlink.
    Symlink {
        /// Where it leads, as bytes.
        target: Vec<u8>,
    },
    /// A FIFO, socket or device.
    Other,
}

/// A regular file's content and the space it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// Size in bytes.
    pub size: u64,
    /// Digest of the content. Zero bytes count like any others.
    pub digest: [u64; 2],
    /// Space taken on the file system.
    pub allocated_bytes: u64,
}

/// The attributes that a comparison looks at.
#[derive(Debug, Clone, Copy)]
pub struct Compare {
    modes: bool,
    mtimes: bool,
    dir_mtimes: bool,
    holes: bool,
    root: bool,
    mtime_kept: fn(i128) -> i128,
}

impl Compare {
    /// Everything: kinds, content, targets, modes, mtimes, holes, and the
    /// root's own mode and mtime.
    pub fn everything() -> Compare {
        Compare {
            modes: true,
            mtimes: true,
            dir_mtimes: true,
            holes: true,
            root: true,
            mtime_kept: |mtime_ns| mtime_ns,
        }
    }

    /// Names, kinds, content and symlink targets alone.
    pub fn content_only() -> Compare {
        Compare {
            modes: false,
            mtimes: false,
            dir_mtimes: false,
            holes: false,
            root: false,
            ..Compare::everything()
        }
    }

    /// Directories' mtimes may differ.
    pub fn ignoring_dir_mtimes(self) -> Compare {
        Compare { dir_mtimes: false, ..self }
    }

    /// All mtimes may differ.
    pub fn ignoring_mtimes(self) -> Compare {
        Compare { mtimes: false, dir_mtimes: false, ..self }
    }

    /// Permission bits may differ.
    pub fn ignoring_modes(self) -> Compare {
        Compare { modes: false, ..self }
    }

    /// A copy may be without the holes of its source.
    pub fn ignoring_holes(self) -> Compare {
        Compare { holes: false, ..self }
    }

    /// Where the copy's mtime is not its source's, it has to be what `kept` makes
    /// of that, both in nanoseconds since 1970.
    pub fn keeping_mtimes_as(self, kept: fn(i128) -> i128) -> Compare {
        Compare { mtime_kept: kept, ..self }
    }

    /// The root's own mode and mtime may differ.
    pub fn ignoring_root(self) -> Compare {
        Compare { root: false, ..self }
    }
}

/// Reads the tree at `root` (a directory, or a single file).
pub fn snapshot(root: impl AsRef<Path>) -> io::Result<Snapshot> {
    let root = root.as_ref().to_path_buf();
    let mut entries = BTreeMap::new();
    let mut open = vec![Vec::new()];
    while let Some(relative) = open.pop() {
        let path = below(&root, &relative);
        let meta = fs::symlink_metadata(&path).map_err(|e| at("read the metadata of", &path, e))?;
        if meta.is_dir() {
            for child in fs::read_dir(&path).map_err(|e| at("list", &path, e))? {
                let name = child.map_err(|e| at("list", &path, e))?.file_name();
                let mut child = relative.clone();
                if !child.is_empty() {
                    child.push(b'/');
                }
                child.extend_from_slice(name.as_bytes());
                open.push(child);
            }
        }
        entries.insert(relative, read_entry(&path, &meta)?);
    }
    Ok(Snapshot { root, entries })
}

/// True if two files have the same content. Nothing is kept of it, as large as it may be.
pub fn same_content(one: impl AsRef<Path>, other: impl AsRef<Path>) -> io::Result<bool> {
    let open = |path: &Path| File::open(path).map_err(|e| at("open", path, e));
    let (mut one, mut other) = (open(one.as_ref())?, open(other.as_ref())?);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    loop {
        read_piece(&mut one, &mut ours)?;
        read_piece(&mut other, &mut theirs)?;
        if ours != theirs || ours.is_empty() {
            return Ok(ours == theirs);
        }
    }
}

/// Panics with a list of the differences unless `copy` is the same as
/// `source`, mtimes of directories and holes included.
#[track_caller]
pub fn assert_same(source: &Snapshot, copy: &Snapshot) {
    assert_same_with(source, copy, Compare::everything());
}

/// [`assert_same`], looking only at what `rules` say.
#[track_caller]
pub fn assert_same_with(source: &Snapshot, copy: &Snapshot, rules: Compare) {
    let differences = source.differences(copy, rules);
    if differences.is_empty() {
        return;
    }
    let mut text = format!(
        "{} differences between {} and {}:\n",
        differences.len(),
        source.root.display(),
        copy.root.display()
    );
    for difference in differences.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "  {difference}");
    }
    if differences.len() > SHOWN_MAX {
        let _ = writeln!(text, "  ... and {} more", differences.len() - SHOWN_MAX);
    }
    panic!("{text}");
}

/// One way in which a copy differs from its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where, relative to the roots.
    pub path: Vec<u8>,
    /// The difference, in words.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { b"." } else { &self.path[..] };
        write!(f, "{}: {}", path.escape_ascii(), self.what)
    }
}

impl Snapshot {
    /// The entry at a relative path; the root's is `""`.
    pub fn get(&self, path: impl AsRef<OsStr>) -> Option<&Entry> {
        self.entries.get(path.as_ref().as_bytes())
    }

    /// All entries in order of path, the root first.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.entries.iter().map(|(path, entry)| (&path[..], entry))
    }

    /// The regular files in order of path.
    pub fn files(&self) -> impl Iterator<Item = (&[u8], &FileFacts)> {
        self.entries().filter_map(|(path, entry)| match &entry.kind {
            Kind::File(facts) => Some((path, facts)),
            _ => None,
        })
    }

    /// Every way in which `copy` is not what `self` is.
    pub fn differences(&self, copy: &Snapshot, rules: Compare) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut note =
            |path: &[u8], what: String| found.push(Difference { path: path.to_vec(), what });
        for (path, entry) in self.entries() {
            let Some(other) = copy.entries.get(path) else {
                note(path, format!("missing ({})", entry.kind));
                continue;
            };
            if let Some(what) = self.kinds_differ(copy, path, rules) {
                note(path, what);
                continue;
            }
            if path.is_empty() && !rules.root && entry.kind == Kind::Dir {
                continue;
            }
            // A symlink's mode means nothing and differs between systems.
            let has_mode = !matches!(entry.kind, Kind::Symlink { .. });
            if rules.modes && has_mode && entry.mode != other.mode {
                note(path, format!("mode {:04o} became {:04o}", entry.mode, other.mode));
            }
            let times = if entry.kind == Kind::Dir { rules.dir_mtimes } else { rules.mtimes };
            let kept = [entry.mtime_ns, (rules.mtime_kept)(entry.mtime_ns)];
            if times && !kept.contains(&other.mtime_ns) {
                note(
                    path,
                    format!("mtime {} became {}", seconds(entry.mtime_ns), seconds(other.mtime_ns)),
                );
            }
        }
        for (path, entry) in copy.entries() {
            if !self.entries.contains_key(path) {
                note(path, format!("not in the source ({})", entry.kind));
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    fn kinds_differ(&self, copy: &Snapshot, path: &[u8], rules: Compare) -> Option<String> {
        match (&self.entries[path].kind, &copy.entries[path].kind) {
            (Kind::File(a), Kind::File(b)) => {
                if a.size != b.size {
                    return Some(format!("size {} became {}", a.size, b.size));
                }
                if a.digest != b.digest {
                    return Some(
                        match first_difference(&below(&self.root, path), &below(&copy.root, path)) {
                            Ok(Some(offset)) => {
                                format!("content differs from byte {offset} of {}", a.size)
                            }
                            _ => "content differs".to_owned(),
                        },
                    );
                }
                let sparse = a.allocated_bytes < a.size;
                let lost = b.allocated_bytes > a.allocated_bytes + HOLE_SLACK_BYTES;
                (rules.holes && sparse && lost).then(|| {
                    format!(
                        "holes lost: {} bytes allocated became {}",
                        a.allocated_bytes, b.allocated_bytes
                    )
                })
            }
            (Kind::Symlink { target: a }, Kind::Symlink { target: b }) if a != b => Some(format!(
                "target {:?} became {:?}",
                a.escape_ascii().to_string(),
                b.escape_ascii().to_string()
            )),
            (a, b) if std::mem::discriminant(a) != std::mem::discriminant(b) => {
                Some(format!("{a} became {b}"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Dir => f.write_str("directory"),
            Kind::File(facts) => write!(f, "file of {} bytes", facts.size),
            Kind::Symlink { target } => write!(f, "symlink to {}", target.escape_ascii()),
            Kind::Other => f.write_str("special file"),
        }
    }
}

fn read_entry(path: &Path, meta: &Metadata) -> io::Result<Entry> {
    let kind = if meta.is_dir() {
        Kind::Dir
    } else if meta.is_symlink() {
        let target = fs::read_link(path).map_err(|e| at("read the link", path, e))?;
        Kind::Symlink { target: target.as_os_str().as_bytes().to_vec() }
    } else if meta.is_file() {
        let digest = digest(path).map_err(|e| at("read", path, e))?;
        Kind::File(FileFacts { size: meta.len(), digest, allocated_bytes: meta.blocks() * 512 })
    } else {
        Kind::Other
    };
    let mtime_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
    Ok(Entry { kind, mode: meta.mode() & 0o7777, mtime_ns })
}

/// Odd numbers to multiply with, one for each lane of a digest.
const ODD: [u64; LANES] =
    [0x9fb2_1c65_1e98_df25, 0xd6e8_feb8_6659_fd93, 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];

/// The lanes of a digest. A processor works on all of them at the same time.
const LANES: usize = 4;

/// The length of a row, which has one word for each lane, in bytes. All pieces but the last are
/// whole rows.
const ROW_BYTES: usize = LANES * 8;

/// A digest of the content: each lane multiplies and rotates every fourth 64-bit word; at the
/// end, the lanes are joined with the length.
fn digest(path: &Path) -> io::Result<[u64; 2]> {
    let mut lanes = ODD;
    let mut length = 0u64;
    each_piece(&mut File::open(path)?, |piece| {
        length += piece.len() as u64;
        let (rows, rest) = piece.as_chunks();
        // By value, so that the lanes stay in registers.
        let mut mixed = lanes;
        for row in rows {
            mixed = mix(mixed, row);
        }
        if !rest.is_empty() {
            let mut padded = [0; ROW_BYTES];
            padded[..rest.len()].copy_from_slice(rest);
            mixed = mix(mixed, &padded);
        }
        lanes = mixed;
    })?;
    let [first, second, third, fourth] = lanes;
    let join = |one: u64, other: u64| (one.rotate_left(31) ^ other).wrapping_mul(ODD[0]);
    Ok([join(first, second) ^ length, join(third, fourth) ^ first.rotate_left(17)])
}

/// Each lane by its number: compilers keep them in registers then.
#[inline]
fn mix(lanes: [u64; LANES], row: &[u8; ROW_BYTES]) -> [u64; LANES] {
    let (words, _) = row.as_chunks();
    array::from_fn(|at| {
        let word = u64::from_le_bytes(words[at]);
        (lanes[at] ^ word).wrapping_mul(ODD[at]).rotate_left(29)
    })
}

/// Calls `with` for the file's content in pieces of [`PIECE_BYTES`], only the last of
/// which may be shorter.
fn each_piece(file: &mut File, mut with: impl FnMut(&[u8])) -> io::Result<()> {
    let mut piece = Vec::new();
    loop {
        read_piece(file, &mut piece)?;
        if piece.is_empty() {
            return Ok(());
        }
        with(&piece);
    }
}

/// Reads the next piece in the place of the last one. Behind the end there is nothing in it.
fn read_piece(file: &mut File, piece: &mut Vec<u8>) -> io::Result<()> {
    piece.clear();
    file.by_ref().take(PIECE_BYTES).read_to_end(piece).map(|_| ())
}

fn first_difference(a: &Path, b: &Path) -> io::Result<Option<u64>> {
    let (mut a, mut b) =
        (io::BufReader::new(File::open(a)?).bytes(), io::BufReader::new(File::open(b)?).bytes());
    let mut offset = 0;
    loop {
        match (a.next().transpose()?, b.next().transpose()?) {
            (None, None) => return Ok(None),
            (x, y) if x != y => return Ok(Some(offset)),
            _ => offset += 1,
        }
    }
}

fn below(root: &Path, relative: &[u8]) -> PathBuf {
    if relative.is_empty() { root.to_path_buf() } else { root.join(OsStr::from_bytes(relative)) }
}

fn seconds(ns: i128) -> String {
    format!("{}.{:09}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000))
}

#[cfg(test)]
mod tests;
