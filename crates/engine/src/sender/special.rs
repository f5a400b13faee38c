//! Named sources that are not regular files. As in `cp`, a FIFO or a device is read to its end, and
//! so is the target of a descriptor path (`/dev/fd/3`). In trees and mirrors, such entries are
//! skipped.

use crate::Job;
use crate::control::Control;
use crate::dirs::DirNode;
use haul_model::{Fault, FaultKind, Kept, Name, OrFault, Side, Task};
use haul_tree::{Meta, MetaKind};
use std::path::Path;
use std::sync::Arc;

/// The treatment of such sources.
#[derive(Debug, Clone, Copy)]
pub(super) enum Specials<'j> {
    /// They are listed as special files, and not copied.
    Listed,
    /// They are read into files of this directory, if there is one.
    Read { into: Option<&'j Path>, recursive: bool, dry_run: bool, keeps: Kept },
}

impl<'j> Specials<'j> {
    pub(super) fn of(job: &'j Job) -> Self {
        let is_copy = matches!(job.task, Task::Copy(policy) if policy.moving.is_none());
        if !is_copy {
            return Self::Listed;
        }
        Self::Read {
            into: job.spool.as_deref(),
            recursive: job.sources.recursive,
            dry_run: job.task.keeps_destination(),
            keeps: job.task.keeps(),
        }
    }

    /// The metadata to copy for the entry `name`, whose metadata is `meta`. Its content is complete
    /// when this returns.
    pub(super) fn resolve(
        self,
        dir: &Arc<DirNode>,
        name: &Name,
        meta: Meta,
        control: &Control<'_>,
    ) -> Result<Meta, Fault> {
        let Self::Read { into, recursive, dry_run, keeps } = self else { return Ok(meta) };
        let is_descriptor = meta.kind == MetaKind::Symlink
            && dir.handle().is_ok_and(|dir| dir.is_descriptor_link(name));
        if meta.kind != MetaKind::Special && !is_descriptor {
            return Ok(meta);
        }
        let is_recreated = meta.special.is_some_and(|special| keeps.has(special.kept()));
        if recursive && is_recreated {
            return Ok(meta);
        }
        let refused = |message: &str| Fault::new(Side::Source, FaultKind::Special, message);
        if recursive && !is_descriptor {
            return Err(refused(
                "a FIFO, socket or device is not copied with -r; without -r its content is copied",
            ));
        }
        let Some(into) = into else {
            return Err(refused(
                "a FIFO, socket or device can be read only on the machine where haul is started",
            ));
        };
        if dry_run {
            return Ok(Meta { kind: MetaKind::File { size: 0 }, ..meta });
        }
        let should_continue = || !control.stopped();
        dir.handle()
            .and_then(|dir| dir.spool(name, into, &should_continue))
            .or_fault(Side::Source, "read it to its end")
    }
}
