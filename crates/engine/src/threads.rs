//! The threads of a job. All of them are started here, so that two rules hold. A thread that can't
//! be started causes no panic. A thread that panics leaves no other thread waiting.
//!
//! If a required thread can't be started, the job ends with [`JobError::Threads`]. If several
//! threads do the same work, the job continues with fewer. Threads that only overlap sequential
//! work are in [`haul_tree::run_both`].

use crate::JobError;
use crate::control::Control;
use parking_lot::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, Scope, scope};

/// Starts the threads of a job, all of which are joined at its end.
#[derive(Clone, Copy)]
pub(crate) struct JobThreads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    control: &'scope Control<'scope>,
}

impl<'scope, 'env> JobThreads<'scope, 'env> {
    /// The threads of the job of `control`.
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        control: &'scope Control<'scope>,
    ) -> Self {
        Self { scope, control }
    }

    /// The state of the job.
    pub(crate) fn control(&self) -> &'scope Control<'scope> {
        self.control
    }

    /// Starts a required thread. If it can't be started, the job ends and the work is returned.
    pub(crate) fn spawn_or_return<F>(&self, name: &str, work: F) -> Result<(), F>
    where
        F: FnOnce() + Send + 'scope,
    {
        let slot = Arc::new(Mutex::new(Some(work)));
        let taken = Arc::clone(&slot);
        let begun = self.try_spawn(name, move || {
            let work = taken.lock().take();
            work.expect("it is taken back only if this does not run")();
        });
        begun.map_err(|error| {
            self.control.fail(JobError::Threads(error));
            slot.lock().take().expect("it was not run")
        })
    }

    /// Starts a required thread.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'scope) {
        if let Err(error) = self.try_spawn(name, work) {
            self.control.fail(JobError::Threads(error));
        }
    }

    /// Starts up to `count` threads that share the same work. The job requires one of them.
    pub(crate) fn spawn_several(
        &self,
        name: &str,
        count: usize,
        work: impl FnOnce() + Clone + Send + 'scope,
    ) {
        for begun in 0..count {
            match self.try_spawn(name, work.clone()) {
                Ok(()) => {}
                Err(error) if begun == 0 => return self.control.fail(JobError::Threads(error)),
                Err(error) => {
                    return tracing::debug!(begun, count, %error, "no more threads");
                }
            }
        }
    }

    /// Starts an optional thread.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn try_spawn(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'scope,
    ) -> io::Result<()> {
        let work = ending_job_on_panic(self.control, work);
        Builder::new().name(name.to_owned()).spawn_scoped(self.scope, work).map(drop)
    }
}

/// Runs `work`. If it panics, the job ends.
fn ending_job_on_panic<'w>(
    control: &'w Control<'_>,
    work: impl FnOnce() + Send + 'w,
) -> impl FnOnce() + Send + 'w {
    move || {
        // The job no longer uses data that the panic may have left inconsistent.
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            control.fail(JobError::Panicked);
        }
    }
}

/// Runs `work` here and in up to `helpers` further threads, which share it. Returns when all have
/// ended. A panic in one ends the job.
pub(crate) fn run_shared(
    control: &Control<'_>,
    name: &str,
    helpers: usize,
    work: impl Fn() + Sync,
) {
    with_helpers(control, name, helpers, &work, ending_job_on_panic(control, &work));
}

/// Runs `work` here while up to `helpers` further threads run `help`. Returns when all have ended.
/// A panic in a helper ends the job.
pub(crate) fn with_helpers<T>(
    control: &Control<'_>,
    name: &str,
    helpers: usize,
    help: impl Fn() + Sync,
    work: impl FnOnce() -> T,
) -> T {
    scope(|scope| {
        let begin = |_: &usize| {
            let help = ending_job_on_panic(control, &help);
            Builder::new().name(name.to_owned()).spawn_scoped(scope, help).is_ok()
        };
        let _ = (0..helpers).take_while(begin).count();
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_panic_in_any_thread_ends_the_job() {
        let silent = Silent::default();
        let control = Control::new(&silent);
        scope(|scope| {
            let threads = JobThreads::new(scope, &control);
            // A thread that waits for a message that never arrives.
            let (give, take) = crossbeam_channel::unbounded::<()>();
            threads.spawn("waits", move || {
                let _ = take.recv();
            });
            threads.spawn("panics", || panic!("as the test wants it"));
            assert!(matches!(control.wait(), Err(JobError::Panicked)));
            drop(give);
        });
        let control = Control::new(&silent);
        let turn = AtomicUsize::new(0);
        run_shared(&control, "shared", 3, || {
            if turn.fetch_add(1, Ordering::Relaxed) == 2 {
                panic!("as the test wants it");
            }
        });
        assert_eq!(turn.into_inner(), 4);
        assert!(control.stopped() && matches!(control.wait(), Err(JobError::Panicked)));
    }
}
