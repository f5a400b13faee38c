//! Lines of a copy to several destinations, which say which of them they are about.

use super::{Escaped, SummaryLine};
use serde::Serialize;
use serde_json::Serializer;

/// The end of a copy to one of several destinations.
#[derive(Debug, Serialize)]
pub(crate) struct DestinationLine<'a> {
    /// The destination as it was given.
    pub(crate) dest: &'a str,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(flatten)]
    pub(crate) figures: SummaryLine,
}

/// `line`, an object or nothing, with `dest` as its last field.
pub(crate) fn addressed(mut line: Vec<u8>, dest: &str) -> Vec<u8> {
    let Some(len) = line.len().checked_sub(b"}\n".len()) else { return line };
    debug_assert!(line.ends_with(b"}\n"));
    line.truncate(len);
    line.extend_from_slice(b",\"dest\":");
    dest.serialize(&mut Serializer::with_formatter(&mut line, Escaped))
        .expect("a string has a JSON form");
    line.extend_from_slice(b"}\n");
    line
}
