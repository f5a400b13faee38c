//! Scenarios that are written once and run in every way, and what a way can't do
//! as the others do, each with its reason.

use super::Way;
use haul_testkit::Compare;
use std::thread;

/// A scenario that can't hold in a way.
struct Exception {
    /// The test's name, as its program lists it.
    scenario: &'static str,
    ways: &'static [Way],
    reason: &'static str,
}

/// All scenarios that don't run in every way.
const EXCEPTIONS: &[Exception] = &[
    Exception {
        scenario: "kept::holes_stay_holes_and_a_hole_at_the_end_counts",
        ways: &[Way::SftpDownload],
        reason: "the protocol doesn't tell where the holes of a file are",
    },
    Exception {
        scenario: "kept::a_tree_deeper_than_any_path_can_say_arrives",
        ways: &[Way::SftpUpload, Way::SftpDownload],
        reason: "the protocol has paths alone, and no path can say it",
    },
];

const SECOND_NS: i128 = 1_000_000_000;

/// How a copy in this way is compared with its source.
pub(super) fn rules(way: Way) -> Compare {
    let seconds = |mtime_ns: i128| mtime_ns.div_euclid(SECOND_NS) * SECOND_NS;
    match way {
        // The protocol has whole seconds.
        Way::SftpUpload => Compare::everything().keeping_mtimes_as(seconds),
        // And it doesn't tell where holes are.
        Way::SftpDownload => Compare::everything().keeping_mtimes_as(seconds).ignoring_holes(),
        Way::Local | Way::Upload | Way::Download => Compare::everything(),
    }
}

/// The ways in which the test that runs on this thread can hold.
pub(super) fn ways_of_this_test() -> Vec<Way> {
    let name = thread::current().name().unwrap_or_default().to_owned();
    let mut ways = Way::EACH.to_vec();
    for exception in EXCEPTIONS.iter().filter(|exception| exception.scenario == name) {
        eprintln!("not in {:?}: {}", exception.ways, exception.reason);
        ways.retain(|way| !exception.ways.contains(way));
    }
    ways
}
