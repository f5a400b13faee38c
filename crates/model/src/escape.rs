//! Converts bytes from a disk or a peer to text that is safe to print. It can't move the cursor,
//! change colours or start a new line.

use icu_properties::props::{BidiControl, DefaultIgnorableCodePoint};
use icu_properties::{CodePointSetData, CodePointSetDataBorrowed};
use std::fmt::Write as _;

/// Converts `bytes` to printable text.
///
/// Valid UTF-8 is kept, with three exceptions: control characters (C0, DEL, C1), characters that
/// reorder or hide text, and the backslash are escaped. Other bytes become `\xNN`.
///
/// ```
/// assert_eq!(haul_model::escape_bytes(b"a\x1b[2Jb\xff"), "a\\x1b[2Jb\\xff");
/// ```
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push_escaped(&mut out, chunk.valid());
        for byte in chunk.invalid() {
            push_hex(&mut out, *byte);
        }
    }
    out
}

/// Escapes the beginning of `bytes`, at most `chars_max` characters or invalid bytes. `...`
/// replaces the rest.
pub fn escape_beginning(bytes: &[u8], chars_max: usize) -> String {
    let lens = bytes.utf8_chunks().flat_map(|chunk| {
        chunk.valid().chars().map(char::len_utf8).chain(chunk.invalid().iter().map(|_| 1))
    });
    let end = lens.take(chars_max).sum();
    let rest = if end < bytes.len() { "..." } else { "" };
    escape_bytes(&bytes[..end]) + rest
}

/// Escapes valid UTF-8, such as a message from a peer.
pub fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_escaped(&mut out, text);
    out
}

/// Escapes the control characters in text whose names are escaped already.
pub fn escape_controls(text: &str) -> String {
    // Keep a backslash, which may begin an escape.
    text.split('\\').map(escape_text).collect::<Vec<_>>().join("\\")
}

/// Escapes bytes as rsync prints names. Unsafe bytes become `\\#ooo` with three octal digits, as
/// does a backslash that looks like the start of such an escape. A tab is kept.
pub fn escape_octal(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut text = chunk.valid();
        while let Some(c) = text.chars().next() {
            let (this, rest) = text.split_at(c.len_utf8());
            let is_start = c == '\\' && is_octal_escape(rest.as_bytes());
            if is_start || c < ' ' && c != '\t' || is_unsafe_to_show(c) {
                push_octal(&mut out, this.as_bytes());
            } else {
                out.push(c);
            }
            text = rest;
        }
        push_octal(&mut out, chunk.invalid());
    }
    out
}

