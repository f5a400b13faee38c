//! The lines of `--json`: one object per line. docs/reference/json.md describes the schema, and
//! [`SCHEMA`] is its number. Each function makes the line of the type with its name.

use crate::config::Origin;
use crate::deployed;
use crate::error::{CommandError, End, ExitCode};
use crate::progress::Counts;
use haul_engine::{CacheFigures, CheckedChunks, Cleaned, Fate, LinkEvent, Outcome, Skip, Summary};
use haul_model::{Changes, Entry, Fault, FaultKind, Kind, Name, Side, is_unsafe_to_show};
use haul_net::Held;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Serializer, Value};
use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

/// Increases if a field changes or loses its meaning, not if one is added.
pub(crate) const SCHEMA: u32 = 1;

/// A command starts to copy, move, sync or check. With several destinations they are in `dests`,
/// and there is no `dest`.
pub(crate) fn start(
    sources: Vec<String>,
    dest: Option<String>,
    dests: Vec<String>,
    dry_run: bool,
) -> Object {
    Object::line("start")
        .with("schema", SCHEMA)
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("sources", sources)
        .with_some("dest", dest)
        .with_some("dests", (!dests.is_empty()).then_some(dests))
        .with("dry_run", dry_run)
}

/// The result of an entry that did not fail. `is_dry`: nothing was changed.
pub(crate) fn result(path: &[u8], kind: &Kind, outcome: &Outcome, is_dry: bool) -> Object {
    let (mut reason, mut differed, mut linked_to) = (None, Vec::new(), None);
    match outcome {
        Outcome::Skipped(skip) => reason = Some(*skip),
        // The attributes that were updated.
        Outcome::Synced(found) => differed = difference_words(Some(*found)),
        Outcome::Linked { first, .. } => {
            reason = first.is_empty().then_some(Skip::Unchanged);
            linked_to = Some(String::from_utf8_lossy(first));
        }
        _ => {}
    }
    of_entry("result", path, kind)
        .with("outcome", result_word(outcome, is_dry))
        .with_some("reason", reason)
        .with_some("grew", (*outcome == Outcome::Grew).then_some(true))
        .with_some("differed", (!differed.is_empty()).then_some(differed))
        .with_some("linked_to", linked_to)
}

/// The progress of the copy.
pub(crate) fn progress(counts: &Counts) -> Object {
    Object::line("progress")
        .with("files_done", counts.files_done)
        .with("files_total", counts.files_total)
        .with("bytes_done", counts.bytes_done)
        .with("bytes_total", counts.bytes_total)
        .with("listed_all", counts.listed_all)
}

/// A problem that is not a failure.
pub(crate) fn warning(path: &[u8], message: &str) -> Object {
    Object::line("warning").with_path(path).with("message", message)
}

/// An event of a connection; `None` if only the text report shows it.
pub(crate) fn link(event: &LinkEvent<'_>) -> Option<Object> {
    Some(match event {
        LinkEvent::Lost { host, reason, attempt, pause } => Object::line("connection_lost")
            .with("host", host)
            .with("message", reason)
            .with("attempt", attempt)
            .with("seconds", pause.as_secs()),
        LinkEvent::Reconnected => Object::line("connection_regained"),
        LinkEvent::Server { host, is_quic } => Object::line("server")
            .with("host", host)
            .with("protocol", if *is_quic { "quic" } else { "tcp" }),
        LinkEvent::ServerUnavailable { host, reason } => {
            Object::line("server_away").with("host", host).with("message", reason)
        }
        LinkEvent::Deployed { host, bytes, change } => {
            warning(host.as_bytes(), &deployed::notice(host, *bytes, *change))
        }
        _ => return None,
    })
}

/// The fault of `path` on `host`; `None` is this machine.
pub(crate) fn fault(host: Option<&str>, path: &[u8], fault: &Fault, hint: Option<&str>) -> Object {
    let side = match fault.side {
        Side::Source => "source",
        Side::Destination => "destination",
    };
    let kind = match fault.kind {
        FaultKind::ForeignLink => FaultKind::Link,
        kind => kind,
    };
    Object::line("error")
        .with_some("host", host)
        .with_path(path)
        .with("kind", kind)
        .with("side", side)
        .with("message", &fault.message)
        .with_some("hint", hint)
}

