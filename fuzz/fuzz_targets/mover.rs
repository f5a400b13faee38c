//! Any bytes as what an agent sends to a client that moves to it: the job ends,
//! and what is gone then is of the sources, while all the rest is as it was.

#![no_main]

use haul_engine::Placement;
use haul_fuzz::{Place, Quiet, Script, removal};
use haul_testkit::Snapshot;
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

thread_local! {
    static PLACE: RefCell<(Place, Snapshot)> = {
        let place = Place::with_sources();
        let before = place.snapshot();
        RefCell::new((place, before))
    };
}

fuzz_target!(|stream: &[u8]| {
    PLACE.with_borrow_mut(|(place, before)| {
        let job = removal(place.sources(), "/there".as_ref());
        let connection = Script::after_welcome(stream).connection();
        let _ = haul_engine::run(&job, Placement::upload(connection), &Quiet::default());
        place.check_left(before);
        place.restore();
        *before = place.snapshot();
    });
});
