//! What is set last: the modes and times of directories, when all in them is done.

use super::Receiver;
use super::dirs::{DirState, RecvDir};
use haul_model::words;
use haul_model::{Fault, Kind, Outcome, Side};
use haul_proto::Late;
use haul_tree::lock;
use std::io;
use std::sync::Arc;

/// Directories whose mode and time are on their way, at most.
const SEALING_MAX: usize = 256;

/// What a directory's mode must allow its owner so that others in it can be
/// reached.
const KEEPS_WAY: u32 = 0o100;

impl Receiver<'_> {
    /// Gives `dir` its mode and time.
    pub(super) fn seal(&self, dir: &Arc<RecvDir>) {
        let (DirState::Open(node), Some((mode, mtime))) = (&dir.state, dir.meta) else { return };
        if self.policy.dry_run || self.control.stopped() {
            return;
        }
        if mode & KEEPS_WAY != KEEPS_WAY {
            // Once it has this mode, nothing below it can be reached.
            self.end_sealing(0);
        }
        match node.handle().and_then(|handle| handle.set_meta(mode, mtime)) {
            Ok(None) => {}
            Ok(Some(later)) => lock(&self.sealing).push_back((Arc::clone(dir), later)),
            Err(error) => self.not_sealed(dir, &error),
        }
        self.end_sealing(SEALING_MAX);
    }

    /// Waits for what comes of setting directories' modes and times, until no more
    /// than `left` are open.
    pub(super) fn end_sealing(&self, left: usize) {
        loop {
            let next = {
                let mut sealing = lock(&self.sealing);
                if sealing.len() > left { sealing.pop_front() } else { None }
            };
            let Some((dir, wait)) = next else { return };
            if let Err(error) = wait()
                && !self.control.stopped()
            {
                self.not_sealed(&dir, &error);
            }
        }
    }

    fn not_sealed(&self, dir: &RecvDir, error: &io::Error) {
        let fault = Fault::from_io(Side::Destination, "set the directory's mode and time", error);
        self.fail_late(&dir.path_of(None), fault);
    }

    /// An entry that has its outcome has failed after all.
    fn fail_late(&self, path: &[u8], fault: Fault) {
        let late = Late { path: words::shown(path.to_vec()), fault: fault.clone() };
        self.report(|| path.to_vec(), &Kind::Dir, 0, &Outcome::Failed(fault));
        self.sender.late(late);
    }
}
