//! Tests of contents that are put together in any order, against a plain reference.

use super::*;
use crate::{PieceCounts, Pieces, Proof, Route, SealedFile, SourceId, Stage};
use haul_model::{Attributes, Kept, Name, Timestamp};
use haul_sys::Dir;
use haul_testkit::content::bytes;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Blocks of the contents here but for a short last one.
const BLOCKS: usize = 5;

/// Bytes of a piece.
const PIECE_LEN: usize = 1 << 20;

/// A stage in memory: what is left of it when its process is killed.
#[derive(Debug, Default)]
struct Memory {
    bytes: Mutex<Vec<u8>>,
    records: Mutex<Vec<BlockHash>>,
    /// The next request to keep a record, or to set the length, fails.
    fails: AtomicBool,
}

impl Memory {
    fn try_it(&self) -> io::Result<()> {
        match self.fails.swap(false, Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl StagedFile for Arc<Memory> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut file, start) = (self.bytes.lock(), offset as usize);
        let end = start + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.try_it()?;
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }

    fn record(&self, block: BlockHash) -> io::Result<()> {
        self.try_it()?;
        self.records.lock().push(block);
        Ok(())
    }

    fn discard(self: Box<Self>) {}

    fn seal(self: Box<Self>, _: Proof, _: &Attributes, _: Kept) -> io::Result<Box<dyn SealedFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Memory {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A later process goes on: what is not on record is cut off.
    fn resume(self: &Arc<Self>, ahead_max: u64) -> Assembler {
        let records = self.records.lock().clone();
        self.set_len(records.len() as u64 * BLOCK_LEN).expect("cut");
        Assembler::new(self.staged(), records, ahead_max)
    }

    fn staged(self: &Arc<Self>) -> Box<dyn StagedFile> {
        Box::new(Arc::clone(self))
    }
}

/// A content that ends with a short block, whose block `hole` is a hole.
fn content(hole: usize, last_len: usize) -> Vec<u8> {
    let block = BLOCK_LEN as usize;
    let mut content = bytes(BLOCKS * block + last_len, 7);
    content[hole * block..(hole + 1) * block].fill(0);
    content
}

/// The ranges of block `index` that are to be sent.
fn part(content: &[u8], index: usize) -> &[u8] {
    content.chunks(BLOCK_LEN as usize).nth(index).expect("there")
}

/// Puts block `index` together; gives up after so many pieces.
fn send(into: &Assembler, content: &[u8], index: usize, pieces: usize) -> bool {
    let Ok(mut block) = into.begin(index as u64) else { return false };
    for (at, piece) in part(content, index).chunks(PIECE_LEN).enumerate() {
        if at == pieces {
            return false;
        }
        match piece.iter().all(|byte| *byte == 0) {
            true => into.skip_hole(&mut block, piece.len() as u64).expect("passed"),
            false => into.write(&mut block, piece).expect("written"),
        }
    }
    into.end(block, None).expect("ended");
    true
}

proptest! {
    // To look for a smaller example takes minutes.
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, ..Default::default() })]
    #[test]
    fn any_order_from_any_thread_and_after_any_kill_is_the_same_content(
        order in Just((0..=BLOCKS).collect::<Vec<_>>()).prop_shuffle(),
        given_up in proptest::collection::vec(0usize..6, BLOCKS + 1),
        kills in proptest::collection::vec(1usize..7, 0..4),
        hole in 0..BLOCKS,
        last_len in 0usize..PIECE_LEN,
    ) {
        let content = content(hole, last_len);
        let blocks = content.len().div_ceil(BLOCK_LEN as usize);
        let order: Vec<_> = order.into_iter().filter(|index| *index < blocks).collect();
        let stage = Memory::new();
        // A process that is killed after so many blocks, with some that are half there.
        for kill in kills {
            let into = stage.resume(64);
            let next = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                let work = || while let Some(index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if next.load(Ordering::Relaxed) > kill {
                        return;
                    }
                    send(&into, &content, *index, given_up[*index]);
                };
                (0..3).for_each(|_| { scope.spawn(work); });
            });
        }
        let there = stage.records.lock().clone();
        let whole = content.chunks_exact(BLOCK_LEN as usize);
        let of_all: Vec<_> = (0..).zip(whole).map(|(index, block)| BlockHash::of(index, block)).collect();
        prop_assert!(of_all.starts_with(&there));
        // The last one ends, with every block twice: given up, then whole.
        let into = stage.resume(64);
        let garbage = vec![0xff; PIECE_LEN];
        std::thread::scope(|scope| {
            for first in 0..3 {
                let (order, content, into, garbage) = (&order, &content, &into, &garbage);
                scope.spawn(move || for index in order.iter().skip(first).step_by(3) {
                    if let Ok(mut block) = into.begin(*index as u64) {
                        into.write(&mut block, garbage).expect("written");
                        drop(block);
                    }
                    send(into, content, *index, usize::MAX);
                });
            }
        });
        let written = into.finish(content.len() as u64).map_err(|(_, error)| error).expect("whole");
        prop_assert_eq!(written.hash(), ContentHash::of(&content));
        prop_assert!(*stage.bytes.lock() == content);
        prop_assert_eq!(&*stage.records.lock(), &of_all);
    }
}

