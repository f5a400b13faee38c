//! Contents that nobody wants, that are not what they are said to be, or that
//! come in pieces which fit no file.

use crate::attack::{Attacked, RECEIVERS, Victim, send_to};
use crate::peer::{
    Peer, block_seal, data, dir, dir_end, entry, file, file_end, link, pack, packed,
};
use haul_engine::Outcome;
use haul_model::{BLOCK_LEN, BlockHash, Fault, FaultKind, Kind, Side};
use haul_proto::{
    BlockSeal, DATA_MAX, FileEnd, FileSeal, FrameType, ListItem, Message, PackItem, encode,
    frame_bytes,
};

/// One file, wanted, and then what `script` makes of it.
fn send_a(victim: Victim, script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    send_to(
        victim,
        &["a"],
        |place| std::fs::write(place.dest("a"), "old").expect("written"),
        |peer| {
            peer.list(vec![file(0, "a", 4 << 20), dir_end(0)]);
            peer.await_wants([1]);
            script(peer);
        },
    )
}

/// All ways to send something of a file.
fn ways_to_send(index: u64) -> [Vec<u8>; 4] {
    [
        pack([packed(index, b"text")], b"text"),
        data(index, 0, b"text"),
        encode(&block_seal(index, 0, b"text")),
        encode(&file_end(index, 0, b"")),
    ]
}

#[test]
fn content_that_was_never_listed_is_refused() {
    for victim in RECEIVERS {
        for index in [0, 1, 7, u64::MAX] {
            for frame in ways_to_send(index) {
                let attacked = send_to(victim, &["a"], |_| {}, move |peer| peer.raw(&frame));
                attacked.assert_refused("not requested");
            }
        }
    }
}

#[test]
fn content_that_was_listed_and_not_wanted_is_refused() {
    let fault = Fault::new(Side::Source, FaultKind::Io, "x");
    let items: [ListItem; 4] = [
        dir(0, "a"),
        link(0, "a", "x"),
        entry(0, "a", Kind::Special),
        ListItem::Fault { dir: 0, name: b"a".to_vec(), fault },
    ];
    for victim in RECEIVERS {
        for item in &items {
            for frame in ways_to_send(1) {
                let item = item.clone();
                let attacked = send_to(
                    victim,
                    &["a"],
                    |_| {},
                    move |peer| {
                        peer.list(vec![item]);
                        peer.await_outcome(1);
                        peer.raw(&frame);
                    },
                );
                attacked.assert_refused("not requested");
            }
        }
    }
}

#[test]
fn content_that_came_before_is_refused() {
    for victim in RECEIVERS {
        for again in ways_to_send(1) {
            let attacked = send_to(
                victim,
                &["a", "b"],
                |_| {},
                move |peer| {
                    // The second file keeps the job going.
                    peer.list(vec![file(0, "a", 4), file(0, "b", 4), dir_end(0)]);
                    peer.await_wants([1, 2]);
                    peer.raw(&pack([packed(1, b"text")], b"text"));
                    peer.await_outcome(1);
                    peer.raw(&again);
                },
            );
            attacked.assert_refused("not requested");
            assert_eq!(attacked.place.read("a"), "text");
        }
    }
}

#[test]
fn a_pack_for_a_file_that_comes_in_pieces_is_refused() {
    for victim in RECEIVERS {
        let attacked = send_a(victim, |peer| {
            peer.raw(&data(1, 0, b"text"));
            peer.raw(&pack([packed(1, b"text")], b"text"));
        });
        attacked.assert_refused("not requested");
        assert_eq!(attacked.place.read("a"), "old");
    }
}

