//! Any bytes as what an agent sends to a client that uploads: the job ends, and
//! claims no success before everything was listed and answered.

#![no_main]

use haul_engine::Placement;
use haul_fuzz::{Place, Quiet, Script, job};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::sync::atomic::Ordering;

thread_local! {
    static PLACE: RefCell<Place> = RefCell::new(Place::with_sources());
}

fuzz_target!(|stream: &[u8]| {
    PLACE.with_borrow(|place| {
        let job = job(place.sources(), "/there".as_ref());
        let connection = Script::after_welcome(stream).connection();
        let quiet = Quiet::default();
        if haul_engine::run(&job, Placement::upload(connection), &quiet).is_ok() {
            assert!(quiet.0.listed_all.load(Ordering::Relaxed));
        }
    });
});
