//! The results of a comparison.

use haul_model::{Changes, Kind, escape_bytes};

/// The line about an entry that differs between both sides. `found` is `None` if only the
/// destination has it.
pub(super) fn difference_line(path: &[u8], kind: &Kind, found: Option<Changes>) -> String {
    let slash = if *kind == Kind::Dir { "/" } else { "" };
    let path = escape_bytes(path);
    match found {
        None => format!("extra     {path}{slash}\n"),
        Some(found) if found.has(Changes::MISSING) => format!("missing   {path}{slash}\n"),
        Some(found) => {
            let words: Vec<_> = found.words().collect();
            format!("differs   {path}{slash} ({})\n", words.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_how_it_differs() {
        let file = Kind::File { size: 3 };
        let missing = Changes::MISSING.with(Changes::ABOVE);
        let other = Changes::SIZE.with(Changes::TIME).with(Changes::CONTENT);
        let lines = [
            difference_line(b"a\n", &file, Some(other)),
            difference_line(b"d", &Kind::Dir, Some(missing)),
            difference_line(b"\xff", &Kind::Dir, None),
        ];
        insta::assert_snapshot!(lines.concat(), @r"
        differs   a\n (size, time, content)
        missing   d/
        extra     \xff/
        ");
    }
}
