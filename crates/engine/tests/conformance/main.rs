//! One suite of jobs, run over every link: in memory, and over a wire in both
//! directions, through sockets and through pipes. What comes of a job must not
//! depend on where its roles run.

#![forbid(unsafe_code)]

mod bench;
mod deep;
mod jobs;
#[path = "../parts/link.rs"]
mod link;
#[path = "../parts/watch.rs"]
mod watch;
