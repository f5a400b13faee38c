//! Mutexes, taken in one way everywhere.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the mutex. A panicking thread leaves the values of a job whole, and ends the
/// job anyway.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