#[test]
fn content_without_its_hash_is_published_by_no_job_that_wants_hashes() {
    let unhashed = |content: &[u8]| match packed(2, content) {
        PackItem::File { index, len, mtime, grew, .. } => {
            PackItem::File { index, len, mtime, hash: None, grew }
        }
        fault => fault,
    };
    let end_of = |content: &[u8]| match file_end(1, BLOCK_LEN + 1, content) {
        Message::FileEnd(mut end) => {
            end.result = end.result.map(|seal| FileSeal { hash: None, ..seal });
            Message::FileEnd(end)
        }
        other => other,
    };
    let content = vec![7; BLOCK_LEN as usize + 1];
    let (block, rest) = content.split_at(BLOCK_LEN as usize);
    // The hash of the first block is told, and then not that either.
    for seal in [Some(BlockHash::of(0, block)), None] {
        for victim in RECEIVERS {
            let (item, end) = (unhashed(b"text"), end_of(&content));
            let parts = block.chunks(DATA_MAX).zip(0..);
            let frames: Vec<_> =
                parts.map(|(part, at)| data(1, at * DATA_MAX as u64, part)).collect();
            let last = data(1, BLOCK_LEN, rest);
            let attacked = send_to(
                victim,
                &["a", "b"],
                |place| {
                    std::fs::write(place.dest("a"), "old").expect("written");
                    std::fs::write(place.dest("b"), "old").expect("written");
                },
                move |peer| {
                    peer.list(vec![file(0, "a", BLOCK_LEN + 1), file(0, "b", 4), dir_end(0)]);
                    peer.await_wants([1, 2]);
                    frames.iter().for_each(|frame| peer.raw(frame));
                    peer.tell(&Message::BlockSeal(BlockSeal {
                        index: 1,
                        block: 0,
                        len: BLOCK_LEN as u32,
                        hash: seal,
                    }));
                    peer.raw(&last);
                    peer.tell(&end);
                    peer.raw(&pack([item], b"text"));
                },
            );
            assert_eq!(attacked.assert_done().failed, 2);
            for index in [1, 2] {
                assert!(attacked.fault(index).message.contains("without its hash"));
            }
            assert_eq!(attacked.place.read("a"), "old");
            assert_eq!(attacked.place.read("b"), "old");
        }
    }
}

#[test]
fn pieces_that_overlap_or_go_back_fail_their_file_alone() {
    for victim in RECEIVERS {
        for offsets in [[0, 0], [0, 9], [100, 50], [100, 109]] {
            let attacked = send_to(
                victim,
                &["a", "b"],
                |place| std::fs::write(place.dest("a"), "old").expect("written"),
                move |peer| {
                    peer.list(vec![file(0, "a", 4 << 20), file(0, "b", 4), dir_end(0)]);
                    peer.await_wants([1, 2]);
                    for offset in offsets {
                        peer.raw(&data(1, offset, b"ten bytes."));
                    }
                    // What still comes of it is passed over.
                    peer.raw(&data(1, 1 << 20, b"more"));
                    peer.tell(&file_end(1, 10, b"ten bytes."));
                    peer.raw(&pack([packed(2, b"text")], b"text"));
                },
            );
            assert_eq!(attacked.assert_done().failed, 1, "{offsets:?}");
            assert_eq!(attacked.fault(1).kind, FaultKind::Corrupt);
            assert_eq!(attacked.place.read("a"), "old");
            assert_eq!(attacked.place.read("b"), "text");
        }
    }
}

#[test]
fn a_piece_beyond_the_end_of_all_files_is_refused() {
    for victim in RECEIVERS {
        for offset in [i64::MAX as u64, 1 << 63, u64::MAX - 1] {
            let attacked = send_a(victim, move |peer| peer.raw(&data(1, offset, b"text")));
            attacked.assert_refused("frame of inconsistent length");
        }
        // The last place that there is: what lies before it would take longer to hash
        // than anybody waits, so the file's fate has to be told without that.
        let attacked = send_a(victim, |peer| {
            peer.raw(&data(1, i64::MAX as u64 - 4, b"text"));
            assert!(matches!(peer.await_outcome(1), Outcome::Failed(_)));
            peer.tell(&file_end(1, i64::MAX as u64, b""));
        });
        assert_eq!(attacked.assert_done().failed, 1);
        assert_eq!(attacked.fault(1).kind, FaultKind::Corrupt);
        assert_eq!(attacked.place.read("a"), "old");
    }
}

/// The same file, of which there may be less than its length says.
pub(crate) fn with_holes(item: ListItem) -> ListItem {
    match item {
        ListItem::Entry { dir, mut entry } => {
            entry.has_holes = true;
            ListItem::Entry { dir, entry }
        }
        other => other,
    }
}

