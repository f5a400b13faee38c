//! The lines of `--json`: one object per line. docs/reference/json.md describes the schema, and
//! [`SCHEMA`] is its number.

use crate::config::SettingValue;
use crate::error::{CommandError, ExitCode};
use crate::hint;
use crate::progress::Counts;
use haul_engine::{Cleaned, Summary};
use haul_model::{Entry, Fault, Kind, Name, is_unsafe_to_show};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

mod doctor;
mod enums;
mod with_destination;
pub(crate) use doctor::{DiskLine, DoctorLine, HaulLine, JsonVia, MachineLine, RateLine};
pub(crate) use enums::{
    JsonDifference, JsonError, JsonFate, JsonKind, JsonOrigin, JsonOutcome, JsonReason, JsonSide,
    Mismatch,
};
pub(crate) use with_destination::{DestinationLine, with_destination};

/// Increases if a field changes or loses its meaning, not if one is added.
pub(crate) const SCHEMA: u32 = 1;

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line<'a> {
    Start(Start),
    Result(ResultLine<'a>),
    Progress(ProgressLine),
    Warning(Warning<'a>),
    Error(ErrorLine<'a>),
    Server(ServerUsed<'a>),
    #[serde(rename = "server_away")]
    ServerUnavailable(ServerUnavailable<'a>),
    ConnectionLost(ConnectionLost<'a>),
    ConnectionRegained {},
    Summary(SummaryLine),
    Destination(DestinationLine<'a>),
    Entry(EntryLine<'a>),
    Hash(HashLine<'a>),
    Stage(StageLine<'a>),
    Difference(DifferenceLine<'a>),
    CheckSummary(CheckSummaryLine),
    Synced(SyncedLine<'a>),
    Deleted(DeletedLine<'a>),
    Moved(MovedLine<'a>),
    MoveSummary(MoveSummaryLine),
    SyncSummary(SyncSummaryLine),
    Setting(SettingLine<'a>),
    Kept(KeptLine<'a>),
    Cache(CacheLine<'a>),
    CacheChecked(CheckedLine),
    Doctor(Box<DoctorLine<'a>>),
}

/// A command starts to copy, move, sync or check.
#[derive(Debug, Serialize)]
pub(crate) struct Start {
    pub(crate) schema: u32,
    pub(crate) version: &'static str,
    pub(crate) sources: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dest: Option<String>,
    /// All destinations, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dests: Vec<String>,
    pub(crate) dry_run: bool,
}

/// The result of an entry that did not fail.
#[derive(Debug, Serialize)]
pub(crate) struct ResultLine<'a> {
    #[serde(flatten)]
    pub(crate) path: Path<'a>,
    pub(crate) kind: JsonKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    pub(crate) outcome: JsonOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<JsonReason>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) grew: bool,
    /// The attributes that were updated, if the content was not copied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) differed: Vec<JsonDifference>,
    /// The path of the file to which the entry was hard-linked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) linked_to: Option<Cow<'a, str>>,
}

/// The progress of the copy.
#[derive(Debug, Serialize)]
pub(crate) struct ProgressLine {
    files_done: u64,
    files_total: u64,
    bytes_done: u64,
    bytes_total: u64,
    listed_all: bool,
}

/// A problem that is not a failure.
#[derive(Debug, Serialize)]
pub(crate) struct Warning<'a> {
    #[serde(flatten)]
    pub(crate) path: Path<'a>,
    pub(crate) message: &'a str,
}

/// The connection to a host uses its server.
#[derive(Debug, Serialize)]
pub(crate) struct ServerUsed<'a> {
    pub(crate) host: &'a str,
    /// `quic` or `tcp`.
    pub(crate) protocol: &'a str,
}

/// The server of a host does not answer, so the connection uses ssh.
#[derive(Debug, Serialize)]
pub(crate) struct ServerUnavailable<'a> {
    pub(crate) host: &'a str,
    pub(crate) message: &'a str,
}

/// A connection was lost; a new attempt follows.
#[derive(Debug, Serialize)]
pub(crate) struct ConnectionLost<'a> {
    pub(crate) host: &'a str,
    pub(crate) message: &'a str,
    pub(crate) attempt: u32,
    pub(crate) seconds: u64,
}

/// A failed entry, or the error that ended the command.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(flatten)]
    path: Option<Path<'a>>,
    kind: JsonError,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<JsonSide>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// The figures of a copy.
#[derive(Debug, Serialize)]
pub(crate) struct SummaryLine {
    copied: u64,
    linked: u64,
    updated: u64,
    dirs: u64,
    bytes: u64,
    moved: u64,
    resumed: u64,
    matched: u64,
    skipped: u64,
    special: u64,
    failed: u64,
    grown: u64,
    seconds: f64,
    rate: u64,
    exit_code: u8,
    /// Contents were sent without hashes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unhashed: bool,
    /// Bytes of content that this machine relayed between two hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) relayed: Option<NonZeroU64>,
}

/// An entry: `haul ls` and `haul stat`.
#[derive(Debug, Serialize)]
pub(crate) struct EntryLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(flatten)]
    path: Path<'a>,
    kind: JsonKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    mode: String,
    mtime_secs: i64,
    mtime_nanos: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_hex: Option<String>,
}

/// A setting and its origin: `haul config`.
#[derive(Debug, Serialize)]
pub(crate) struct SettingLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<&'a str>,
    pub(crate) key: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<&'a SettingValue>,
    pub(crate) origin: JsonOrigin,
    #[serde(flatten)]
    pub(crate) path: Option<Path<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
}

/// A kept connection: `haul keep`.
#[derive(Debug, Serialize)]
pub(crate) struct KeptLine<'a> {
    pub(crate) host: &'a str,
    /// A command uses the connection.
    pub(crate) used: bool,
    /// In seconds since 1970.
    pub(crate) since: u64,
    /// Remaining time for which it is kept, in seconds.
    pub(crate) left: u64,
    /// The process ID of the holder.
    pub(crate) holder: u32,
    /// The command has closed the connection.
    pub(crate) closed: bool,
}

/// The figures of a chunk cache: `haul cache`.
#[derive(Debug, Serialize)]
pub(crate) struct CacheLine<'a> {
    pub(crate) dir: Cow<'a, str>,
    pub(crate) chunks: u64,
    /// The length of the chunks.
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// The length of the index on disk.
    pub(crate) index_bytes: u64,
    /// The length of kept files that were replaced or removed.
    pub(crate) kept_bytes: u64,
    pub(crate) kept_max: u64,
    /// The number and length of file parts that were not sent.
    pub(crate) saved_parts: u64,
    pub(crate) saved_bytes: u64,
}

/// The result of `haul cache verify`.
#[derive(Debug, Serialize)]
pub(crate) struct CheckedLine {
    pub(crate) good: u64,
    pub(crate) dropped: u64,
}

/// The hash of a file: `haul hash`.
#[derive(Debug, Serialize)]
pub(crate) struct HashLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    #[serde(flatten)]
    pub(crate) path: Path<'a>,
    pub(crate) hash: String,
}

/// An entry that differs between both sides: `haul check`.
#[derive(Debug, Serialize)]
pub(crate) struct DifferenceLine<'a> {
    #[serde(flatten)]
    path: Path<'a>,
    kind: JsonKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    differs: Vec<JsonDifference>,
}

/// The figures of a check.
#[derive(Debug, Serialize)]
pub(crate) struct CheckSummaryLine {
    pub(crate) same: u64,
    pub(crate) different: u64,
    pub(crate) missing: u64,
    pub(crate) extra: u64,
    pub(crate) special: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
    pub(crate) exit_code: u8,
}

/// An entry that was made equal to the source, or would be: `haul sync`.
#[derive(Debug, Serialize)]
pub(crate) struct SyncedLine<'a> {
    #[serde(flatten)]
    pub(crate) path: Path<'a>,
    pub(crate) kind: JsonKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    /// The content was copied, or the entry was created.
    pub(crate) sent: bool,
    /// The differences before.
    pub(crate) differed: Vec<JsonDifference>,
    /// The path of the file to which the entry was hard-linked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) linked_to: Option<Cow<'a, str>>,
}

/// An entry that was removed because no source has it: `haul sync`.
#[derive(Debug, Serialize)]
pub(crate) struct DeletedLine<'a> {
    #[serde(flatten)]
    pub(crate) path: Path<'a>,
    pub(crate) kind: JsonKind,
}

/// A source that was moved: `haul move`.
#[derive(Debug, Serialize)]
pub(crate) struct MovedLine<'a> {
    #[serde(flatten)]
    pub(crate) path: Path<'a>,
    pub(crate) renamed: bool,
}

/// The figures of a mirror.
#[derive(Debug, Serialize)]
pub(crate) struct SyncSummaryLine {
    pub(crate) copied: u64,
    pub(crate) linked: u64,
    pub(crate) updated: u64,
    pub(crate) dirs: u64,
    pub(crate) deleted: u64,
    pub(crate) spared: u64,
    pub(crate) renamed: u64,
    pub(crate) skipped: u64,
    pub(crate) special: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    pub(crate) moved: u64,
    pub(crate) resumed: u64,
    pub(crate) matched: u64,
    pub(crate) seconds: f64,
    pub(crate) exit_code: u8,
    /// Contents were sent without hashes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unhashed: bool,
    /// Bytes of content that this machine relayed between two hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) relayed: Option<NonZeroU64>,
}

/// The figures of a move.
#[derive(Debug, Serialize)]
pub(crate) struct MoveSummaryLine {
    pub(crate) moved: u64,
    pub(crate) kept: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
    pub(crate) exit_code: u8,
}

/// A temporary file of an interrupted copy: `haul clean`.
#[derive(Debug, Serialize)]
pub(crate) struct StageLine<'a> {
    #[serde(flatten)]
    path: Path<'a>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    there: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_hex: Option<String>,
    outcome: JsonFate,
}

