//! The threads of a job. All of them begin here, for two things must hold of each:
//! one that can't be had is no panic, and one that panics leaves nobody waiting.
//!
//! A thread that the job needs and that can't be had ends the job with
//! [`JobError::Threads`]. Where several do the same, the job continues with fewer.
//! Threads that only overlap what could be done in turn are in [`haul_tree::both`].

use crate::JobError;
use crate::control::Control;
use parking_lot::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, Scope, scope};

/// Begins the threads of a job, all of which are waited for at its end.
#[derive(Clone, Copy)]
pub(crate) struct Crew<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    control: &'scope Control<'scope>,
}

impl<'scope, 'env> Crew<'scope, 'env> {
    /// The crew of the job that `control` is about.
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        control: &'scope Control<'scope>,
    ) -> Self {
        Self { scope, control }
    }

    /// The job's course.
    pub(crate) fn control(&self) -> &'scope Control<'scope> {
        self.control
    }

    /// Begins a thread that the job can't do without. Where it can't be had, the
    /// work comes back.
    pub(crate) fn begin_or_return<F>(&self, name: &str, work: F) -> Result<(), F>
    where
        F: FnOnce() + Send + 'scope,
    {
        let slot = Arc::new(Mutex::new(Some(work)));
        let taken = Arc::clone(&slot);
        let begun = self.try_begin(name, move || {
            let work = taken.lock().take();
            work.expect("it is taken back only if this does not run")();
        });
        begun.map_err(|error| {
            self.control.fail(JobError::Threads(error));
            slot.lock().take().expect("it was not run")
        })
    }

    /// Begins a thread that the job can't do without.
    pub(crate) fn begin(&self, name: &str, work: impl FnOnce() + Send + 'scope) {
        if let Err(error) = self.try_begin(name, work) {
            self.control.fail(JobError::Threads(error));
        }
    }

    /// Begins up to `count` threads that take the same work from one queue, of
    /// which the job needs one.
    pub(crate) fn begin_several(
        &self,
        name: &str,
        count: usize,
        work: impl FnOnce() + Clone + Send + 'scope,
    ) {
        for begun in 0..count {
            match self.try_begin(name, work.clone()) {
                Ok(()) => {}
                Err(error) if begun == 0 => return self.control.fail(JobError::Threads(error)),
                Err(error) => {
                    return tracing::debug!(begun, count, %error, "no more threads");
                }
            }
        }
    }

    /// Begins a thread that the job can do without.
    ///
    /// # Errors
    /// When it can't be had.
    pub(crate) fn try_begin(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'scope,
    ) -> io::Result<()> {
        let work = watched(self.control, work);
        Builder::new().name(name.to_owned()).spawn_scoped(self.scope, work).map(drop)
    }
}

/// Does `work`; if it panics, the job ends.
fn watched<'w>(
    control: &'w Control<'_>,
    work: impl FnOnce() + Send + 'w,
) -> impl FnOnce() + Send + 'w {
    move || {
        // The job looks at nothing any more that the panic may have left half done.
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            control.fail(JobError::Panicked);
        }
    }
}

/// Does `work` here and in up to `helpers` further threads, all of which take it
/// from one place; returns when all have ended. A panic in one ends the job.
pub(crate) fn share_out(control: &Control<'_>, name: &str, helpers: usize, work: impl Fn() + Sync) {
    with_helpers(control, name, helpers, &work, watched(control, &work));
}

/// Does `work` here while up to `helpers` further threads `help`; returns when all have
/// ended. A panic in a helper ends the job.
pub(crate) fn with_helpers<T>(
    control: &Control<'_>,
    name: &str,
    helpers: usize,
    help: impl Fn() + Sync,
    work: impl FnOnce() -> T,
) -> T {
    scope(|scope| {
        let begin = |_: &usize| {
            let help = watched(control, &help);
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
            let crew = Crew::new(scope, &control);
            // One that waits for what the other will never give.
            let (give, take) = crossbeam_channel::unbounded::<()>();
            crew.begin("waits", move || {
                let _ = take.recv();
            });
            crew.begin("panics", || panic!("as the test wants it"));
            assert!(matches!(control.wait(), Err(JobError::Panicked)));
            drop(give);
        });
        let control = Control::new(&silent);
        let turn = AtomicUsize::new(0);
        share_out(&control, "shared", 3, || {
            if turn.fetch_add(1, Ordering::Relaxed) == 2 {
                panic!("as the test wants it");
            }
        });
        assert_eq!(turn.into_inner(), 4);
        assert!(control.stopped() && matches!(control.wait(), Err(JobError::Panicked)));
    }
}
