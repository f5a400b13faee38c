//! Scenarios that are written once and run in every way, and what a way can't do
//! as the others do, each with its reason.

use super::{By, Scene, Way, each_of, each_of_and_by};
use haul_testkit::{Compare, campaign};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// A scenario that can't hold in a way.
struct Exception {
    /// The test's name, as its program lists it.
    scenario: &'static str,
    ways: &'static [Way],
    reason: &'static str,
    /// It is tried each time whether it fails there.
    fails_soon: bool,
}

/// All scenarios that don't run in every way.
const EXCEPTIONS: &[Exception] = &[
    Exception {
        scenario: "rights::what_may_only_be_read_is_moved_where_it_is_there_already",
        ways: &[Way::Between],
        reason: "nothing is moved from one host to another",
        fails_soon: true,
    },
    Exception {
        scenario: "faults::a_source_that_fails_halfway_has_nothing_removed_behind_it",
        ways: &[Way::SftpDownload],
        reason: "the server tells the end of a directory also where it could not read on",
        fails_soon: true,
    },
    Exception {
        scenario: "attributes::who_is_not_root_makes_fifos_and_sockets",
        ways: &[Way::SftpUpload, Way::SftpDownload],
        reason: "the protocol makes no FIFO and no socket, and tells none from the other",
        fails_soon: true,
    },
    Exception {
        scenario: "attributes::who_is_not_root_keeps_what_users_can_give",
        ways: &[Way::SftpUpload, Way::SftpDownload],
        reason: "the protocol has no access control lists and no extended attributes",
        fails_soon: true,
    },
    Exception {
        scenario: "kept::holes_stay_holes_and_a_hole_at_the_end_counts",
        ways: &[Way::SftpDownload],
        reason: "the protocol doesn't tell where the holes of a file are",
        fails_soon: true,
    },
    Exception {
        scenario: "kept::a_tree_deeper_than_any_path_can_say_arrives",
        ways: &[Way::SftpUpload, Way::SftpDownload],
        reason: "the protocol has paths alone, and no path can say it",
        fails_soon: true,
    },
    Exception {
        scenario: "skipping::a_nanosecond_makes_a_file_another_one",
        ways: &[Way::SftpUpload, Way::SftpDownload],
        reason: "the protocol has whole seconds",
        fails_soon: true,
    },
    Exception {
        scenario: "merging::one_object_is_not_two_whatever_is_to_be_replaced",
        ways: &[Way::SftpDownload],
        reason: "the protocol doesn't tell of other names",
        fails_soon: true,
    },
    Exception {
        scenario: "times::where_times_are_exact_another_time_in_the_same_second_is_a_change",
        ways: &[Way::SftpUpload, Way::SftpDownload],
        reason: "the protocol has whole seconds",
        fails_soon: true,
    },
    Exception {
        scenario: "ways::what_an_earlier_run_of_the_system_has_left_goes_with_the_next_copy_there",
        ways: &[Way::SftpUpload],
        reason: "the server does not report when a file was changed, nor who is at it",
        fails_soon: true,
    },
    Exception {
        scenario: "ways::whatever_a_fast_way_says_the_plain_way_is_gone",
        ways: &[Way::SftpUpload],
        reason: "the server renames by a link, and gives up at a refusal that it does not expect",
        fails_soon: true,
    },
    Exception {
        scenario: "times::a_file_whose_time_is_never_taken_fails_and_a_move_keeps_it",
        ways: &[Way::SftpUpload],
        reason: "there are such servers, and copies to them are told of that once",
        fails_soon: true,
    },
    Exception {
        scenario: "whole::all_that_a_tree_has_is_copied",
        ways: &[Way::SftpUpload, Way::SftpDownload],
        reason: "the protocol has no owners by name, no attributes and no other names",
        fails_soon: true,
    },
    Exception {
        scenario: "whole::each_thing_that_a_file_has_is_copied",
        ways: &[Way::SftpUpload, Way::SftpDownload],
        reason: "the protocol has no access control lists and no extended attributes",
        fails_soon: true,
    },
    Exception {
        scenario: "whole::names_of_one_file_go_together_or_stay_together",
        ways: &[Way::SftpDownload],
        reason: "the protocol doesn't tell of other names",
        fails_soon: true,
    },
    Exception {
        scenario: "whole::who_is_not_root_moves_the_own_files_whole_and_leaves_those_of_others",
        ways: &[Way::SftpDownload],
        reason: "the protocol doesn't tell what else a source has",
        fails_soon: true,
    },
    Exception {
        scenario: "a_file_on_which_another_is_mounted_stays_and_that_is_reported",
        ways: &[Way::SftpDownload],
        reason: "the server says no more than that it failed",
        fails_soon: true,
    },
    Exception {
        scenario: "what_was_copied_with_sync_survives_a_power_cut",
        ways: &[Way::SftpUpload],
        reason: "the protocol makes no name durable, and each upload says so",
        fails_soon: false,
    },
    Exception {
        scenario: "what_is_verified_is_read_from_its_device",
        ways: &[Way::SftpUpload],
        reason: "the server may read back from its memory",
        fails_soon: false,
    },
    Exception {
        scenario: "what_a_move_verifies_is_read_from_its_device",
        ways: &[Way::SftpUpload],
        reason: "the server may read back from its memory",
        fails_soon: false,
    },
    Exception {
        scenario: "what_was_not_in_memory_before_a_large_copy_is_not_left_there",
        ways: &[Way::SftpDownload],
        reason: "the server keeps in memory what it reads",
        fails_soon: true,
    },
    Exception {
        scenario: "interrupted::a_killed_move_to_a_new_name_continues_under_that_name",
        ways: &[Way::SftpUpload],
        reason: "what was on its way when it was killed goes with a later upload, not with the next",
        fails_soon: false,
    },
    Exception {
        scenario: "interrupted::a_move_that_is_interrupted_loses_nothing_and_continues",
        ways: &[Way::SftpUpload],
        reason: "what was on its way when it was killed goes with a later upload, not with the next",
        fails_soon: false,
    },
    Exception {
        scenario: "behind::a_link_that_was_in_transit_goes_with_the_next_copy_of_it",
        ways: &[Way::SftpUpload],
        reason: "the server does not report who is at it, so it goes with a later upload",
        fails_soon: true,
    },
    Exception {
        scenario: "damaged::strict_continues_when_all_is_well",
        ways: &[Way::SftpUpload],
        reason: "to read back what is there costs what it costs to send it anew",
        fails_soon: true,
    },
    Exception {
        scenario: "replaced::where_no_time_shows_a_change_what_is_there_is_compared_with_the_source",
        ways: &[Way::SftpUpload],
        reason: "to read back what is there costs what it costs to send it anew",
        fails_soon: false,
    },
    Exception {
        scenario: "stopped::a_file_with_holes_continues_and_keeps_them",
        ways: &[Way::SftpDownload],
        reason: "the protocol doesn't tell where the holes of a file are",
        fails_soon: true,
    },
    Exception {
        scenario: "stopped::a_full_disk_keeps_what_is_there_and_the_next_run_continues",
        ways: &[Way::SftpUpload],
        reason: "the server is asked how much room there is, and nothing is begun",
        fails_soon: true,
    },
];

