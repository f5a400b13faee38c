//! The beginning of a program file: no bytes panic its reader, and what it says
//! follows from what it has read, whatever comes behind that.

#![no_main]

use haul_model::{Executable, ExecutableError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|head: &[u8]| {
    let found = Executable::parse(head);
    for len in [head.len() / 2, head.len().saturating_sub(1)] {
        match Executable::parse(&head[..len]) {
            Err(ExecutableError::NotElf | ExecutableError::Damaged) => {}
            cut => assert_eq!(cut, found),
        }
    }
    if found.is_ok() {
        assert_eq!(Executable::parse(&[head, head].concat()), found);
    }
});
