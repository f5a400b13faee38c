//! An agent that receives, and asks for what is not its business, or claims
//! what is not so. The client sends nothing beyond its job and believes nothing
//! that can't be.

use crate::attack::{Attacked, receive_from_client};
use crate::peer::{Peer, named, want};
use crate::place::Place;
use haul_engine::{Monitor, Outcome, Skip, Summary};
use haul_model::{
    BLOCK_LEN, BlockRanges, ContentHash, ContentHasher, Entry, Fault, FaultKind, Kind, Naming, Side,
};
use haul_proto::{
    FileEnd, FileSeal, FrameType, How, LIST_WINDOW, Late, ListItem, Message, Object, OutcomeItem,
    PackItem, Want, decode_data, decode_pack,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

/// The numbers of what [`furnish`] makes, as they must be listed.
const ROOT: u64 = 1;
const SMALL: u64 = 2;
const LARGE: u64 = 3;
const LINK: u64 = 4;
const DIR: u64 = 5;
const INNER: u64 = 6;
const MISSING: u64 = 7;
const ALL: std::ops::RangeInclusive<u64> = ROOT..=MISSING;

/// Two blocks and a byte.
const LARGE_LEN: usize = (8 << 20) + 1;

fn furnish(place: &Place) {
    fs::write(place.source("a-small"), "small").expect("written");
    fs::write(place.source("b-large"), vec![9; LARGE_LEN]).expect("written");
    symlink("../outside/secret", place.source("c-link")).expect("linked");
    fs::create_dir(place.source("dir")).expect("made");
    fs::write(place.source("dir/inner"), "inner").expect("written");
}

/// Lets a client upload that to `script`, which has heard the whole listing.
fn upload_to(script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    receive_from_client(furnish, |peer| {
        peer.await_listing();
        script(peer);
    })
}

/// All contents that were sent, by their file's number.
fn contents(peer: &Peer) -> BTreeMap<u64, Vec<u8>> {
    let mut contents: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (kind, payload) in &peer.contents {
        if *kind == FrameType::Data {
            let view = decode_data(payload).expect("a piece");
            let content = contents.entry(view.index).or_default();
            assert_eq!(content.len() as u64, view.offset, "a file without holes");
            content.extend_from_slice(&payload[view.content]);
            continue;
        }
        for (item, range) in decode_pack(payload).expect("a pack").items {
            let PackItem::File { index, .. } = item else { panic!("{item:?}") };
            let twice = contents.insert(index, payload[range].to_vec());
            assert_eq!(twice, None, "file {index} was sent twice");
        }
    }
    contents
}

fn outcomes(items: impl IntoIterator<Item = (u64, Outcome)>) -> Message {
    let items = items.into_iter().map(|(index, outcome)| OutcomeItem { index, outcome });
    Message::Outcomes(items.collect())
}

fn skipped(index: u64) -> (u64, Outcome) {
    (index, Outcome::Skipped(Skip::Unchanged))
}

#[test]
fn a_job_is_listed_as_it_is_and_without_what_a_link_leads_to() {
    let attacked = upload_to(Peer::leave);
    attacked.assert_lost();
    let names: Vec<_> = attacked
        .peer
        .listed()
        .filter_map(|item| match item {
            ListItem::Entry { dir, entry: Entry { name: Some(name), kind, .. } } => {
                Some((*dir, haul_model::escape_bytes(name.as_bytes()), kind.clone()))
            }
            _ => None,
        })
        .collect();
    let link = Kind::Symlink { target: (*b"../outside/secret").into() };
    assert_eq!(
        names,
        [
            (0, "source".into(), Kind::Dir),
            (ROOT, "a-small".into(), Kind::File { size: 5 }),
            (ROOT, "b-large".into(), Kind::File { size: LARGE_LEN as u64 }),
            (ROOT, "c-link".into(), link),
            (ROOT, "dir".into(), Kind::Dir),
            (DIR, "inner".into(), Kind::File { size: 5 }),
        ]
    );
}

#[test]
fn what_is_wanted_is_sent_and_nothing_else() {
    let attacked = upload_to(|peer| {
        peer.tell(&want([INNER, LARGE]));
        peer.await_that("both came", |peer| {
            let ended = peer.messages.iter().any(|m| matches!(m, Message::FileEnd(_)));
            ended && contents(peer).len() == 2
        });
        peer.tell(&outcomes(ALL.map(|index| match index {
            INNER | LARGE => (index, Outcome::Copied),
            _ => skipped(index),
        })));
        peer.tell(&Message::Done(Summary { copied: 2, ..Summary::default() }));
    });
    let summary = attacked.result.as_ref().expect("the job is done").expect("a client's");
    assert_eq!(summary.copied, 2);
    let contents = contents(&attacked.peer);
    assert_eq!(contents.keys().collect::<Vec<_>>(), [&LARGE, &INNER]);
    assert_eq!(contents[&INNER], b"inner");
    assert_eq!(contents[&LARGE], vec![9; LARGE_LEN]);
    attacked.place.check();
}

/// The outcome of a wish for these blocks of the large file: what was sent, with its
/// places, and the end.
fn send_blocks(blocks: BlockRanges, how: How) -> (BTreeMap<u64, Vec<u8>>, FileSeal, Vec<u64>) {
    let attacked = upload_to(move |peer| {
        peer.tell(&Message::Want(vec![Want { index: LARGE, how, blocks, into: None }]));
        peer.await_that("it ends", |peer| {
            peer.messages.iter().any(|message| matches!(message, Message::FileEnd(_)))
        });
        peer.leave();
    });
    attacked.assert_lost();
    let mut seals = Vec::new();
    let end = attacked.peer.messages.into_iter().find_map(|message| match message {
        Message::FileEnd(FileEnd { index: LARGE, result, by_blocks: false }) => Some(result),
        Message::BlockSeal(seal) => {
            seals.push(seal.block);
            None
        }
        _ => None,
    });
    let mut content = BTreeMap::<u64, Vec<u8>>::new();
    for (_, payload) in &attacked.peer.contents {
        let view = decode_data(payload).expect("a piece");
        let piece = &payload[view.content];
        match content.last_entry() {
            Some(mut last) if last.key() + last.get().len() as u64 == view.offset => {
                last.get_mut().extend_from_slice(piece);
            }
            _ => drop(content.insert(view.offset, piece.to_vec())),
        }
    }
    (content, end.expect("an end").expect("it is what it was"), seals)
}

#[test]
fn those_blocks_of_a_file_are_sent_that_are_asked_for() {
    let large = vec![9; LARGE_LEN];
    let at = |block: u64| ((block * BLOCK_LEN) as usize).min(LARGE_LEN);
    for bounds in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[0, 1, 2], &[0, 5], &[0, 1, 2, 9]] {
        let blocks = BlockRanges::try_from(bounds.to_vec()).expect("in order");
        let wanted: Vec<u64> =
            blocks.iter().flat_map(|range| range.start..range.end.unwrap_or(3).min(3)).collect();
        for how in [How::PLAIN, How::WHOLE_HASH] {
            let (content, seal, seals) = send_blocks(blocks.clone(), how);
            let sent: Vec<_> = content.iter().map(|(at, bytes)| (*at, bytes.len())).collect();
            let expected: Vec<_> = blocks
                .iter()
                .map(|range| range.bytes(LARGE_LEN as u64))
                .map(|(start, end)| (start, (end - start) as usize))
                .collect();
            assert_eq!(sent, expected, "{bounds:?} {how:?}");
            assert!(content.values().all(|bytes| bytes.iter().all(|byte| *byte == 9)));
            assert_eq!(seal.size, LARGE_LEN as u64);
            // The last block is short, and is not vouched for by itself.
            let whole: Vec<_> = wanted.iter().copied().filter(|block| *block < 2).collect();
            assert_eq!(seals, whole, "{bounds:?} {how:?}");
            let mut hasher = ContentHasher::new();
            for block in &wanted {
                hasher.skip_to(*block);
                hasher.update(&large[at(*block)..at(block + 1)]);
            }
            let hash = match how.has(How::WHOLE_HASH) || wanted.len() == 3 && blocks.is_all() {
                true => ContentHash::of(&large),
                false => hasher.finish_tail(),
            };
            assert_eq!(seal.hash, Some(hash), "{bounds:?} {how:?}");
        }
    }
}

