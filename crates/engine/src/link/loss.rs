//! The fault of a source that a move leaves where it is, which either side can see.

use haul_model::{Fault, FaultKind, Side};
use std::borrow::Borrow;

/// Why a source stays, a directory or not, that would lose something by being moved; in
/// words, of which there may be none.
pub(crate) fn would_lose<W: Borrow<str>>(is_dir: bool, lost: &[W]) -> Option<Fault> {
    if lost.is_empty() {
        return None;
    }
    let all = if is_dir { ", with its content" } else { "" };
    let message = format!("not moved{all}: {} would be lost", lost.join(" and "));
    Some(Fault::new(Side::Source, FaultKind::Lossy, message))
}
