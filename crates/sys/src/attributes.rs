//! Extended attributes, as far as it matters that an entry has some.

use crate::Dir;
use haul_model::Name;
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;

/// Room for the names of those that most entries have, in bytes; else it takes a
/// second call.
const NAMES_LEN: usize = 512;

/// Longest list of names that the system gives, in bytes (`XATTR_LIST_MAX`).
const NAMES_LEN_MAX: usize = 64 << 10;

/// The names of the extended attributes of `name` in `dir`, of a link itself, or of
/// `dir` without a name: those of ACLs too, where there are any.
///
/// # Errors
/// Those of `llistxattr`; a file system that has none is no error.
pub fn attribute_names(dir: &Dir, name: Option<&Name>) -> io::Result<Vec<Vec<u8>>> {
    let Some(name) = name else {
        return listed(|names| rustix::fs::flistxattr(dir, names));
    };
    // The last component of a path through a handle that is held.
    let mut path = format!("/proc/self/fd/{}/", dir.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    let path = OsString::from_vec(path);
    match listed(|names| rustix::fs::llistxattr(&path, names)) {
        // Without /proc a file has to be opened, and a link has none for users.
        Err(error) if error.kind() == io::ErrorKind::NotFound => match dir.open_file(name, false) {
            Ok((file, _)) => listed(|names| rustix::fs::flistxattr(&file, names)),
            Err(_) if dir.stat(name)?.is_symlink() => Ok(Vec::new()),
            Err(error) => Err(error),
        },
        // Some file systems have none, and say so of directories alone (rclone).
        Err(_) if has_none(dir) => Ok(Vec::new()),
        names => names,
    }
}

/// True if the file system of `dir` says that it has no extended attributes.
fn has_none(dir: &Dir) -> bool {
    matches!(rustix::fs::flistxattr(dir, &mut [0; NAMES_LEN][..]), Err(NONE | Errno::NOSYS))
}

/// Said by a file system without extended attributes.
const NONE: Errno = Errno::OPNOTSUPP;

/// The extended attribute `name` of `dir`, if it is as long as `LEN`.
pub fn attribute<const LEN: usize>(dir: &Dir, name: &str) -> Option<[u8; LEN]> {
    let mut value = [0; LEN];
    let len = rustix::fs::fgetxattr(dir, name, &mut value[..]).ok()?;
    (len == LEN).then_some(value)
}

/// True if the file system of `dir` has extended attributes like `name`, as far as it
/// says so.
pub fn keeps_attributes(dir: &Dir, name: &str) -> bool {
    let asked = rustix::fs::fgetxattr(dir, name, &mut [0; 0][..]);
    !matches!(asked, Err(Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Gives `dir` the extended attribute `name`.
///
/// # Errors
/// Those of `fsetxattr`.
pub fn set_attribute(dir: &Dir, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(dir, name, value, rustix::fs::XattrFlags::empty())?)
}

fn listed(list: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> io::Result<Vec<Vec<u8>>> {
    let mut few = [0; NAMES_LEN];
    let names = match list(&mut few) {
        Ok(len) => few[..len].to_vec(),
        Err(Errno::RANGE) => {
            let mut many = vec![0; NAMES_LEN_MAX];
            let len = list(&mut many)?;
            many.truncate(len);
            many
        }
        Err(NONE | Errno::NOSYS) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}