/// A path as text. If it is not UTF-8, the text is approximate, and `path_hex` has all bytes.
#[derive(Debug, Serialize)]
pub(crate) struct Path<'a> {
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl Line<'_> {
    /// The bytes of the line, including the line end.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        self.serialize(&mut Serializer::with_formatter(&mut bytes, Escaped))
            .expect("structs of numbers and strings have a JSON form");
        bytes.push(b'\n');
        bytes
    }
}

/// Escapes characters that could act on a terminal, although JSON allows them: DEL, C1, and
/// characters that reorder or hide text.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe_to_show) {
            let (safe, from) = rest.split_at(at);
            let unsafe_char = from.chars().next().expect("it was found");
            // All these characters are below U+10000, and need no surrogates.
            write!(writer, "{safe}\\u{:04x}", u32::from(unsafe_char))?;
            rest = &from[unsafe_char.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

impl<'a> Path<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { path: String::from_utf8_lossy(bytes), path_hex: hex_if_not_utf8(bytes) }
    }
}

impl<'a> ErrorLine<'a> {
    /// The line about the fault of `path` on `host`; `None` is this machine.
    pub(crate) fn of_fault(host: Option<String>, path: &'a [u8], fault: &Fault) -> Self {
        let hint = hint::for_fault_at(fault, host.is_some(), path);
        Self {
            host,
            path: Some(Path::of(path)),
            kind: JsonError::Fault(fault.kind.into()),
            side: Some(fault.side.into()),
            message: fault.message.clone(),
            hint: hint.map(str::to_owned),
        }
    }

