//! Offers and their answers, without a thread or a wire.

use super::*;
use haul_model::{BlockRanges, Kind};
use haul_proto::{How, Want};

const MIB: u64 = 1 << 20;

fn item(index: u64) -> Item {
    let item = Item::of(index, None, None, Kind::File { size: 100 * MIB });
    let how = How::CHUNKS;
    Item { want: Want { blocks: BlockRanges::all(), how, ..item.want }, wanted: true, ..item }
}

/// An offer of `chunks` chunks of 64 KiB.
fn offer(index: u64, at: u64, chunks: usize) -> Offer {
    let chunk = OfferedChunk { len: 64 << 10, hash: [0; 32] };
    Offer { index, at, chunks: vec![chunk; chunks] }
}

fn known(index: u64, at: u64, chunks: &[(u16, u16)]) -> Known {
    Known { index, at, chunks: chunks.to_vec() }
}

/// Offers with a waiting file whose first MiB was offered.
fn offered() -> Offers {
    let offers = Offers::default();
    assert!(offers.add(item(7)).is_none(), "it waits for its first answer");
    assert_eq!(offers.begin(&offer(7, 0, 16)), Some(true));
    offers
}

fn indices(items: &[Item]) -> Vec<u64> {
    items.iter().map(|item| item.index).collect()
}

#[test]
fn a_file_is_sent_after_its_first_answer() {
    let offers = offered();
    let waited = offers.answer(&known(7, 0, &[(0, 2), (4, 16)])).expect("a right answer");
    assert_eq!(indices(&waited), [7]);
    let next = |at| offers.next(7, at, 4 * MIB, || false);
    let chunk = 64 << 10;
    assert_eq!(next(0), Part::Known(2 * chunk));
    assert_eq!(next(chunk), Part::Known(2 * chunk));
    assert_eq!(next(2 * chunk), Part::New(4 * chunk));
    assert_eq!(next(4 * chunk), Part::Known(MIB));
    assert_eq!(offers.begin(&offer(7, MIB, 16)), Some(true));
    assert!(offers.answer(&known(7, MIB, &[(0, 16)])).expect("a right answer").is_empty());
    assert_eq!(next(4 * chunk), Part::Known(2 * MIB), "known parts are one");
    assert_eq!(offers.next(7, 4 * chunk, MIB, || false), Part::Known(MIB), "up to the end");
}

#[test]
fn answers_that_break_a_rule_are_refused() {
    for wrong in [
        known(7, 5, &[]),
        known(7, 0, &[(0, 17)]),
        known(7, 0, &[(3, 3)]),
        known(7, 0, &[(4, 2)]),
        known(7, 0, &[(2, 4), (3, 5)]),
        known(7, 0, &[(2, 4), (0, 1)]),
    ] {
        assert!(offered().answer(&wrong).is_err(), "{wrong:?}");
    }
    let offers = offered();
    assert!(offers.answer(&known(7, 0, &[])).is_ok());
    assert!(offers.answer(&known(7, 0, &[])).is_err(), "it was answered");
    assert!(offers.answer(&known(8, 0, &[])).expect("it has ended").is_empty());
}

#[test]
fn nothing_waits_without_known_chunks() {
    let offers = offered();
    offers.answer(&known(7, 0, &[])).expect("a right answer");
    for part in 1..4 {
        assert_eq!(offers.begin(&offer(7, part * MIB, 16)), Some(true));
        offers.answer(&known(7, part * MIB, &[])).expect("a right answer");
    }
    let begun = Instant::now();
    assert_eq!(offers.next(7, 4 * MIB, 8 * MIB, || false), Part::New(8 * MIB));
    assert!(begun.elapsed() < ANSWER_MAX);
    assert_eq!(offers.add(item(8)).map(|item| item.index), Some(8), "it is sent at once");
    // It is offered all the same, and used if it is known in time.
    assert_eq!(offers.begin(&offer(8, 0, 16)), Some(true));
    offers.answer(&known(8, 0, &[(0, 16)])).expect("a right answer");
    assert_eq!(offers.next(8, 0, MIB, || false), Part::Known(MIB));
    assert!(offers.add(item(9)).is_none(), "it is of use again");
}

#[test]
fn the_wait_for_an_answer_is_bounded() {
    let offers = offered();
    let begun = Instant::now();
    assert_eq!(offers.next(7, 0, MIB, || true), Part::New(MIB), "the job ends");
    assert!(begun.elapsed() < ANSWER_MAX);
    assert_eq!(offers.next(7, 0, MIB, || false), Part::New(MIB));
    assert!(begun.elapsed() >= ANSWER_MAX);
}

