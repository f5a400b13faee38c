//! The scheduling of this process's threads.

/// Makes this thread, and those that it starts later, wait for their turn after waking up, instead
/// of preempting a running thread (`SCHED_BATCH` of Linux; no effect elsewhere). If it is refused,
/// only speed suffers.
///
/// It is for threads that fill a pipe. Each piece read from a full pipe wakes its writer. If the
/// writer preempts the reader for every piece, both get many small turns instead of a few large
/// ones.
pub fn use_batch_scheduling() {
    #[cfg(target_os = "linux")]
    {
        // Not `sched_setscheduler`, which musl refuses.
        //
        // SAFETY: a `sched_param` consists of integers, of which musl has more than glibc, so
        // zeroes are a valid one, of priority 0. The thread is this one, and `param` lives until
        // the call returns.
        #[allow(unsafe_code)]
        unsafe {
            let param: libc::sched_param = std::mem::zeroed();
            libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_BATCH, &raw const param)
        };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;
    use std::thread;

    /// This thread's scheduling policy, field 41 of its `stat`; see proc(5).
    fn policy() -> i32 {
        let stat = fs::read_to_string("/proc/thread-self/stat").expect("the thread's state");
        let (_, fields) = stat.rsplit_once(") ").expect("the name is in parentheses");
        // The first field after the name is field 3.
        let policy = fields.split(' ').nth(41 - 3).expect("field 41");
        policy.parse().expect("a number")
    }

    #[test]
    fn new_threads_inherit_the_scheduling_policy() {
        let asked = thread::spawn(|| {
            use_batch_scheduling();
            (policy(), thread::spawn(policy).join().expect("no panic"))
        });
        let asked = asked.join().expect("no panic");
        assert_eq!(asked, (libc::SCHED_BATCH, libc::SCHED_BATCH));
        assert_eq!(thread::spawn(policy).join().expect("no panic"), libc::SCHED_OTHER);
    }
}
