//! Options for special treatment of symbolic links.

use super::{Turn, Word};

pub(super) const WORDS: &[Word] = &[
    flag!("copy-unsafe-links", None, |wish, on| {
        wish.mirror.walking.led.out = on;
    }),
    flag!("copy-dirlinks", Some('k'), |wish, on| {
        wish.mirror.walking.led.to_dirs = on;
    }),
    switch!("keep-dirlinks", Some('K'), "", |wish, on| {
        wish.mirror.keeps_dir_links = on;
    }),
    flag!("safe-links", None, |wish, on| {
        wish.mirror.safe_links = on;
    }),
    switch!("munge-links", None, "", |wish, on| {
        wish.munges = on;
    }),
];
