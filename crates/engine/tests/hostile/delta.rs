//! Peers that make up sums of files, or parts of them that the other side is said to have.

use crate::attack::{Attacked, RECEIVERS, Victim, receive_by, send_by};
use crate::peer::{Peer, block_seal, data, file, file_end};
use crate::place::Place;
use haul_engine::Outcome;
use haul_model::{BLOCK_LEN, BlockRanges, Changes, FaultKind, Mirror, Policy, Task};
use haul_proto::{
    FileEnd, How, Message, Reuse, SIGNED_MAX, SUMS_LEN_MAX, Signature, Want, decode_data,
};
use std::fs;

/// Length of the files here, in bytes.
const LEN: u64 = 1 << 20;

/// The number of the one file.
const FILE: u64 = 1;

fn a_mirror() -> Task {
    Task::Sync(Policy::default(), Mirror { delta: true, ..Mirror::default() })
}

fn content() -> Vec<u8> {
    (0..LEN).map(|at| (at / 7 + at / 1_000) as u8).collect()
}

/// Lets `script` send a file of which the victim has told the sums.
fn send_difference(victim: Victim, script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    let place = Place::new();
    fs::write(place.dest("a"), content()).expect("written");
    send_by(victim, place, &["a"], a_mirror(), |peer| {
        peer.list(vec![file(0, "a", LEN), crate::peer::dir_end(0)]);
        peer.await_wants([FILE]);
        script(peer);
    })
}

fn reuse(at: u64, from: u64, len: u64) -> Message {
    Message::Reuse(Reuse { index: FILE, at, from: Some(from), len: len as u32 })
}

#[test]
fn sums_are_reported_before_the_difference_is_wanted() {
    for victim in RECEIVERS {
        let attacked = send_difference(victim, |peer| {
            let mut blocks = 0;
            let mut sums_len = 0;
            for message in &peer.messages {
                match message {
                    Message::Signature(Signature::Begin { index, old_size, .. }) => {
                        assert_eq!((*index, *old_size), (FILE, LEN));
                        blocks += 1;
                    }
                    Message::Signature(Signature::Sums { sums, .. }) => sums_len += sums.len(),
                    _ => {}
                }
            }
            assert_eq!(blocks, 1);
            assert!(sums_len > 1_000 && sums_len < 10_000, "{sums_len}");
            peer.tell(&reuse(0, LEN / 2, LEN / 2));
            peer.raw(&data(FILE, LEN / 2, &content()[..LEN as usize / 2]));
            let mut new = content();
            new.rotate_left(LEN as usize / 2);
            peer.tell(&file_end(FILE, LEN, &new));
        });
        let mut new = content();
        new.rotate_left(LEN as usize / 2);
        let summary = attacked.assert_done();
        assert_eq!((summary.copied, summary.bytes_matched), (1, LEN / 2));
        assert!(fs::read(attacked.place.dest("a")).expect("read") == new);
    }
}

#[test]
fn what_the_old_file_has_not_is_refused() {
    let reuses = [
        (0, 0, LEN + 1),
        (0, LEN, 1),
        (0, u64::MAX, 1),
        (0, 1, 0),
        (u64::MAX, 0, 1),
        (1 << 63, 0, 1),
        (0, 0, BLOCK_LEN + 1),
    ];
    for victim in RECEIVERS {
        for (at, from, len) in reuses {
            let attacked = send_difference(victim, move |peer| peer.tell(&reuse(at, from, len)));
            attacked.assert_refused("the peer sent a part of a file that does not exist");
        }
    }
}

#[test]
fn a_file_without_sums_is_not_made_from_its_old_version() {
    for victim in RECEIVERS {
        for task in [Task::default(), Task::Sync(Policy::default(), Mirror::default())] {
            let place = Place::new();
            fs::write(place.dest("a"), content()).expect("written");
            let attacked = send_by(victim, place, &["a"], task, |peer| {
                peer.list(vec![file(0, "a", LEN), crate::peer::dir_end(0)]);
                peer.await_wants([FILE]);
                let told = |message: &Message| matches!(message, Message::Signature(_));
                assert!(!peer.messages.iter().any(told));
                peer.tell(&reuse(0, 0, 1));
            });
            attacked.assert_refused("the peer sent a part of a file that does not exist");
        }
        let attacked = send_by(victim, Place::new(), &["a"], a_mirror(), |peer| {
            peer.tell(&reuse(0, 0, 1));
        });
        attacked.assert_refused("not requested");
    }
}

