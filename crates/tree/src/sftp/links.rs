//! Symbolic links and hard links at a host.

use super::attrs::attrs_for;
use super::host::must_stay;
use super::{SftpHost, join};
use haul_model::{Attributes, Fault, Kept, Name};
use haul_sftp::Extension;
use haul_store::{OnExisting, Publication};
use std::io;

/// Attempts to create a link whose temporary link another process removes.
const LINK_ATTEMPTS_MAX: u32 = 8;

/// Creates a symbolic link `name` in the directory `dir`, with the time in `attributes`.
pub(super) fn symbolic(
    host: &SftpHost,
    dir: &[u8],
    target: &[u8],
    name: &Name,
    attributes: &Attributes,
    on_existing: OnExisting,
) -> io::Result<Publication> {
    let client = host.client();
    let path = join(dir, name.as_bytes());
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
        host.check_write(dir, made)?;
        set_time(&path);
        return Ok(Publication::Published);
    }
    if leads_to(host, dir, target, name) {
        return Err(io::Error::other(Fault::of_link_to_itself()));
    }
    let _turn = host.linking.lock();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let temp = join(dir, host.stage_name().as_bytes());
        host.check_write(dir, client.make_symlink(target, &temp))?;
        set_time(&temp);
        let published = host.publish(&temp, dir, name, OnExisting::Replace);
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

/// True if a link to `target` in the directory `dir` would lead to the entry `name` there.
pub(super) fn leads_to(host: &SftpHost, dir: &[u8], target: &[u8], name: &Name) -> bool {
    let real = |path: &[u8]| host.client().real_path(path);
    let led = if target.starts_with(b"/") { real(target) } else { real(&join(dir, target)) };
    led.is_ok_and(|led| real(dir).is_ok_and(|dir| *led == *join(&dir, name.as_bytes())))
}

/// Creates the hard link `name` in the directory `dir` to the file at the path `of`.
pub(super) fn hard(
    host: &SftpHost,
    dir: &[u8],
    of: &[u8],
    name: &Name,
    on_existing: OnExisting,
) -> io::Result<Publication> {
    let client = host.client();
    let temp = join(dir, host.stage_name().as_bytes());
    host.check_write(dir, client.make_hard_link(of, &temp))?;
    let published = host.publish(&temp, dir, name, on_existing);
    let is_placed = matches!(published, Ok(Publication::Published));
    let may_be_left = match is_placed {
        // If `name` was a link to the same file, the rename does nothing and reports success.
        true => on_existing == OnExisting::Replace,
        false => !published.as_ref().is_err_and(must_stay),
    };
    if may_be_left {
        let _ = client.remove_file(&temp);
    }
    published
}
