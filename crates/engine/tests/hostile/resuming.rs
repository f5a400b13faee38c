//! Peers and neighbours that meddle with what an interrupted copy has left: the
//! blocks that are on record, and the private names that are found again.

use crate::attack::{Attacked, RECEIVERS, Victim, send_into, send_to};
use crate::peer::{Peer, block_seal, data, dir_end, file, file_end};
use crate::place::Place;
use haul_engine::JobError;
use haul_model::{BLOCK_LEN, ContentHasher, FaultKind, Policy, Resume};
use haul_proto::{BlockSeal, FileEnd, FileSeal, Message};
use haul_testkit::{content, holds_within};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// A file that is large enough to be continued.
const SIZE: u64 = 64 << 20;

/// Lengths of a journal's parts.
const HEADER_LEN: u64 = 256;
const RECORD_LEN: u64 = 32;

/// A block of content, different for each number.
fn block(number: u64) -> Vec<u8> {
    content::bytes(BLOCK_LEN as usize, number)
}

/// Sends the blocks `numbers`, each with its seal.
fn send_blocks(peer: &mut Peer, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let content = block(number);
        for (part, piece) in content.chunks(1 << 20).enumerate() {
            peer.raw(&data(1, number * BLOCK_LEN + ((part as u64) << 20), piece));
        }
        peer.tell(&block_seal(1, number, &content));
    }
}

/// The hash of a file that begins with these blocks and is a hole from there
/// on; of its tail from `first` on, unless that is 0.
fn hash_of(blocks: u64, first: u64) -> haul_model::ContentHash {
    let mut hasher = ContentHasher::behind(first);
    (first..blocks).for_each(|number| hasher.update(&block(number)));
    hasher.update_zeros(SIZE - hasher.len());
    if first > 0 { hasher.finish_tail() } else { hasher.finish() }
}

/// Vouches for the blocks from `first` on, which are a hole.
fn seal_hole(peer: &mut Peer, index: u64, first: u64) {
    static HOLE: OnceLock<Vec<Message>> = OnceLock::new();
    let zeros = vec![0; BLOCK_LEN as usize];
    let seal = |number| block_seal(1, number, &zeros);
    let hole = HOLE.get_or_init(|| (0..SIZE / BLOCK_LEN).map(seal).collect());
    for seal in &hole[first as usize..] {
        let Message::BlockSeal(seal) = seal else { unreachable!("they are seals") };
        peer.tell(&Message::BlockSeal(BlockSeal { index, ..*seal }));
    }
}

fn end_with(size: u64, hash: haul_model::ContentHash) -> Message {
    let seal = FileSeal { size, mtime: crate::peer::TIME, hash: Some(hash), grew: false };
    Message::FileEnd(FileEnd { index: 1, result: Ok(seal), by_blocks: false })
}

fn listed(peer: &mut Peer) {
    peer.list(vec![file(0, "a", SIZE), dir_end(0)]);
    peer.await_wants([1]);
}

/// A place where a copy was interrupted after so many blocks.
fn interrupted(victim: Victim, blocks: u64) -> Place {
    let place = Place::new();
    fs::write(place.dest("a"), "old").expect("written");
    let dest = place.dest("");
    let attacked = send_again(victim, place, Resume::Quick, move |peer| {
        listed(peer);
        send_blocks(peer, 0..blocks);
        let is_there = holds_within(Duration::from_secs(20), || is_on_record(&dest, blocks));
        assert!(is_there, "nothing is put on record");
        peer.leave();
    });
    assert!(matches!(attacked.result, Err(JobError::Connection(_))), "{:?}", attacked.result);
    let left = left_in(&attacked.place.dest(""));
    assert_eq!(left.len(), 2, "nothing was kept");
    // It makes a last checkpoint, and has the lock until then.
    for journal in left.iter().filter(|path| path.extension().is_some_and(|it| it == "journal")) {
        let journal = fs::File::open(journal).expect("opened");
        flock(journal, FlockOperation::LockExclusive).expect("locked");
    }
    attacked.place
}