#[test]
fn offers_stay_within_the_bound_ahead_of_content() {
    let offers = Offers::default();
    offers.add(item(7));
    let ahead = AHEAD_MAX / MIB;
    for part in 0..ahead {
        assert_eq!(offers.begin(&offer(7, part * MIB, 16)), Some(true));
    }
    assert_eq!(offers.begin(&offer(7, AHEAD_MAX, 16)), None, "there is no room");
    offers.passed(7, MIB);
    assert_eq!(offers.begin(&offer(7, AHEAD_MAX, 16)), Some(true));
    assert_eq!(offers.begin(&offer(7, AHEAD_MAX + MIB, 16)), None);
    offers.forget(7);
    assert_eq!(offers.state.lock().ahead, 0);
    assert_eq!(offers.begin(&offer(7, 0, 16)), Some(false), "it has come to its end");
}

#[test]
fn content_ahead_of_its_offers_neither_waits_nor_blocks_offers() {
    let offers = offered();
    offers.answer(&known(7, 0, &[(0, 16)])).expect("a right answer");
    // The old version had all of this content.
    let at = 2 * AHEAD_MAX;
    offers.passed(7, at);
    let begun = Instant::now();
    assert_eq!(offers.next(7, at, at + MIB, || false), Part::New(at + MIB));
    assert!(begun.elapsed() < ANSWER_MAX);
    let begins = |offer: &Offer| offers.begin(offer) == Some(true);
    for part in 1..at / MIB {
        assert!(begins(&offer(7, part * MIB, 16)), "{part}");
    }
    // That makes no more room for another file.
    offers.add(item(8));
    for part in 0..AHEAD_MAX / MIB {
        assert!(begins(&offer(8, part * MIB, 16)));
    }
    assert!(!begins(&offer(8, AHEAD_MAX, 16)));
}

#[test]
fn waiting_files_are_sent_once_waiting_is_useless() {
    let offers = offered();
    assert!(offers.add(item(9)).is_none() && offers.add(item(8)).is_none());
    assert_eq!(indices(&offers.answer(&known(7, 0, &[])).expect("a right answer")), [7]);
    for part in 1..4 {
        assert_eq!(offers.begin(&offer(7, part * MIB, 16)), Some(true));
        let released = offers.answer(&known(7, part * MIB, &[])).expect("a right answer");
        assert_eq!(indices(&released), if part == 3 { &[8, 9][..] } else { &[] });
    }
}

#[test]
fn the_wait_of_a_file_is_bounded() {
    let offers = offered();
    assert!(offers.release().is_empty());
    std::thread::sleep(ANSWER_MAX);
    assert_eq!(indices(&offers.release()), [7]);
    assert!(offers.add(item(8)).is_none(), "the next one waits");
    for late in 1..=LATE_MAX {
        offers.state.lock().missed = 0;
        assert_eq!(offers.next(7, 0, MIB, || false), Part::New(MIB), "{late}");
    }
    offers.state.lock().missed = 0;
    assert_eq!(offers.add(item(9)).map(|item| item.index), Some(9), "answers are late");
}

#[test]
fn nothing_is_offered_once_the_job_has_ended() {
    let offers = Offers::default();
    (7..9).for_each(|index| assert!(offers.add(item(index)).is_none()));
    assert_eq!(offers.next_file().map(|item| item.index), Some(7));
    assert_eq!(offers.end(7).map(|item| item.index), Some(7), "nothing of it was offered");
    offers.stop();
    assert!(offers.state.lock().is_stopped && offers.next_file().is_none());
    assert_eq!(offers.begin(&offer(8, 0, 16)), Some(false));
    assert_eq!(offers.add(item(10)).map(|item| item.index), Some(10));
    assert_eq!(offers.next(8, 0, MIB, || false), Part::New(MIB));
}

#[test]
fn a_file_waits_for_its_last_answer() {
    let offers = offered();
    assert!(offers.end(7).is_none());
    assert_eq!(indices(&offers.answer(&known(7, 0, &[])).expect("a right answer")), [7]);
    let begun = Instant::now();
    assert_eq!(offers.next(7, MIB, 2 * MIB, || false), Part::New(2 * MIB));
    assert!(begun.elapsed() < ANSWER_MAX, "no answer is due");
}
