//! Packets as the draft has them, for the server: answers are put together,
//! requests taken apart.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// An answer in the making.
pub(super) struct Packet(Vec<u8>);

impl Packet {
    /// With a type and the number of the request (of the version, in a
    /// greeting).
    pub(super) fn new(kind: u8, id: u32) -> Self {
        let mut packet = Self(vec![0; 4]);
        packet.0.push(kind);
        packet.u32(id);
        packet
    }

    pub(super) fn status(id: u32, code: u32) -> Self {
        let mut packet = Self::new(101, id);
        packet.u32(code);
        packet.string(b"as it is");
        packet.string(b"");
        packet
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn string(&mut self, value: &[u8]) {
        self.u32(value.len() as u32);
        self.0.extend(value);
    }

    /// Size without `hidden` bytes, owner, mode and times.
    pub(super) fn attrs(&mut self, meta: &Metadata, hidden: u64) {
        self.untimed_attrs(meta, hidden, 0xf);
        self.u32(meta.atime() as u32);
        self.u32(meta.mtime() as u32);
    }

    /// The same without times, after these flags.
    pub(super) fn untimed_attrs(&mut self, meta: &Metadata, hidden: u64, flags: u32) {
        self.u32(flags);
        self.u64(meta.len().saturating_sub(hidden));
        self.u32(meta.uid());
        self.u32(meta.gid());
        self.u32(meta.mode());
    }

    /// Entries of a directory, or a path, of which nothing but the name is told.
    pub(super) fn names(&mut self, names: &[&[u8]]) {
        self.u32(names.len() as u32);
        for name in names {
            self.string(name);
            self.string(b"");
            self.u32(0);
        }
    }

    /// The whole packet.
    pub(super) fn bytes(mut self) -> Vec<u8> {
        let len = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&len.to_be_bytes());
        self.0
    }
}

/// A request that is taken apart. One that ends too early is a mistake of the
/// client's, and a panic.
pub(super) struct Request<'a>(pub(super) &'a [u8]);

/// The attributes of a file that are to be set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Attrs {
    pub(super) size: Option<u64>,
    pub(super) mode: Option<u32>,
    pub(super) times: Option<(u32, u32)>,
}

impl<'a> Request<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    pub(super) fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    pub(super) fn string(&mut self) -> &'a [u8] {
        let len = self.u32() as usize;
        self.take(len)
    }

    pub(super) fn attrs(&mut self) -> Attrs {
        let flags = self.u32();
        assert_eq!(flags & !0xf, 0, "flags of attributes: {flags:#x}");
        let size = (flags & 1 != 0).then(|| self.u64());
        if flags & 2 != 0 {
            let _owner = self.u64();
        }
        let mode = (flags & 4 != 0).then(|| self.u32());
        let times = (flags & 8 != 0).then(|| (self.u32(), self.u32()));
        Attrs { size, mode, times }
    }
}