#[test]
fn a_block_has_one_author_at_a_time_and_is_there_once() {
    let memory = Memory::new();
    let into = memory.resume(2);
    let block = into.begin(1).expect("begun");
    assert!(matches!(into.begin(1), Err(AssembleError::OutOfOrder)));
    assert!(matches!(into.begin(2), Err(AssembleError::TooFarAhead)));
    assert!(matches!(into.begin(u64::MAX), Err(AssembleError::TooFarAhead)));
    drop(block);
    let content = content(0, 0);
    assert!(send(&into, &content, 1, usize::MAX) && into.has(1) && !into.has(0));
    assert!(matches!(into.begin(1), Err(AssembleError::OutOfOrder)), "it waits");
    assert_eq!(into.recorded(), 0);
    assert!(send(&into, &content, 0, usize::MAX) && into.recorded() == 2);
    assert!(matches!(into.begin(1), Err(AssembleError::OutOfOrder)), "it is recorded");
}

/// Ends a whole block; gives the length of the hole at its end.
fn seal_whole(
    pieces: &mut Pieces,
    into: &Assembler,
    index: u64,
    hash: Option<BlockHash>,
) -> Result<u64, AssembleError> {
    pieces.seal_by(Route::default(), into, (index, BLOCK_LEN), hash).map(|took| took.holes)
}

#[test]
fn a_block_that_is_not_the_one_that_was_sent_is_never_recorded() {
    let (memory, content) = (Memory::new(), content(1, 0));
    let into = memory.resume(2);
    let sent = BlockHash::of(0, part(&content, 0));
    let mut pieces = Pieces::default();
    pieces.take(&into, part(&content, 2), 0).expect("taken");
    assert!(matches!(seal_whole(&mut pieces, &into, 0, Some(sent)), Err(AssembleError::Differs)));
    assert!(memory.records.lock().is_empty());
    pieces.take(&into, part(&content, 0), 0).expect("taken again");
    seal_whole(&mut pieces, &into, 0, Some(sent)).expect("the one that was sent");
    assert_eq!(*memory.records.lock(), [sent]);
}

#[test]
fn what_was_lost_with_a_lane_comes_again_over_another() {
    let (memory, content) = (Memory::new(), content(3, 77));
    let into = memory.resume(crate::AHEAD_MAX);
    let mut pieces = Pieces::default();
    let by = |lane, may_repeat| Route { lane, may_repeat };
    let hash = |index: u64| Some(BlockHash::of(index, part(&content, index as usize)));
    let half = BLOCK_LEN as usize / 2;
    pieces.take_by(by(1, false), &into, part(&content, 0), 0).expect("taken");
    pieces.seal_by(by(1, false), &into, (0, BLOCK_LEN), hash(0)).expect("sealed");
    pieces.take_by(by(1, false), &into, &part(&content, 1)[..half], BLOCK_LEN).expect("taken");
    // Nothing comes twice as long as no lane is lost.
    let again = pieces.take_by(by(2, false), &into, part(&content, 0), 0);
    assert!(matches!(again, Err(AssembleError::OutOfOrder)));
    // Then whole blocks are passed over, and others begin anew.
    let both = [part(&content, 0), part(&content, 1)].concat();
    let took = pieces.take_by(by(2, true), &into, &both, 0).expect("taken");
    let dropped = half as u64;
    assert_eq!(took, PieceCounts { holes: 0, known: BLOCK_LEN, dropped });
    for index in 0..2 {
        let took =
            pieces.seal_by(by(2, true), &into, (index, BLOCK_LEN), hash(index)).expect("sealed");
        assert_eq!(took, PieceCounts::default());
    }
    let rest: Vec<u8> = (2..=BLOCKS).flat_map(|index| part(&content, index).to_vec()).collect();
    pieces.take_by(by(2, true), &into, &rest, 2 * BLOCK_LEN).expect("taken");
    for index in 2..BLOCKS as u64 {
        pieces.seal_by(by(2, true), &into, (index, BLOCK_LEN), hash(index)).expect("sealed");
    }
    pieces.end(&into, content.len() as u64).expect("ended");
    let written = into.finish(content.len() as u64).map_err(|(_, error)| error).expect("whole");
    assert_eq!(written.hash(), ContentHash::of(&content));
}

