//! The queue of the listing, separate from all other frames so that no content delays it. It may be
//! long. On a Sender, entries that are listed while ssh logs in wait here. They are compressed when
//! they leave, because the peer's codecs are known then. On a Receiver, it feeds the decoder of the
//! lister, so that contents behind it are not delayed.

use crate::control::CANCEL_POLL;
use crossbeam_channel::{Receiver as Waiting, Sender as Giver, unbounded};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most bytes of the listing that may wait. This is usually more than the window of a job,
/// because items are shorter than their costs. So a correct Sender never waits for room, and no
/// peer can use more memory.
const LISTED_BYTES_MAX: usize = 12 << 20;

/// Bytes that each frame counts in addition to its length: about the memory that a frame takes.
const FRAME_EXTRA: usize = 128;

/// The end that adds frames.
pub(crate) struct ListingSender {
    frames: Mutex<Option<Giver<Vec<u8>>>>,
    space: Arc<QueueSpace>,
}

/// The end of the writer or the decoder. After it is dropped, no Sender waits for it.
pub(crate) struct ListingReceiver {
    pub(super) waiting: Waiting<Vec<u8>>,
    space: Arc<QueueSpace>,
}

#[derive(Default)]
struct QueueSpace {
    /// Bytes that wait.
    taken: Mutex<usize>,
    left: Condvar,
    /// No more frames are taken: the writer or the job has ended.
    is_over: AtomicBool,
}

/// Both ends of an empty queue.
pub(crate) fn lists() -> (ListingSender, ListingReceiver) {
    let (giver, waiting) = unbounded();
    let space = Arc::new(QueueSpace::default());
    let lists = ListingSender { frames: Mutex::new(Some(giver)), space: Arc::clone(&space) };
    (lists, ListingReceiver { waiting, space })
}

impl ListingSender {
    /// Queues a frame when there is room; `None` if the writer or the job has ended.
    pub(crate) fn send(&self, frame: Vec<u8>) -> Option<()> {
        let len = frame.len() + FRAME_EXTRA;
        let mut taken = self.space.taken.lock();
        while *taken > 0 && *taken + len > LISTED_BYTES_MAX {
            if self.space.is_over.load(Ordering::Relaxed) {
                return None;
            }
            self.space.left.wait_for(&mut taken, CANCEL_POLL);
        }
        *taken += len;
        drop(taken);
        self.frames.lock().as_ref()?.send(frame).ok()
    }

    /// Ends the queue with the job. Waiting frames are dropped.
    pub(super) fn close(&self) {
        self.space.is_over.store(true, Ordering::Relaxed);
        self.frames.lock().take();
    }
}

impl ListingReceiver {
    /// The next frame, if there is one and the job continues.
    pub(super) fn try_next(&self) -> Option<Vec<u8>> {
        self.waiting.try_recv().ok().and_then(|frame| self.taken(frame))
    }

    /// Accounts for a frame taken from [`Self::waiting`]; `None` if the job has ended.
    pub(super) fn taken(&self, frame: Vec<u8>) -> Option<Vec<u8>> {
        if self.space.is_over.load(Ordering::Relaxed) {
            return None;
        }
        let mut taken = self.space.taken.lock();
        *taken = taken.saturating_sub(frame.len() + FRAME_EXTRA);
        // A thread woken for each frame would find room for only one more.
        if *taken <= LISTED_BYTES_MAX / 2 {
            self.space.left.notify_all();
        }
        Some(frame)
    }

    /// Passes each frame to `take`, until the other end is closed.
    pub(crate) fn each(&self, mut take: impl FnMut(Vec<u8>)) {
        while let Ok(frame) = self.waiting.recv() {
            if let Some(frame) = self.taken(frame) {
                take(frame);
            }
        }
    }
}

impl Drop for ListingReceiver {
    fn drop(&mut self) {
        self.space.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    const FRAME_LEN: usize = 64 << 10;

    /// Adds frames until there is no room. Returns their number, and the thread.
    fn fill(
        lists: &Arc<ListingSender>,
        waiting: &Waiting<Vec<u8>>,
        frame_len: usize,
    ) -> (usize, thread::JoinHandle<bool>) {
        let giver = Arc::clone(lists);
        let list = move || (0..1 << 20).all(|_| giver.send(vec![0; frame_len]).is_some());
        let listing = thread::spawn(list);
        let mut before = 0;
        while waiting.is_empty() || waiting.len() != before {
            before = waiting.len();
            thread::sleep(Duration::from_millis(100));
        }
        (before, listing)
    }

    #[test]
    fn the_waiting_bytes_are_bounded() {
        let (lists, listed) = lists();
        let lists = Arc::new(lists);
        let (frames, listing) = fill(&lists, &listed.waiting, FRAME_LEN);
        assert_eq!(frames, LISTED_BYTES_MAX / (FRAME_LEN + FRAME_EXTRA));
        for _ in 0..frames / 2 + 1 {
            listed.try_next().expect("a frame");
        }
        thread::sleep(Duration::from_millis(200));
        assert_eq!(listed.waiting.len(), frames, "there is room for as many as were taken");
        drop(listed);
        assert!(!listing.join().expect("no panic"), "nobody takes any");
    }

    #[test]
    fn tiny_frames_take_room_too() {
        let (lists, listed) = lists();
        let lists = Arc::new(lists);
        let (frames, listing) = fill(&lists, &listed.waiting, 1);
        assert_eq!(frames, LISTED_BYTES_MAX / (1 + FRAME_EXTRA));
        drop(listed);
        assert!(!listing.join().expect("no panic"), "nobody takes any");
    }

    #[test]
    fn waiting_frames_end_with_the_job() {
        let (lists, listed) = lists();
        let lists = Arc::new(lists);
        let (_, listing) = fill(&lists, &listed.waiting, FRAME_LEN);
        lists.close();
        assert!(!listing.join().expect("no panic"), "there is no room any more");
        assert_eq!(listed.try_next(), None);
    }

    #[test]
    fn a_frame_of_any_length_fits_into_an_empty_queue() {
        let (lists, listed) = lists();
        lists.send(vec![0; 2 * LISTED_BYTES_MAX]).expect("there is room");
        assert_eq!(listed.waiting.len(), 1);
    }
}