/// True if the journal in this directory holds so many blocks.
fn is_on_record(dest: &Path, blocks: u64) -> bool {
    let left = left_in(dest);
    let journal = left.iter().find(|path| path.extension().is_some_and(|it| it == "journal"));
    journal.is_some_and(|path| {
        path.metadata().is_ok_and(|meta| meta.len() == HEADER_LEN + blocks * RECORD_LEN)
    })
}

/// The files that an interrupted copy has left.
fn left_in(dest: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dest).expect("read");
    let mut left: Vec<_> = entries
        .map(|entry| entry.expect("read").path())
        .filter(|path| {
            path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b".haul-"))
        })
        .collect();
    left.sort();
    left
}

fn send_again(
    victim: Victim,
    place: Place,
    resume: Resume,
    script: impl FnOnce(&mut Peer) + Send + 'static,
) -> Attacked {
    let policy = Policy { resume, ..Policy::default() };
    send_into(victim, place, &["a"], policy, script)
}

#[test]
fn what_an_interrupted_peer_has_sent_is_continued() {
    for victim in RECEIVERS {
        for resume in [Resume::Quick, Resume::Strict] {
            let attacked = send_again(victim, interrupted(victim, 2), resume, move |peer| {
                listed(peer);
                assert_eq!(peer.blocks[&1], 2);
                send_blocks(peer, 2..3);
                let first = if resume == Resume::Strict { 0 } else { 2 };
                seal_hole(peer, 1, 3);
                peer.tell(&end_with(SIZE, hash_of(3, first)));
            });
            assert_eq!(attacked.assert_done().copied, 1);
            let content = fs::read(attacked.place.dest("a")).expect("read");
            let expected = (0..3).map(block).collect::<Vec<_>>().concat();
            assert!(content.starts_with(&expected) && content.len() as u64 == SIZE);
        }
    }
}

#[test]
fn a_rest_that_is_not_what_was_promised_is_given_up_with_all_before_it() {
    for victim in RECEIVERS {
        for resume in [Resume::Quick, Resume::Strict] {
            let first = if resume == Resume::Strict { 0 } else { 2 };
            let scripts: [fn(&mut Peer, u64); 7] = [
                // Another hash, that of the whole in place of the tail's, and
                // the reverse.
                |peer, _| {
                    seal_hole(peer, 1, 2);
                    peer.tell(&file_end(1, SIZE, b"another"));
                },
                |peer, first| {
                    seal_hole(peer, 1, 2);
                    peer.tell(&end_with(SIZE, hash_of(2, 2 - first)));
                },
                // Less than there is already, and no more than that.
                |peer, first| peer.tell(&end_with(0, hash_of(2, first))),
                |peer, first| peer.tell(&end_with(2 * BLOCK_LEN, hash_of(2, first))),
                // Once more what is there.
                |peer, first| {
                    peer.raw(&data(1, 0, b"again"));
                    peer.tell(&end_with(SIZE, hash_of(2, first)));
                },
                |peer, first| {
                    peer.tell(&block_seal(1, 1, &block(1)));
                    peer.tell(&end_with(SIZE, hash_of(2, first)));
                },
                // Another block than its seal says.
                |peer, first| {
                    peer.raw(&data(1, 2 * BLOCK_LEN, &block(2)));
                    peer.tell(&block_seal(1, 2, &block(3)));
                    peer.tell(&end_with(SIZE, hash_of(3, first)));
                },
            ];
            for script in scripts {
                let attacked = send_again(victim, interrupted(victim, 2), resume, move |peer| {
                    listed(peer);
                    script(peer, first);
                });
                assert_eq!(attacked.assert_done().failed, 1);
                // Where all was read again, it is the source that is another.
                let kind = attacked.fault(1).kind;
                let is_replaced = resume == Resume::Strict && kind == FaultKind::Changed;
                assert!(kind == FaultKind::Corrupt || is_replaced, "{kind:?}");
                assert_eq!(attacked.place.read("a"), "old");
            }
        }
    }
}