#[test]
fn who_takes_out_the_blocks_of_a_lane_continues_with_them_alone() {
    let (memory, content) = (Memory::new(), content(3, 77));
    let into = memory.resume(crate::AHEAD_MAX);
    let mut pieces = Pieces::default();
    let by = |lane| Route { lane, may_repeat: false };
    let half = BLOCK_LEN as usize / 2;
    for index in 0..2 {
        let (begin, at) = (&part(&content, index)[..half], index as u64 * BLOCK_LEN);
        pieces.take_by(by(index as u8 + 1), &into, begin, at).expect("taken");
    }
    let mut taken_out = pieces.take_out(1);
    let rest = |index: usize| (&part(&content, index)[half..], (index * 2 + 1) * half);
    let (first, at) = rest(0);
    let elsewhere = pieces.take_by(by(1), &into, first, at as u64);
    assert!(matches!(elsewhere, Err(AssembleError::OutOfOrder)));
    taken_out.take_by(by(1), &into, first, at as u64).expect("taken");
    let (second, at) = rest(1);
    pieces.take_by(by(2), &into, second, at as u64).expect("taken");
    pieces.put_back(taken_out);
    for index in [1, 0] {
        let hash = BlockHash::of(index, part(&content, index as usize));
        seal_whole(&mut pieces, &into, index, Some(hash)).expect("sealed");
    }
    assert_eq!(into.recorded(), 2);
}

#[test]
fn pieces_of_several_blocks_may_mix_within_bounds() {
    let (memory, content) = (Memory::new(), content(3, 77));
    let into = memory.resume(crate::AHEAD_MAX);
    let mut pieces = Pieces::default();
    for at in 0..BLOCK_LEN as usize / PIECE_LEN {
        for index in (0..BLOCKS).rev().filter(|index| *index != 3) {
            let piece = part(&content, index).chunks(PIECE_LEN).nth(at).expect("there");
            let offset = index as u64 * BLOCK_LEN + (at * PIECE_LEN) as u64;
            assert_eq!(pieces.take(&into, piece, offset).expect("taken"), 0);
        }
    }
    assert!(matches!(pieces.take(&into, b"again", 0), Err(AssembleError::OutOfOrder)));
    for index in [4, 3, 1, 0, 2] {
        let hash = BlockHash::of(index, part(&content, index as usize));
        let hole = if index == 3 { BLOCK_LEN } else { 0 };
        assert_eq!(seal_whole(&mut pieces, &into, index, Some(hash)).expect("sealed"), hole);
    }
    pieces.take(&into, part(&content, BLOCKS), BLOCKS as u64 * BLOCK_LEN).expect("taken");
    assert_eq!(pieces.end(&into, content.len() as u64).expect("ended"), 0);
    let written = into.finish(content.len() as u64).map_err(|(_, error)| error).expect("whole");
    assert_eq!(written.hash(), ContentHash::of(&content));
}

