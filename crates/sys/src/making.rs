//! Creates entries other than files and directories, under private names and with their attributes:
//! symbolic links, FIFOs, sockets, devices, and hard links.

use crate::Dir;
use crate::dir::private_mode;
use crate::meta::{self, Stat};
use haul_model::{Attributes, Device, FileId, Kept, Name, Special};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

impl Dir {
    /// True if this process may create, rename and remove entries, apart from a sticky bit.
    pub fn may_change(&self) -> bool {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(self.as_fd(), ".", access, AtFlags::EACCESS).is_ok()
    }

    /// Creates a symbolic link under the private name `temp`, with those of `attributes` in `kept`
    /// that links support.
    ///
    /// # Errors
    /// Those of `symlinkat`, `fchownat` and `utimensat`.
    pub fn make_symlink(
        &self,
        target: &[u8],
        temp: &str,
        attributes: &Attributes,
        kept: Kept,
    ) -> io::Result<()> {
        if self.fakes() {
            return self.make_faked_symlink(target, temp, attributes, kept);
        }
        if let Err(error) = rustix::fs::symlinkat(target, self, temp) {
            if error != Errno::EXIST {
                // Some file systems fail, but create the entry all the same.
                let _ = self.remove_private(temp);
            }
            return Err(error.into());
        }
        meta::set_link_attributes(self, temp.as_bytes(), attributes, kept).inspect_err(|_| {
            // Without its attributes the link is wrong and must not stay.
            let _ = self.remove_private(temp);
        })
    }

    /// Creates the hard link `name` in this directory to the entry `of` in `from`. `name` must not
    /// exist. No link is followed.
    ///
    /// # Errors
    /// Those of `linkat`; [`io::ErrorKind::NotFound`] if it is not the object `id`, where
    /// that is known.
    pub fn make_hard_link(
        &self,
        from: &Self,
        of: &Name,
        id: Option<FileId>,
        name: &[u8],
    ) -> io::Result<()> {
        rustix::fs::linkat(from, of.as_bytes(), self, name, AtFlags::empty())?;
        let Some(id) = id else { return Ok(()) };
        let raw = rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if Stat::from_raw(&raw).id == id {
            return Ok(());
        }
        let _ = rustix::fs::unlinkat(self, name, AtFlags::empty());
        let message = "another file replaced its first name";
        Err(io::Error::new(io::ErrorKind::NotFound, message))
    }

    /// Creates a FIFO, socket or device under the private name `temp`, with those of `attributes`
    /// in `kept`.
    ///
    /// # Errors
    /// Those of `mknodat`, and of setting the attributes.
    pub fn make_special(
        &self,
        special: Special,
        temp: &str,
        attributes: &Attributes,
        kept: Kept,
    ) -> io::Result<()> {
        if self.fakes() {
            return self.make_faked_special(special, temp, attributes, kept);
        }
        let device = |device: Device| rustix::fs::makedev(device.major, device.minor);
        let (kind, number) = match special {
            Special::Fifo => (FileType::Fifo, 0),
            Special::Socket => (FileType::Socket, 0),
            Special::Block(number) => (FileType::BlockDevice, device(number)),
            Special::Char(number) => (FileType::CharacterDevice, device(number)),
        };
        rustix::fs::mknodat(self, temp, kind, private_mode(), number)?;
        meta::set_special_attributes(self, temp.as_bytes(), kind, attributes, kept).inspect_err(
            |_| {
                // Without its attributes the entry is wrong and must not stay.
                let _ = self.remove_private(temp);
            },
        )
    }
}
