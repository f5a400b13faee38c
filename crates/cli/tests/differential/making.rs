//! Makes the trees of a case, and says how to make them by hand.

use crate::entry::{Content, Entry, Kind, TreeState, USER};
use haul_testkit::content::bytes;
use haul_testkit::nasty;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, makedev, mknodat, utimensat};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, lchown, symlink};
use std::path::Path;

/// Makes all of `state` in the directory `root`.
pub(crate) fn make(root: &Path, state: &TreeState) {
    for (path, entry) in state {
        create(root, &root.join(OsStr::from_bytes(path)), entry);
    }
    // What is in a directory changes its times, so directories come last.
    for (path, entry) in state.iter().rev() {
        attribute(&root.join(OsStr::from_bytes(path)), entry);
    }
}

fn create(root: &Path, path: &Path, entry: &Entry) {
    let node = |kind, number| {
        mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), number).expect("a node");
    };
    match &entry.kind {
        Kind::Dir => fs::create_dir(path).expect("a directory"),
        Kind::File(content) => write(path, content),
        Kind::Name(first) => {
            fs::hard_link(root.join(OsStr::from_bytes(first)), path).expect("a hard link");
        }
        Kind::Link(target) => symlink(OsStr::from_bytes(target), path).expect("a link"),
        Kind::Fifo => node(FileType::Fifo, 0),
        Kind::Socket => node(FileType::Socket, 0),
        Kind::Device(true, major, minor) => {
            node(FileType::CharacterDevice, makedev(*major, *minor))
        }
        Kind::Device(false, major, minor) => node(FileType::BlockDevice, makedev(*major, *minor)),
    }
}

fn write(path: &Path, content: &Content) {
    let file = File::create(path).expect("a file");
    match content {
        Content::Noise { len, seed, from, other } => {
            let mut noise = bytes(*len, *seed);
            if from < len {
                noise[*from..].copy_from_slice(&bytes(len - from, *other));
            }
            file.write_all_at(&noise, 0).expect("written");
        }
        Content::Hole { len, seed } => {
            file.set_len(*len).expect("extended");
            file.write_all_at(&seed.to_le_bytes(), len - 8).expect("written");
        }
        Content::Text(text) => file.write_all_at(text.as_bytes(), 0).expect("written"),
    }
}

fn attribute(path: &Path, entry: &Entry) {
    if matches!(entry.kind, Kind::Name(_)) {
        return;
    }
    let (user, group) = entry.owner;
    lchown(path, Some(user), Some(group)).expect("an owner");
    if !matches!(entry.kind, Kind::Link(_)) {
        nasty::set_mode(path, entry.mode).expect("a mode");
        if entry.acl {
            set_acl(path, "access", &entry.kind);
        }
        if entry.default_acl {
            set_acl(path, "default", &entry.kind);
        }
        for (name, value) in &entry.xattrs {
            nasty::set_attribute(path, name, value.as_bytes()).expect("an attribute");
        }
    }
    let (seconds, nanos) = entry.mtime;
    let times = Timestamps {
        last_access: Timespec { tv_sec: entry.atime, tv_nsec: 0 },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanos.into() },
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("times");
}

/// Lets [`USER`] look at it by its ACL.
fn set_acl(path: &Path, kind: &str, of: &Kind) {
    // As the kernel reads it (include/uapi/linux/posix_acl_xattr.h): the version, then tag,
    // rights and user of each: owner, a user, group, mask, others.
    let search = u16::from(*of == Kind::Dir);
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, user) in [
        (0x01_u16, 6, u32::MAX),
        (0x02, 4, USER),
        (0x04, 4, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 4, u32::MAX),
    ] {
        acl.extend(tag.to_le_bytes());
        acl.extend((rights | search).to_le_bytes());
        acl.extend(user.to_le_bytes());
    }
    let name = format!("system.posix_acl_{kind}");
    nasty::set_attribute(path, &name, &acl).expect("an ACL");
}

