//! The results of a comparison.

use crate::json::{self, Mismatch, Object};
use crate::report::Message;
use haul_model::{Changes, Kind, escape_bytes};

/// An entry that differs between both sides.
pub(super) struct Difference<'a> {
    pub(super) path: &'a [u8],
    pub(super) kind: &'a Kind,
    pub(super) found: Mismatch,
}

impl Message for Difference<'_> {
    fn text(&self) -> Vec<u8> {
        let slash = if *self.kind == Kind::Dir { "/" } else { "" };
        let path = escape_bytes(self.path);
        let line = match self.found {
            Mismatch::Extra => format!("extra     {path}{slash}\n"),
            Mismatch::Differs(found) if found.has(Changes::MISSING) => {
                format!("missing   {path}{slash}\n")
            }
            Mismatch::Differs(found) => {
                let words: Vec<_> = found.words().collect();
                format!("differs   {path}{slash} ({})\n", words.join(", "))
            }
        };
        line.into_bytes()
    }

    fn json(&self) -> Option<Object> {
        Some(json::difference(self.path, self.kind, self.found))
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
        let line = |path, kind, found| Difference { path, kind, found }.text();
        let lines = [
            line(b"a\n", &file, Mismatch::Differs(other)),
            line(b"d", &Kind::Dir, Mismatch::Differs(missing)),
            line(b"\xff", &Kind::Dir, Mismatch::Extra),
        ];
        insta::assert_snapshot!(String::from_utf8_lossy(&lines.concat()), @r"
        differs   a\n (size, time, content)
        missing   d/
        extra     \xff/
        ");
    }
}
