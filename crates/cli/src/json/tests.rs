//! Tests that the lines match docs/reference/json.md.

use super::*;
use crate::error::ErrorKind;
use haul_engine::{Fate, Skip};
use haul_model::{Attributes, Changes, FaultKind, Side, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = include_str!("../../../../docs/reference/json.md");

/// A value of `haul config`.
static TIMEOUT: SettingValue = SettingValue::Number(120);

/// Lines of every type. Each field is in at least one. The first line of a type is its example in
/// the document.
fn samples() -> Vec<Line<'static>> {
    let fault =
        Fault::new(Side::Source, FaultKind::PermissionDenied, "can't open: Permission denied");
    let command =
        CommandError::new(ErrorKind::Connection, "can't reach host").with_hint("check it");
    let counts = Counts {
        files_done: 320,
        files_total: 1008,
        bytes_done: 6_553_600,
        bytes_total: 20_866_662,
        bytes_moved: 6_553_600,
        ..Counts::default()
    };
    let summary = Summary {
        copied: 1007,
        dirs_created: 11,
        bytes: 20_866_562,
        bytes_transferred: 20_866_562,
        skipped: 12,
        special: 1,
        failed: 1,
        ..Summary::default()
    };
    let kept = Cleaned {
        name: String::new(),
        bytes: 40 << 20,
        target: None,
        progress: Some((40 << 20, 100 << 20)),
        fate: Fate::Kept,
    };
    let target = Some(Name::new(b"\xff").expect("a name"));
    let entry = |kind| {
        Entry::new(
            None,
            kind,
            Attributes::new(0o644, Timestamp { secs: 1_700_000_000, nanos: 123_456_789 }),
        )
    };
    let hash = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    let host = || Some("ann@host".to_owned());
    vec![
        Line::Start(Start {
            schema: SCHEMA,
            version: "0.1.0",
            sources: vec!["photos".into()],
            dest: Some("host:backup/".into()),
            dests: Vec::new(),
            dry_run: false,
        }),
        Line::Start(Start {
            schema: SCHEMA,
            version: "0.1.0",
            sources: vec!["www".into()],
            dest: None,
            dests: vec!["web1:/srv/".into(), "web2:/srv/".into()],
            dry_run: false,
        }),
        Line::Result(ResultLine {
            path: Path::of(b"photos/a.jpg"),
            kind: JsonKind::File,
            size: Some(2_097_152),
            outcome: JsonOutcome::Copied,
            reason: None,
            grew: false,
            differed: Vec::new(),
            linked_to: None,
        }),
        Line::Result(ResultLine {
            path: Path::of(b"photos/\xff.jpg"),
            kind: JsonKind::File,
            size: Some(5),
            outcome: JsonOutcome::Skipped,
            reason: Some(Skip::Unchanged.into()),
            grew: false,
            differed: Vec::new(),
            linked_to: None,
        }),
        Line::Result(ResultLine {
            path: Path::of(b"log"),
            kind: JsonKind::File,
            size: Some(5),
            outcome: JsonOutcome::Copied,
            reason: None,
            grew: true,
            differed: JsonDifference::all_of(Mismatch::Differs(Changes::MODE)),
            linked_to: Some("log.1".into()),
        }),
        Line::Synced(SyncedLine {
            path: Path::of(b"photos/a.jpg"),
            kind: JsonKind::File,
            size: Some(2_097_152),
            sent: true,
            differed: JsonDifference::all_of(Mismatch::Differs(Changes::SIZE.with(Changes::TIME))),
            linked_to: None,
        }),
        Line::Synced(SyncedLine {
            path: Path::of(b"\xff"),
            kind: JsonKind::Dir,
            size: None,
            sent: false,
            differed: Vec::new(),
            linked_to: Some("log".into()),
        }),
        Line::Deleted(DeletedLine { path: Path::of(b"photos/old.jpg"), kind: JsonKind::File }),
        Line::Deleted(DeletedLine { path: Path::of(b"\xff"), kind: JsonKind::File }),
        Line::SyncSummary(SyncSummaryLine {
            copied: 2,
            linked: 0,
            updated: 1,
            dirs: 0,
            deleted: 1,
            spared: 0,
            renamed: 0,
            skipped: 1005,
            special: 0,
            failed: 0,
            bytes: 4_194_304,
            moved: 4_194_304,
            resumed: 0,
            matched: 0,
            seconds: 0.04,
            exit_code: 0,
            unhashed: false,
            relayed: None,
        }),
        Line::SyncSummary(SyncSummaryLine {
            copied: 0,
            linked: 0,
            updated: 0,
            dirs: 0,
            deleted: 0,
            spared: 0,
            renamed: 0,
            skipped: 0,
            special: 0,
            failed: 0,
            bytes: 0,
            moved: 0,
            resumed: 0,
            matched: 0,
            seconds: 0.0,
            exit_code: 0,
            unhashed: true,
            relayed: NonZeroU64::new(7),
        }),
        Line::Progress(counts.into()),
        Line::Warning(Warning {
            path: Path::of(b"photos/pipe"),
            message: "a FIFO, socket or device: not copied",
        }),
        Line::Warning(Warning { path: Path::of(b"\xff"), message: "" }),
        Line::Error(ErrorLine::of_fault(None, b"photos/b.jpg", &fault)),
        Line::Error(ErrorLine::of_fault(host(), b"\xff", &fault)),
        Line::Error(ErrorLine::of_command(&command)),
        Line::Summary(SummaryLine::of(&summary, Duration::from_millis(410), ExitCode::SomeFailed)),
        Line::Summary(SummaryLine {
            unhashed: true,
            relayed: NonZeroU64::new(7),
            ..SummaryLine::of(&summary, Duration::from_millis(410), ExitCode::Success)
        }),
        Line::Destination(DestinationLine {
            dest: "web1:/srv/",
            message: None,
            figures: SummaryLine::of(&summary, Duration::from_millis(410), ExitCode::SomeFailed),
        }),
        Line::Destination(DestinationLine {
            dest: "web2:/srv/",
            message: Some("can't reach web2: Connection refused".to_owned()),
            figures: SummaryLine {
                unhashed: true,
                relayed: None,
                ..SummaryLine::of(&Summary::default(), Duration::ZERO, ExitCode::Connection)
            },
        }),
        Line::Entry(EntryLine::of(host(), b"backup/a.iso", &entry(Kind::File { size: 1024 }))),
        Line::Entry(EntryLine::of(
            None,
            b"\xff",
            &entry(Kind::Symlink { target: b"\xff"[..].into() }),
        )),
        Line::Hash(HashLine {
            host: host(),
            path: Path::of(b"backup/a.iso"),
            hash: hash.to_owned(),
        }),
        Line::Hash(HashLine { host: None, path: Path::of(b"\xff"), hash: hash.to_owned() }),
        Line::Server(ServerUsed { host: "nas", protocol: "quic" }),
        Line::ServerUnavailable(ServerUnavailable {
            host: "nas",
            message: "can't reach the server at nas: Connection refused",
        }),
        Line::Cache(CacheLine {
            dir: "/home/ann/.cache/haul".into(),
            chunks: 163_840,
            bytes: 10 << 30,
            files: 120,
            index_bytes: 3_944_512,
            kept_bytes: 1 << 30,
            kept_max: 4 << 30,
            saved_parts: 310,
            saved_bytes: 2 << 30,
        }),
        Line::CacheChecked(CheckedLine { good: 163_832, dropped: 8 }),
        Line::Kept(KeptLine {
            host: "nas",
            used: false,
            since: 1_795_873_591,
            left: 571,
            holder: 7155,
            closed: false,
        }),
        Line::Setting(SettingLine {
            host: Some("nas"),
            key: "timeout",
            value: Some(&TIMEOUT),
            origin: JsonOrigin::File,
            path: Some(Path::of(b"/home/ann/.config/haul/config.toml")),
            line: Some(2),
        }),
        Line::Setting(SettingLine {
            host: None,
            key: "rsh",
            value: None,
            origin: JsonOrigin::File,
            path: Some(Path::of(b"/\xff")),
            line: Some(1),
        }),
        Line::Difference(DifferenceLine::of(
            b"photos/a.jpg",
            &Kind::File { size: 2 << 20 },
            Mismatch::Differs(Changes::SIZE.with(Changes::TIME)),
        )),
        Line::Difference(DifferenceLine::of(b"\xff", &Kind::Dir, Mismatch::Extra)),
        Line::CheckSummary(CheckSummaryLine {
            same: 1005,
            different: 2,
            missing: 1,
            extra: 0,
            special: 0,
            failed: 0,
            seconds: 0.41,
            exit_code: 1,
        }),
        Line::Moved(MovedLine { path: Path::of(b"photos/a.jpg"), renamed: false }),
        Line::Moved(MovedLine { path: Path::of(b"\xff"), renamed: true }),
        Line::MoveSummary(MoveSummaryLine {
            moved: 1008,
            kept: 0,
            failed: 0,
            seconds: 1.2,
            exit_code: 0,
        }),
        Line::ConnectionLost(ConnectionLost {
            host: "nas",
            message: "the connection to nas was lost",
            attempt: 1,
            seconds: 1,
        }),
        Line::ConnectionRegained {},
        Line::Stage(StageLine::of(b"backup/.haul-0a1b2c3d4e5f-5f4e3d2c1b0a.part", &kept)),
        Line::Stage(StageLine::of(b"\xff", &Cleaned { target, ..kept.clone() })),
    ]
}

