//! What comparing finds, as lines for people.

use crate::json::DifferenceWord;
use haul_model::{Differences, Kind, escape_bytes};

/// Something that is not the same on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The destination's is another, or missing.
    Differs(Differences),
    /// Only the destination has it.
    Extra,
}

/// The line for an entry that is not the same.
pub(super) fn plain_line(path: &[u8], kind: &Kind, found: Found) -> String {
    let slash = if *kind == Kind::Dir { "/" } else { "" };
    let path = escape_bytes(path);
    let words: Vec<_> =
        DifferenceWord::all_of(found).into_iter().map(DifferenceWord::text).collect();
    match found {
        Found::Extra => format!("extra     {path}{slash}\n"),
        Found::Differs(found) if found.has(Differences::MISSING) => {
            format!("missing   {path}{slash}\n")
        }
        Found::Differs(_) => format!("differs   {path}{slash} ({})\n", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_how_it_differs() {
        let file = Kind::File { size: 3 };
        let missing = Differences::MISSING.with(Differences::ABOVE);
        let other = Differences::SIZE.with(Differences::TIME).with(Differences::CONTENT);
        let lines = [
            plain_line(b"a\n", &file, Found::Differs(other)),
            plain_line(b"d", &Kind::Dir, Found::Differs(missing)),
            plain_line(b"\xff", &Kind::Dir, Found::Extra),
        ];
        insta::assert_snapshot!(lines.concat(), @r"
        differs   a\n (size, time, content)
        missing   d/
        extra     \xff/
        ");
    }
}