#[test]
fn a_hole_that_would_take_hours_to_hash_is_refused_at_once() {
    // As long as a file can be, and as it was listed.
    for size in [1 << 43, 1 << 62, (1 << 63) - 1] {
        for victim in RECEIVERS {
            for frame in [
                data(1, size - 4, b"text"),
                encode(&file_end(1, size, b"")),
                encode(&block_seal(1, size >> 22, b"")),
            ] {
                let attacked = send_to(
                    victim,
                    &["a"],
                    |place| std::fs::write(place.dest("a"), "old").expect("written"),
                    move |peer| {
                        peer.list(vec![with_holes(file(0, "a", size)), dir_end(0)]);
                        peer.await_wants([1]);
                        peer.raw(&frame);
                        // What was never begun ends here, too.
                        if frame[4] != FrameType::FileEnd.byte() {
                            peer.tell(&file_end(1, size, b""));
                        }
                    },
                );
                assert_eq!(attacked.assert_done().failed, 1, "{size}");
                assert_eq!(attacked.fault(1).kind, FaultKind::Corrupt);
                assert_eq!(attacked.place.read("a"), "old");
            }
        }
    }
}

#[test]
fn holes_arrive_that_are_reported_block_by_block() {
    const SIZE: u64 = (12 << 20) + 100;
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            |peer| {
                peer.list(vec![file(0, "a", SIZE), dir_end(0)]);
                peer.await_wants([1]);
                let mut content = vec![0; SIZE as usize];
                for number in 0..2 {
                    peer.tell(&block_seal(1, number, &content[..BLOCK_LEN as usize]));
                }
                // Not at the beginning of its block, and the rest of it is a hole.
                let at = (9 << 20) as usize;
                content[at..at + 4].copy_from_slice(b"text");
                peer.raw(&data(1, at as u64, b"text"));
                peer.tell(&block_seal(1, 2, &content[8 << 20..12 << 20]));
                peer.tell(&file_end(1, SIZE, &content));
            },
        );
        assert_eq!(attacked.assert_done().copied, 1);
        let content = std::fs::read(attacked.place.dest("a")).expect("read");
        assert_eq!(content.len() as u64, SIZE);
        assert!(content[9 << 20..].starts_with(b"text"));
        assert_eq!(content.iter().filter(|byte| **byte != 0).count(), 4);
    }
}

#[test]
fn blocks_arrive_in_any_order_and_mixed() {
    const SIZE: u64 = (12 << 20) + 100;
    let sent = haul_testkit::content::bytes(SIZE as usize, 1);
    for victim in RECEIVERS {
        let content = sent.clone();
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            move |peer| {
                peer.list(vec![file(0, "a", SIZE), dir_end(0)]);
                peer.await_wants([1]);
                let piece = |at: usize| {
                    let end = content.len().min(at + (1 << 20));
                    data(1, at as u64, &content[at..end])
                };
                for at in [12, 8, 0, 9, 1, 10, 2, 11, 3, 4, 5, 6, 7] {
                    peer.raw(&piece(at << 20));
                }
                for number in [2, 0, 1] {
                    let block = (number << 22) as usize..((number + 1) << 22) as usize;
                    peer.tell(&block_seal(1, number, &content[block]));
                }
                peer.tell(&file_end(1, SIZE, &content));
            },
        );
        assert_eq!(attacked.assert_done().copied, 1);
        assert!(std::fs::read(attacked.place.dest("a")).expect("read") == sent);
    }
}

#[test]
fn a_file_of_which_a_block_is_missing_or_comes_twice_is_not_published() {
    let whole = vec![5; (12 << 20) + 9];
    for victim in RECEIVERS {
        for numbers in [&[0, 2][..], &[0, 1, 2, 1]] {
            let whole = whole.clone();
            let attacked = send_a(victim, move |peer| {
                for number in numbers {
                    let block = &whole[number << 22..(number + 1) << 22];
                    peer.raw(&data(1, (number << 22) as u64, block));
                    peer.tell(&block_seal(1, *number as u64, block));
                }
                peer.raw(&data(1, 12 << 20, &whole[12 << 20..]));
                peer.tell(&file_end(1, whole.len() as u64, &whole));
            });
            assert_eq!(attacked.assert_done().failed, 1, "{numbers:?}");
            assert_eq!(attacked.fault(1).kind, FaultKind::Corrupt);
            assert_eq!(attacked.place.read("a"), "old");
        }
    }
}

