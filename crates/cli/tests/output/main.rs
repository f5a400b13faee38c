//! haul's output: to a person, to a terminal, to a script, and by its exit
//! code.

#[path = "../common/mod.rs"]
mod common;

mod codes;
mod escaping;
mod json;
mod lines;
mod progress;
mod requests;
