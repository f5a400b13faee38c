//! A file whose blocks come over several connections at a time, and whose end may come before
//! them.

use crate::attack::{Attacked, bytes, serve_at};
use crate::peer::{Peer, block_seal, data, dir_end, file, job_for, pack, packed, receiving};
use crate::place::Place;
use haul_engine::Outcome;
use haul_model::{BLOCK_LEN, ContentHash, Fault, FaultKind, Side, Task};
use haul_net::{Direct, Identity};
use haul_proto::{
    BlockSeal, Caps, DirectWish, FileEnd, FileSeal, FrameType, Hello, JobRequest, Join, Message,
    Taken, encode,
};
use haul_testkit::{content, holds_within};
use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Beyond this it hangs.
const SOON: Duration = Duration::from_secs(20);

/// Bytes of the content of a frame.
const PIECE_LEN: usize = 512 << 10;

/// Blocks of the file: more than there are buffers for.
const BLOCKS: usize = 9;

const FILE: u64 = 1;

fn large() -> Vec<u8> {
    content::bytes(BLOCKS * BLOCK_LEN as usize, 7)
}

/// Sends a file over two lanes to an agent.
fn send(script: impl FnOnce(&mut Peer, [Direct; 2]) + Send + 'static) -> Attacked {
    let place = Place::new();
    let (role, there) = (receiving(bytes(&place.dest("")), true), place.dest(""));
    serve_at(Some(Ipv4Addr::LOCALHOST.into()), place, move |peer| {
        let own = Identity::new().expect("a key");
        let wish = DirectWish { key: own.public(), is_required: false, ports: None };
        let job = job_for(Task::default(), role);
        peer.frame(FrameType::Hello, &Hello::ours(Caps::NONE, 60, "script").encode());
        peer.tell(&Message::Job(JobRequest { direct: Some(wish.into()), ..job }));
        peer.hear_greeting();
        let other = (FILE + 1, pack([packed(FILE + 1, b"text")], b"text"));
        peer.list(vec![file(0, "large", large().len() as u64), file(0, "other", 4), dir_end(0)]);
        peer.await_wants([FILE, other.0]);
        let offer = peer.messages.iter().find_map(|message| match message {
            Message::Direct(offer) => offer.clone().ok(),
            _ => None,
        });
        let offer = offer.expect("it says where it is");
        let mut lanes = [1, 2].map(|lane| {
            let direct = Direct::connect(offer.address, &own, offer.key, SOON, &|| true);
            let mut direct = direct.expect("it lets in");
            direct.write_all(&encode(&Message::Join(Join { lane, secret: None }))).expect("said");
            direct
        });
        say(&mut lanes[0], &pieces(0)[0]);
        // The file is begun, and nobody is at it.
        let is_begun = || {
            let mut there = fs::read_dir(&there).expect("read").flatten();
            there.any(|entry| entry.metadata().is_ok_and(|file| file.len() >= PIECE_LEN as u64))
        };
        assert!(holds_within(SOON, is_begun), "it is never begun");
        std::thread::sleep(Duration::from_millis(50));
        script(peer, lanes);
        peer.raw(&other.1);
        peer.hear_out();
    })
}

/// A block as it is sent.
fn pieces(block: usize) -> Vec<Vec<u8>> {
    let start = block * BLOCK_LEN as usize;
    let content = &large()[start..start + BLOCK_LEN as usize];
    let offset = |at: usize| (start + at * PIECE_LEN) as u64;
    let pieces = content.chunks(PIECE_LEN).enumerate();
    let pieces = pieces.map(|(at, piece)| data(FILE, offset(at), piece));
    pieces.chain([encode(&block_seal(FILE, block as u64, content))]).collect()
}

fn say(lane: &mut Direct, frame: &[u8]) {
    // The other side may have had enough already.
    let _ = lane.write_all(frame).and_then(|()| lane.flush());
}

fn end(by_blocks: bool) -> Message {
    let (content, mtime) = (large(), crate::peer::TIME);
    let hash = Some(ContentHash::of(&content));
    let seal = FileSeal { size: content.len() as u64, mtime, hash, grew: false };
    Message::FileEnd(FileEnd { index: FILE, result: Ok(seal), by_blocks })
}

/// Hears until the other side has so many frames of that lane.
fn await_taken(peer: &mut Peer, lane: u8, frames: u64) {
    let taken = Message::Taken(Taken { lane, frames, is_over: false });
    peer.await_that("the frames are taken", |peer| peer.messages.contains(&taken));
}