#[test]
fn a_copy_wants_content() {
    let attacked = upload_to(|peer| {
        let blocks = BlockRanges::none();
        peer.tell(&Message::Want(vec![Want {
            index: LARGE,
            how: How::WHOLE_HASH,
            blocks,
            into: None,
        }]));
    });
    attacked.assert_refused("a hash where contents are not compared");
    assert!(attacked.peer.contents.is_empty());
}

#[test]
fn a_copy_writes_into_no_file() {
    let attacked = upload_to(|peer| {
        let into = Some(Object { machine: 1, number: 2 });
        let (how, blocks) = (How::PLAIN, BlockRanges::all());
        peer.tell(&Message::Want(vec![Want { index: LARGE, how, blocks, into }]));
    });
    attacked.assert_refused("it would write into a file in a job that replaces files");
    assert!(attacked.peer.contents.is_empty());
}

#[test]
fn more_than_there_is_of_a_file_cannot_be_there() {
    for first in [3, 4, 1 << 41, 1 << 42, u64::MAX / BLOCK_LEN, u64::MAX] {
        for how in [How::PLAIN, How::WHOLE_HASH] {
            let attacked = upload_to(move |peer| {
                let blocks = BlockRanges::from(first);
                peer.tell(&Message::Want(vec![Want { index: LARGE, how, blocks, into: None }]));
            });
            attacked.assert_refused("it claims more of a file than its size");
            assert!(attacked.peer.contents.is_empty());
        }
    }
}

