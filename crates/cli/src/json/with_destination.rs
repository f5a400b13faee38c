//! Lines of a copy to several destinations. Each names its destination.

use super::{Escaped, SummaryLine};
use serde::Serialize;
use serde_json::Serializer;

/// The result for one of several destinations.
#[derive(Debug, Serialize)]
pub(crate) struct DestinationLine<'a> {
    /// The destination as the user wrote it.
    pub(crate) dest: &'a str,
    /// The error that ended it early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(flatten)]
    pub(crate) figures: SummaryLine,
}

/// Appends the field `dest` to `line`, an object or nothing.
pub(crate) fn with_destination(mut line: Vec<u8>, dest: &str) -> Vec<u8> {
    let Some(len) = line.len().checked_sub(b"}\n".len()) else { return line };
    debug_assert!(line.ends_with(b"}\n"));
    line.truncate(len);
    line.extend_from_slice(b",\"dest\":");
    dest.serialize(&mut Serializer::with_formatter(&mut line, Escaped))
        .expect("a string has a JSON form");
    line.extend_from_slice(b"}\n");
    line
}
