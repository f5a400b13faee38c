//! Options of cp, scp and rsync for attributes. Some have a different meaning in each program, and
//! the hint covers each meaning.

use std::ffi::OsString;

/// The hint about attributes: those that a copy always preserves, and the options for the rest.
const WITH_ARCHIVE: &str = "use -a for all attributes, or --owner, --group, -A, -X, -H, --devices, --specials; modes, times and links in trees are always preserved";

/// rsync's letters for attributes. In a copy they have another meaning or none.
const KEPT_LETTERS: &str = "lptgoD";

/// Other letters that are often combined with them.
const OTHER_LETTERS: &str = "arvzhHAXULPnuq";

/// The hint for an option that a command with sources and a destination does not have. It depends
/// on the option's value and on the other arguments.
pub(super) fn answer(command: &str, word: &str, words: &[OsString]) -> Option<String> {
    let moves = match command {
        "copy" | "check" => false,
        "move" => true,
        _ => return None,
    };
    if !moves && is_in_bundle_of_rsync(word, words) {
        return Some(WITH_ARCHIVE.to_owned());
    }
    Some(match word {
        "--preserve" if !moves => preserved(value_of(word, words)),
        "-l" => match number_behind('l', words) {
            Some(kbits) => limit(kbits),
            None => {
                "for cp's use 'ln'; for scp's use --bwlimit=RATE; rsync's is always on in trees"
                    .to_owned()
            }
        },
        _ => return None,
    })
}

/// The hint for `--preserve` with these attributes, as in cp.
fn preserved(attributes: Option<&str>) -> String {
    let mut alone: Vec<&str> = Vec::new();
    for attribute in attributes.unwrap_or("mode,ownership,timestamps").split(',') {
        alone.push(match attribute {
            "mode" => "-A (access control lists)",
            "ownership" => "--owner and --group",
            "links" => "-H (hard links)",
            "xattr" | "context" => "-X (extended attributes)",
            "timestamps" => continue,
            _ => return WITH_ARCHIVE.to_owned(),
        });
    }
    match alone.is_empty() {
        true => "leave it out: times are always preserved".to_owned(),
        false => format!("use -a, or {}; modes and times are always preserved", alone.join(", ")),
    }
}

/// The hint for scp's `-l`.
fn limit(kbits: u64) -> String {
    let kib = (kbits / 8).max(1);
    format!("use --bwlimit={kib} (in KiB/s) for scp's {kbits} kbit/s")
}

/// True if the option was typed in one word with other letters for attributes, as in `-rlptgoD`.
fn is_in_bundle_of_rsync(option: &str, words: &[OsString]) -> bool {
    let Some(letter) = option.strip_prefix('-').filter(|letter| KEPT_LETTERS.contains(*letter))
    else {
        return false;
    };
    letters(words).any(|(bundle, _)| {
        let kept = bundle.chars().filter(|letter| KEPT_LETTERS.contains(*letter)).count();
        let is_known = |letter| KEPT_LETTERS.contains(letter) || OTHER_LETTERS.contains(letter);
        kept > 1 && bundle.contains(letter) && bundle.chars().all(is_known)
    })
}

/// The words with short options, without `-`, each with the next word.
fn letters(words: &[OsString]) -> impl Iterator<Item = (&str, Option<&str>)> {
    let text = |at: usize| words.get(at).and_then(|word| word.to_str());
    let bundle = move |at| text(at)?.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    (0..words.len()).filter_map(move |at| Some((bundle(at)?, text(at + 1))))
}

/// The number after the short option, in the same word or the next.
fn number_behind(option: char, words: &[OsString]) -> Option<u64> {
    letters(words).find_map(|(bundle, next)| {
        let (_, value) = bundle.split_once(option)?;
        if value.is_empty() { next } else { Some(value) }?.parse().ok()
    })
}

/// scp's port: the number in a word like `-P2222` if `option` is one of its digits.
pub(super) fn port<'w>(option: &str, words: &'w [OsString]) -> Option<&'w str> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let digit = option.strip_prefix('-').filter(|digit| is_number(digit))?;
    letters(words).find_map(|(bundle, _)| {
        let number = bundle.strip_prefix('P').filter(|number| is_number(number))?;
        number.contains(digit).then_some(number)
    })
}

/// The value after the `=` of a long option.
fn value_of<'w>(option: &str, words: &'w [OsString]) -> Option<&'w str> {
    let value = |word: &'w OsString| word.to_str()?.strip_prefix(option)?.strip_prefix('=');
    words.iter().find_map(value)
}
