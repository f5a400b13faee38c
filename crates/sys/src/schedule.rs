//! This process's share of the processor.

/// Asks that this thread, and those that it starts from now on, wait for their
/// turn when they wake up, rather than interrupt who is running (`SCHED_BATCH` of
/// Linux; elsewhere nothing happens). A refusal costs speed only.
///
/// It is for those who fill a pipe. Each piece that is taken out of a full one
/// wakes its writer, and a writer that interrupts the reader for every piece gives
/// both of them many small turns in place of a few large ones.
pub fn wait_for_turns() {
    #[cfg(target_os = "linux")]
    {
        // Not `sched_setscheduler`, which musl refuses.
        //
        // SAFETY: a `sched_param` is integers alone, of which musl has more than glibc, so
        // zeroes are one, of priority 0. The thread is this one, and `param` lives until
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

    /// The number of this thread's policy, field 41 of its `stat`; see proc(5).
    fn policy() -> i32 {
        let stat = fs::read_to_string("/proc/thread-self/stat").expect("the thread's state");
        let (_, fields) = stat.rsplit_once(") ").expect("the name is in parentheses");
        // The first after the name is field 3.
        let policy = fields.split(' ').nth(41 - 3).expect("field 41");
        policy.parse().expect("a number")
    }

    #[test]
    fn a_thread_that_waits_for_its_turns_hands_that_on_and_others_do_not() {
        let asked = thread::spawn(|| {
            wait_for_turns();
            (policy(), thread::spawn(policy).join().expect("no panic"))
        });
        let asked = asked.join().expect("no panic");
        assert_eq!(asked, (libc::SCHED_BATCH, libc::SCHED_BATCH));
        assert_eq!(thread::spawn(policy).join().expect("no panic"), libc::SCHED_OTHER);
    }
}