#[test]
fn a_single_block_and_no_more_is_no_file() {
    // Its hash alone does not say what the hash of a file of one block is.
    for victim in RECEIVERS {
        for resume in [Resume::Quick, Resume::Strict] {
            let attacked = send_again(victim, interrupted(victim, 1), resume, |peer| {
                listed(peer);
                assert_eq!(peer.blocks[&1], 1);
                peer.tell(&file_end(1, BLOCK_LEN, b"another"));
            });
            assert_eq!(attacked.assert_done().failed, 1);
            assert_eq!(attacked.place.read("a"), "old");
        }
    }
}

#[test]
fn blocks_are_sealed_in_their_order_and_once() {
    for victim in RECEIVERS {
        for seals in [&[1][..], &[0, 0], &[0, 2], &[1, 0], &[u64::MAX], &[1 << 42]] {
            let attacked = send_to(
                victim,
                &["a"],
                |place| fs::write(place.dest("a"), "old").expect("written"),
                move |peer| {
                    listed(peer);
                    peer.raw(&data(1, 0, &block(0)));
                    for number in seals {
                        peer.tell(&block_seal(1, *number, &block(0)));
                    }
                    peer.tell(&end_with(SIZE, hash_of(1, 0)));
                },
            );
            assert_eq!(attacked.assert_done().failed, 1, "{seals:?}");
            assert_eq!(attacked.place.read("a"), "old");
        }
    }
}

#[test]
fn a_file_that_ends_before_its_seals_is_not_believed() {
    for victim in RECEIVERS {
        for size in [0, 1, BLOCK_LEN - 1, BLOCK_LEN + 1] {
            let attacked = send_to(
                victim,
                &["a"],
                |_| {},
                move |peer| {
                    listed(peer);
                    send_blocks(peer, 0..2);
                    peer.tell(&file_end(1, size, &block(0)[..size.min(BLOCK_LEN) as usize]));
                },
            );
            assert_eq!(attacked.assert_done().failed, 1, "{size}");
            assert!(!attacked.place.has("a"));
        }
    }
}

