//! Files with rules: whatever stands in one, it is read at once, and no text becomes more
//! rules than it has words.

#![no_main]

use haul_model::{Filter, FilterSide, Line, Lines, Scope, Style, Subject};
use libfuzzer_sys::fuzz_target;
use std::time::{Duration, Instant};

/// How long a file may take to be read.
const READ_MAX: Duration = Duration::from_secs(5);

fuzz_target!(|bytes: &[u8]| {
    let Some((how, text)) = bytes.split_first() else { return };
    let plain = Style { zeros: how & 4 != 0, absolute: how & 8 != 0, ..Style::default() };
    let style = match how & 3 {
        0 => plain,
        1 => plain.of_cvs(),
        _ => Style { splits_words: true, ..plain },
    };
    let begin = Instant::now();
    let lines: Vec<_> = Lines::of(text, style).take_while(Result::is_ok).flatten().collect();
    assert!(begin.elapsed() < READ_MAX);
    // One that leaves itself out is two.
    assert!(lines.len() <= 2 * text.len());
    let mut filter = Filter::default();
    for line in lines.into_iter().take(100) {
        // There is a bound to what is taken.
        let _ = match line {
            Line::Rule(rule) => filter.push(rule),
            Line::Files(files) => filter.push_files(files),
            Line::Clear => {
                filter.clear();
                Ok(())
            }
            Line::Merge(_) | Line::Cvs(_) => Ok(()),
        };
    }
    let scope = Scope::at(b"home/");
    for (path, is_dir) in [(&b"a"[..], false), (b"a/b/c.o", false), (b"a/b", true)] {
        let subject = Subject { path, is_dir, side: FilterSide::Sender, is_being_removed: false };
        let excludes = filter.excludes(&subject, &scope);
        // What is known without the trees is what they say.
        assert!(filter.hides(path, is_dir).is_none_or(|known| known == excludes));
    }
});
