//! The listing, queued apart from all else, so that none of it delays a
//! content, and may be long. At a Sender it waits for the writer: what is listed while ssh
//! logs in waits here, and is compressed as it leaves, when it is known what the peer takes.
//! At a Receiver it waits to be decoded for the lister: contents come behind it.

use crate::control::CANCEL_POLL;
use crossbeam_channel::{Receiver as Waiting, Sender as Giver, unbounded};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the listing that may wait: more than the window of a job admits, as a rule, for
/// its items are shorter than they cost. So who lists honestly doesn't wait for room, and
/// no peer makes more of it than that.
const LISTED_BYTES_MAX: usize = 12 << 20;

/// Bytes that a frame counts besides its own: it takes about as many, however short it is.
const FRAME_EXTRA: usize = 128;

/// The end for those who list.
pub(crate) struct Lists {
    frames: Mutex<Option<Giver<Vec<u8>>>>,
    room: Arc<Room>,
}

/// The end of the writer or the decoder. Nobody waits for it any more when it is dropped.
pub(crate) struct Listed {
    pub(super) waiting: Waiting<Vec<u8>>,
    room: Arc<Room>,
}

#[derive(Default)]
struct Room {
    /// Bytes that wait.
    taken: Mutex<usize>,
    left: Condvar,
    /// No more of them leave: the writer has ended, or the job has.
    is_over: AtomicBool,
}

/// Both ends of an empty queue.
pub(crate) fn lists() -> (Lists, Listed) {
    let (giver, waiting) = unbounded();
    let room = Arc::new(Room::default());
    let lists = Lists { frames: Mutex::new(Some(giver)), room: Arc::clone(&room) };
    (lists, Listed { waiting, room })
}

impl Lists {
    /// Queues a frame as soon as there is room; `None` if the writer has ended, or the job
    /// has ended.
    pub(crate) fn send(&self, frame: Vec<u8>) -> Option<()> {
        let len = frame.len() + FRAME_EXTRA;
        let mut taken = self.room.taken.lock();
        while *taken > 0 && *taken + len > LISTED_BYTES_MAX {
            if self.room.is_over.load(Ordering::Relaxed) {
                return None;
            }
            self.room.left.wait_for(&mut taken, CANCEL_POLL);
        }
        *taken += len;
        drop(taken);
        self.frames.lock().as_ref()?.send(frame).ok()
    }

    /// The job has ended: nothing more is queued, and what waits is of no use.
    pub(super) fn close(&self) {
        self.room.is_over.store(true, Ordering::Relaxed);
        self.frames.lock().take();
    }
}

impl Listed {
    /// The next frame, if there is one and the job continues.
    pub(super) fn try_next(&self) -> Option<Vec<u8>> {
        self.waiting.try_recv().ok().and_then(|frame| self.taken(frame))
    }

    /// A frame that was taken out of [`Self::waiting`]; `None` if the job has ended.
    pub(super) fn taken(&self, frame: Vec<u8>) -> Option<Vec<u8>> {
        if self.room.is_over.load(Ordering::Relaxed) {
            return None;
        }
        let mut taken = self.room.taken.lock();
        *taken = taken.saturating_sub(frame.len() + FRAME_EXTRA);
        // A thread that is woken for each frame would only find room for another one.
        if *taken <= LISTED_BYTES_MAX / 2 {
            self.room.left.notify_all();
        }
        Some(frame)
    }

    /// Hands each frame on to `take`, until who lists has ended.
    pub(crate) fn each(&self, mut take: impl FnMut(Vec<u8>)) {
        while let Ok(frame) = self.waiting.recv() {
            if let Some(frame) = self.taken(frame) {
                take(frame);
            }
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.room.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    const FRAME_LEN: usize = 64 << 10;

    /// Lists frames until there is no room; gives how many there were, and the thread.
    fn fill(
        lists: &Arc<Lists>,
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
    fn so_many_bytes_wait_and_no_more() {
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
    fn frames_of_hardly_any_length_take_room_all_the_same() {
        let (lists, listed) = lists();
        let lists = Arc::new(lists);
        let (frames, listing) = fill(&lists, &listed.waiting, 1);
        assert_eq!(frames, LISTED_BYTES_MAX / (1 + FRAME_EXTRA));
        drop(listed);
        assert!(!listing.join().expect("no panic"), "nobody takes any");
    }

    #[test]
    fn with_the_job_what_waits_has_ended() {
        let (lists, listed) = lists();
        let lists = Arc::new(lists);
        let (_, listing) = fill(&lists, &listed.waiting, FRAME_LEN);
        lists.close();
        assert!(!listing.join().expect("no panic"), "there is no room any more");
        assert_eq!(listed.try_next(), None);
    }

    #[test]
    fn a_frame_of_any_length_has_room_where_none_waits() {
        let (lists, listed) = lists();
        lists.send(vec![0; 2 * LISTED_BYTES_MAX]).expect("there is room");
        assert_eq!(listed.waiting.len(), 1);
    }
}