#[test]
fn what_was_not_listed_is_not_sent() {
    for index in [0, MISSING + 1, u64::MAX] {
        let attacked = upload_to(move |peer| peer.tell(&want([index])));
        attacked.assert_refused("request");
        assert!(attacked.peer.contents.is_empty());
    }
}

#[test]
fn what_has_no_content_is_not_sent() {
    for index in [ROOT, LINK, DIR, MISSING] {
        let attacked = upload_to(move |peer| peer.tell(&want([index])));
        attacked.assert_refused("request");
        assert!(attacked.peer.contents.is_empty());
    }
}

#[test]
fn a_file_is_sent_once() {
    for wants in [vec![SMALL, SMALL], vec![LARGE, SMALL, LARGE]] {
        let attacked = upload_to(move |peer| peer.tell(&want(wants)));
        attacked.assert_refused("request");
        contents(&attacked.peer);
    }
}

#[test]
fn a_file_whose_fate_is_known_is_not_sent() {
    let attacked = upload_to(|peer| {
        peer.tell(&outcomes([skipped(SMALL)]));
        peer.tell(&want([SMALL]));
    });
    attacked.assert_refused("request");
    assert!(attacked.peer.contents.is_empty());
}

#[test]
fn an_outcome_of_what_was_not_listed_is_refused() {
    for index in [0, MISSING + 1, u64::MAX] {
        let attacked = upload_to(move |peer| peer.tell(&outcomes([skipped(index)])));
        attacked.assert_refused("outcome");
    }
    let twice = upload_to(|peer| peer.tell(&outcomes([skipped(SMALL), skipped(SMALL)])));
    twice.assert_refused("outcome");
}

#[test]
fn a_file_that_was_not_sent_cannot_have_arrived() {
    let attacked = upload_to(|peer| peer.tell(&outcomes([(SMALL, Outcome::Copied)])));
    attacked.assert_refused("outcome");
}

