//! Messages between the main process of a server and its process for QUIC, with descriptors:
//! what is understood reads the same once it is written again.

#![no_main]

use haul_net::check_quic_messages;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (descriptors, bytes) = input;
    check_quic_messages(bytes, usize::from(descriptors % 4)).expect("a pair of sockets");
});
