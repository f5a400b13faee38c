//! Staged files that begin with the content of the old version, on file systems whose files can
//! share content. Unchanged parts are neither sent nor written.
//!
//! The shared part is also a snapshot that nobody else can change. The sums are computed from it,
//! and kept parts are hashed from the staged file. So the verified content is the published
//! content.

use crate::receiver::content::PrefilledStage;
use crate::receiver::{DirState, Filler, Pending};
use haul_model::BLOCK_LEN;
use haul_proto::Reuse;
use haul_store::RESUME_LEN_MIN_REMOTE;
use haul_tree::SourceFile;
use std::ops::Range;

/// Maximum number of such files that are open at the same time.
pub(crate) const PREFILLED_MAX: usize = 16;

/// True if the staged file already has this part of the old version in its place.
pub(crate) fn is_in_place(shared: &Range<u64>, reuse: &Reuse) -> bool {
    let Reuse { at, from, len, .. } = *reuse;
    from == Some(at) && shared.start <= at && at + u64::from(len) <= shared.end
}

/// True if the file should begin with the content of its old version.
pub(super) fn can_prefill(file: &Pending, old: &dyn SourceFile) -> bool {
    let DirState::Open(node) = &file.dir.state else { return false };
    old.seal().size >= RESUME_LEN_MIN_REMOTE
        && !file.target.preallocates
        && file.target.staging.is_none()
        && old.handle().is_some()
        && node.handle().is_ok_and(|dir| dir.capabilities().can_share_content)
}

/// Starts the staged file with the content of `old`, if the file system can share it. If no file
/// can be staged, the error shows again when content arrives.
pub(super) fn begin_with(filler: &Filler<'_>, file: &mut Pending, old: &dyn SourceFile) {
    let begun = match file.resumed {
        0 => file.stage_for(filler).ok().map(|stage| (stage, Vec::new())),
        _ => file.open_partial(filler).ok().flatten(),
    };
    let Some((stage, done)) = begun else { return };
    let from = done.len() as u64 * BLOCK_LEN;
    let shared = from..old.seal().size.max(from);
    let begins_with = |old| stage.begin_with(old, shared.clone());
    let shared = match old.handle().is_some_and(begins_with) {
        true => shared,
        // Nothing may follow the blocks that are done.
        false if stage.set_len(from).is_err() => return,
        false => from..from,
    };
    file.reused.begun = Some(Box::new(PrefilledStage { stage, done, shared }));
}