/// Reverses [`escape_octal`] for bytes from 0xa0. Terminals don't treat these as control
/// characters. Lower bytes stay escaped.
pub fn unescape_high(text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, after @ ..] = rest {
        let high = match after {
            [b'#', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if *first == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        match high.filter(|byte| *byte >= 0xa0) {
            Some(byte) => {
                out.push(byte);
                rest = &after[4..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

/// True if a backslash before `rest` would look like an escape.
fn is_octal_escape(rest: &[u8]) -> bool {
    matches!(rest, [b'#', digits @ ..] if digits.len() >= 3 && digits[..3].iter().all(u8::is_ascii_digit))
}

fn push_octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String can't fail.
        let _ = write!(out, "\\#{byte:03o}");
    }
}

fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c.is_ascii_control() => push_hex(out, c as u8),
            c if is_unsafe_to_show(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
}

fn push_hex(out: &mut String, byte: u8) {
    // Writing to a String can't fail.
    let _ = write!(out, "\\x{byte:02x}");
}

/// True for DEL and C1 controls, and for characters that change the direction of text, are
/// invisible, or end a line. A name with them reads like another one. C0 controls are not checked.
pub fn is_unsafe_to_show(c: char) -> bool {
    const HIDDEN: CodePointSetDataBorrowed<'static> =
        CodePointSetData::new::<DefaultIgnorableCodePoint>();
    const REORDERING: CodePointSetDataBorrowed<'static> = CodePointSetData::new::<BidiControl>();
    let ends_line = matches!(c, '\u{2028}' | '\u{2029}');
    // The text between them is an annotation, and may not be shown.
    let annotates = matches!(c, '\u{fff9}'..='\u{fffb}');
    c == '\u{7f}'
        || !c.is_ascii()
            && (c.is_control()
                || ends_line
                || annotates
                || HIDDEN.contains(c)
                || REORDERING.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bytes_are_escaped_and_text_stays() {
        assert_eq!(escape_bytes("Grüße 日本".as_bytes()), "Grüße 日本");
        assert_eq!(escape_bytes(b"a\nb\tc\rd"), "a\\nb\\tc\\rd");
        assert_eq!(escape_bytes(b"\x07\x7f"), "\\x07\\x7f");
        assert_eq!(escape_text("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(escape_text("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(
            escape_text("\u{fff8}\u{fff9}\u{fffb}\u{fffc}"),
            "\\u{fff8}\\u{fff9}\\u{fffb}\u{fffc}"
        );
        assert_eq!(escape_bytes(b"back\\slash"), "back\\\\slash");
        assert_eq!(escape_bytes(b"\xc3("), "\\xc3(");
    }

    #[test]
    fn names_in_lines_of_rsync_have_its_escapes() {
        for (name, shown) in [
            (&b"plain \xc3\xa9\t"[..], "plain \u{e9}\t"),
            (b"a\nb\x7f", "a\\#012b\\#177"),
            (b"\xff\xc3(", "\\#377\\#303("),
            ("\u{202e}".as_bytes(), "\\#342\\#200\\#256"),
            (b"back\\slash \\#01", "back\\slash \\#01"),
            (b"\\#012", "\\#134#012"),
        ] {
            assert_eq!(escape_octal(name), shown);
        }
    }

    #[test]
    fn only_bytes_that_are_no_controls_become_themselves_again() {
        for (name, shown) in [
            (&b"hi\xf9name\xa0"[..], &b"hi\xf9name\xa0"[..]),
            (b"\x9b31m\n\x7f", b"\\#23331m\\#012\\#177"),
            ("\u{202e}\u{e9}".as_bytes(), b"\xe2\\#200\xae\xc3\xa9"),
            (b"\\#371 \\#9 \\#", b"\\#134#371 \\#9 \\#"),
        ] {
            assert_eq!(unescape_high(escape_octal(name).as_bytes()), shown);
        }
        assert_eq!(unescape_high(b"\\#777"), b"\\#777");
    }

    #[test]
    fn no_character_that_reorders_or_hides_text_is_shown() {
        let unsafe_ones = [
            '\u{61c}',
            '\u{ad}',
            '\u{180e}',
            '\u{115f}',
            '\u{3164}',
            '\u{1d173}',
            '\u{e0041}',
            '\u{200b}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202e}',
            '\u{2066}',
            '\u{feff}',
            '\u{fe0f}',
            '\u{7f}',
            '\u{9b}',
        ];
        for c in unsafe_ones {
            assert!(is_unsafe_to_show(c), "{c:?}");
        }
        for c in "azAZ~ é日本ß\u{a0}אب한😀".chars() {
            assert!(!is_unsafe_to_show(c), "{c:?}");
        }
    }

    #[test]
    fn a_beginning_ends_between_two_characters() {
        let beginning = |bytes: &[u8]| escape_beginning(bytes, 3);
        assert_eq!(beginning(b""), "");
        assert_eq!(beginning("日本語".as_bytes()), "日本語");
        assert_eq!(beginning("日本語x".as_bytes()), "日本語...");
        assert_eq!(beginning(b"ab\x1b"), "ab\\x1b");
        assert_eq!(beginning(b"\xe6\x97a\xff"), "\\xe6\\x97a...");
        assert_eq!(beginning(b"ab\xe6\x97"), "ab\\xe6...");
    }

    #[test]
    fn a_composed_text_is_escaped_once() {
        assert_eq!(escape_controls("a\\nb: \x1b[2J\n"), "a\\nb: \\x1b[2J\\n");
        assert_eq!(escape_controls("back\\\\slash"), "back\\\\slash");
    }
}
