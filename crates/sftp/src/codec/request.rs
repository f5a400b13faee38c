//! Requests of a client.

use super::wire::Put;
use super::{Attrs, Expected, Extension, PACKET_LEN_MAX};

/// The longest path in a request, in bytes. Every server takes packets of 34,000 bytes (section 3
/// of the draft), and a rename has two paths.
pub(crate) const PATH_LEN_MAX: usize = 16 << 10;

/// The cost of a request besides its content, in bytes: the packet, its record here, and a short
/// answer.
const COST: usize = 512;

/// How a file is opened (section 6.3 of the draft): for reading or for writing.
///
/// Both at once is not possible. Servers built with Go's `pkg/sftp`, such as rclone's (1.60), can
/// treat a read through a writable handle as a write of zeros and report success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenFlags {
    /// An existing file, for reading.
    Read,
    /// An existing file, for writing.
    Write,
    /// A new file, for writing. Fails if the name exists, even as a link.
    CreateNew,
}

impl OpenFlags {
    fn bits(self) -> u32 {
        const READ: u32 = 0x01;
        const WRITE: u32 = 0x02;
        const CREAT: u32 = 0x08;
        const EXCL: u32 = 0x20;
        match self {
            Self::Read => READ,
            Self::Write => WRITE,
            Self::CreateNew => WRITE | CREAT | EXCL,
        }
    }
}