/// The error that ended the command.
pub(crate) fn command_error(error: &CommandError) -> Object {
    let hints = (!error.hints.is_empty()).then(|| error.hints.join("; "));
    Object::line("error")
        .with("kind", error.kind)
        .with("message", error.to_string())
        .with_some("hint", hints)
}

/// Adds the figures of a copy or a mirror. `unhashed`: contents were sent without hashes.
fn with_figures(object: Object, end: &End, unhashed: bool) -> Object {
    let End { summary, time, code, relayed, .. } = end;
    object
        .with("copied", summary.copied)
        .with("linked", summary.linked)
        .with("updated", summary.updated)
        .with("dirs", summary.dirs_created)
        .with("bytes", summary.bytes)
        .with("moved", summary.bytes_transferred)
        .with("resumed", summary.bytes_resumed)
        .with("matched", summary.bytes_matched)
        .with("skipped", summary.skipped)
        .with("special", summary.special)
        .with("failed", summary.failed)
        .with("seconds", seconds(*time))
        .with("exit_code", code.number())
        .with_some("unhashed", unhashed.then_some(true))
        .with_some("relayed", NonZeroU64::new(*relayed))
}

/// Adds the figures of a copy; see [`with_figures`].
pub(crate) fn with_copy_figures(object: Object, end: &End, unhashed: bool) -> Object {
    // NaN, from 0 bytes in no time, becomes 0.
    let rate = (end.summary.bytes_transferred as f64 / end.time.as_secs_f64()) as u64;
    with_figures(object, end, unhashed).with("grown", end.summary.grown).with("rate", rate)
}

/// The figures of a mirror; see [`with_figures`].
pub(crate) fn sync_summary(end: &End, unhashed: bool) -> Object {
    with_figures(Object::line("sync_summary"), end, unhashed)
        .with("deleted", end.summary.deleted)
        .with("spared", end.summary.spared)
        .with("renamed", end.summary.renamed)
}

/// The figures of a check.
pub(crate) fn check_summary(End { summary, time, code, .. }: &End) -> Object {
    Object::line("check_summary")
        .with("same", summary.skipped)
        .with("different", summary.different)
        .with("missing", summary.missing)
        .with("extra", summary.extra)
        .with("special", summary.special)
        .with("failed", summary.failed)
        .with("seconds", seconds(*time))
        .with("exit_code", code.number())
}

/// The figures of a move.
pub(crate) fn move_summary(summary: &Summary, time: Duration, code: ExitCode) -> Object {
    Object::line("move_summary")
        .with("moved", summary.moved)
        .with("kept", summary.kept)
        .with("failed", summary.failed)
        .with("seconds", seconds(time))
        .with("exit_code", code.number())
}

/// An entry on `host`: `haul ls` and `haul stat`.
pub(crate) fn entry(host: Option<&str>, path: &[u8], entry: &Entry) -> Object {
    let target = match &entry.kind {
        Kind::Symlink { target } => Some(&**target),
        _ => None,
    };
    Object::line("entry")
        .with_some("host", host)
        .with_path(path)
        .with("kind", kind_word(&entry.kind))
        .with_some("size", size(&entry.kind))
        .with("mode", format!("{:04o}", entry.attributes.mode))
        .with("mtime_secs", entry.attributes.mtime.secs)
        .with("mtime_nanos", entry.attributes.mtime.nanos)
        .with_some_bytes("target", target)
}

/// A setting of `host`, or of the command as a whole: `haul config`. `path` is the configuration
/// file.
pub(crate) fn setting(
    host: Option<&str>,
    key: &str,
    value: Option<&Value>,
    origin: Option<Origin>,
    path: Option<&[u8]>,
) -> Object {
    let line = match origin {
        Some(Origin::File(line) | Origin::HostSection(line)) => Some(line),
        _ => None,
    };
    Object::line("setting")
        .with_some("host", host)
        .with("key", key)
        .with_some("value", value)
        .with("origin", origin_word(origin))
        .with_some_bytes("path", path.filter(|_| line.is_some()))
        .with_some("line", line)
}

