//! Tests that the lines match docs/reference/json.md.

use super::*;
use crate::error::ErrorKind;
use crate::hint::Hint;
use haul_engine::Fate;
use haul_model::{Attributes, FaultKind, Timestamp};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = include_str!("../../../../docs/reference/json.md");

/// Lines of every type. Each field is in at least one. The first line of a type is its example in
/// the document.
fn samples() -> Vec<Object> {
    let denied =
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
    let end = |summary, millis, code, relayed| End {
        summary,
        time: Duration::from_millis(millis),
        ended_early: false,
        relayed,
        code,
        entry_counts: haul_engine::EntryCounts::default(),
    };
    let failed_end = end(summary, 410, ExitCode::SomeFailed, 0);
    let synced_all = Summary {
        copied: 2,
        updated: 1,
        deleted: 1,
        skipped: 1005,
        bytes: 4_194_304,
        bytes_transferred: 4_194_304,
        ..Summary::default()
    };
    let checked = Summary { skipped: 1005, different: 2, missing: 1, ..Summary::default() };
    let left = Cleaned {
        name: String::new(),
        bytes: 40 << 20,
        target: None,
        progress: Some((40 << 20, 100 << 20)),
        fate: Fate::Kept,
    };
    let target = Some(Name::new(b"\xff").expect("a name"));
    let time = Timestamp { secs: 1_700_000_000, nanos: 123_456_789 };
    let of_kind = |kind| Entry::new(None, kind, Attributes::new(0o644, time));
    let hex = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    let (host, ms) = (Some("ann@host"), Duration::from_millis);
    let file = |size| Kind::File { size };
    let none = Changes::default();
    let grown = Changes::SIZE.with(Changes::TIME);
    let strings = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let lost = LinkEvent::Lost {
        host: "nas",
        reason: "the connection to nas was lost",
        attempt: 1,
        pause: Duration::from_secs(1),
    };
    let silent = LinkEvent::ServerUnavailable {
        host: "nas",
        reason: "can't reach the server at nas: Connection refused",
    };
    let links =
        [lost, LinkEvent::Reconnected, silent, LinkEvent::Server { host: "nas", is_quic: true }];
    let held = Held {
        host: "nas".to_owned(),
        is_used: false,
        since: 1_795_873_591,
        left: 571,
        holder: 7155,
    };
    let mut figures = CacheFigures {
        chunks: 163_840,
        bytes: 10 << 30,
        files: 120,
        index_len: 3_944_512,
        kept_len: 1 << 30,
        ..CacheFigures::default()
    };
    (figures.saved.parts, figures.saved.bytes) = (310, 2 << 30);
    let failed = "can't reach web2: Connection refused";
    let of_dest = |dest: &str| Object::line("destination").with("dest", dest);
    let linked = Outcome::Linked { found: none, first: b"log.1"[..].into() };
    let mut lines = vec![
        start(strings(&["photos"]), Some("host:backup/".to_owned()), Vec::new(), false),
        start(strings(&["www"]), None, strings(&["web1:/srv/", "web2:/srv/"]), false),
        result(b"photos/a.jpg", &file(2_097_152), &Outcome::Copied, false),
        result(b"photos/\xff.jpg", &file(5), &Outcome::Skipped(Skip::Unchanged), false),
        result(b"log", &file(5), &Outcome::Grew, false),
        result(b"log", &file(5), &Outcome::Synced(Changes::MODE), false),
        result(b"log", &file(5), &linked, false),
        synced(b"photos/a.jpg", &file(2_097_152), grown.with(Changes::SENT), None),
        synced(b"\xff", &Kind::Dir, none, Some(b"log")),
        deleted(b"photos/old.jpg", &file(0)),
        deleted(b"\xff", &file(0)),
        sync_summary(&end(synced_all, 40, ExitCode::Success, 0), false),
        sync_summary(&end(Summary::default(), 0, ExitCode::Success, 7), true),
        progress(&counts),
        warning(b"photos/pipe", "a FIFO, socket or device: not copied"),
        warning(b"\xff", ""),
        fault(None, b"photos/b.jpg", &denied, denied.hint()),
        fault(host, b"\xff", &denied, denied.hint()),
        command_error(&command),
        with_copy_figures(Object::line("summary"), &failed_end, false),
        with_copy_figures(Object::line("summary"), &end(summary, 410, ExitCode::Success, 7), true),
        with_copy_figures(of_dest("web1:/srv/"), &failed_end, false),
        with_copy_figures(
            of_dest("web2:/srv/").with("message", failed),
            &end(Summary::default(), 0, ExitCode::Connection, 0),
            true,
        ),
        entry(host, b"backup/a.iso", &of_kind(file(1024))),
        entry(None, b"\xff", &of_kind(Kind::Symlink { target: b"\xff"[..].into() })),
        hash(host, b"backup/a.iso", hex),
        hash(None, b"\xff", hex),
        cache("/home/ann/.cache/haul", 4 << 30, &figures),
        cache_checked(&CheckedChunks { good: 163_832, dropped: 8 }),
        kept(&held, false),
        setting(
            Some("nas"),
            "timeout",
            Some(&Value::from(120)),
            Some(Origin::File(2)),
            Some(b"/home/ann/.config/haul/config.toml"),
        ),
        setting(None, "rsh", None, Some(Origin::HostSection(1)), Some(b"/\xff")),
        difference(b"photos/a.jpg", &file(2 << 20), Some(grown)),
        difference(b"\xff", &Kind::Dir, None),
        check_summary(&end(checked, 410, ExitCode::SomeFailed, 0)),
        moved(b"photos/a.jpg", false),
        moved(b"\xff", true),
        move_summary(&Summary { moved: 1008, ..Summary::default() }, ms(1200), ExitCode::Success),
        stage(b"backup/.haul-0a1b2c3d4e5f-5f4e3d2c1b0a.part", &left),
        stage(b"\xff", &Cleaned { target, ..left.clone() }),
    ];
    lines.extend(links.iter().filter_map(link));
    lines
}

