//! The payload of a pack: its files lie in it one after the other, from the
//! end of the description to the end of the payload.

#![no_main]

use haul_proto::{FrameType, PackItem, decode_pack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    if payload.len() > FrameType::Pack.payload_max() as usize {
        return;
    }
    let Ok(view) = decode_pack(payload) else { return };
    let mut end = None;
    for (item, range) in &view.items {
        assert!(range.start >= 4 && range.start <= range.end && range.end <= payload.len());
        assert!(end.is_none_or(|end| end == range.start));
        end = Some(range.end);
        match item {
            PackItem::File { len, mtime, .. } => {
                assert_eq!(range.len(), *len as usize);
                assert!(mtime.nanos < 1_000_000_000);
            }
            PackItem::Fault { .. } => assert!(range.is_empty()),
        }
    }
    assert!(end.is_none_or(|end| end == payload.len()));
});
