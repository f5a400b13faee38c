//! Faults of sources and destinations: one clear message, the
//! other files copied all the same, and nothing lost.

#[path = "../common/mod.rs"]
mod common;

mod changing;
mod full;
mod in_the_way;
mod itself;
mod names;
mod rights;
mod sources;
mod special;