#[test]
fn a_content_of_which_no_hash_is_wanted_yields_none_and_leaves_no_record() {
    let (memory, content) = (Memory::new(), content(3, 77));
    let size = content.len() as u64;
    let unhashed = || (Assembler::unhashed(memory.staged(), crate::AHEAD_MAX), Pieces::default());
    let fill = |into: &Assembler, pieces: &mut Pieces| {
        for index in [4, 3, 1, 0, 2] {
            if index != 3 {
                let offset = index as u64 * BLOCK_LEN;
                pieces.take(into, part(&content, index), offset).expect("taken");
            }
            let hole = if index == 3 { BLOCK_LEN } else { 0 };
            assert_eq!(seal_whole(pieces, into, index as u64, None).expect("sealed"), hole);
        }
        pieces.take(into, part(&content, BLOCKS), BLOCKS as u64 * BLOCK_LEN).expect("taken");
        assert_eq!(pieces.end(into, size).expect("ended"), 0);
    };
    let (into, mut pieces) = unhashed();
    fill(&into, &mut pieces);
    let moved = into.finish_unhashed(size).map_err(|(_, error)| error).expect("whole");
    let verified = moved.verify_len(size).map_err(|(_, error)| error).expect("as long");
    assert_eq!(verified.hash(), None);
    assert_eq!(*memory.bytes.lock(), content);
    assert!(memory.records.lock().is_empty());

    let (into, mut pieces) = unhashed();
    fill(&into, &mut pieces);
    assert!(matches!(into.finish(size), Err((_, AssembleError::Incomplete))));
    let (into, mut pieces) = unhashed();
    pieces.take(&into, part(&content, 0), 0).expect("taken");
    let hash = Some(BlockHash::of(0, part(&content, 0)));
    assert!(matches!(seal_whole(&mut pieces, &into, 0, hash), Err(AssembleError::Differs)));
    let (into, mut pieces) = unhashed();
    pieces.take(&into, part(&content, 1), BLOCK_LEN).expect("taken");
    seal_whole(&mut pieces, &into, 1, None).expect("sealed");
    assert!(matches!(into.finish_unhashed(2 * BLOCK_LEN), Err((_, AssembleError::Incomplete))));
}

#[test]
fn what_is_too_much_too_little_or_too_long_is_no_content() {
    let memory = Memory::new();
    let begin = || (memory.resume(crate::AHEAD_MAX), Pieces::default());
    let (into, mut pieces) = begin();
    let many = (0..100).map(|index| pieces.take(&into, b"x", index * BLOCK_LEN));
    let taken = many.take_while(|taken| !matches!(taken, Err(AssembleError::TooManyOpen)));
    assert_eq!(taken.filter(Result::is_ok).count(), 32);
    let (into, mut pieces) = begin();
    pieces.take(&into, b"four", 0).expect("taken");
    assert!(matches!(pieces.end(&into, 3), Err(AssembleError::TooLong)));
    let (into, mut pieces) = begin();
    assert!(matches!(pieces.end(&into, u64::MAX), Err(AssembleError::TooFarAhead)));
    let hole = pieces.end(&into, 3 * BLOCK_LEN).expect("its last block is a hole");
    assert_eq!(hole, BLOCK_LEN);
    let (_, error) = into.finish(3 * BLOCK_LEN).unwrap_err();
    assert!(matches!(error, AssembleError::Incomplete));
    let (into, _) = begin();
    let written = into.finish(0).map_err(|(_, error)| error).expect("empty");
    assert_eq!(written.hash(), ContentHash::of(b""));
    let (into, mut pieces) = begin();
    pieces.end(&into, BLOCK_LEN).expect("ended");
    let written = into.finish(BLOCK_LEN).map_err(|(_, error)| error).expect("one block");
    assert_eq!(written.hash(), ContentHash::of(&[0; BLOCK_LEN as usize]));
}

#[test]
fn all_missing_ends_of_blocks_are_holes() {
    let (into, mut pieces) = (Memory::new().resume(8), Pieces::default());
    for index in 0..3 {
        pieces.take(&into, b"four", index * BLOCK_LEN).expect("taken");
    }
    let holes = pieces.end(&into, 2 * BLOCK_LEN + 10).expect("ended");
    assert_eq!(holes, 2 * (BLOCK_LEN - 4) + 6);
}

#[test]
fn a_content_with_blocks_behind_its_end_is_incomplete() {
    let content = content(0, 0);
    for (ends, is_complete) in [(None, true), (Some(false), false), (Some(true), false)] {
        let into = Memory::new().resume(8);
        assert!(send(&into, &content, 0, usize::MAX));
        let mut block = ends.map(|_| into.begin(2).expect("begun"));
        if ends == Some(true) {
            let mut block = block.take().expect("begun");
            into.skip_hole(&mut block, BLOCK_LEN).expect("passed");
            into.end(block, None).expect("ended");
        }
        let error = into.finish(BLOCK_LEN).err().map(|(_, error)| error);
        assert_eq!(error.is_none(), is_complete, "{ends:?}");
        assert!(matches!(error, None | Some(AssembleError::Incomplete)), "{error:?}");
    }
}

