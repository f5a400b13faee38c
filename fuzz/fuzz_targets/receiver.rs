//! Any bytes as what an agent sends to a client that downloads: the job ends,
//! nothing is written beside the destination, and no private name is left.

#![no_main]

use haul_engine::Placement;
use haul_fuzz::{ASKED, Place, Quiet, Script, job};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

thread_local! {
    static PLACE: RefCell<Place> = RefCell::new(Place::new());
}

fuzz_target!(|stream: &[u8]| {
    PLACE.with_borrow_mut(|place| {
        place.clear();
        let sources = ASKED.map(|name| format!("/there/{name}").into_bytes());
        let job = job(sources.to_vec(), &place.dest());
        let connection = Script::after_welcome(stream).connection();
        // Bytes that happen to be a whole job may well succeed.
        let _ = haul_engine::run(&job, Placement::download(connection), &Quiet::default());
        place.check();
    });
});
