//! Connections that are lost in the middle of a job, and made again: the job goes on and
//! ends well, and nothing is done, told or counted twice.

#[path = "../common/mod.rs"]
mod common;

mod anywhere;
mod befallen;
mod counted;
mod cuts;
mod delayed;
mod endpoints;
mod given_up;
mod kinds;
mod link;
