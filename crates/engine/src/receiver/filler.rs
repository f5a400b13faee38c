//! Filling: wanted files get their content, from this machine or from the Sender.

use super::completion::Completion;
use super::deciding::Decider;
use super::hashing::Hashing;
use super::linking::Linker;
use super::providers::Providers;
use super::publish::Publisher;
use super::times::Times;
use super::{JobContext, Pending};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The files that wait for their content, and where it may come from.
pub(crate) struct Filler<'a> {
    pub(crate) job: Arc<JobContext<'a>>,
    pub(super) times: Arc<Times<'a>>,
    pub(super) publisher: Arc<Publisher<'a>>,
    pub(super) completion: Arc<Completion<'a>>,
    pub(super) decider: Arc<Decider<'a>>,
    pub(super) linker: Arc<Linker<'a>>,
    /// Files that were asked for, by their numbers.
    pub(super) wanted: Mutex<HashMap<u64, Box<Pending>>>,
    /// Files whose contents are being compared.
    pub(super) hashing: Mutex<HashMap<u64, Hashing>>,
    /// Where content may come from besides the Sender.
    pub(super) providers: Providers,
    /// The destination had to be made, or its directory.
    pub(super) is_new: bool,
    /// Ways there that the content of one file can take at the same time.
    pub(super) lanes: usize,
}

impl<'a> Filler<'a> {
    /// The filler of a destination that `is_new`, where the content of one file can go over so
    /// many `lanes`.
    pub(super) fn of(
        linker: &Arc<Linker<'a>>,
        providers: Providers,
        is_new: bool,
        lanes: usize,
    ) -> Arc<Self> {
        let publisher = Arc::clone(&linker.publisher);
        Arc::new(Self {
            job: Arc::clone(&linker.job),
            times: Arc::clone(&publisher.times),
            publisher,
            completion: Arc::clone(&linker.completion),
            decider: Arc::clone(&linker.decider),
            linker: Arc::clone(linker),
            wanted: Mutex::default(),
            hashing: Mutex::default(),
            providers,
            is_new,
            lanes,
        })
    }
}

impl Filler<'_> {
    /// Takes a wanted file out, to give it its content.
    pub(crate) fn claim(&self, index: u64) -> Option<Pending> {
        self.wanted.lock().remove(&index).map(|pending| *pending)
    }
}