/// The fields and the first line of each type, as written.
fn emitted() -> BTreeMap<String, (BTreeSet<String>, String)> {
    let mut types: BTreeMap<String, (BTreeSet<String>, String)> = BTreeMap::new();
    for line in samples().into_iter().chain(doctor::samples()) {
        let text = String::from_utf8(line.to_bytes()).expect("JSON is UTF-8");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let object = value.as_object().expect("an object");
        let name = object["type"].as_str().expect("a type").to_owned();
        let known = types.entry(name).or_insert_with(|| (BTreeSet::new(), text.trim().to_owned()));
        known.0.extend(object.keys().cloned());
    }
    types
}

/// The fields and the example of each type, as documented: a heading `` ### `type` ``, a table
/// whose rows start with a field's name, and a line of JSON.
fn documented() -> BTreeMap<String, (BTreeSet<String>, String)> {
    let mut types = BTreeMap::new();
    for section in DOCUMENT.split("\n### `").skip(1) {
        let (name, body) = section.split_once('`').expect("a heading");
        // The first cell of a row names one or more fields.
        let cells = body.lines().filter_map(|line| {
            Some(line.strip_prefix("| ")?.split_once(" |")?.0).filter(|cell| cell.starts_with('`'))
        });
        let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        let fields = words.chain(["type"]).map(str::to_owned).collect();
        let example = body.lines().find(|line| line.starts_with('{')).unwrap_or_default();
        types.insert(name.to_owned(), (fields, example.to_owned()));
    }
    types
}

