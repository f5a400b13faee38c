//! Peers that make up chunks, or parts that the other side is said to have.

use crate::attack::{Attacked, run_client};
use crate::peer::{Peer, data, dir_end, file, file_end};
use crate::place::Place;
use haul_engine::{CacheConfig, Job, Outcome, Placement, WireOptions};
use haul_model::{FaultKind, Via};
use haul_proto::{Caps, Known, Message, NamedDest, NamedSources, Offer, OfferedChunk, Reuse};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use tempfile::TempDir;

/// The number of the one file.
const FILE: u64 = 1;

/// Its length in bytes, and that of each chunk.
const LEN: u64 = 2 << 20;
const CHUNK_LEN: u64 = 128 << 10;

fn content() -> Vec<u8> {
    (0..LEN).map(|at| (at / 7 + at / 1_000) as u8).collect()
}

fn chunk(content: &[u8]) -> OfferedChunk {
    OfferedChunk { len: content.len() as u32, hash: *blake3::hash(content).as_bytes() }
}

/// An offer of all of the file.
fn offer(content: &[u8]) -> Message {
    let chunks = content.chunks(CHUNK_LEN as usize).map(chunk).collect();
    Message::Offer(Offer { index: FILE, at: 0, chunks })
}

fn reuse(at: u64, len: u64) -> Message {
    Message::Reuse(Reuse { index: FILE, at, from: None, len: len as u32 })
}

/// Lets `script` send a file to a client with that cache, which has listed it.
fn send_with(
    cache: &TempDir,
    place: Place,
    name: &'static str,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    let job = Job {
        sources: NamedSources::at(vec![format!("/there/{name}").into_bytes()]),
        dest: NamedDest { into_dir: true, ..NamedDest::at(place.dest("").as_os_str().as_bytes()) },
        cache: Some(CacheConfig { dir: cache.path().join("cache"), kept_max: 0 }),
        wire: WireOptions { via: Via::Ssh, ..WireOptions::default() },
        ..Job::default()
    };
    run_client(place, job, Placement::download, move |peer| {
        peer.caps = Caps::DEDUP;
        assert!(peer.answer().chunks);
        peer.list(vec![file(0, name, LEN), dir_end(0)]);
        peer.await_wants([FILE]);
        script(peer);
    })
}

/// The answer to the offer that was made.
fn answer(peer: &mut Peer) -> Known {
    let is_answer = |message: &Message| matches!(message, Message::Known(_));
    peer.await_that("an answer", |peer| peer.messages.iter().any(is_answer));
    let at = peer.messages.iter().position(is_answer).expect("just seen");
    match peer.messages.remove(at) {
        Message::Known(known) => known,
        _ => unreachable!("just seen"),
    }
}

/// Awaits that the file is wanted once more.
fn await_again(peer: &mut Peer) {
    peer.wanted.clear();
    peer.await_wants([FILE]);
}

fn send_whole(peer: &mut Peer, content: &[u8]) {
    for at in (0..LEN).step_by(1 << 20) {
        peer.raw(&data(FILE, at, &content[at as usize..][..1 << 20]));
    }
    peer.tell(&file_end(FILE, LEN, content));
}

/// A cache that knows the file `a`, which is in the place.
fn taught() -> (TempDir, Place) {
    let cache = TempDir::new().expect("a directory");
    let attacked = send_with(&cache, Place::new(), "a", |peer| {
        peer.tell(&offer(&content()));
        assert_eq!(answer(peer).chunks, [], "nothing is known");
        send_whole(peer, &content());
    });
    attacked.assert_done();
    (cache, attacked.place)
}

#[test]
fn what_was_sent_once_is_known() {
    let (cache, place) = taught();
    let attacked = send_with(&cache, place, "b", |peer| {
        peer.tell(&offer(&content()));
        assert_eq!(answer(peer).chunks, [(0, 16)]);
        peer.tell(&reuse(0, LEN));
        peer.tell(&file_end(FILE, LEN, &content()));
    });
    let summary = attacked.assert_done();
    assert_eq!((summary.copied, summary.bytes_matched, summary.bytes_transferred), (1, LEN, 0));
    assert!(fs::read(attacked.place.dest("b")).expect("read") == content());
}

#[test]
fn a_part_that_was_not_found_is_refused() {
    // Half of it is known.
    let half = || {
        let mut content = content();
        content[LEN as usize / 2..].iter_mut().for_each(|byte| *byte ^= 1);
        content
    };
    for (at, len) in [(0, LEN), (LEN / 2, 1), (LEN / 2 - 1, 2), (0, 0), (u64::MAX, 1), (1 << 63, 1)]
    {
        let (cache, place) = taught();
        let attacked = send_with(&cache, place, "b", move |peer| {
            peer.tell(&offer(&half()));
            assert_eq!(answer(peer).chunks, [(0, 8)]);
            peer.tell(&reuse(at, len));
        });
        attacked.assert_refused("the peer sent a part of a file that does not exist");
    }
    let (cache, place) = taught();
    let attacked = send_with(&cache, place, "b", |peer| peer.tell(&reuse(0, 1)));
    attacked.assert_refused("the peer sent a part of a file that does not exist");
}

