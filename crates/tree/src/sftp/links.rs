//! Symbolic links at a host.

use super::attrs::attrs_for;
use super::host::must_stay;
use super::{SftpDir, join};
use crate::TreeDir;
use haul_model::{Attributes, Fault, Kept, Name};
use haul_sftp::Extension;
use haul_store::{OnExisting, Publication};
use std::io;

/// Attempts to create a link whose temporary link another process removes.
const LINK_ATTEMPTS_MAX: u32 = 8;

impl SftpDir {
    /// Creates a symbolic link `name`, with the time in `attributes`.
    pub(super) fn make_symlink(
        &self,
        target: &[u8],
        name: &Name,
        attributes: &Attributes,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        let (host, client) = (&self.host, self.host.client());
        let path = self.path_of(name.as_bytes());
        let set_time = |path: &[u8]| {
            if client.has(Extension::Lsetstat) {
                // A link is created even if its time can't be set.
                let attrs = attrs_for(attributes, Kept::TIMES);
                if let Err(error) = client.set_link_attrs(path, attrs) {
                    host.record_loss(&error);
                }
            }
        };
        if on_existing != OnExisting::Replace {
            let made = client.make_symlink(target, &path);
            if made.is_err() && host.has_name(&path)? {
                return Ok(Publication::Kept);
            }
            host.check_write(&self.path, made)?;
            set_time(&path);
            return Ok(Publication::Published);
        }
        if self.leads_to(target, name) {
            return Err(io::Error::other(Fault::of_link_to_itself()));
        }
        let _turn = host.linking.lock();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let temp = join(&self.path, host.stage_name().as_bytes());
            host.check_write(&self.path, client.make_symlink(target, &temp))?;
            set_time(&temp);
            let published = host.publish(&temp, &self.path, name, OnExisting::Replace);
            if published.is_ok() || published.as_ref().is_err_and(must_stay) {
                return published;
            }
            // A link can't be locked, so another process may have removed it as a leftover.
            let is_gone = || matches!(host.has_name(&temp), Ok(false));
            if attempts == LINK_ATTEMPTS_MAX || !is_gone() {
                // The first error has the cause.
                let _ = client.remove_file(&temp);
                return published;
            }
        }
    }
}