/// Test programs of whose scenarios some run from one host to another, too; `between` has more.
const BETWEEN: [&str; 4] = ["bad_input", "check", "output", "semantics"];

/// One scenario in so many does: the hosts have the same roles as in the other ways, and what is
/// between them passes on their messages.
const BETWEEN_ONE_IN: usize = 3;

/// Test programs whose scenarios with haul at both ends run by each of these connections, in turn:
/// above the connection the job is the same.
const BY_OTHERS: [&str; 2] = ["check", "semantics"];
const CONNECTIONS: [By; 4] = [By::Ssh, By::Lanes, By::Server, By::Quic];

/// Scenarios whose messages name paths, which at a server begin in the client's directory.
const PATHS_SHOWN: [&str; 8] = [
    "every_kind_of_difference_is_named",
    "what_cannot_be_compared_is_an_error_and_no_extra",
    "what_is_not_there_at_all",
    "merging::no_source_replaces_what_another_has_brought",
    "placing::a_directory_needs_leave_and_the_others_are_copied",
    "placing::a_slash_after_a_file_is_no_new_name",
    "placing::several_sources_need_a_directory",
    "placing::the_content_of_a_dot_goes_straight_into_the_destination",
];

/// Scenarios with links to absolute paths, which a server resolves below the client's directory.
const ABSOLUTE_LINKS: [&str; 1] = ["links::with_l_what_links_lead_to_is_copied"];