#[test]
fn offers_that_cant_be_are_refused() {
    let one = || chunk(&content()[..CHUNK_LEN as usize]);
    let of = |at, chunks| Message::Offer(Offer { index: FILE, at, chunks });
    let long = OfferedChunk { len: (256 << 10) + 1, hash: [0; 32] };
    let none = OfferedChunk { len: 0, hash: [0; 32] };
    for (offers, words) in [
        (vec![of(0, vec![])], "it offered chunks that can't be"),
        (vec![of(0, vec![long])], "it offered chunks that can't be"),
        (vec![of(0, vec![none])], "it offered chunks that can't be"),
        (vec![of(u64::MAX - 1, vec![one()])], "it offered chunks that can't be"),
        (vec![of(0, vec![one(); 257])], "it offered chunks that can't be"),
        (vec![of(0, vec![one()]), of(CHUNK_LEN - 1, vec![one()])], "it offered chunks twice"),
    ] {
        let cache = TempDir::new().expect("a directory");
        let attacked = send_with(&cache, Place::new(), "a", move |peer| {
            offers.iter().for_each(|offer| peer.tell(offer));
        });
        attacked.assert_refused(words);
    }
}

#[test]
fn a_hash_that_is_made_up_teaches_nothing() {
    let cache = TempDir::new().expect("a directory");
    // The peer claims that its content has the hash of a secret.
    let secret: Vec<u8> = vec![7; CHUNK_LEN as usize];
    let wrong = chunk(&secret);
    let attacked = send_with(&cache, Place::new(), "a", move |peer| {
        let chunks = vec![wrong; 16];
        peer.tell(&Message::Offer(Offer { index: FILE, at: 0, chunks }));
        send_whole(peer, &content());
    });
    attacked.assert_done();
    let attacked = send_with(&cache, attacked.place, "b", move |peer| {
        peer.tell(&Message::Offer(Offer { index: FILE, at: 0, chunks: vec![wrong] }));
        assert_eq!(answer(peer).chunks, [], "it was read, and has another hash");
        send_whole(peer, &content());
    });
    attacked.assert_done();
    assert!(fs::read(attacked.place.dest("b")).expect("read") == content());
}

#[test]
fn a_file_that_changes_behind_the_answer_is_sent_whole() {
    let (cache, place) = taught();
    let known = place.dest("a");
    let attacked = send_with(&cache, place, "b", move |peer| {
        peer.tell(&offer(&content()));
        assert_eq!(answer(peer).chunks, [(0, 16)]);
        // The same file, written into.
        let mut other = content();
        other.reverse();
        fs::write(&known, other).expect("written");
        peer.tell(&reuse(0, LEN));
        peer.tell(&file_end(FILE, LEN, &content()));
        await_again(peer);
        send_whole(peer, &content());
    });
    let summary = attacked.assert_done();
    assert_eq!((summary.copied, summary.bytes_matched), (1, 0));
    assert!(fs::read(attacked.place.dest("b")).expect("read") == content());
}

#[test]
fn content_that_is_not_what_was_known_fails() {
    let (cache, place) = taught();
    let attacked = send_with(&cache, place, "b", |peer| {
        peer.tell(&offer(&content()));
        answer(peer);
        peer.tell(&reuse(0, LEN));
        // Another file, says its hash; and once more.
        peer.tell(&file_end(FILE, LEN, b"other"));
        await_again(peer);
        for at in [0, 1 << 20] {
            peer.raw(&data(FILE, at, &content()[at as usize..][..1 << 20]));
        }
        peer.tell(&file_end(FILE, LEN, b"other"));
    });
    attacked.assert_done();
    assert_eq!(attacked.fault(FILE).kind, FaultKind::Corrupt);
    assert!(!attacked.place.has("b"));
}

#[test]
fn a_damaged_cache_is_of_no_use_and_does_no_harm() {
    let (cache, place) = taught();
    for entry in fs::read_dir(cache.path().join("cache")).expect("it is there") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            let mut bytes = fs::read(&path).expect("read");
            if let Some(byte) = bytes.get_mut(40) {
                *byte ^= 1;
            }
            fs::write(&path, bytes).expect("written");
        }
    }
    let attacked = send_with(&cache, place, "b", |peer| {
        peer.tell(&offer(&content()));
        assert_eq!(answer(peer).chunks, []);
        send_whole(peer, &content());
    });
    attacked.assert_done();
    assert!(matches!(attacked.peer.outcomes.get(&FILE), Some(Outcome::Copied)));
    assert!(fs::read(attacked.place.dest("b")).expect("read") == content());
}