#[test]
fn a_file_that_is_not_what_was_promised_is_not_published() {
    let whole = vec![3; 3 << 20];
    for victim in RECEIVERS {
        for (size, hashed) in [
            (whole.len() as u64, &b"another"[..]),
            (whole.len() as u64 - 1, &whole),
            (whole.len() as u64 + 1, &whole),
            (0, b""),
            (u64::MAX, &whole),
            (1 << 63, &whole),
        ] {
            let (whole, hashed) = (whole.clone(), hashed.to_vec());
            let attacked = send_a(victim, move |peer| {
                for (number, piece) in whole.chunks(1 << 20).enumerate() {
                    peer.raw(&data(1, (number << 20) as u64, piece));
                }
                peer.tell(&file_end(1, size, &hashed));
            });
            assert_eq!(attacked.assert_done().failed, 1, "{size}");
            attacked.fault(1);
            assert_eq!(attacked.place.read("a"), "old");
        }
    }
}

#[test]
fn a_file_that_grew_since_it_was_listed_is_published_as_it_was_sent() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            |peer| {
                peer.list(vec![file(0, "a", 4), dir_end(0)]);
                peer.await_wants([1]);
                peer.raw(&data(1, 0, b"more than"));
                peer.raw(&data(1, 9, b" four bytes"));
                peer.tell(&file_end(1, 20, b"more than four bytes"));
            },
        );
        assert_eq!(attacked.assert_done().bytes, 20);
        assert_eq!(attacked.place.read("a"), "more than four bytes");
    }
}

#[test]
fn a_fault_of_the_sender_is_the_files_and_ends_nothing() {
    // As if it were the destination that is full.
    let full = || Fault::new(Side::Destination, FaultKind::NoSpace, "full \x1b[2J");
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a", "b", "c"],
            |_| {},
            move |peer| {
                let fault = ListItem::Fault { dir: 0, name: b"a".to_vec(), fault: full() };
                peer.list(vec![fault, file(0, "b", 4), file(0, "c", 4 << 20), dir_end(0)]);
                peer.await_wants([2, 3]);
                peer.raw(&pack([PackItem::Fault { index: 2, fault: full() }], b""));
                peer.tell(&Message::FileEnd(FileEnd {
                    index: 3,
                    result: Err(full()),
                    by_blocks: false,
                }));
            },
        );
        assert_eq!(attacked.assert_done().failed, 3);
        for index in [1, 2, 3] {
            assert_eq!(attacked.fault(index).side, Side::Source);
        }
        if victim == Victim::Client {
            let told = attacked.watch.outcomes();
            assert_eq!(told.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        }
    }
}

#[test]
fn a_pack_whose_lengths_do_not_add_up_is_refused() {
    let with = |len: u32, content: &[u8]| [claiming(len), content.to_vec()].concat();
    let too_long_head = [&(200u32 << 10).to_le_bytes()[..], &[0; 300 << 10]].concat();
    for payload in [
        with(5, b"text"),
        with(3, b"text"),
        with(0, b"text"),
        with(u32::MAX, b"text"),
        b"".to_vec(),
        b"\x01\x00".to_vec(),
        u32::MAX.to_le_bytes().to_vec(),
        too_long_head,
    ] {
        for victim in RECEIVERS {
            let frame = unchecked_frame(FrameType::Pack, &payload);
            let attacked = send_a(victim, move |peer| peer.raw(&frame));
            attacked.assert_refused("frame of inconsistent length");
            assert_eq!(attacked.place.read("a"), "old");
        }
    }
}

