//! Waits for several results at the same time, in threads that end with the call. If a thread can't
//! be started, only time is lost.

use parking_lot::Mutex;
use std::panic::resume_unwind;
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

/// Runs `task` in a thread of its own during `here`, or before it if no thread can be started.
pub fn run_both<A: Send, B>(task: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    let task = Task::new(task);
    scope(|scope| {
        let begun = task.begin(scope);
        let early = begun.is_none().then(|| task.run());
        let here = here();
        (early.unwrap_or_else(|| joined(begun)), here)
    })
}

/// Calls `each` for all of `items` and returns the results in order. The first call runs in this
/// thread, the others in threads of their own if these can be started.
pub fn map_parallel<T: Send, A: Send>(items: Vec<T>, each: impl Fn(T) -> A + Sync) -> Vec<A> {
    let each = &each;
    let mut items = items.into_iter();
    let Some(first) = items.next() else { return Vec::new() };
    let others: Vec<_> = items.map(|item| Task::new(move || each(item))).collect();
    scope(|scope| {
        let begun: Vec<_> = others.iter().map(|other| other.begin(scope)).collect();
        let mut made = vec![each(first)];
        for (other, begun) in others.iter().zip(begun) {
            made.push(if begun.is_some() { joined(begun) } else { other.run() });
        }
        made
    })
}

/// Work that runs once, in a thread of its own or in its owner's.
struct Task<F>(Mutex<Option<F>>);

impl<A: Send, F: FnOnce() -> A + Send> Task<F> {
    fn new(work: F) -> Self {
        Self(Mutex::new(Some(work)))
    }

    fn run(&self) -> A {
        let work = self.0.lock().take();
        work.expect("it is done by one thread alone")()
    }

    fn begin<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Option<ScopedJoinHandle<'s, A>>
    where
        A: 's,
    {
        Builder::new().name("beside".to_owned()).spawn_scoped(scope, || self.run()).ok()
    }
}

fn joined<A>(thread: Option<ScopedJoinHandle<'_, A>>) -> A {
    let thread = thread.expect("it was begun");
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_returned_in_order() {
        assert_eq!(run_both(|| 1, || "a"), (1, "a"));
        assert_eq!(map_parallel(vec![3, 1, 2], |n| n * 2), [6, 2, 4]);
        assert_eq!(map_parallel(Vec::<u8>::new(), |n| n), []);
    }
}