const SECOND_NS: i128 = 1_000_000_000;

/// How a copy in this way is compared with its source.
pub(super) fn rules(way: Way) -> Compare {
    let seconds = |mtime_ns: i128| mtime_ns.div_euclid(SECOND_NS) * SECOND_NS;
    match way {
        // The protocol has whole seconds.
        Way::SftpUpload => Compare::everything().keeping_mtimes_as(seconds),
        // And it doesn't tell where holes are.
        Way::SftpDownload => Compare::everything().keeping_mtimes_as(seconds).ignoring_holes(),
        Way::Local | Way::Upload | Way::Download | Way::Between => Compare::everything(),
    }
}

/// The turn of a scenario: a number that its name alone decides.
fn turn_of(name: &str) -> usize {
    name.bytes().fold(0, |turn, byte| (turn * 31 + usize::from(byte)) % 10_007)
}

/// Runs `test` in every way but for the exceptions. In those it has to fail, unless
/// that takes long: an exception that nothing needs any more has to go.
pub(super) fn everywhere(prepare: impl Fn(&mut Scene<'_>), test: impl Fn(&Scene<'_>) + Sync) {
    let name = thread::current().name().unwrap_or_default().to_owned();
    let exceptions = || EXCEPTIONS.iter().filter(|exception| exception.scenario == name);
    let mut ways = Way::EACH.to_vec();
    let (is_long, turn) = (campaign::rounds(1) > 1, turn_of(&name));
    let is_between = is_long || turn.is_multiple_of(BETWEEN_ONE_IN);
    if !BETWEEN.contains(&env!("CARGO_CRATE_NAME")) || !is_between {
        ways.retain(|way| *way != Way::Between);
    }
    ways.retain(|way| !exceptions().any(|exception| exception.ways.contains(way)));
    let is_served = !PATHS_SHOWN.iter().chain(&ABSOLUTE_LINKS).any(|other| *other == name);
    let connections: Vec<By> = match BY_OTHERS.contains(&env!("CARGO_CRATE_NAME")) {
        true => CONNECTIONS.into_iter().filter(|by| is_served || !by.is_server()).collect(),
        false => vec![By::Ssh],
    };
    let (mut chosen, mut turns) = (Vec::new(), turn..);
    for way in ways {
        match way {
            // The other direction has the next connection.
            Way::Upload | Way::Download if !is_long => {
                let at = turns.next().expect("it has no end") % connections.len();
                chosen.push((way, connections[at]));
            }
            Way::Upload | Way::Download => chosen.extend(connections.iter().map(|by| (way, *by))),
            _ => chosen.push((way, By::Ssh)),
        }
    }
    each_of_and_by(&chosen, &prepare, &test);
    for exception in exceptions() {
        eprintln!("not in {:?}: {}", exception.ways, exception.reason);
        for way in exception.ways.iter().filter(|_| exception.fails_soon) {
            let holds = || each_of(&[*way], &prepare, &test);
            let fails = catch_unwind(AssertUnwindSafe(holds)).is_err();
            assert!(fails, "it holds in {way:?} as well, and the exception is stale");
        }
    }
}
