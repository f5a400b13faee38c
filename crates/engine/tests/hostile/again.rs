//! Senders of files that they say have changed meanwhile: the Receiver asks for these once
//! more, and for nothing a third time.

use crate::attack::{Attacked, RECEIVERS, Victim, send_into};
use crate::peer::{Peer, data, dir_end, file, file_end, pack, packed};
use crate::place::Place;
use haul_model::{Fault, FaultKind, Policy, Side};
use haul_proto::{FileEnd, Message, PackItem};

/// The number of the one file.
const FILE: u64 = 1;

/// The side of its faults is not for a Sender to say.
const SIDES: [Side; 2] = [Side::Source, Side::Destination];

fn changed(side: Side) -> Fault {
    Fault::new(side, FaultKind::Changed, "it changed while it was read")
}

/// The end of a file that has changed.
fn changed_end(side: Side) -> Message {
    Message::FileEnd(FileEnd { index: FILE, result: Err(changed(side)), by_blocks: false })
}

/// Hears until the file was asked for so often.
fn await_asked(peer: &mut Peer, times: usize) {
    peer.await_that("it asks", |peer| asked(peer) == times);
}

fn asked(peer: &Peer) -> usize {
    peer.wanted.iter().filter(|index| **index == FILE).count()
}

/// Lets `script` send a file of so many bytes, which was asked for, to where an old one is.
fn send(
    victim: Victim,
    size: u64,
    policy: Policy,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    let place = Place::new();
    std::fs::write(place.dest("a"), "old").expect("written");
    send_into(victim, place, &["a"], policy, move |peer| {
        peer.list(vec![file(0, "a", size), dir_end(0)]);
        await_asked(peer, 1);
        script(peer);
    })
}

#[test]
fn a_file_that_changes_again_and_again_is_asked_for_twice_at_most() {
    let in_pack = |side| pack([PackItem::Fault { index: FILE, fault: changed(side) }], b"");
    for victim in RECEIVERS {
        for side in SIDES {
            let pieces = send(victim, 4 << 20, Policy::default(), move |peer| {
                for times in 1..=2 {
                    await_asked(peer, times);
                    peer.raw(&data(FILE, 0, b"content"));
                    peer.tell(&changed_end(side));
                }
                peer.await_outcome(FILE);
            });
            let small = send(victim, 7, Policy::default(), move |peer| {
                // What is small the Sender itself reads a second time.
                peer.raw(&in_pack(side));
                peer.await_outcome(FILE);
            });
            for (attacked, times) in [(pieces, 2), (small, 1)] {
                assert_eq!(attacked.assert_done().failed, 1);
                let fault = attacked.fault(FILE);
                assert_eq!((fault.kind, fault.side), (FaultKind::Changed, Side::Source));
                assert_eq!(asked(&attacked.peer), times);
                assert_eq!(attacked.place.read("a"), "old");
            }
        }
    }
}

#[test]
fn what_comes_behind_the_second_time_is_refused() {
    for victim in RECEIVERS {
        for frame in [data(FILE, 0, b"text"), pack([packed(FILE, b"text")], b"text")] {
            let attacked = send(victim, 4 << 20, Policy::default(), move |peer| {
                peer.tell(&changed_end(Side::Source));
                await_asked(peer, 2);
                peer.tell(&changed_end(Side::Source));
                peer.await_that("it fails", |peer| peer.outcomes.contains_key(&FILE));
                peer.raw(&frame);
            });
            // With the only file the job is over, and nobody reads any more.
            assert!(
                attacked.result.is_ok() || {
                    attacked.assert_refused("not requested");
                    true
                }
            );
            assert_eq!(attacked.place.read("a"), "old");
        }
    }
}

/// Content that came the first time is no part of that of the second time.
#[test]
fn nothing_of_the_first_time_is_left_in_the_second() {
    let second: &[u8] = b"\0\0\0\0BBBB";
    for victim in RECEIVERS {
        for (content, is_right) in [(second, true), (b"AAAABBBB", false)] {
            let attacked = send(victim, 4 << 20, Policy::default(), move |peer| {
                peer.raw(&data(FILE, 0, b"AAAA"));
                peer.tell(&changed_end(Side::Source));
                await_asked(peer, 2);
                // What is in front of it is a hole.
                peer.raw(&data(FILE, 4, b"BBBB"));
                peer.tell(&file_end(FILE, 8, content));
                peer.await_outcome(FILE);
            });
            let summary = attacked.assert_done();
            assert_eq!((summary.copied, summary.failed), (is_right.into(), (!is_right).into()));
            let there = std::fs::read(attacked.place.dest("a")).expect("read");
            assert_eq!(there, if is_right { second } else { b"old" });
            if !is_right {
                assert_eq!(attacked.fault(FILE).kind, FaultKind::Corrupt);
            }
        }
    }
}

#[test]
fn a_source_that_has_to_be_still_is_asked_for_once() {
    let policy = Policy { strict_source: true, ..Policy::default() };
    for victim in RECEIVERS {
        let attacked = send(victim, 4 << 20, policy, |peer| {
            peer.tell(&changed_end(Side::Source));
            peer.await_outcome(FILE);
        });
        assert_eq!(attacked.fault(FILE).kind, FaultKind::Changed);
        assert_eq!((asked(&attacked.peer), attacked.place.read("a")), (1, "old".into()));
    }
}

/// Faults that are no change are told as they are.
#[test]
fn another_fault_is_no_reason_to_ask_again() {
    for victim in RECEIVERS {
        let attacked = send(victim, 4 << 20, Policy::default(), |peer| {
            let fault = Fault::new(Side::Source, FaultKind::Io, "can't read");
            peer.tell(&Message::FileEnd(FileEnd {
                index: FILE,
                result: Err(fault),
                by_blocks: false,
            }));
            peer.await_outcome(FILE);
        });
        assert_eq!(attacked.fault(FILE).kind, FaultKind::Io);
        assert_eq!(asked(&attacked.peer), 1);
    }
}
