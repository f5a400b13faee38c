//! Any bytes as what an agent sends to a client that compares with it, and that
//! may be moving from it: the job ends, and nothing is changed.

#![no_main]

use haul_engine::Placement;
use haul_fuzz::{ASKED, Place, Quiet, Script, comparison, removal};
use haul_testkit::{Snapshot, assert_same};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static PLACE: (Place, Snapshot) = {
        let mut place = Place::new();
        place.furnish();
        let before = place.snapshot();
        (place, before)
    };
}

fuzz_target!(|stream: &[u8]| {
    PLACE.with(|(place, before)| {
        for job in [comparison, removal] {
            let sources = ASKED.map(|name| format!("/there/{name}").into_bytes());
            let job = job(sources.to_vec(), &place.dest());
            let connection = Script::after_welcome(stream).connection();
            // Bytes that happen to be a whole job may well succeed.
            let _ = haul_engine::run(&job, Placement::download(connection), &Quiet::default());
        }
        assert_same(before, &place.snapshot());
    });
});