#[test]
fn parts_out_of_order_fail_their_file() {
    for victim in RECEIVERS {
        let attacked = send_difference(victim, |peer| {
            peer.tell(&reuse(0, 0, 1_000));
            peer.tell(&reuse(500, 0, 1_000));
            peer.tell(&file_end(FILE, LEN, b"any"));
        });
        attacked.assert_done();
        assert_eq!(attacked.fault(FILE).kind, FaultKind::Corrupt);
        assert!(fs::read(attacked.place.dest("a")).expect("read") == content());
    }
}

#[test]
fn a_difference_that_does_not_make_the_file_is_asked_for_as_a_whole_and_once() {
    for victim in RECEIVERS {
        for is_right_then in [true, false] {
            let attacked = send_difference(victim, move |peer| {
                peer.tell(&reuse(0, 0, LEN));
                peer.tell(&file_end(FILE, LEN, b"another"));
                peer.await_that("it is wanted again", |peer| peer.wanted == [FILE, FILE]);
                let new = vec![5; LEN as usize];
                peer.raw(&data(FILE, 0, &new));
                let said = if is_right_then { &new[..] } else { b"another again" };
                peer.tell(&file_end(FILE, LEN, said));
            });
            let summary = attacked.assert_done();
            assert_eq!(summary.bytes_matched, 0);
            let expected = if is_right_then { vec![5; LEN as usize] } else { content() };
            assert!(fs::read(attacked.place.dest("a")).expect("read") == expected);
            if !is_right_then {
                assert_eq!(attacked.fault(FILE).kind, FaultKind::Corrupt);
            }
        }
    }
}

#[test]
fn a_block_that_is_not_the_one_that_was_sent_is_seen() {
    for victim in RECEIVERS {
        let place = Place::new();
        let old = vec![1; 2 * BLOCK_LEN as usize];
        fs::write(place.dest("a"), &old).expect("written");
        let attacked = send_by(victim, place, &["a"], a_mirror(), |peer| {
            peer.list(vec![file(0, "a", BLOCK_LEN + 1), crate::peer::dir_end(0)]);
            peer.await_wants([FILE]);
            let new = vec![2; BLOCK_LEN as usize + 1];
            peer.tell(&reuse(0, 0, BLOCK_LEN));
            peer.tell(&block_seal(FILE, 0, &new[..BLOCK_LEN as usize]));
            peer.tell(&file_end(FILE, BLOCK_LEN + 1, &new));
            peer.await_that("it is wanted again", |peer| peer.wanted == [FILE, FILE]);
            for (at, piece) in new.chunks(BLOCK_LEN as usize).enumerate() {
                peer.raw(&data(FILE, at as u64 * BLOCK_LEN, piece));
            }
            peer.tell(&file_end(FILE, BLOCK_LEN + 1, &new));
        });
        assert_eq!(attacked.assert_done().copied, 1);
    }
}

/// The numbers of what the client lists: a source that is missing, and a directory with so
/// many large files and a small one in front.
const SMALL: u64 = 3;
const LARGE: u64 = 4;

fn receive_difference(script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    let furnish = |place: &Place| {
        fs::write(place.source("a-small"), "small").expect("written");
        for file in 0..=SIGNED_MAX {
            fs::write(place.source(&format!("b-{file:03}")), content()).expect("written");
        }
    };
    receive_by(a_mirror(), furnish, |peer| {
        peer.await_listing();
        script(peer);
    })
}

fn begin(index: u64, old_size: u64, block_len: u32, strong_len: u8) -> Message {
    let key = [9; 32];
    Message::Signature(Signature::Begin { index, old_size, block_len, strong_len, key })
}

fn sums(index: u64, len: usize) -> Message {
    Message::Signature(Signature::Sums { index, sums: vec![0; len] })
}

fn want_difference(index: u64) -> Message {
    let (how, blocks) = (How::DELTA, BlockRanges::all());
    Message::Want(vec![Want { index, how, blocks, into: None }])
}

#[test]
fn sums_that_cannot_be_are_refused() {
    let cases: [(&str, Vec<Message>); 11] = [
        ("of an unknown kind", vec![begin(LARGE, LEN, 0, 2)]),
        ("of an unknown kind", vec![begin(LARGE, LEN, u32::MAX, 2)]),
        ("of an unknown kind", vec![begin(LARGE, u64::MAX, 4096, 2)]),
        ("of an unknown kind", vec![begin(LARGE, 0, 4096, 2)]),
        ("of an unknown kind", vec![begin(LARGE, LEN, 4096, 200)]),
        ("sums of a file twice", vec![begin(LARGE, LEN, 4096, 2), begin(LARGE, LEN, 4096, 2)]),
        ("it sent checksums out of order", vec![sums(LARGE, 6)]),
        ("it sent more checksums than blocks", vec![begin(LARGE, 4096, 4096, 2), sums(LARGE, 7)]),
        ("it sent checksums of a file that is sent whole", vec![begin(SMALL, LEN, 4096, 2)]),
        ("it sent checksums of a file that is sent whole", vec![begin(2, LEN, 4096, 2)]),
        ("it sent checksums of a file that is sent whole", vec![begin(99_999, LEN, 4096, 2)]),
    ];
    for (rule, messages) in cases {
        let attacked = receive_difference(move |peer| messages.iter().for_each(|m| peer.tell(m)));
        attacked.assert_refused(rule);
    }
}

