//! Any bytes as what an SFTP server says to a client that does a bit of
//! everything: it ends, and nobody who asked is left waiting.

#![no_main]

use haul_fuzz::sftp::{Answering, converse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| converse(Answering::with(stream).connection(), b"/there"));