#[test]
fn all_recorded_blocks_can_be_read() {
    let memory = Memory::new();
    let into = memory.resume(8);
    for index in 0..2 {
        let mut block = into.begin(index).expect("begun");
        into.skip_hole(&mut block, BLOCK_LEN).expect("passed");
        into.end(block, None).expect("ended");
        assert_eq!(memory.bytes.lock().len() as u64, (index + 1) * BLOCK_LEN);
    }
}

#[test]
fn whoever_is_too_far_ahead_waits_for_the_record() {
    let (memory, content) = (Memory::new(), content(4, 0));
    let (into, has_room) = (memory.resume(1), AtomicBool::new(false));
    assert!(!into.wait_until_in_window(1, Duration::from_millis(1), || false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // It looks once, before it waits: only the record ends the waiting.
            let looks = AtomicUsize::new(0);
            let should_continue = || looks.fetch_add(1, Ordering::SeqCst) == 0;
            let pause = Duration::from_secs(10);
            assert!(into.wait_until_in_window(1, pause, should_continue));
            has_room.store(true, Ordering::SeqCst);
        });
        assert!(!has_room.load(Ordering::SeqCst));
        assert!(send(&into, &content, 0, usize::MAX));
    });
}

#[test]
fn a_stage_that_is_continued_needs_no_second_look_at_what_is_there() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = Arc::new(Dir::open(temp.path()).expect("opened"));
    // The last block on record ends with a hole.
    let content = content(2, 99);
    let size = content.len() as u64;
    let source = SourceId { size, mtime: Timestamp { secs: 1, nanos: 0 }, inode: 7, ctime: None };
    let name = Name::new(b"big").expect("a plain name");
    let mut from = 0;
    for until in [3, BLOCKS + 1] {
        let (stage, blocks) = Stage::resume(Arc::clone(&dir), &name, &source).expect("begun");
        assert_eq!(blocks.len(), from);
        let there = stage.file().metadata().expect("looked at").len();
        assert_eq!(there, from as u64 * BLOCK_LEN);
        let into = Assembler::new(Box::new(stage), blocks, 64);
        for index in from..until {
            let mut block = into.begin(index as u64).expect("begun");
            match index {
                2 => into.skip_hole(&mut block, BLOCK_LEN).expect("passed"),
                _ => into.write(&mut block, part(&content, index)).expect("written"),
            }
            into.end(block, None).expect("ended");
        }
        from = until;
        if until > BLOCKS {
            let written = into.finish(size).map_err(|(_, error)| error).expect("whole");
            let mut tail = BlockTree::behind(3);
            let rest = (3..).zip(content.chunks(BLOCK_LEN as usize).skip(3));
            rest.for_each(|(index, block)| {
                let mut hasher = BlockHasher::new(index);
                hasher.update(block);
                tail.push(hasher.finish());
            });
            assert_eq!(written.hash(), ContentHash::of(&content));
            written.verify_tail(&tail.finish_tail()).map_err(|(_, e)| e).expect("the tail");
        }
    }
}

#[test]
fn a_block_that_cannot_be_put_on_record_is_not_there_and_can_be_begun_again() {
    // The record of a block with data fails, and the length of one that is a hole.
    for hole in [0, 1] {
        let content = content(hole, 5);
        let stage = Memory::new();
        let into = Assembler::new(stage.staged(), [], 64);
        let all = BLOCKS as u64 + 1;
        assert!(send(&into, &content, 0, usize::MAX));
        stage.fails.store(true, Ordering::SeqCst);
        let mut block = into.begin(1).expect("begun");
        // What is there by mistake is written over, holes too.
        match hole {
            1 => into.skip_hole(&mut block, BLOCK_LEN).expect("passed"),
            _ => into.write(&mut block, &vec![9; BLOCK_LEN as usize]).expect("written"),
        }
        let ended = into.end(block, None);
        // The length is set only if no data has set it.
        match hole {
            1 => assert!(matches!(ended, Err(AssembleError::Write(_))), "{ended:?}"),
            _ => assert!(matches!(ended, Err(AssembleError::Record(_))), "{ended:?}"),
        }
        assert_eq!((into.recorded(), into.has(1)), (1, false));
        for index in 1..=BLOCKS {
            assert!(send(&into, &content, index, usize::MAX), "block {index}");
        }
        assert_eq!(into.recorded(), all);
        assert!(into.finish(content.len() as u64).is_ok(), "it is whole");
        assert!(*stage.bytes.lock() == content);
        assert_eq!(stage.records.lock().len(), BLOCKS);
    }
}