/// The fields and the first line of each type, as written.
fn emitted() -> BTreeMap<String, (BTreeSet<String>, String)> {
    let mut types: BTreeMap<String, (BTreeSet<String>, String)> = BTreeMap::new();
    for line in samples().into_iter().chain(crate::command::doctor_samples()) {
        let text = String::from_utf8(line.into_line()).expect("JSON is UTF-8");
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
        F::TooLarge,
    ];
    let mut all = words(&faults);
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
    let differences = difference_words(Some(every)).into_iter();
    all.extend(differences.chain(difference_words(None)).map(str::to_owned));
    let fates = [Fate::Removed, Fate::WouldRemove, Fate::Kept, Fate::Busy, Fate::Recent];
    all.extend(fates.map(|fate| fate_word(fate).to_owned()));
    let link = Kind::Symlink { target: b"a"[..].into() };
    let kinds = [Kind::File { size: 0 }, Kind::Dir, link, Kind::Special];
    all.extend(kinds.map(|kind| kind_word(&kind).to_owned()));
    let linked = Outcome::Linked { found: every, first: b"a"[..].into() };
    for outcome in [Outcome::Copied, linked, Outcome::Synced(every), Outcome::WouldCopy] {
        all.extend([false, true].map(|is_dry| result_word(&outcome, is_dry).to_owned()));
    }
    let skips = [Skip::Unchanged, Skip::Exists, Skip::NotOlder, Skip::Special, Skip::Ruled];
    all.extend(words(&skips));
    let origins = [Origin::File(1), Origin::Environment, Origin::CommandLine].map(Some);
    all.extend(origins.into_iter().chain([None]).map(|origin| origin_word(origin).to_owned()));
    for word in all {
        assert!(DOCUMENT.contains(&format!("`{word}`")), "{word}");
    }
}

#[test]
fn a_name_that_is_no_text_is_there_in_full() {
    let line = warning(b"a\xffb\n", "x");
    insta::assert_snapshot!(
        String::from_utf8(line.into_line()).expect("JSON is UTF-8").trim_end(),
        @r#"{"type":"warning","path":"a�b\n","path_hex":"61ff620a","message":"x"}"#
    );
}