    /// Replaces the hint.
    pub(crate) fn with_hint(self, hint: Option<&str>) -> Self {
        Self { hint: hint.map(str::to_owned), ..self }
    }

    /// The line about the error that ended the command.
    pub(crate) fn of_command(error: &CommandError) -> Self {
        Self {
            host: None,
            path: None,
            kind: JsonError::Command(error.kind),
            side: None,
            message: error.to_string(),
            hint: (!error.hints.is_empty()).then(|| error.hints.join("; ")),
        }
    }
}

impl SummaryLine {
    /// The figures of a copy that took `time`.
    pub(crate) fn of(summary: &Summary, time: Duration, code: ExitCode) -> Self {
        let Summary { copied, linked, updated, dirs_created, bytes, .. } = *summary;
        let Summary { skipped, special, failed, grown, .. } = *summary;
        let (moved, resumed) = (summary.bytes_transferred, summary.bytes_resumed);
        let matched = summary.bytes_matched;
        let rate = moved as f64 / time.as_secs_f64();
        Self {
            copied,
            linked,
            updated,
            dirs: dirs_created,
            bytes,
            moved,
            resumed,
            matched,
            skipped,
            special,
            failed,
            grown,
            seconds: seconds(time),
            // NaN, from 0 bytes in no time, becomes 0.
            rate: rate as u64,
            exit_code: code.number(),
            unhashed: false,
            relayed: None,
        }
    }
}

