//! Modes, times, sizes and links that no honest tree has, and links in the way.

use crate::attack::{RECEIVERS, send_to};
use crate::content::with_holes;
use crate::peer::{TIME, data, dir, dir_end, entry, file, file_end, link, name, pack, packed};
use haul_engine::Outcome;
use haul_model::{Attributes, ContentHash, Entry, FaultKind, Kind, Timestamp};
use haul_proto::{ListItem, PackItem};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

/// A listed entry with this mode and time.
fn with_meta(text: &str, kind: Kind, mode: u32, mtime: Timestamp) -> ListItem {
    ListItem::Entry {
        dir: 0,
        entry: Entry::new(Some(name(text)), kind, Attributes::new(mode, mtime)),
    }
}

#[test]
fn set_id_bits_and_bits_that_are_no_mode_are_not_taken_over() {
    for victim in RECEIVERS {
        for mode in [0o4755, 0o2755, 0o6755, 0o7777, u32::MAX] {
            let attacked = send_to(
                victim,
                &["a", "b"],
                |_| {},
                move |peer| {
                    peer.list(vec![with_meta("a", Kind::File { size: 4 }, mode, TIME)]);
                    peer.list(vec![with_meta("b", Kind::Dir, mode, TIME), dir_end(2), dir_end(0)]);
                    peer.await_wants([1]);
                    peer.raw(&pack([packed(1, b"text")], b"text"));
                },
            );
            attacked.assert_done();
            for made in ["a", "b"] {
                let meta = fs::metadata(attacked.place.dest(made)).expect("there");
                assert_eq!(meta.mode() & 0o7777, mode & 0o1777, "{made} {mode:o}");
            }
        }
    }
}

#[test]
fn a_mode_is_not_set_on_what_is_left_as_it_is_beyond_what_is_kept() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a", "b"],
            |place| {
                for it in ["a", "b"] {
                    fs::write(place.dest(it), "text").expect("written");
                    haul_testkit::nasty::set_mtime(place.dest(it), TIME.secs, TIME.nanos)
                        .expect("set");
                }
                fs::remove_file(place.dest("b")).expect("removed");
                symlink("../outside/secret", place.dest("b")).expect("linked");
            },
            |peer| {
                peer.list(vec![with_meta("a", Kind::File { size: 4 }, 0o6750, TIME)]);
                // A link is no unchanged file, whatever it leads to.
                peer.list(vec![with_meta("b", Kind::File { size: 14 }, 0o777, TIME), dir_end(0)]);
                peer.await_wants([2]);
                peer.raw(&pack([packed(2, b"text")], b"text"));
            },
        );
        attacked.assert_done();
        let mode = fs::metadata(attacked.place.dest("a")).expect("there").mode();
        assert_eq!(mode & 0o7777, 0o750);
        assert!(fs::symlink_metadata(attacked.place.dest("b")).expect("there").is_file());
    }
}

#[test]
fn times_at_the_ends_of_all_time_fail_at_most_their_entry() {
    for victim in RECEIVERS {
        for secs in [i64::MIN, -1, 0, i64::from(u32::MAX) + 1, i64::MAX] {
            let time = Timestamp { secs, nanos: 999_999_999 };
            let attacked = send_to(
                victim,
                &["a", "b", "c"],
                |_| {},
                move |peer| {
                    peer.list(vec![
                        with_meta("a", Kind::File { size: 4 }, 0o644, time),
                        with_meta("b", Kind::Symlink { target: (*b"a").into() }, 0o777, time),
                        with_meta("c", Kind::Dir, 0o755, time),
                        dir_end(3),
                        dir_end(0),
                    ]);
                    peer.await_wants([1]);
                    let hash = ContentHash::of(b"text");
                    let item = PackItem::File {
                        index: 1,
                        len: 4,
                        mtime: time,
                        hash: Some(hash),
                        grew: false,
                    };
                    peer.raw(&pack([item], b"text"));
                },
            );
            let summary = attacked.assert_done();
            assert_eq!(summary.copied + summary.dirs_created + summary.failed, 3, "{secs}");
        }
    }
}