#[test]
fn what_a_neighbour_plants_under_a_private_name_is_not_written_to() {
    let planted: [fn(&Path, &Place); 5] = [
        |name, place| symlink(place.outside("secret"), name).expect("linked"),
        |name, place| symlink(place.outside("new"), name).expect("linked"),
        |name, place| fs::hard_link(place.outside("secret"), name).expect("linked"),
        |name, _| mknodat(CWD, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO"),
        |name, _| fs::create_dir(name).expect("made"),
    ];
    for victim in RECEIVERS {
        for plant in planted {
            for which in 0..2 {
                let place = interrupted(victim, 1);
                let name = left_in(&place.dest("")).swap_remove(which);
                fs::remove_file(&name).expect("removed");
                plant(&name, &place);
                // A link counts as a change of what it leads to.
                let before = haul_testkit::snapshot(place.outside("")).expect("read");
                let attacked = send_again(victim, place, Resume::Quick, |peer| {
                    peer.list(vec![file(0, "a", SIZE), dir_end(0)]);
                    peer.await_that("its fate is known", |peer| {
                        peer.outcomes.contains_key(&1) || peer.wanted.contains(&1)
                    });
                    if !peer.outcomes.contains_key(&1) {
                        let first = peer.blocks[&1];
                        seal_hole(peer, 1, first);
                        peer.tell(&end_with(SIZE, hash_of(first, first)));
                    }
                });
                assert!(attacked.result.is_ok(), "{:?}", attacked.result);
                let after = haul_testkit::snapshot(attacked.place.outside("")).expect("read");
                haul_testkit::assert_same(&before, &after);
                for name in left_in(&attacked.place.dest("")) {
                    let _ = fs::remove_file(&name).or_else(|_| fs::remove_dir(&name));
                }
                attacked.place.check();
            }
        }
    }
}

#[test]
fn a_journal_that_was_tampered_with_is_not_believed_or_does_no_harm() {
    let tampered: [fn(&mut Vec<u8>); 6] = [
        |journal| journal.clear(),
        |journal| journal.truncate(100),
        |journal| journal[20] ^= 1,
        |journal| *journal.last_mut().expect("a record") ^= 1,
        |journal| journal.extend_from_slice(&[7; 32]),
        |journal| journal.resize(1 << 20, 7),
    ];
    for victim in RECEIVERS {
        for tamper in tampered {
            let place = interrupted(victim, 2);
            let journal = left_in(&place.dest("")).remove(0);
            assert!(journal.extension().is_some_and(|it| it == "journal"), "{journal:?}");
            let mut bytes = fs::read(&journal).expect("read");
            tamper(&mut bytes);
            fs::write(&journal, bytes).expect("written");
            let attacked = send_again(victim, place, Resume::Quick, |peer| {
                listed(peer);
                let first = peer.blocks[&1];
                assert!(first <= 2, "{first}");
                send_blocks(peer, first..2);
                seal_hole(peer, 1, 2);
                peer.tell(&end_with(SIZE, hash_of(2, first)));
            });
            assert_eq!(attacked.assert_done().copied, 1);
            let content = fs::read(attacked.place.dest("a")).expect("read");
            let expected = (0..2).map(block).collect::<Vec<_>>().concat();
            assert!(content.starts_with(&expected) && content.len() as u64 == SIZE);
        }
    }
}

#[test]
fn many_files_that_can_be_continued_are_not_all_held_open() {
    const FILES: u64 = 24;
    let zeros = vec![0; BLOCK_LEN as usize];
    let list = |peer: &mut Peer| {
        let files = (0..FILES).map(|n| file(0, &format!("f{n:02}"), SIZE));
        peer.list(files.chain([dir_end(0)]).collect());
        peer.await_wants(1..=FILES);
    };
    let names: Vec<String> = (0..FILES).map(|n| format!("f{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for victim in RECEIVERS {
        let place = Place::new();
        let dest = place.dest("");
        let block = zeros.clone();
        // One block of each is on record, a hole.
        let attacked = send_into(victim, place, &names, Policy::default(), move |peer| {
            list(peer);
            for index in 1..=FILES {
                peer.tell(&block_seal(index, 0, &block));
            }
            let is_there = |path: &PathBuf| path.metadata().is_ok_and(|m| m.len() > HEADER_LEN);
            let count = || left_in(&dest).iter().filter(|path| is_there(path)).count();
            let are_all_there =
                holds_within(Duration::from_secs(20), || count() >= 2 * FILES as usize);
            assert!(are_all_there, "not all are put on record");
            peer.leave();
        });
        let place = attacked.place;
        let dest = place.dest("");
        assert_eq!(left_in(&dest).len() as u64, 2 * FILES);
        let attacked = send_into(victim, place, &names, Policy::default(), move |peer| {
            list(peer);
            assert!((1..=FILES).all(|index| peer.blocks[&index] == 1), "{:?}", peer.blocks);
            let open = fs::read_dir("/proc/self/fd").expect("read").filter_map(|entry| {
                let target = fs::read_link(entry.ok()?.path()).ok()?;
                target.starts_with(&dest).then_some(target)
            });
            let stages = open.filter(|path| path.to_string_lossy().contains("/.haul-")).count();
            assert!(stages < 10, "{stages} are open");
            let mut hasher = ContentHasher::behind(1);
            hasher.update_zeros(SIZE - BLOCK_LEN);
            for index in 1..=FILES {
                seal_hole(peer, index, 1);
                let seal = FileSeal {
                    size: SIZE,
                    mtime: crate::peer::TIME,
                    hash: Some(hasher.finish_tail()),
                    grew: false,
                };
                peer.tell(&Message::FileEnd(FileEnd { index, result: Ok(seal), by_blocks: false }));
            }
        });
        assert_eq!(attacked.assert_done().copied, FILES);
        assert_eq!(left_in(&attacked.place.dest("")), [""; 0].map(PathBuf::from));
    }
}
