//! Tests of the journal: what it claims after every kind of interruption.

use super::*;
use proptest::prelude::*;

const BOOT: BootId = BootId([1; 16]);
const CTIME: Option<Timestamp> = Some(Timestamp { secs: 5, nanos: 6 });
const NEXT_BOOT: BootId = BootId([2; 16]);

fn source() -> SourceId {
    SourceId {
        size: 100 * BLOCK_LEN + 5,
        mtime: Timestamp { secs: -3, nanos: 9 },
        inode: 42,
        ctime: CTIME,
    }
}

fn block(k: u64) -> BlockHash {
    BlockHash::from([k as u8 ^ 0x5a; 32])
}

/// A journal with `records` blocks, of which `committed` are in a slot.
fn journal(records: u64, committed: u64) -> File {
    let file = tempfile::tempfile().expect("a temporary file");
    let mut journal =
        Journal::create(file.try_clone().expect("dup"), &source(), BOOT).expect("create");
    for k in 0..records {
        journal.append(block(k)).expect("append");
        if k + 1 == committed {
            let point = journal.commit_point();
            journal.commit(&point).expect("commit");
        }
    }
    file
}

/// How many blocks are believed.
fn claims(file: &File, source: &SourceId, boot: BootId) -> u64 {
    let file = file.try_clone().expect("dup");
    let found = Journal::resume(file, source, boot).expect("resume");
    found.map_or(0, |(journal, blocks)| {
        assert_eq!(journal.records, blocks.len() as u64);
        assert!(blocks.iter().enumerate().all(|(k, found)| *found == block(k as u64)));
        journal.records
    })
}

#[test]
fn the_size_is_256_bytes_and_32_for_each_block() {
    for records in [0, 1, 7, 101] {
        assert_eq!(journal(records, 0).metadata().expect("stat").len(), 256 + 32 * records);
    }
}

#[test]
fn in_the_same_boot_every_record_counts_and_in_the_next_only_committed_ones() {
    assert_eq!(claims(&journal(10, 4), &source(), BOOT), 10);
    assert_eq!(claims(&journal(10, 4), &source(), NEXT_BOOT), 4);
    assert_eq!(claims(&journal(10, 0), &source(), NEXT_BOOT), 0);
}

#[test]
fn what_a_boot_did_not_commit_stays_forgotten_after_it_was_taken_up_again() {
    let file = journal(10, 4);
    assert_eq!(claims(&file, &source(), NEXT_BOOT), 4);
    assert_eq!(claims(&file, &source(), NEXT_BOOT), 4);
    let dup = file.try_clone().expect("dup");
    let (mut journal, _) =
        Journal::resume(dup, &source(), NEXT_BOOT).expect("resume").expect("four blocks");
    journal.append(block(4)).expect("append");
    let point = journal.commit_point();
    journal.append(block(5)).expect("append");
    journal.commit(&point).expect("commit");
    drop(journal);
    assert_eq!(claims(&file, &source(), NEXT_BOOT), 6);
    assert_eq!(claims(&file, &source(), BootId([3; 16])), 5);
}

/// Appends five blocks to a journal, and commits each. Calls `check` with the number of blocks.
fn after_each_commit(check: impl Fn(&File, u64)) {
    let file = journal(0, 0);
    let mut journal =
        Journal::create(file.try_clone().expect("dup"), &source(), BOOT).expect("create");
    for k in 0..5 {
        journal.append(block(k)).expect("append");
        let point = journal.commit_point();
        journal.commit(&point).expect("commit");
        check(&file, k + 1);
    }
}

#[test]
fn each_commit_of_a_process_counts() {
    after_each_commit(|file, blocks| {
        assert_eq!(claim(file, NEXT_BOOT).map(|claim| claim.blocks), Some(blocks));
        let slots = read(file, &source(), NEXT_BOOT).expect("a journal");
        assert_eq!(slots.records.len() as u64, blocks);
    });
}

#[test]
fn another_source_is_not_continued() {
    let file = journal(10, 10);
    let here = source();
    for other in [
        SourceId { size: here.size + 1, ..here },
        SourceId { inode: 43, ..here },
        SourceId { ctime: None, ..here },
        SourceId { ctime: Some(Timestamp { secs: 5, nanos: 7 }), ..here },
        SourceId { ctime: Some(Timestamp { secs: 6, nanos: 6 }), ..here },
        SourceId { mtime: Timestamp { secs: -3, nanos: 10 }, ..here },
    ] {
        assert_eq!(claims(&file, &other, BOOT), 0, "{other:?}");
    }
    assert_eq!(claims(&file, &here, BOOT), 10);
}

#[test]
fn more_records_than_the_source_has_blocks_are_not_believed() {
    let file = journal(101, 0);
    file.set_len(256 + 32 * 200).expect("extend");
    assert_eq!(claims(&file, &source(), BOOT), 101);
}

#[test]
fn a_torn_newer_slot_leaves_the_older_one() {
    let file = journal(10, 4);
    let dup = file.try_clone().expect("dup");
    let (mut journal, _) = Journal::resume(dup, &source(), BOOT).expect("resume").expect("ten");
    let point = journal.commit_point();
    let slot = SLOTS_AT[(journal.turn % 2) as usize] as u64;
    journal.commit(&point).expect("commit");
    drop(journal);
    assert_eq!(claims(&file, &source(), NEXT_BOOT), 10);
    let torn = self::journal(10, 4);
    let mut half = [0; 32];
    file.read_exact_at(&mut half, slot).expect("read");
    torn.write_all_at(&half, slot).expect("write");
    assert_eq!(claims(&torn, &source(), NEXT_BOOT), 4);
}