/// So many frames has a block.
const OF_BLOCK: u64 = (BLOCK_LEN as usize / PIECE_LEN) as u64 + 1;

#[test]
fn a_lane_that_stops_in_the_midst_of_a_block_holds_up_no_other() {
    let attacked = send(|peer, [mut stops, mut should_continue]| {
        let first = pieces(0);
        let (half, rest) = first[1].split_at(PIECE_LEN / 2);
        say(&mut stops, half);
        let others: Vec<u8> = (1..BLOCKS).flat_map(pieces).flatten().collect();
        let writer = std::thread::spawn(move || {
            say(&mut should_continue, &others);
            should_continue
        });
        await_taken(peer, 2, OF_BLOCK * (BLOCKS as u64 - 1));
        let _goes_on = writer.join().expect("said");
        // It waits for the block that is missing.
        peer.tell(&end(true));
        say(&mut stops, rest);
        first[2..].iter().for_each(|frame| say(&mut stops, frame));
        assert_eq!(peer.await_outcome(FILE), Outcome::Copied);
    });
    attacked.assert_done();
    assert!(fs::read(attacked.place.dest("large")).expect("a copy") == large(), "it differs");
}

#[test]
fn a_file_that_is_ended_while_a_lane_still_sends_it_fails_and_leaves_nothing() {
    let attacked = send(|peer, [mut stops, _other]| {
        let piece = &pieces(0)[1];
        let (half, rest) = piece.split_at(PIECE_LEN / 2);
        say(&mut stops, half);
        std::thread::sleep(Duration::from_millis(50));
        peer.tell(&end(false));
        assert!(matches!(peer.await_outcome(FILE), Outcome::Failed(_)));
        say(&mut stops, rest);
    });
    assert_eq!(attacked.fault(FILE).kind, FaultKind::Corrupt);
    attacked.assert_done();
}

#[test]
fn what_a_slow_lane_still_has_of_a_file_that_failed_is_passed_over() {
    let attacked = send(|peer, [mut slow, mut other]| {
        let [first, last] = [1, BLOCKS - 1].map(pieces);
        let mut corrupt = first.clone();
        corrupt.remove(1);
        corrupt.iter().for_each(|frame| say(&mut other, frame));
        await_taken(peer, 2, OF_BLOCK - 1);
        peer.tell(&end(true));
        assert!(matches!(peer.await_outcome(FILE), Outcome::Failed(_)));
        last.iter().for_each(|frame| say(&mut slow, frame));
        await_taken(peer, 1, OF_BLOCK + 1);
    });
    assert_eq!(attacked.fault(FILE).kind, FaultKind::Corrupt);
    attacked.assert_done();
}

#[test]
fn nothing_is_late_that_was_never_asked_for() {
    let attacked = send(|peer, [mut lane, _other]| {
        say(&mut lane, &data(FILE + 2, 0, b"x"));
        peer.hear_out();
    });
    attacked.assert_refused("not requested");
}

#[test]
fn a_block_that_cannot_be_read_has_the_file_asked_for_once_more() {
    let attacked = send(|peer, [mut first, mut second]| {
        let unread = BlockSeal { index: FILE, block: 0, len: 0, hash: None };
        say(&mut first, &encode(&Message::BlockSeal(unread)));
        pieces(1).iter().for_each(|frame| say(&mut second, frame));
        await_taken(peer, 1, 2);
        await_taken(peer, 2, OF_BLOCK);
        let changed = Err(Fault::new(Side::Source, FaultKind::Changed, "it changed"));
        peer.tell(&Message::FileEnd(FileEnd { index: FILE, result: changed, by_blocks: true }));
        let asked = |peer: &Peer| peer.wanted.iter().filter(|index| **index == FILE).count();
        peer.await_that("it asks again", |peer| asked(peer) == 2);
        peer.tell(&end(true));
        for block in 0..BLOCKS {
            let lane = if block % 2 == 0 { &mut first } else { &mut second };
            pieces(block).iter().for_each(|frame| say(lane, frame));
        }
        assert_eq!(peer.await_outcome(FILE), Outcome::Copied);
    });
    attacked.assert_done();
    assert!(fs::read(attacked.place.dest("large")).expect("a copy") == large(), "it differs");
}

#[test]
fn a_block_longer_than_one_ends_the_job() {
    let attacked = send(|peer, [mut first, _]| {
        let seal = BlockSeal { index: FILE, block: 0, len: BLOCK_LEN as u32 + 1, hash: None };
        say(&mut first, &encode(&Message::BlockSeal(seal)));
        peer.hear_out();
    });
    attacked.assert_refused("invalid length");
}
