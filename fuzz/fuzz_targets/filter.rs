//! Patterns of what is left out: whatever stands in one, and whatever path it meets, the
//! answer comes at once, and the same one for the pattern as it is written again.

#![no_main]

use haul_model::{Pattern, PatternError};
use libfuzzer_sys::fuzz_target;
use std::time::{Duration, Instant};

/// The longest paths that are matched, in bytes.
const PATH_LEN_MAX: usize = 4096;

/// How long one answer may take: many times what the longest pattern needs for the longest
/// path when each byte of one is compared with each of the other.
const ANSWER_MAX: Duration = Duration::from_secs(5);

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (written, path) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let pattern = match Pattern::new(written) {
        Ok(pattern) => pattern,
        Err(PatternError::Empty) => return assert!(written.is_empty()),
        Err(PatternError::TooLong) => return assert!(written.len() > Pattern::LEN_MAX),
    };
    assert_eq!(pattern.as_bytes(), written);
    let path = &path[..path.len().min(PATH_LEN_MAX)];
    let begin = Instant::now();
    let [file, dir] = [false, true].map(|is_dir| pattern.matches(path, is_dir));
    assert!(begin.elapsed() < ANSWER_MAX);
    // Whatever matches a file matches a directory of that name.
    assert!(dir || !file);
    // A pattern without anything special in it is a name.
    if !written.iter().any(|byte| b"*?[/".contains(byte)) {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        assert_eq!(file, name == written);
    }
    let again = Pattern::try_from(Box::<[u8]>::from(pattern)).expect("it was one");
    assert_eq!([file, dir], [false, true].map(|is_dir| again.matches(path, is_dir)));
});