#[test]
fn too_many_sums_at_once_are_refused() {
    let attacked = receive_difference(|peer| {
        for file in 0..=SIGNED_MAX as u64 {
            peer.tell(&begin(LARGE + file, LEN, 4096, 2));
        }
    });
    attacked.assert_refused("it sent too many checksums at once");
    let attacked = receive_difference(|peer| {
        let blocks = (SUMS_LEN_MAX / 2 / 20 + 1) as u64;
        peer.tell(&begin(LARGE, blocks * 64, 64, 16));
        peer.tell(&begin(LARGE + 1, blocks * 64, 64, 16));
    });
    attacked.assert_refused("it sent too many checksums at once");
}

#[test]
fn a_difference_is_not_wanted_without_its_sums() {
    for messages in [
        vec![want_difference(LARGE)],
        vec![begin(LARGE, LEN, 4096, 2), want_difference(LARGE)],
        vec![begin(LARGE, LEN, 4096, 2), sums(LARGE, 5), want_difference(LARGE)],
        vec![begin(LARGE + 1, 4096, 4096, 2), sums(LARGE + 1, 6), want_difference(LARGE)],
    ] {
        let attacked = receive_difference(move |peer| messages.iter().for_each(|m| peer.tell(m)));
        attacked.assert_refused("it requested a delta without checksums");
    }
    // In a job that has none, nothing is said of any.
    let furnish = |place: &Place| fs::write(place.source("b"), content()).expect("written");
    let attacked = receive_by(Task::Sync(Policy::default(), Mirror::default()), furnish, |peer| {
        peer.await_listing();
        peer.tell(&begin(SMALL, LEN, 4096, 2));
    });
    attacked.assert_refused("it sent checksums of a file that is sent whole");
}

/// Sums of zeros for a file that has none: all of it is sent, whatever is made up.
#[test]
fn sums_that_are_made_up_cost_no_more_than_the_file() {
    let attacked = receive_difference(|peer| {
        peer.tell(&begin(LARGE, LEN, 4096, 2));
        peer.tell(&sums(LARGE, 6 * 256));
        peer.tell(&want_difference(LARGE));
        let ended =
            |message: &Message| matches!(message, Message::FileEnd(FileEnd { index: LARGE, .. }));
        peer.await_that("it ends", |peer| peer.messages.iter().any(ended));
        // It may be wanted as a whole then, though it has not changed.
        let whole = Want { index: LARGE, how: How::PLAIN, blocks: BlockRanges::all(), into: None };
        peer.tell(&Message::Want(vec![whole.clone()]));
        peer.await_that("it ends again", |peer| {
            peer.messages.iter().filter(|message| ended(message)).count() == 2
        });
        peer.tell(&Message::Want(vec![whole]));
    });
    attacked.assert_refused("it requested an unlisted file, or a file twice");
    let sent: usize = attacked
        .peer
        .contents
        .iter()
        .map(|(_, payload)| decode_data(payload).expect("a piece").content.len())
        .sum();
    assert_eq!(sent, 2 * LEN as usize);
}

#[test]
fn sums_of_files_that_are_done_make_room_for_others() {
    let attacked = receive_difference(|peer| {
        for file in 0..=SIGNED_MAX as u64 {
            let index = LARGE + file;
            peer.tell(&begin(index, LEN, 4096, 2));
            peer.tell(&sums(index, 6 * 256));
            match file % 3 {
                0 => peer.tell(&want_difference(index)),
                1 => {
                    let blocks = BlockRanges::all();
                    peer.tell(&Message::Want(vec![Want {
                        index,
                        how: How::PLAIN,
                        blocks,
                        into: None,
                    }]));
                }
                _ => {
                    let outcome = Outcome::Synced(Changes::MODE);
                    let item = haul_proto::OutcomeItem { index, outcome };
                    peer.tell(&Message::Outcomes(vec![item]));
                    continue;
                }
            }
            peer.await_that("it ends", |peer| {
                peer.messages
                    .iter()
                    .any(|message| matches!(message, Message::FileEnd(end) if end.index == index))
            });
        }
        peer.leave();
    });
    attacked.assert_lost();
}
