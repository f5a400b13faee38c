//! Wanted files on one machine, in portions for single workers.

use super::Item;
use haul_model::Kind;

/// Files whose contents are asked for in one go are handed on in portions of
/// this many at most, so that several workers share them...
const PORTION_FILES_MAX: usize = 32;

/// ...and of about this many bytes.
const PORTION_BYTES_MAX: u64 = 4 << 20;

/// Cuts `items` into portions for single workers.
pub(super) fn portions(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut portions: Vec<Vec<Item>> = Vec::new();
    let mut bytes = u64::MAX;
    for item in items {
        let Kind::File { size } = item.kind else { continue };
        match portions.last_mut() {
            Some(last) if last.len() < PORTION_FILES_MAX && bytes < PORTION_BYTES_MAX => {
                last.push(item);
                bytes = bytes.saturating_add(size);
            }
            _ => {
                bytes = size;
                portions.push(vec![item]);
            }
        }
    }
    portions
}