/// A kept connection: `haul keep`. `closed`: the command has closed it.
pub(crate) fn kept(held: &Held, closed: bool) -> Object {
    Object::line("kept")
        .with("host", &held.host)
        .with("used", held.is_used)
        .with("since", held.since)
        .with("left", held.left)
        .with("holder", held.holder)
        .with("closed", closed)
}

/// The figures of the chunk cache in `dir`: `haul cache`.
pub(crate) fn cache(dir: &str, kept_max: u64, figures: &CacheFigures) -> Object {
    Object::line("cache")
        .with("dir", dir)
        .with("chunks", figures.chunks)
        .with("bytes", figures.bytes)
        .with("files", figures.files)
        .with("index_bytes", figures.index_len)
        .with("kept_bytes", figures.kept_len)
        .with("kept_max", kept_max)
        .with("saved_parts", figures.saved.parts)
        .with("saved_bytes", figures.saved.bytes)
}

/// The result of `haul cache verify`.
pub(crate) fn cache_checked(checked: &CheckedChunks) -> Object {
    Object::line("cache_checked").with("good", checked.good).with("dropped", checked.dropped)
}

/// The hash of a file: `haul hash`.
pub(crate) fn hash(host: Option<&str>, path: &[u8], hash: &str) -> Object {
    Object::line("hash").with_some("host", host).with_path(path).with("hash", hash)
}

/// An entry that differs between both sides: `haul check`. `found` is `None` if only the destination
/// has it.
pub(crate) fn difference(path: &[u8], kind: &Kind, found: Option<Changes>) -> Object {
    of_entry("difference", path, kind).with("differs", difference_words(found))
}

/// An entry that was made equal to the source, or would be: `haul sync`. `found`: its differences
/// before. `linked_to`: the file to which it was hard-linked.
pub(crate) fn synced(path: &[u8], kind: &Kind, found: Changes, linked_to: Option<&[u8]>) -> Object {
    of_entry("synced", path, kind)
        .with("sent", found.has(Changes::SENT))
        .with("differed", difference_words(Some(found)))
        .with_some("linked_to", linked_to.map(String::from_utf8_lossy))
}

/// An entry that was removed because no source has it: `haul sync`.
pub(crate) fn deleted(path: &[u8], kind: &Kind) -> Object {
    Object::line("deleted").with_path(path).with("kind", kind_word(kind))
}

/// A source that was moved: `haul move`.
pub(crate) fn moved(path: &[u8], renamed: bool) -> Object {
    Object::line("moved").with_path(path).with("renamed", renamed)
}

/// A temporary file of an interrupted copy: `haul clean`.
pub(crate) fn stage(path: &[u8], cleaned: &Cleaned) -> Object {
    Object::line("stage")
        .with_path(path)
        .with("bytes", cleaned.bytes)
        .with_some("there", cleaned.progress.map(|(there, _)| there))
        .with_some("size", cleaned.progress.map(|(_, size)| size))
        .with_some_bytes("target", cleaned.target.as_ref().map(Name::as_bytes))
        .with("outcome", fate_word(cleaned.fate))
}

/// A line about an entry, with the size of a file.
fn of_entry(line: &str, path: &[u8], kind: &Kind) -> Object {
    let line = Object::line(line).with_path(path).with("kind", kind_word(kind));
    line.with_some("size", size(kind))
}

/// Rounds to milliseconds, in seconds.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

/// The size of a regular file; `None` for other kinds.
pub(crate) fn size(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::File { size } => Some(*size),
        _ => None,
    }
}

/// The result of an entry that did not fail. `is_dry`: nothing was changed.
pub(crate) fn result_word(outcome: &Outcome, is_dry: bool) -> &'static str {
    match (outcome, is_dry) {
        (Outcome::Skipped(_), _) => "skipped",
        // The entry was already linked.
        (Outcome::Linked { first, .. }, _) if first.is_empty() => "skipped",
        (Outcome::Linked { .. }, false) => "linked",
        (Outcome::Linked { .. }, true) => "would_link",
        (Outcome::Synced(_), false) => "updated",
        (Outcome::Synced(_), true) => "would_update",
        (Outcome::WouldCopy, _) => "would_copy",
        _ => "copied",
    }
}

