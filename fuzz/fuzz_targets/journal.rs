//! Any bytes as the journal of an interrupted copy: it is never an error, and
//! no more is believed to be there than can be.

#![no_main]

use haul_fuzz::Journal;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static JOURNAL: Journal = Journal::new();
}

fuzz_target!(|bytes: &[u8]| {
    JOURNAL.with(|journal| {
        for whole in [false, true] {
            assert!(journal.resume(bytes, whole) <= journal.blocks_max());
        }
    });
});