/// The lines of a shell that make all of `state` in the directory it is in.
pub(crate) fn script(state: &TreeState) -> String {
    let mut lines = String::new();
    for (path, entry) in state {
        let name = quoted(path);
        let _ = match &entry.kind {
            Kind::Dir => writeln!(lines, "mkdir {name}"),
            Kind::File(Content::Text(text)) => {
                writeln!(lines, "printf %s {} > {name}", quoted(text.as_bytes()))
            }
            Kind::File(Content::Noise { len, seed, from, other }) => {
                // Other bytes than the test's, and the same of the same numbers.
                let noise = |seed: u64| format!("yes {} | tr -d '\\n'", 1_000_000_007 + seed);
                let rest = noise(*other);
                let (first, last) = (noise(*seed), len - (*from).min(*len));
                writeln!(
                    lines,
                    "({first} | head -c {}; {rest} | head -c {last}) > {name}",
                    len - last
                )
            }
            Kind::File(Content::Hole { len, seed }) => {
                let at = len - 8;
                writeln!(lines, "truncate -s {at} {name}; printf %08d {seed} >> {name}")
            }
            Kind::Name(first) => writeln!(lines, "ln -P {} {name}", quoted(first)),
            Kind::Link(target) => writeln!(lines, "ln -s {} {name}", quoted(target)),
            Kind::Fifo => writeln!(lines, "mkfifo {name}"),
            Kind::Socket => writeln!(
                lines,
                "python3 -c 'import os, sys; os.mknod(os.fsencode(sys.argv[1]), 0o140600)' {name}"
            ),
            Kind::Device(is_char, major, minor) => {
                writeln!(lines, "mknod {name} {} {major} {minor}", if *is_char { 'c' } else { 'b' })
            }
        };
    }
    lines.push_str("find . -exec touch -h -d @1000000000 {} +\n");
    for (path, entry) in state.iter().rev() {
        attributes(&mut lines, &quoted(path), entry);
    }
    lines
}

fn attributes(lines: &mut String, name: &str, entry: &Entry) {
    if matches!(entry.kind, Kind::Name(_)) {
        return;
    }
    let mut words = Vec::new();
    let (user, group) = entry.owner;
    if entry.owner != (0, 0) {
        words.push(format!("chown -h {user}:{group} {name}"));
    }
    if !matches!(entry.kind, Kind::Link(_)) {
        let usual = if entry.kind == Kind::Dir { 0o755 } else { 0o644 };
        if entry.mode != usual {
            words.push(format!("chmod {:04o} {name}", entry.mode));
        }
        for (has, default) in [(entry.acl, ""), (entry.default_acl, "-d ")] {
            let [own, others] = if entry.kind == Kind::Dir { [7, 5] } else { [6, 4] };
            let acl = format!("u::{own},u:{USER}:{others},g::{others},m::{others},o::{others}");
            if has {
                words.push(format!("setfacl {default}-m {acl} {name}"));
            }
        }
        for (attribute, value) in &entry.xattrs {
            words.push(format!("setfattr -n {attribute} -v '\"{value}\"' {name}"));
        }
    }
    let (seconds, nanos) = entry.mtime;
    if entry.atime != 1_100_000_000 {
        words.push(format!("touch -ha -d @{} {name}", entry.atime));
    }
    if entry.mtime != (1_000_000_000, 0) {
        words.push(format!("touch -hm -d @{seconds}.{nanos:09} {name}"));
    }
    if !words.is_empty() {
        let _ = writeln!(lines, "{}", words.join("; "));
    }
}

/// A path or another word as one of bash's.
pub(crate) fn quoted(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_=./,:+".contains(byte);
    match word.iter().all(is_plain) && !word.is_empty() {
        true => String::from_utf8_lossy(word).into_owned(),
        false => {
            let escape = |byte: &u8| match byte {
                b'\'' | b'\\' => vec!['\\', char::from(*byte)],
                b' '..=b'~' => vec![char::from(*byte)],
                byte => format!("\\x{byte:02x}").chars().collect(),
            };
            format!("$'{}'", word.iter().flat_map(escape).collect::<String>())
        }
    }
}