#[test]
fn a_content_whose_last_block_is_not_on_record_is_incomplete() {
    let content = content(0, 5);
    let stage = Memory::new();
    let into = Assembler::new(stage.staged(), [], 64);
    let part = part(&content, 1);
    assert!(send(&into, &content, 0, usize::MAX));
    stage.fails.store(true, Ordering::SeqCst);
    let mut block = into.begin(1).expect("begun");
    into.write(&mut block, part).expect("written");
    into.end(block, None).expect_err("the record fails");
    let Err((_, error)) = into.finish(2 * BLOCK_LEN) else { panic!("it is taken for whole") };
    assert!(matches!(error, AssembleError::Incomplete), "{error}");
}

/// A stage that begins with `old`, which becomes `new_len` bytes long, put together from what
/// stands there, a hole, and new bytes; gives what it has then, and what it should have.
fn over_another(old: &[u8], new_len: usize) -> (Vec<u8>, Vec<u8>) {
    const MIB: usize = 1 << 20;
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = Arc::new(Dir::open(temp.path()).expect("opened"));
    let stage = Stage::create(dir).expect("a stage");
    stage.write_at(old, 0).expect("written");
    let into = Assembler::begun(Box::new(stage), [], 8, old.len() as u64);
    let mut new = old.to_vec();
    new.resize(new_len, 9);
    new[5 * MIB..6 * MIB].copy_from_slice(&bytes(MIB, 3));
    new[6 * MIB..7 * MIB].fill(0);
    let (mut pieces, route, part) = (Pieces::default(), Route::default(), &mut vec![0; MIB]);
    for at in (0..new_len).step_by(MIB) {
        let end = (at + MIB).min(new_len);
        let took = match at / MIB {
            // Nothing is told of a hole.
            6 => continue,
            5 => pieces.take_by(route, &into, &new[at..end], at as u64),
            _ if end <= old.len() => pieces.keep_by(route, &into, &mut part[..end - at], at as u64),
            _ => pieces.take_by(route, &into, &new[at..end], at as u64),
        };
        took.expect("taken");
    }
    pieces.end(&into, new_len as u64).expect("ended");
    let written = into.finish(new_len as u64).expect("whole");
    let verified = written.verify_hash(&ContentHash::of(&new)).expect("as it was sent");
    let file = verified.stage().handle().expect("open");
    let mut found = vec![0; file.metadata().expect("there").len() as usize];
    file.read_exact_at(&mut found, 0).expect("read");
    (found, new)
}

#[test]
fn what_stands_in_a_stage_is_kept_and_all_else_written_over() {
    const MIB: usize = 1 << 20;
    let old = bytes(11 * MIB + 5, 1);
    for new_len in [9 * MIB + 7, 11 * MIB, 11 * MIB + 5, 14 * MIB + 1] {
        let (found, new) = over_another(&old, new_len);
        assert!(found == new, "{new_len}");
    }
}

#[test]
fn what_does_not_stand_in_a_stage_is_not_kept() {
    let memory = Memory::new();
    let into = Assembler::begun(memory.staged(), [], 8, 100);
    let mut pieces = Pieces::default();
    // This one can't be read.
    let kept = pieces.keep_by(Route::default(), &into, &mut [0; 10], 0);
    assert!(matches!(kept, Err(AssembleError::Write(_))), "{kept:?}");
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = Arc::new(Dir::open(temp.path()).expect("opened"));
    let stage = Stage::create(dir).expect("a stage");
    stage.write_at(b"old", 0).expect("written");
    let (into, mut pieces) = (Assembler::begun(Box::new(stage), [], 8, 3), Pieces::default());
    let kept = pieces.keep_by(Route::default(), &into, &mut [0; 4], 0);
    assert!(matches!(kept, Err(AssembleError::Write(_))), "{kept:?}");
}

