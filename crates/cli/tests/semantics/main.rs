//! A copy when all goes well: where it puts things, what it keeps of
//! them, and what it replaces.

#[path = "../common/mod.rs"]
mod common;

mod attributes;
mod filters;
mod home;
mod kept;
mod links;
mod merging;
mod patterns;
mod placing;
mod replacing;
mod skipping;
