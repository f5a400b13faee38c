//! The words about symbolic links that are not treated as all others.

use super::{SELECTING, Turn, Word};

pub(super) const WORDS: &[Word] = &[
    flag!(
        SELECTING,
        "copy-unsafe-links",
        None,
        "What symbolic links lead to that point out of what is copied, in their place",
        |wish, on| {
            wish.mirror.walking.led.out = on;
        }
    ),
    flag!(
        SELECTING,
        "copy-dirlinks",
        Some('k'),
        "The directories that symbolic links lead to, in their place",
        |wish, on| {
            wish.mirror.walking.led.to_dirs = on;
        }
    ),
    switch!(
        SELECTING,
        "keep-dirlinks",
        Some('K'),
        "",
        "Links to directories in DEST stay where the sources have a directory",
        |wish, on| {
            wish.mirror.keeps_dir_links = on;
        }
    ),
    flag!(
        SELECTING,
        "safe-links",
        None,
        "No symbolic links that point out of what is copied",
        |wish, on| {
            wish.mirror.safe_links = on;
        }
    ),
    switch!(
        SELECTING,
        "munge-links",
        None,
        "",
        "From a host: links get targets that lead nowhere; else such targets become what they were",
        |wish, on| {
            wish.munges = on;
        }
    ),
];
