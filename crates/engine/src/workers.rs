//! The number of threads that work on the files of one machine.

/// The fewest and most workers that read or write files on one machine.
const WORKERS_MIN: usize = 2;
const WORKERS_MAX: usize = 8;

/// Workers that read or write files on this machine.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism()
        .map_or(WORKERS_MIN, usize::from)
        .clamp(WORKERS_MIN, WORKERS_MAX)
}
