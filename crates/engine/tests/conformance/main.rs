//! One suite of jobs, run over every link: in memory, and over a wire in both
//! directions, through sockets and through pipes. What comes of a job must not
//! depend on where its roles run. Also, how jobs end when they can't be done.

#![forbid(unsafe_code)]

mod bench;
mod deep;
mod ends;
mod jobs;
#[path = "../parts/watch.rs"]
mod watch;
