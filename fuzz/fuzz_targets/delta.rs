//! Sums that a peer tells of an old file, and the search for its blocks in a new one: each
//! byte is told once, and nothing is reused that the old file has not.

#![no_main]

use haul_delta::{Checksummer, DeltaStep, Key, Matcher, Shape, Signature};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, u8, u8, bool, &[u8], &[u8])| {
    let (old_len, block_len, step, tells_truth, sums, new) = input;
    let Some(shape) = Shape::new(old_len.into(), 64 + u32::from(block_len), 2) else { return };
    let key = Key::from([1; Key::LEN]);
    let mut signature = Signature::new(shape, key);
    if tells_truth {
        // The beginning of the new file is the old one.
        let mut sums = Vec::new();
        let mut old = new.to_vec();
        old.resize(old_len.into(), 0);
        let checksummer = Checksummer::new(key);
        old.chunks(shape.block_len()).for_each(|block| checksummer.sum(&shape, block, &mut sums));
        assert!(signature.take(&sums).is_ok());
    } else if signature.take(sums).is_err() || !signature.is_complete() {
        return;
    }
    assert!(signature.take(&[0]).is_err());
    let mut matcher = Matcher::new(signature);
    let (mut from, mut to) = (0, 0);
    while from < new.len() {
        let told = match from == to {
            true => DeltaStep::NeedMore,
            false => matcher.next(&new[from..to], to == new.len()),
        };
        match told {
            DeltaStep::NeedMore => {
                assert!(to < new.len() && to - from < 2 * shape.block_len());
                to = (to + 1 + usize::from(step)).min(new.len());
            }
            DeltaStep::Literal(len) => {
                assert!(len > 0 && len <= to - from);
                from += len;
            }
            DeltaStep::Reuse { from: old, len } => {
                assert!(len > 0 && len <= to - from);
                assert!(old + len as u64 <= shape.old_len());
                from += len;
            }
        }
    }
});