#[test]
fn a_job_is_not_done_before_everything_has_its_outcome() {
    let done = || Message::Done(Summary { copied: 3, dirs_created: 2, ..Summary::default() });
    // At once, without having looked at anything.
    receive_from_client(furnish, move |peer| peer.tell(&done())).assert_refused("ended the job");
    upload_to(move |peer| peer.tell(&done())).assert_refused("ended the job");
    for left_out in ALL {
        let attacked = upload_to(move |peer| {
            peer.tell(&outcomes(ALL.filter(|index| *index != left_out).map(skipped)));
            peer.tell(&done());
        });
        attacked.assert_refused("ended the job");
    }
    let attacked = upload_to(move |peer| {
        peer.tell(&outcomes(ALL.map(skipped)));
        peer.tell(&done());
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
}

/// Bytes of a file that is longer than all that can be on its way to a peer who does not
/// listen.
const LONG_LEN: usize = 64 << 20;

/// Lets a client upload a file that is written to while it is sent, to `script`, which
/// has heard that it has changed.
fn upload_changed_to(script: impl FnOnce(&mut Peer) + Send + 'static) -> Attacked {
    let (tell, path) = std::sync::mpsc::channel();
    let furnish = move |place: &Place| {
        furnish(place);
        fs::write(place.source("b-large"), vec![9; LONG_LEN]).expect("written");
        tell.send(place.source("b-large")).expect("it listens");
    };
    receive_from_client(furnish, move |peer| {
        peer.await_listing();
        peer.tell(&want([LARGE]));
        peer.await_that("some came", |peer| !peer.contents.is_empty());
        fs::write(path.recv().expect("a path"), vec![8; LONG_LEN]).expect("written");
        peer.await_that("it ends", |peer| ends(peer).len() == 1);
        let changed = ends(peer).remove(0).expect_err("it has changed");
        assert_eq!(changed.kind, FaultKind::Changed);
        peer.contents.clear();
        script(peer);
    })
}

/// The ends of the large file so far.
fn ends(peer: &Peer) -> Vec<Result<FileSeal, Fault>> {
    let ends = peer.messages.iter().filter_map(|message| match message {
        Message::FileEnd(FileEnd { index: LARGE, result, by_blocks: false }) => {
            Some(result.clone())
        }
        _ => None,
    });
    ends.collect()
}

#[test]
fn what_has_changed_is_sent_once_more_and_no_third_time() {
    let attacked = upload_changed_to(|peer| {
        peer.tell(&want([LARGE]));
        peer.await_that("it ends again", |peer| ends(peer).len() == 2);
        assert_eq!(contents(peer)[&LARGE], vec![8; LONG_LEN]);
        let seal = ends(peer).remove(1).expect("it is what it was");
        assert_eq!(seal.hash, Some(ContentHash::of(&vec![8; LONG_LEN])));
        peer.tell(&want([LARGE]));
    });
    attacked.assert_refused("a file twice");
    // Nor twice at once, and no part of it that begins behind its end.
    upload_changed_to(|peer| peer.tell(&want([LARGE, LARGE]))).assert_refused("a file twice");
    let attacked = upload_changed_to(|peer| {
        let blocks = BlockRanges::try_from(vec![LONG_LEN as u64]).expect("in order");
        peer.tell(&Message::Want(vec![Want { index: LARGE, how: How::PLAIN, blocks, into: None }]));
    });
    attacked.assert_refused("it claims more of a file than its size");
    // What has its outcome is not wanted any more.
    let attacked = upload_changed_to(|peer| {
        peer.tell(&outcomes([skipped(LARGE)]));
        peer.tell(&want([LARGE]));
    });
    attacked.assert_refused("it requested an unlisted file, or a file twice");
}

#[test]
fn names_are_reported_before_anything_else() {
    let naming = || named(Naming::Given);
    for earlier in [naming(), Message::Want(Vec::new()), outcomes(ALL.map(skipped))] {
        let attacked = upload_to(move |peer| {
            peer.tell(&earlier);
            peer.tell(&naming());
        });
        attacked.assert_refused("where none is expected");
    }
    let attacked = upload_to(move |peer| {
        peer.tell(&naming());
        peer.tell(&outcomes(ALL.map(skipped)));
        peer.tell(&Message::Done(Summary::default()));
    });
    assert!(attacked.result.is_ok(), "{:?}", attacked.result);
    assert_eq!(attacked.watch.progress().naming(), Naming::Given);
}

#[test]
fn a_warning_of_the_agent_is_reported_to_the_user() {
    use haul_proto::Warning;
    let warning = Warning { path: b"\x1b[2J".to_vec(), message: "careful".into() };
    let attacked = upload_to(move |peer| {
        peer.tell(&Message::Warning(warning));
        peer.leave();
    });
    attacked.assert_lost();
    assert_eq!(attacked.watch.warnings(), ["\\x1b[2J: careful"]);
}

#[test]
fn a_directory_that_fails_late_is_a_failure_of_the_agents_side() {
    let fault = Fault::new(Side::Source, FaultKind::PermissionDenied, "m".repeat(1000));
    let late = Late { path: b"d".to_vec(), fault };
    let attacked = upload_to(move |peer| {
        peer.tell(&outcomes(ALL.map(skipped)));
        peer.tell(&Message::Late(late));
        // Its figures leave it out.
        peer.tell(&Message::Done(Summary::default()));
    });
    let summary = attacked.result.as_ref().ok().copied().flatten().expect("it ends");
    assert_eq!(summary.failed, 1);
    let Some(Outcome::Failed(fault)) = attacked.watch.outcomes().remove("d") else {
        panic!("{:?}", attacked.watch.outcomes());
    };
    assert_eq!(fault.side, Side::Destination);
    assert!(fault.message.len() <= 512, "{}", fault.message.len());
}

#[test]
fn an_agent_that_leaves_in_the_middle_is_lost() {
    upload_to(|peer| {
        peer.tell(&want([LARGE]));
        peer.await_that("some came", |peer| !peer.contents.is_empty());
        peer.leave();
    })
    .assert_lost();
    receive_from_client(furnish, Peer::leave).assert_lost();
}

#[test]
fn a_listing_waits_for_outcomes_at_the_end_of_its_window() {
    // About twice the window.
    const FILES: u64 = 2 * LIST_WINDOW / 320;
    let attacked = receive_from_client(
        |place| {
            for number in 0..FILES {
                fs::write(place.source(&format!("{number:0255}")), "").expect("written");
            }
        },
        |peer| {
            let cost = |peer: &Peer| peer.listed().map(ListItem::cost).sum::<u64>();
            peer.await_that("the window is full", |peer| cost(peer) > LIST_WINDOW - 1000);
            // Once there is room, it goes on.
            assert!(cost(peer) <= LIST_WINDOW);
            let heard = peer.listed().count() as u64;
            peer.tell(&outcomes((1..=100).map(skipped)));
            peer.await_that("more is listed", |peer| peer.listed().count() as u64 > heard);
            assert!(cost(peer) <= LIST_WINDOW + 101 * 320);
            peer.leave();
        },
    );
    attacked.assert_lost();
}