/// The description of a pack with one file, whose length is this claim.
fn claiming(len: u32) -> Vec<u8> {
    const HONEST: u32 = 3;
    let mut head = pack([packed(1, b"abc")], b"")[haul_proto::HEADER_LEN + 4..].to_vec();
    // Behind the number of items, the item's kind and the file's number.
    assert_eq!(head[..4], [1, 0, 1, HONEST as u8]);
    let mut claim = Vec::new();
    let mut rest = len;
    while rest >= 0x80 {
        claim.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    claim.push(rest as u8);
    head.splice(3..4, claim);
    [&(head.len() as u32).to_le_bytes()[..], &head].concat()
}

/// A frame without our own checks.
fn unchecked_frame(kind: FrameType, payload: &[u8]) -> Vec<u8> {
    let mut frame = frame_bytes(kind, b"");
    frame.extend_from_slice(payload);
    frame[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    frame
}

#[test]
fn a_packed_file_with_a_wrong_hash_fails_and_its_neighbours_do_not() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a", "b", "c"],
            |place| std::fs::write(place.dest("b"), "old").expect("written"),
            |peer| {
                peer.list(vec![file(0, "a", 4), file(0, "b", 4), file(0, "c", 4), dir_end(0)]);
                peer.await_wants([1, 2, 3]);
                let items = [packed(1, b"text"), packed(2, b"TEXT"), packed(3, b"text")];
                peer.raw(&pack(items, b"texttexttext"));
            },
        );
        let summary = attacked.assert_done();
        assert_eq!((summary.copied, summary.failed, summary.bytes), (2, 1, 8));
        assert_eq!(attacked.fault(2).kind, FaultKind::Corrupt);
        assert_eq!(attacked.place.read("b"), "old");
        assert_eq!(attacked.place.read("c"), "text");
    }
}

#[test]
fn a_pack_that_answers_twice_for_one_file_is_refused() {
    for victim in RECEIVERS {
        let attacked = send_a(victim, |peer| {
            peer.raw(&pack([packed(1, b"text"), packed(1, b"TEXT")], b"textTEXT"));
        });
        // The first answer may have been the job's end already.
        match &attacked.result {
            Ok(_) => attacked.place.check(),
            Err(_) => attacked.assert_refused("not requested"),
        }
        assert_eq!(attacked.place.read("a"), "text");
    }
}

#[test]
fn a_piece_of_nothing_or_of_too_much_is_refused() {
    for victim in RECEIVERS {
        for content in [vec![], vec![1; DATA_MAX + 1]] {
            let mut payload = data(1, 0, b"x")[haul_proto::HEADER_LEN..].to_vec();
            payload.pop();
            payload.extend_from_slice(&content);
            let frame = unchecked_frame(FrameType::Data, &payload);
            send_a(victim, move |peer| peer.raw(&frame))
                .assert_refused("frame of inconsistent length");
        }
    }
}

#[test]
fn files_in_pieces_are_bounded_in_number() {
    const FILES: u64 = 65;
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            |peer| {
                peer.list(vec![dir(0, "a")]);
                let files = (0..FILES).map(|n| file(1, &format!("{n:03}"), 4 << 20));
                peer.list(files.collect());
                peer.await_wants(2..FILES + 2);
                (2..FILES + 2).for_each(|index| peer.raw(&data(index, 0, b"x")));
            },
        );
        attacked.assert_refused("too many files at once");
    }
}

#[test]
fn as_many_files_in_pieces_as_are_allowed_arrive_side_by_side() {
    const FILES: u64 = 64;
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            |peer| {
                peer.list(vec![dir(0, "a")]);
                let files = (0..FILES).map(|n| file(1, &format!("{n:03}"), 4 << 20));
                peer.list(files.chain([dir_end(1), dir_end(0)]).collect());
                peer.await_wants(2..FILES + 2);
                for round in 0..3 {
                    for index in 2..FILES + 2 {
                        peer.raw(&data(index, round * 4, &[index as u8; 4]));
                    }
                }
                for index in 2..FILES + 2 {
                    peer.tell(&file_end(index, 12, &[index as u8; 12]));
                }
                peer.await_that(
                    "mount points can't be found there: copying all file systems",
                    |peer| (2..FILES + 2).all(|i| peer.outcomes.get(&i) == Some(&Outcome::Copied)),
                );
            },
        );
        assert_eq!(attacked.assert_done().copied, FILES);
    }
}
