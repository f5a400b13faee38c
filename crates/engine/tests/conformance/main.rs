//! One suite of jobs, run over every link: in memory, over a wire in both
//! directions, through sockets and through pipes, and through an SFTP server. What
//! comes of a job must not depend on where its roles run.

#![forbid(unsafe_code)]

mod bench;
mod deep;
#[path = "../parts/ending.rs"]
mod ending;
mod exceptions;
mod holes;
mod jobs;
#[path = "../parts/link.rs"]
mod link;
mod linked;
mod rights;
#[path = "../parts/watch.rs"]
mod watch;