#[test]
fn two_commits_of_a_process_are_in_different_slots() {
    after_each_commit(|file, blocks| {
        let mut counts = SLOTS_AT.map(|at| {
            let mut count = [0; 8];
            file.read_exact_at(&mut count, at as u64).expect("read");
            u64::from_le_bytes(count)
        });
        counts.sort_unstable();
        assert_eq!(counts, [blocks - 1, blocks]);
    });
}

#[test]
fn a_header_claims_nothing_unless_it_is_whole_and_of_this_version() {
    const VERSION_AT: usize = 8;
    const SIZE_AT: usize = 16;
    // Damage, with the checksum that fits or not.
    for (at, has_checksum, claimed) in [
        (SIZE_AT, true, Some(10)),
        (SIZE_AT, false, None),
        (VERSION_AT, true, None),
        (VERSION_AT, false, None),
        (CHECKSUM_AT, false, None),
        (CHECKSUM_AT + 31, false, None),
    ] {
        let file = journal(10, 0);
        let mut header = [0; HEADER_LEN as usize];
        file.read_exact_at(&mut header, 0).expect("read");
        header[at] ^= 1;
        if has_checksum {
            let hash = blake3::hash(&header[..FIXED_LEN]);
            header[CHECKSUM_AT..CHECKSUM_AT + 32].copy_from_slice(hash.as_bytes());
        }
        file.write_all_at(&header, 0).expect("write");
        assert_eq!(claim(&file, BOOT).map(|claim| claim.blocks), claimed, "{at} {has_checksum}");
    }
}

#[test]
fn a_journal_that_is_begun_again_or_revoked_claims_nothing_in_any_boot() {
    for is_revoked in [false, true] {
        let file = journal(10, 4);
        let dup = file.try_clone().expect("dup");
        if is_revoked {
            let resumed = Journal::resume(dup, &source(), BOOT).expect("resume");
            resumed.expect("ten blocks").0.revoke();
        } else {
            Journal::create(dup, &source(), BOOT).expect("create");
        }
        for boot in [BOOT, NEXT_BOOT] {
            assert_eq!(claims(&file, &source(), boot), 0, "{is_revoked}");
            assert_eq!(claim(&file, boot), None, "{is_revoked}");
        }
    }
}

#[test]
fn a_report_counts_the_whole_blocks_that_can_be_resumed() {
    for (records, committed, there, boot, blocks) in [
        (0, 0, 0, BOOT, None),
        (10, 4, 10, BOOT, Some(10)),
        (10, 4, 10, NEXT_BOOT, Some(4)),
        (10, 0, 10, NEXT_BOOT, None),
        // As many records as were committed, and one less.
        (10, 4, 4, NEXT_BOOT, Some(4)),
        (10, 4, 3, NEXT_BOOT, None),
        // The last block is short, and behind it nothing counts.
        (101, 101, 101, NEXT_BOOT, Some(100)),
        (101, 0, 200, BOOT, Some(100)),
    ] {
        let file = journal(records, committed);
        file.set_len(256 + 32 * there).expect("set");
        let expected =
            blocks.map(|blocks| Claim { size: source().size, mtime: source().mtime, blocks });
        assert_eq!(claim(&file, boot), expected, "{records} {committed} {there}");
    }
}

#[test]
fn an_earlier_stage_is_of_this_source_or_of_another() {
    let other = SourceId { inode: 43, ..source() };
    assert_eq!(Earlier::of(&journal(3, 0), &source()), Earlier::Partial);
    assert_eq!(Earlier::of(&journal(3, 0), &other), Earlier::OtherSource);
    let damaged = tempfile::tempfile().expect("a temporary file");
    assert_eq!(Earlier::of(&damaged, &other), Earlier::Partial);
}

proptest! {
    /// Whatever byte is damaged: in the next boot a block is claimed only if a
    /// slot that was written so claims it, with the hashes that were appended.
    #[test]
    fn damage_never_adds_a_claim(at in 0usize..256 + 320, flip in 1u8..) {
        let file = journal(10, 4);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at as u64).expect("read");
        file.write_all_at(&[byte[0] ^ flip], at as u64).expect("write");
        let found = Journal::resume(file, &source(), NEXT_BOOT).expect("resume");
        if let Some((_, blocks)) = found {
            prop_assert_eq!(blocks.len(), 4);
            prop_assert!(blocks.iter().enumerate().all(|(k, found)| *found == block(k as u64)));
        }
    }

    #[test]
    fn a_cut_never_adds_a_claim(len in 0u64..256 + 320) {
        let file = journal(10, 4);
        file.set_len(len).expect("cut");
        let here = claims(&file, &source(), BOOT);
        prop_assert!(here <= len.saturating_sub(256) / 32);
        let file = journal(10, 4);
        file.set_len(len).expect("cut");
        prop_assert!([0, 4].contains(&claims(&file, &source(), NEXT_BOOT)));
    }
}
