//! Creates entries other than files and directories, under private names and with their attributes:
//! symbolic links, FIFOs, sockets, devices, and hard links.

use crate::Dir;
use crate::dir::private_mode;
use crate::meta;
use crate::stat;
use haul_model::{Attributes, Device, FileId, Kept, Name, NewEntry};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

impl Dir {
    /// True if this process may create, rename and remove entries, apart from a sticky bit.
    pub fn may_change(&self) -> bool {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(self.as_fd(), ".", access, AtFlags::EACCESS).is_ok()
    }

    /// Creates an entry without content under the private name `temp`, with those of `attributes`
    /// in `kept` that it supports.
    ///
    /// # Errors
    /// Errors of `symlinkat` and `mknodat`, and of setting the attributes.
    pub fn make_entry(
        &self,
        new: NewEntry<'_>,
        temp: &str,
        attributes: &Attributes,
        kept: Kept,
    ) -> io::Result<()> {
        if self.fakes() {
            return self.make_faked(new, temp, attributes, kept);
        }
        let made = match new {
            NewEntry::Symlink(target) => rustix::fs::symlinkat(target, self, temp),
            NewEntry::Special(special) => {
                let (kind, Device { major, minor }) = stat::kind_of(special);
                let number = rustix::fs::makedev(major, minor);
                rustix::fs::mknodat(self, temp, kind, private_mode(), number)
            }
        };
        if let Err(error) = made {
            if error != Errno::EXIST {
                // Some file systems fail, but create the entry all the same.
                let _ = self.remove_private(temp);
            }
            return Err(error.into());
        }
        let set = match new {
            NewEntry::Symlink(_) => {
                meta::set_link_attributes(self, temp.as_bytes(), attributes, kept)
            }
            NewEntry::Special(special) => {
                meta::set_special_attributes(self, temp.as_bytes(), special, attributes, kept)
            }
        };
        set.inspect_err(|_| {
            // Without its attributes the entry is wrong and must not stay.
            let _ = self.remove_private(temp);
        })
    }

    /// Creates the hard link `name` in this directory to the entry `of` in `from`. `name` must not
    /// exist. No link is followed.
    ///
    /// # Errors
    /// Errors of `linkat`; [`io::ErrorKind::NotFound`] if it is not the object `id`, where
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
        if self.entry_id(name)? == id {
            return Ok(());
        }
        let _ = rustix::fs::unlinkat(self, name, AtFlags::empty());
        let message = "another file replaced its first name";
        Err(io::Error::new(io::ErrorKind::NotFound, message))
    }
}