/// The ways in which a destination entry can differ.
const DIFFERENCES: [(Changes, &str); 13] = [
    (Changes::MISSING, "missing"),
    (Changes::KIND, "kind"),
    (Changes::SIZE, "size"),
    (Changes::TIME, "time"),
    (Changes::MODE, "mode"),
    (Changes::TARGET, "target"),
    (Changes::CONTENT, "content"),
    (Changes::USER, "owner"),
    (Changes::GROUP, "group"),
    (Changes::ACL, "acl"),
    (Changes::XATTRS, "xattrs"),
    (Changes::ATIME, "access_time"),
    (Changes::LINKED, "hard_link"),
];

/// The differences of an entry. `None`: only the destination has it.
fn difference_words(found: Option<Changes>) -> Vec<&'static str> {
    let Some(found) = found else { return vec!["extra"] };
    DIFFERENCES.iter().filter(|(one, _)| found.has(*one)).map(|(_, word)| *word).collect()
}

fn kind_word(kind: &Kind) -> &'static str {
    match kind {
        Kind::File { .. } => "file",
        Kind::Dir => "dir",
        Kind::Symlink { .. } => "symlink",
        Kind::Special => "special",
    }
}

fn origin_word(origin: Option<Origin>) -> &'static str {
    match origin {
        None => "default",
        Some(Origin::File(_) | Origin::HostSection(_)) => "file",
        Some(Origin::Environment) => "environment",
        Some(Origin::CommandLine) => "command_line",
    }
}

/// The result for a temporary file.
pub(crate) fn fate_word(fate: Fate) -> &'static str {
    match fate {
        Fate::Removed => "removed",
        Fate::WouldRemove => "would_remove",
        Fate::Kept | Fate::OnlyCopy => "kept",

        Fate::Busy => "in_use",
        Fate::Recent => "recent",
    }
}

#[cfg(test)]
mod tests;

/// An object. Its fields have the order in which they are added.
#[derive(Debug, Default)]
pub(crate) struct Object(Vec<u8>);

impl Object {
    /// Starts a line of the type `kind`.
    pub(crate) fn line(kind: &str) -> Self {
        Self(Vec::with_capacity(256)).with("type", kind)
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.begin(name);
        value
            .serialize(&mut Serializer::with_formatter(&mut self.0, Escaped))
            .expect("numbers, strings and lists of them have a JSON form");
        self
    }

    /// Adds a field, unless it has no value.
    pub(crate) fn with_some(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds bytes as text, unless there are none. If they are not UTF-8, the text is approximate,
    /// and a second field, whose name ends with `_hex`, has all bytes as hexadecimal digits.
    pub(crate) fn with_some_bytes(self, name: &str, bytes: Option<&[u8]>) -> Self {
        let Some(bytes) = bytes else { return self };
        let object = self.with(name, String::from_utf8_lossy(bytes));
        if str::from_utf8(bytes).is_ok() {
            return object;
        }
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        object.with(&format!("{name}_hex"), hex)
    }

    /// Adds the field `path`, and `path_hex` if the path is not UTF-8.
    pub(crate) fn with_path(self, path: &[u8]) -> Self {
        self.with_some_bytes("path", Some(path))
    }

    /// Adds an object, unless there is none.
    pub(crate) fn with_object(mut self, name: &str, object: Option<Self>) -> Self {
        if let Some(object) = object {
            self.begin(name);
            self.0.extend(object.into_bytes());
        }
        self
    }

    /// Adds a list of objects.
    pub(crate) fn with_list(mut self, name: &str, objects: impl IntoIterator<Item = Self>) -> Self {
        self.begin(name);
        let objects: Vec<_> = objects.into_iter().map(Self::into_bytes).collect();
        self.0.push(b'[');
        self.0.extend(objects.join(&b','));
        self.0.push(b']');
        self
    }

    fn begin(&mut self, name: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.0.extend(format!("\"{name}\":").as_bytes());
    }

    fn into_bytes(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    /// The bytes of the line, including the line end.
    pub(crate) fn into_line(self) -> Vec<u8> {
        let mut line = self.into_bytes();
        line.push(b'\n');
        line
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