#[test]
fn the_document_names_what_is_emitted() {
    let (emitted, documented) = (emitted(), documented());
    assert_eq!(emitted.keys().collect::<Vec<_>>(), documented.keys().collect::<Vec<_>>(), "types");
    for (name, (fields, example)) in &emitted {
        assert_eq!(fields, &documented[name].0, "the fields of {name}");
        assert_eq!(example, &documented[name].1, "the example of {name}");
    }
    assert!(DOCUMENT.contains(&format!("schema {SCHEMA}")), "the schema's number");
}

/// Every value that serde can write for a closed set of words.
fn words<T: Serialize>(all: &[T]) -> Vec<String> {
    all.iter()
        .map(|word| serde_json::to_string(word).expect("a word").trim_matches('"').to_owned())
        .collect()
}

#[test]
fn the_document_names_every_word() {
    use FaultKind as F;
    let faults = [
        F::NotFound,
        F::PermissionDenied,
        F::NoSpace,
        F::ReadOnly,
        F::TooLong,
        F::IsDirectory,
        F::NotDirectory,
        F::NotRecursive,
        F::SameFile,
        F::IntoItself,
        F::Changed,
        F::Corrupt,
        F::Link,
        F::Special,
        F::Parent,
        F::Io,
        F::Lossy,
        F::Taken,
    ];
    let mut all = words(&faults.map(enums::JsonFault::from));
    all.extend(words(&[
        ErrorKind::Usage,
        ErrorKind::Connection,
        ErrorKind::Protocol,
        ErrorKind::Destination,
        ErrorKind::Interrupted,
        ErrorKind::OutOfTime,
        ErrorKind::Io,
    ]));
    let every = Changes::try_from(0xffff).expect("known bits");
    all.extend(words(&JsonDifference::all_of(Mismatch::Differs(every))));
    all.extend(words(&JsonDifference::all_of(Mismatch::Extra)));
    let fates = [Fate::Removed, Fate::WouldRemove, Fate::Kept, Fate::Busy, Fate::Recent];
    all.extend(words(&fates.map(JsonFate::from)));
    all.extend(words(&[JsonKind::File, JsonKind::Dir, JsonKind::Symlink, JsonKind::Special]));
    all.extend(words(&[
        JsonOutcome::Copied,
        JsonOutcome::Linked,
        JsonOutcome::Updated,
        JsonOutcome::Skipped,
        JsonOutcome::WouldCopy,
        JsonOutcome::WouldLink,
        JsonOutcome::WouldUpdate,
    ]));
    let skips = [Skip::Unchanged, Skip::Exists, Skip::NotOlder, Skip::Special, Skip::Ruled];
    all.extend(words(&skips.map(JsonReason::from)));
    let (file, variable) = (JsonOrigin::File, JsonOrigin::Environment);
    all.extend(words(&[JsonOrigin::Default, file, variable, JsonOrigin::CommandLine]));
    for word in all {
        assert!(DOCUMENT.contains(&format!("`{word}`")), "{word}");
    }
}

#[test]
fn a_name_that_is_no_text_is_there_in_full() {
    let line = Line::Warning(Warning { path: Path::of(b"a\xffb\n"), message: "x" });
    insta::assert_snapshot!(
        String::from_utf8(line.to_bytes()).expect("JSON is UTF-8").trim_end(),
        @r#"{"type":"warning","path":"a�b\n","path_hex":"61ff620a","message":"x"}"#
    );
}
