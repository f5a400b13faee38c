//! Splits wanted files on one machine into portions for single workers.

use super::Item;
use haul_model::Kind;

/// The most files in one portion, so that several workers share the files.
const BATCH_FILES_MAX: usize = 32;

/// The approximate bytes in one portion.
const BATCH_BYTES_MAX: u64 = 4 << 20;

/// Splits `items` into portions.
pub(super) fn batches(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut batches: Vec<Vec<Item>> = Vec::new();
    let mut bytes = u64::MAX;
    for item in items {
        let Kind::File { size } = item.kind else { continue };
        match batches.last_mut() {
            Some(last) if last.len() < BATCH_FILES_MAX && bytes < BATCH_BYTES_MAX => {
                last.push(item);
                bytes = bytes.saturating_add(size);
            }
            _ => {
                bytes = size;
                batches.push(vec![item]);
            }
        }
    }
    batches
}
