//! A fixed number of reusable buffers. Data is read into one and written from it, and a peer can't
//! cause more memory use than that.

use crate::control::{CANCEL_POLL, Control};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::ops::{Deref, DerefMut};

/// The buffers of one side of a job.
pub(crate) struct Pool {
    free: Receiver<Vec<u8>>,
    home: Sender<Vec<u8>>,
}

/// A buffer on loan, returned when it is dropped.
pub(crate) struct Buf {
    /// At least `len` long. It never shrinks, so that it is zeroed only once.
    bytes: Vec<u8>,
    len: usize,
    home: Sender<Vec<u8>>,
}

impl Pool {
    /// A pool of `count` buffers, which get their memory when first used.
    pub(crate) fn new(count: usize) -> Self {
        let (home, free) = unbounded();
        let pool = Self { free, home };
        pool.add(count);
        pool
    }

    /// Adds `count` buffers.
    pub(crate) fn add(&self, count: usize) {
        for _ in 0..count {
            let _ = self.home.send(Vec::new());
        }
    }

    /// A buffer of `len` bytes with unspecified content, when one is free; `None` if the job ends
    /// first.
    pub(crate) fn take(&self, len: usize, control: &Control<'_>) -> Option<Buf> {
        loop {
            if let Ok(mut bytes) = self.free.recv_timeout(CANCEL_POLL) {
                if bytes.len() < len {
                    // Allocated instead of resized: new memory from the system is already zero, and
                    // untouched pages cost nothing.
                    bytes = vec![0; len];
                }
                return Some(Buf { bytes, len, home: self.home.clone() });
            }
            if control.stopped() {
                return None;
            }
        }
    }
}

impl Buf {
    /// Cuts the buffer to its first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // The receiving end is closed only when the job has ended.
        let _ = self.home.send(std::mem::take(&mut self.bytes));
    }
}