#[test]
fn a_time_with_more_nanoseconds_than_a_second_is_refused() {
    // Among them those by which the system means "now" and "leave it".
    for nanos in [1_000_000_000, (1 << 30) - 1, (1 << 30) - 2, u32::MAX] {
        let time = Timestamp { secs: 0, nanos };
        for victim in RECEIVERS {
            let item = with_meta("a", Kind::File { size: 4 }, 0o644, time);
            let attacked = send_to(victim, &["a"], |_| {}, move |peer| peer.list(vec![item]));
            attacked.assert_refused("can't be read");
            let attacked = send_to(
                victim,
                &["a"],
                |_| {},
                move |peer| {
                    peer.list(vec![file(0, "a", 4)]);
                    peer.await_wants([1]);
                    let hash = ContentHash::of(b"text");
                    let item = PackItem::File {
                        index: 1,
                        len: 4,
                        mtime: time,
                        hash: Some(hash),
                        grew: false,
                    };
                    peer.raw(&pack([item], b"text"));
                },
            );
            attacked.assert_refused("can't be read");
            assert!(!attacked.place.has("a"));
        }
    }
}

#[test]
fn a_size_beyond_all_files_is_only_a_claim() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a", "b", "c"],
            |_| {},
            |peer| {
                let claims = [("a", u64::MAX), ("b", u64::MAX), ("c", 1 << 63)];
                let claims = claims.map(|(name, size)| with_holes(file(0, name, size)));
                peer.list(claims.into_iter().chain([dir_end(0)]).collect());
                peer.await_wants([1, 2, 3]);
                peer.raw(&pack([packed(1, b"text")], b"text"));
                peer.raw(&data(2, 0, b"text"));
                peer.tell(&file_end(2, u64::MAX, b"text"));
                peer.tell(&file_end(3, 0, b""));
            },
        );
        let summary = attacked.assert_done();
        // What counts is what the end of the file says, and what has arrived.
        assert_eq!((summary.copied, summary.failed, summary.bytes), (2, 1, 4));
        assert_eq!(attacked.place.read("a"), "text");
        assert_eq!(attacked.place.read("c"), "");
        assert!(!attacked.place.has("b"));
    }
}

#[test]
fn a_link_that_cannot_be_made_fails_alone() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a", "b", "c", "d"],
            |_| {},
            |peer| {
                peer.list(vec![
                    link(0, "a", ""),
                    link(0, "b", "x\0y"),
                    link(0, "c", &"x".repeat(5000)),
                    link(0, "d", "../outside/secret"),
                    dir_end(0),
                ]);
            },
        );
        let summary = attacked.assert_done();
        assert_eq!((summary.copied, summary.failed), (1, 3));
        // It is kept as it is, and leads where it leads.
        let target = fs::read_link(attacked.place.dest("d")).expect("a link");
        assert_eq!(target.to_str(), Some("../outside/secret"));
    }
}

#[test]
fn nothing_goes_through_a_link_that_was_listed_before() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            |peer| {
                let out = "../../outside/dir";
                peer.list(vec![dir(0, "a"), link(1, "x", out)]);
                assert_eq!(peer.await_outcome(2), Outcome::Copied);
                peer.list(vec![dir(1, "x"), file(3, "inside", 4), file(3, "new", 4)]);
                peer.list(vec![dir(3, "y"), dir_end(6), dir_end(3), dir_end(1), dir_end(0)]);
            },
        );
        assert_eq!(attacked.assert_done().failed, 4);
        assert_eq!(attacked.fault(3).kind, FaultKind::Link);
        assert_eq!(attacked.fault(4).kind, FaultKind::Parent);
        assert!(attacked.place.dest("a/x").is_symlink());
    }
}

#[test]
fn a_link_in_the_way_of_a_file_is_replaced_and_not_followed() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a", "b", "c"],
            |place| {
                symlink("../outside/secret", place.dest("a")).expect("linked");
                symlink("../outside/new", place.dest("b")).expect("linked");
                symlink("../outside/dir", place.dest("c")).expect("linked");
            },
            |peer| {
                peer.list(vec![
                    file(0, "a", 4),
                    file(0, "b", 4 << 20),
                    link(0, "c", "elsewhere"),
                    dir_end(0),
                ]);
                peer.await_wants([1, 2]);
                peer.raw(&pack([packed(1, b"text")], b"text"));
                peer.raw(&data(2, 0, b"text"));
                peer.tell(&file_end(2, 4, b"text"));
            },
        );
        assert_eq!(attacked.assert_done().copied, 3);
        for made in ["a", "b"] {
            assert!(fs::symlink_metadata(attacked.place.dest(made)).expect("there").is_file());
        }
        let target = fs::read_link(attacked.place.dest("c")).expect("a link");
        assert_eq!(target.to_str(), Some("elsewhere"));
    }
}

#[test]
fn what_is_no_file_is_reported_and_not_made() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            |peer| peer.list(vec![entry(0, "a", Kind::Special), dir_end(0)]),
        );
        assert_eq!(attacked.assert_done().special, 1);
        assert!(!attacked.place.has("a"));
    }
}
