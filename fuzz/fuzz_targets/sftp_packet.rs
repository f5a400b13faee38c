//! One packet of an SFTP server, as the answer to whatever may have been asked:
//! no bytes panic a decoder, and what it takes from them is not more than they
//! hold.

#![no_main]

use haul_sftp::codec::{
    Answer, Expected, HANDLE_LEN_MAX, HEADER_LEN, Header, PACKET_LEN_MAX, TARGET_LEN_MAX,
    decode_version,
};
use libfuzzer_sys::fuzz_target;

const EXPECTED: [Expected; 8] = [
    Expected::Done,
    Expected::Handle,
    Expected::Names,
    Expected::Path,
    Expected::Target,
    Expected::Attrs,
    Expected::FsStats,
    Expected::Limits,
];

/// The least that an entry of a directory takes: two lengths and some flags.
const ENTRY_LEN_MIN: usize = 12;

fuzz_target!(|packet: &[u8]| {
    let Some((header, payload)) = packet.split_first_chunk::<HEADER_LEN>() else { return };
    let Ok(header) = Header::decode(*header) else { return };
    assert!(header.payload_len < PACKET_LEN_MAX);
    let _ = decode_version(payload);
    for expected in EXPECTED {
        if expected.check(&header, "a request").is_err() {
            continue;
        }
        match expected.decode(header.kind, payload, "a request") {
            Ok(Answer::Names(entries)) => {
                let names: usize = entries.iter().map(|entry| entry.name.len()).sum();
                assert_eq!(entries.iter().count(), entries.len());
                assert!(names + entries.len() * ENTRY_LEN_MIN <= payload.len());
            }
            Ok(Answer::Handle(handle)) => assert!(handle.len() <= HANDLE_LEN_MAX),
            Ok(Answer::Path(path)) => {
                assert!(path.len() <= payload.len());
                assert!(expected != Expected::Target || path.len() <= TARGET_LEN_MAX);
            }
            Ok(Answer::Data { .. }) => panic!("content is not decoded"),
            Ok(_) | Err(_) => {}
        }
    }
});
