//! The mount points, found without accessing the file systems: one may not answer.

/// The mount points of this process, as absolute paths.
#[derive(Debug, Default)]
pub struct MountPoints(Vec<Vec<u8>>);

impl MountPoints {
    /// Reads the mount points. Empty if the system does not report them.
    pub fn read() -> Self {
        Self::parse(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(table: &[u8]) -> Self {
        let point = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(unescaped);
        Self(table.split(|byte| *byte == b'\n').filter_map(point).collect())
    }

    /// The mount point of the file system that a path is on.
    pub fn of(&self, path: &[u8]) -> Option<&[u8]> {
        let is_below = |point: &&Vec<u8>| {
            let rest = path.strip_prefix(&point[..]);
            point[..] == *b"/" || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        self.0.iter().filter(is_below).max_by_key(|point| point.len()).map(|point| &**point)
    }
}

/// Decodes octal escapes, which the system uses for blanks and backslashes.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => (bytes.push(byte), rest = &behind[3..]).1,
            None => (bytes.push(*first), rest = behind).1,
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_the_longest_mount_point() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/vda rw\n\
            23 22 0:5 / /mnt/a\\040b rw - fuse x rw\n\
            24 22 0:6 / /mnt rw - tmpfs x rw\n";
        let mounts = MountPoints::parse(table);
        for (path, point) in [
            (&b"/home/x"[..], &b"/"[..]),
            (b"/", b"/"),
            (b"/mnt", b"/mnt"),
            (b"/mnt/c", b"/mnt"),
            (b"/mnta", b"/"),
            (b"/mnt/a b", b"/mnt/a b"),
            (b"/mnt/a b/c", b"/mnt/a b"),
            (b"/mnt/a bc", b"/mnt"),
        ] {
            assert_eq!(mounts.of(path), Some(point), "{}", path.escape_ascii());
        }
        assert_eq!(MountPoints::default().of(b"/x"), None);
    }
}
