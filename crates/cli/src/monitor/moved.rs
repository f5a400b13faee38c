//! The line about a moved source.

use crate::json::{Line, MovedLine, Path};
use crate::report::{Message, Show};
use haul_model::escape_bytes;

/// A moved source, or a file or link inside one.
pub(super) struct Moved<'a> {
    pub(super) path: &'a [u8],
    pub(super) renamed: bool,
}

impl Message for Moved<'_> {
    fn text(&self) -> Vec<u8> {
        format!("moved {}\n", escape_bytes(self.path)).into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        let (path, renamed) = (Path::of(self.path), self.renamed);
        Line::Moved(MovedLine { path, renamed }).to_bytes()
    }

    fn level(&self) -> Show {
        Show::Verbose
    }
}
