//! A file whose blocks come over several connections at a time, of which one stops in the
//! midst of a block.

use crate::attack::{Attacked, bytes, serve_at};
use crate::peer::{Peer, block_seal, data, dir_end, file, job_for, receiving};
use crate::place::Place;
use haul_engine::Outcome;
use haul_model::{BLOCK_LEN, ContentHash, FaultKind, Task};
use haul_net::{Direct, Identity};
use haul_proto::{
    Caps, DirectWish, FileEnd, FileSeal, FrameType, Hello, JobRequest, Join, LaneEnd, Message,
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

/// Frames of a lane of which the sender is told that they were taken.
const TOLD: u64 = 64;

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
        peer.list(vec![file(0, "large", large().len() as u64), dir_end(0)]);
        peer.await_wants([FILE]);
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

fn end(lanes: u8) -> Message {
    let (content, mtime) = (large(), crate::peer::TIME);
    let hash = Some(ContentHash::of(&content));
    let seal = FileSeal { size: content.len() as u64, mtime, hash, grew: false };
    Message::FileEnd(FileEnd { index: FILE, result: Ok(seal), lanes })
}

#[test]
fn a_lane_that_stops_in_the_midst_of_a_block_holds_up_no_other() {
    let attacked = send(|peer, [mut stops, mut goes_on]| {
        let first = pieces(0);
        let (half, rest) = first[1].split_at(PIECE_LEN / 2);
        say(&mut stops, half);
        let others: Vec<u8> = (1..BLOCKS).flat_map(pieces).flatten().collect();
        let writer = std::thread::spawn(move || {
            say(&mut goes_on, &others);
            goes_on
        });
        peer.await_that("the others are taken", |peer| {
            peer.messages.contains(&Message::Taken(Taken { lane: 2, frames: TOLD, is_over: false }))
        });
        let mut goes_on = writer.join().expect("said");
        say(&mut stops, rest);
        first[2..].iter().for_each(|frame| say(&mut stops, frame));
        say(&mut stops, &encode(&Message::LaneEnd(LaneEnd { index: FILE, lane: 1 })));
        say(&mut goes_on, &encode(&end(0b110)));
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
        peer.tell(&end(0));
        assert!(matches!(peer.await_outcome(FILE), Outcome::Failed(_)));
        say(&mut stops, rest);
    });
    assert_eq!(attacked.fault(FILE).kind, FaultKind::Corrupt);
    attacked.assert_done();
}
