//! `haul sync` beside the real rsync: both on copies of the same two trees, which are
//! the same afterwards, and so are the lines and the exit codes.

#[path = "../common/mod.rs"]
mod common;

mod deleting;
mod oracle;
mod selecting;
mod telling;
