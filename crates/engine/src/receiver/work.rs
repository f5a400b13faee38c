//! The queue of the Receiver's workers, which write the content of wanted files and publish them.
//! They block; one task is one file or one pack.

use super::Receiver;
use crate::copy;
use crate::link::SourceHandle;
use haul_proto::PACK_FILE_MAX;

/// Maximum length, in bytes, of a small file.
pub(crate) const SMALL_MAX: u64 = PACK_FILE_MAX;

/// A task for one worker.
pub(crate) type Work = Box<dyn FnOnce(&Receiver<'_>, &mut Buffers) + Send>;

/// The buffers of one worker, for one task after another.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(super) scratch: copy::Scratch,
    /// A part of a file that is hashed.
    pub(super) part: Vec<u8>,
}

/// The queues of the workers.
#[derive(Clone)]
pub(crate) struct Tasks {
    all: crossbeam_channel::Sender<Work>,
    /// Small files that are fetched from or sent to a host's server, many at a time.
    pub(super) small: Option<crossbeam_channel::Sender<SourceHandle>>,
}

impl Tasks {
    /// All tasks go to one queue.
    pub(crate) fn to_all(all: crossbeam_channel::Sender<Work>) -> Self {
        Self { all, small: None }
    }

    /// Files of at most [`SMALL_MAX`] bytes go to the `small` queue, whose workers have many in
    /// flight. Neither queue may be bounded: workers put tasks into them.
    pub(crate) fn with_small(
        all: crossbeam_channel::Sender<Work>,
        small: crossbeam_channel::Sender<SourceHandle>,
    ) -> Self {
        Self { all, small: Some(small) }
    }

    pub(super) fn enqueue(&self, task: impl FnOnce(&Receiver<'_>, &mut Buffers) + Send + 'static) {
        // Fails only if the workers have ended because the job has.
        let _ = self.all.send(Box::new(task));
    }
}