#[test]
fn an_empty_block_does_not_end() {
    let into = Memory::new().resume(8);
    let block = into.begin(0).expect("begun");
    assert!(block.is_empty());
    let ended = into.end(block, None);
    assert!(matches!(ended, Err(AssembleError::Incomplete)), "{ended:?}");
    into.begin(0).expect("it can be begun again");
}

#[test]
fn recording_a_hole_cuts_off_nothing_behind_it() {
    let (content, memory) = (content(0, 0), Memory::new());
    let into = memory.resume(8);
    let (first, rest) = part(&content, 1).split_at(PIECE_LEN);
    let mut behind = into.begin(1).expect("begun");
    into.write(&mut behind, first).expect("written");
    assert!(send(&into, &content, 0, usize::MAX));
    into.write(&mut behind, rest).expect("written");
    into.end(behind, None).expect("ended");
    assert_eq!((into.recorded(), into.recorded_len()), (2, 2 * BLOCK_LEN));
    assert!(memory.bytes.lock()[..] == content[..2 * BLOCK_LEN as usize]);
}

#[test]
fn a_hole_is_written_only_over_other_content() {
    const LEN: usize = BLOCK_LEN as usize;
    for (old, index, end) in [
        (0, 0, 0),
        (100, 0, 100),
        (100, 1, 100),
        (LEN, 0, LEN),
        (LEN, 1, LEN),
        (LEN + 1, 1, LEN + 100),
    ] {
        let memory = Memory::new();
        memory.bytes.lock().resize(old, 9);
        let into = Assembler::begun(memory.staged(), [], 8, old as u64);
        let mut block = into.begin(index).expect("begun");
        into.skip_hole(&mut block, 100).expect("passed");
        let bytes = memory.bytes.lock();
        assert_eq!(bytes.len(), end, "{old} {index}");
        let hole = bytes.iter().skip(index as usize * LEN).take(100);
        assert!(hole.copied().all(|byte| byte == 0), "{old} {index}");
    }
}

#[test]
fn a_block_that_was_given_up_is_overwritten_only_if_it_had_data() {
    for (data, written) in [(&b""[..], 0), (b"data", 100)] {
        let memory = Memory::new();
        let into = memory.resume(8);
        let mut block = into.begin(0).expect("begun");
        if !data.is_empty() {
            into.write(&mut block, data).expect("written");
        }
        drop(block);
        into.skip_hole(&mut into.begin(0).expect("begun again"), 100).expect("passed");
        assert_eq!(*memory.bytes.lock(), vec![0; written]);
    }
}

#[test]
fn zeros_become_holes_only_on_request() {
    use std::os::unix::fs::MetadataExt;
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = Arc::new(Dir::open(temp.path()).expect("opened"));
    for is_sparse in [false, true] {
        let stage = || {
            let mut stage: Box<dyn StagedFile> =
                Box::new(Stage::create(Arc::clone(&dir)).expect("a stage"));
            if is_sparse {
                stage.write_sparse();
            }
            stage
        };
        let (zeros, into) = (vec![0; PIECE_LEN], Assembler::new(stage(), [], 8));
        let mut block = into.begin(0).expect("begun");
        into.write(&mut block, &zeros).expect("written");
        into.end(block, None).expect("ended");
        let mut moved = crate::Mover::new(stage());
        moved.write(&zeros).expect("written");
        assert_eq!(moved.at(), PIECE_LEN as u64);
        for stage in [into.stage(), moved.stage()] {
            let storage = stage.handle().expect("open").metadata().expect("there").blocks() * 512;
            assert_eq!(storage < PIECE_LEN as u64, is_sparse, "{storage}");
        }
    }
}

#[test]
fn pieces_are_counted_as_they_are_taken() {
    let into = Memory::new().resume(8);
    let mut pieces = Pieces::default();
    let route = Route { may_repeat: true, ..Route::default() };
    let mut take = |offset: u64, len: u64| {
        let counts = pieces.take_by(route, &into, &vec![7; len as usize], offset).expect("taken");
        pieces.end_complete(&into).expect("ended");
        (counts.holes, counts.known, into.recorded())
    };
    assert_eq!(take(100, 10), (100, 0, 0));
    assert_eq!(take(130, 10), (20, 0, 0));
    assert_eq!(take(140, BLOCK_LEN - 140), (0, 0, 1));
    // The end of a block that is recorded, and the beginning of the next.
    assert_eq!(take(BLOCK_LEN - 4, 10), (0, 4, 1));
}
