//! `haul sync` beside the real rsync: both on copies of the same two trees, which are
//! the same afterwards, and so are the lines and the exit codes.

#[path = "../common/mod.rs"]
mod common;

mod asking;
mod backups;
mod bases;
mod comparing;
mod deleting;
mod differences;
mod faking;
mod faults;
mod found;
mod in_place;
mod itself;
mod keeping;
mod late;
mod leading;
mod left;
mod linking;
mod listing;
mod logging;
mod lots;
mod merging;
mod mounted;
mod oracle;
mod owning;
mod pace;
mod relative;
mod removing;
mod renamed;
mod ruling;
mod selecting;
mod sharing;
mod stats;
mod telling;
mod waiting;
mod walking;