/// A request. Paths and handles are bytes, in the server's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the arguments, named as in the draft")]
pub enum Request<'a> {
    Open { path: &'a [u8], flags: OpenFlags, attrs: Attrs },
    Close { handle: &'a [u8] },
    Read { handle: &'a [u8], offset: u64, len: u32 },
    // The content, `len` bytes, follows the encoded packet.
    Write { handle: &'a [u8], offset: u64, len: u32 },
    Stat { path: &'a [u8] },
    Lstat { path: &'a [u8] },
    Fstat { handle: &'a [u8] },
    Setstat { path: &'a [u8], attrs: Attrs },
    Fsetstat { handle: &'a [u8], attrs: Attrs },
    Opendir { path: &'a [u8] },
    Readdir { handle: &'a [u8] },
    Remove { path: &'a [u8] },
    Mkdir { path: &'a [u8], attrs: Attrs },
    Rmdir { path: &'a [u8] },
    Realpath { path: &'a [u8] },
    Readlink { path: &'a [u8] },
    Rename { from: &'a [u8], to: &'a [u8] },
    // Creates `link`, which points to `target`.
    Symlink { target: &'a [u8], link: &'a [u8] },
    PosixRename { from: &'a [u8], to: &'a [u8] },
    // Creates the hard link `to` to `from`.
    HardLink { from: &'a [u8], to: &'a [u8] },
    Fsync { handle: &'a [u8] },
    Statvfs { path: &'a [u8] },
    Lsetstat { path: &'a [u8], attrs: Attrs },
    Limits,
}

impl Request<'_> {
    /// Appends the packet to `out`.
    pub fn encode(&self, id: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(0);
        out.push(self.facts().0);
        out.put_u32(id);
        if let Some(extension) = self.extension() {
            out.put_string(extension.name().as_bytes());
        }
        self.encode_arguments(out);
        let follows = if let Self::Write { len, .. } = self { *len } else { 0 };
        let len = u32::try_from(out.len() - start - 4).expect("paths and handles are bounded");
        out[start..start + 4].copy_from_slice(&(len + follows).to_be_bytes());
    }

    /// The number of its type, its operation in messages ("can't list"), and its answer.
    fn facts(&self) -> (u8, &'static str, Expected) {
        /// The type of all extensions.
        const EXTENDED: u8 = 200;
        match *self {
            Self::Open { .. } => (3, "open", Expected::Handle),
            Self::Close { .. } => (4, "close", Expected::Done),
            Self::Read { len, .. } => (5, "read", Expected::Data { len_max: len }),
            Self::Write { .. } => (6, "write", Expected::Done),
            Self::Lstat { .. } => (7, "read the metadata of", Expected::Attrs),
            Self::Fstat { .. } => (8, "read the metadata of", Expected::Attrs),
            Self::Setstat { .. } => (9, "set the attributes of", Expected::Done),
            Self::Fsetstat { .. } => (10, "set the attributes of", Expected::Done),
            Self::Opendir { .. } => (11, "list", Expected::Handle),
            Self::Readdir { .. } => (12, "list", Expected::Names),
            Self::Remove { .. } => (13, "remove", Expected::Done),
            Self::Mkdir { .. } => (14, "create the directory", Expected::Done),
            Self::Rmdir { .. } => (15, "remove", Expected::Done),
            Self::Realpath { .. } => (16, "resolve", Expected::Path),
            Self::Stat { .. } => (17, "read the metadata of", Expected::Attrs),
            Self::Rename { .. } => (18, "rename", Expected::Done),
            Self::Readlink { .. } => (19, "read the link", Expected::Target),
            Self::Symlink { .. } => (20, "create the link", Expected::Done),
            Self::PosixRename { .. } => (EXTENDED, "rename", Expected::Done),
            Self::HardLink { .. } => (EXTENDED, "create the link", Expected::Done),
            Self::Fsync { .. } => (EXTENDED, "make durable", Expected::Done),
            Self::Statvfs { .. } => (EXTENDED, "query the file system of", Expected::FsStats),
            Self::Lsetstat { .. } => (EXTENDED, "set the attributes of", Expected::Done),
            Self::Limits => (EXTENDED, "ask for the limits of", Expected::Limits),
        }
    }

    fn encode_arguments(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Open { path, flags, attrs } => {
                out.put_string(path);
                out.put_u32(flags.bits());
                attrs.encode(out);
            }
            Self::Close { handle }
            | Self::Fstat { handle }
            | Self::Readdir { handle }
            | Self::Fsync { handle } => out.put_string(handle),
            Self::Read { handle, offset, len } | Self::Write { handle, offset, len } => {
                out.put_string(handle);
                out.put_u64(offset);
                out.put_u32(len);
            }
            Self::Stat { path }
            | Self::Lstat { path }
            | Self::Opendir { path }
            | Self::Remove { path }
            | Self::Rmdir { path }
            | Self::Realpath { path }
            | Self::Readlink { path }
            | Self::Statvfs { path } => out.put_string(path),
            Self::Setstat { path, attrs }
            | Self::Lsetstat { path, attrs }
            | Self::Mkdir { path, attrs } => {
                out.put_string(path);
                attrs.encode(out);
            }
            Self::Fsetstat { handle, attrs } => {
                out.put_string(handle);
                attrs.encode(out);
            }
            Self::Rename { from, to }
            | Self::PosixRename { from, to }
            | Self::HardLink { from, to }
            // The draft puts the link first. OpenSSH's server has always had the target first, by
            // mistake, and the other servers follow it.
            | Self::Symlink { target: from, link: to } => {
                out.put_string(from);
                out.put_string(to);
            }
            Self::Limits => {}
        }
    }

    /// The extension that the request belongs to.
    pub fn extension(&self) -> Option<Extension> {
        Some(match self {
            Self::PosixRename { .. } => Extension::PosixRename,
            Self::HardLink { .. } => Extension::HardLink,
            Self::Fsync { .. } => Extension::Fsync,
            Self::Statvfs { .. } => Extension::Statvfs,
            Self::Lsetstat { .. } => Extension::Lsetstat,
            Self::Limits => Extension::Limits,
            _ => return None,
        })
    }

    /// The successful answer to the request.
    pub fn expected(&self) -> Expected {
        self.facts().2
    }

    /// The cost of the request while it is in flight, in bytes: the content that it sends or may
    /// receive, and a limit for the rest.
    pub(crate) fn cost(&self) -> usize {
        COST + match self {
            Self::Read { len, .. } | Self::Write { len, .. } => *len as usize,
            // The encoded answer is kept until it is taken.
            Self::Readdir { .. } => PACKET_LEN_MAX as usize,
            _ => 0,
        }
    }

    /// True if a server may take minutes and answer nothing else meanwhile, because it waits for a
    /// medium or for another server. For a small file (`is_small`), only requests that wait for the
    /// medium count.
    pub(crate) fn is_slow(&self, is_small: bool) -> bool {
        match self {
            Self::Fsync { .. } => true,
            Self::Close { .. } | Self::Rename { .. } | Self::PosixRename { .. } => !is_small,
            _ => false,
        }
    }

    /// The operation for a message: "can't ... PATH".
    pub fn operation(&self) -> &'static str {
        self.facts().1
    }
}
