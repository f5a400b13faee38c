//! Peers that break the rules, in every role: a job ends soon and says why, or
//! goes on without the file in question; nothing is written outside of the
//! destination, no half file appears, and nothing private is left.

#![forbid(unsafe_code)]

mod again;
mod attack;
mod between;
mod checking;
mod chunks;
mod client;
mod confined;
mod content;
mod coverage;
mod delta;
#[path = "../parts/ending.rs"]
mod ending;
mod framing;
mod greeting;
mod joining;
mod leaving;
mod listing;
mod measuring;
mod metadata;
mod moving;
mod owners;
#[path = "../parts/peer.rs"]
mod peer;
#[path = "../parts/place.rs"]
mod place;
mod races;
mod receiver;
mod replacing;
mod requests;
mod resuming;
mod sftp;
mod silence;
mod striping;
mod walking;
#[path = "../parts/watch.rs"]
mod watch;
