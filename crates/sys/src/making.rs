//! Entries that are no files and no directories, made under private names with their
//! attributes: symbolic links, FIFOs, sockets and devices.

use crate::Dir;
use crate::dir::private_mode;
use crate::meta;
use haul_model::{Attributes, Device, Kept, Special};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::io;

impl Dir {
    /// Makes a symbolic link under the private name `temp`, with those of `attributes`
    /// that are `kept` and that links have.
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
        if let Err(error) = rustix::fs::symlinkat(target, self, temp) {
            if error != Errno::EXIST {
                // Some file systems fail, and leave something there all the same.
                let _ = self.remove_private(temp);
            }
            return Err(error.into());
        }
        meta::set_link_attributes(self, temp.as_bytes(), attributes, kept).inspect_err(|_| {
            // Without them it is not what was asked for: it must not stay.
            let _ = self.remove_private(temp);
        })
    }

    /// Makes a FIFO, socket or device under the private name `temp`, with those of
    /// `attributes` that are `kept`.
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
                // Without them it is not what was asked for: it must not stay.
                let _ = self.remove_private(temp);
            },
        )
    }
}
