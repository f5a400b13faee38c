//! A greeting: what it says of its program is safe to show, and the
//! capabilities in force are ours.

#![no_main]

use haul_proto::{Caps, Hello, VERSION, check_hello, check_welcome};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    let Ok(hello) = Hello::decode(payload) else { return };
    assert!(!hello.program.contains(char::is_control), "{:?}", hello.program);
    let checked = check_hello(&hello);
    assert_eq!(checked, check_welcome(&hello));
    assert_eq!(checked.is_ok(), hello.version == VERSION);
    match checked {
        Ok(caps) => assert!(Caps::OURS.has(caps)),
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
    let again = Hello::decode(&hello.encode()).expect("it was written by us");
    assert_eq!((again.version, again.caps), (hello.version, hello.caps));
});