impl<'a> EntryLine<'a> {
    /// The line about `entry` at `path` on `host`.
    pub(crate) fn of(host: Option<String>, path: &'a [u8], entry: &Entry) -> Self {
        let target = match &entry.kind {
            Kind::Symlink { target } => Some(&**target),
            _ => None,
        };
        Self {
            host,
            path: Path::of(path),
            kind: (&entry.kind).into(),
            size: size(&entry.kind),
            mode: format!("{:04o}", entry.attributes.mode),
            mtime_secs: entry.attributes.mtime.secs,
            mtime_nanos: entry.attributes.mtime.nanos,
            target: target.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            target_hex: target.and_then(hex_if_not_utf8),
        }
    }
}

impl<'a> DifferenceLine<'a> {
    /// The line about the differences of the entry at `path`.
    pub(crate) fn of(path: &'a [u8], kind: &Kind, found: Mismatch) -> Self {
        let differs = JsonDifference::all_of(found);
        Self { path: Path::of(path), kind: kind.into(), size: size(kind), differs }
    }
}

impl<'a> StageLine<'a> {
    /// The line about the temporary file at `path`.
    pub(crate) fn of(path: &'a [u8], cleaned: &Cleaned) -> Self {
        let target = cleaned.target.as_ref().map(Name::as_bytes);
        Self {
            path: Path::of(path),
            bytes: cleaned.bytes,
            there: cleaned.progress.map(|(there, _)| there),
            size: cleaned.progress.map(|(_, size)| size),
            target: target.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            target_hex: target.and_then(hex_if_not_utf8),
            outcome: cleaned.fate.into(),
        }
    }
}

impl From<Counts> for ProgressLine {
    fn from(counts: Counts) -> Self {
        let Counts { files_done, files_total, bytes_done, bytes_total, listed_all, .. } = counts;
        Self { files_done, files_total, bytes_done, bytes_total, listed_all }
    }
}

/// Rounds to milliseconds, in seconds.
pub(crate) fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

/// The size of a regular file; `None` for other kinds.
pub(crate) fn size(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::File { size } => Some(*size),
        _ => None,
    }
}

/// True if the field can be omitted.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(field: &bool) -> bool {
    !field
}

/// Two hexadecimal digits per byte, if the bytes are not UTF-8.
fn hex_if_not_utf8(bytes: &[u8]) -> Option<String> {
    str::from_utf8(bytes).is_err().then(|| {
        bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
            // Writing to a String can't fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    })
}

#[cfg(test)]
mod tests;
