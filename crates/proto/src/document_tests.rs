//! `docs/protocol.md` checked against the code: its tables of the version, the frames, the
//! bounds and the capabilities have each entry with its value, and none besides.

use crate::{
    ACCOUNT_NAME_MAX, ACCOUNTS_MAX, ARRIVED_MAX, Caps, DATA_MAX, DISK_BYTES_MAX, FILLER_LEN,
    FLOW_BYTES_MAX, FRAME_MAX, FrameType, INCOMING_MAX, JOIN_SECRET_LEN, LANES_MAX, LIST_WINDOW,
    MAGIC, MEASURE_MILLIS_MAX, NAMES_WAITING_MAX, OFFERED_PER_FRAME_MAX, PACK_FILE_MAX, SIGNED_MAX,
    SOURCES_MAX, SUMS_LEN_MAX, SUMS_PER_FRAME_MAX, TOKEN_LEN, VERSION,
};
use haul_model::{
    AccountMap, BLOCK_LEN, Bases, BlockRanges, EXTENDED_LEN_MAX, Filter, MAX_DEPTH, MAX_NAME_LEN,
    Pattern,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const DOCUMENT: &str = include_str!("../../../docs/protocol.md");

/// Bounds of other crates that are constants for themselves, and the files that have them.
const ELSEWHERE: [(&str, &str); 13] = [
    ("WINDOW_SLACK", "engine/src/receiver/mod.rs"),
    ("OPEN_MAX", "store/src/pieces.rs"),
    ("pieces::AHEAD_MAX", "store/src/pieces.rs"),
    ("LANES_AHEAD_MAX", "engine/src/receiver/filler/incoming.rs"),
    ("stripes::AHEAD_MAX", "engine/src/sender/stripes.rs"),
    ("PARTS_MAX", "engine/src/link/wire/ledger.rs"),
    ("ASIDE_MAX", "engine/src/sender/remover.rs"),
    ("CHANGES_MAX", "model/src/altered/modes.rs"),
    ("BLOCK_LEN_MIN", "delta/src/shape.rs"),
    ("BLOCK_LEN_MAX", "delta/src/shape.rs"),
    ("BLOCKS_MAX", "delta/src/shape.rs"),
    ("MESSAGE_LEN_MAX", "model/src/fault.rs"),
    ("EARLY_MAX", "engine/src/agent/entrance.rs"),
];

/// The same, where they are times.
const TIMES: [(&str, &str); 2] = [
    ("LEAVING_MAX", "engine/src/agent/heir.rs"),
    ("FLOW_MAX", "engine/src/request/measure/flow.rs"),
];

/// The rows of the first table in the section `heading`, without its head.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = DOCUMENT.split_once(&format!("{heading}\n")).expect("the section");
    // A diagram has lines that begin in the same way.
    let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The number that a cell of a table has: "4 MiB + 256 KiB", "1,024", "5 s".
fn number(cell: &str) -> u64 {
    let term = |term: &str| {
        let (digits, unit) = term.split_once(' ').unwrap_or((term, ""));
        let digits: u64 = digits.replace(',', "").parse().expect("a number");
        digits
            * match unit {
                "" | "bytes" => 1,
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                "GiB" => 1 << 30,
                "s" => 1000,
                _ => panic!("{unit} is no unit"),
            }
    };
    cell.split(" + ").map(term).sum()
}

/// The value of the constant `name` in a file of another crate. A time is in milliseconds.
fn elsewhere(name: &str, file: &str) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let source = std::fs::read_to_string(path).expect("the file");
    let name = name.rsplit("::").next().expect("a name");
    let (_, rest) = source.split_once(&format!("const {name}: ")).expect("the constant");
    let (_, value) = rest.split_once("= ").expect("its value");
    let (value, _) = value.split_once(';').expect("its end");
    let digits = |text: &str| text.replace('_', "").parse::<u64>().expect("a number");
    if let Some(seconds) = value.strip_prefix("Duration::from_secs(") {
        let seconds = digits(seconds.trim_end_matches(')'));
        return Duration::from_secs(seconds).as_millis() as u64;
    }
    match value.split_once(" << ") {
        Some((base, shift)) => digits(base) << digits(shift),
        None => digits(value),
    }
}

#[test]
fn the_version_is_that_of_the_code() {
    let rows = table("# The protocol");
    let magic = std::str::from_utf8(&MAGIC).expect("text");
    let expected = [format!("`VERSION` {VERSION}"), format!("`MAGIC` `{magic}`")];
    let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    assert_eq!(rows, expected);
}

#[test]
fn the_frames_are_those_of_the_code() {
    let described = |row: Vec<&str>| {
        let [byte, name, .., max] = row[..] else { panic!("{row:?}") };
        (byte.to_owned(), name.to_owned(), number(max))
    };
    let described: Vec<_> = table("## Frames").into_iter().map(described).collect();
    let mut kinds = FrameType::ALL;
    kinds.sort_by_key(|kind| kind.byte());
    let row = |kind: FrameType| {
        (format!("{:#04x}", kind.byte()), format!("{kind:?}"), u64::from(kind.payload_max()))
    };
    assert_eq!(described, kinds.map(row));
}

#[test]
fn the_bounds_are_those_of_the_code() {
    let ours: [(&str, u64); 34] = [
        ("FRAME_MAX", FRAME_MAX.into()),
        ("PROGRAM_MAX", crate::handshake::PROGRAM_MAX as u64),
        ("LIST_WINDOW", LIST_WINDOW),
        ("MAX_NAME_LEN", MAX_NAME_LEN as u64),
        ("MAX_DEPTH", MAX_DEPTH as u64),
        ("EXTENDED_LEN_MAX", EXTENDED_LEN_MAX as u64),
        ("SOURCES_MAX", SOURCES_MAX as u64),
        ("Bases::MAX", Bases::MAX as u64),
        ("TOKEN_LEN", TOKEN_LEN as u64),
        ("JOIN_SECRET_LEN", JOIN_SECRET_LEN as u64),
        ("Filter::RULES_MAX", Filter::RULES_MAX as u64),
        ("Filter::FILES_MAX", Filter::FILES_MAX as u64),
        ("Filter::FILE_LEN_MAX", Filter::FILE_LEN_MAX),
        ("Pattern::LEN_MAX", Pattern::LEN_MAX as u64),
        ("AccountMap::RULES_MAX", AccountMap::RULES_MAX as u64),
        ("ACCOUNTS_MAX", ACCOUNTS_MAX as u64),
        ("ACCOUNT_NAME_MAX", ACCOUNT_NAME_MAX as u64),
        ("BlockRanges::BOUNDS_MAX", BlockRanges::BOUNDS_MAX as u64),
        ("BLOCK_LEN", BLOCK_LEN),
        ("DATA_MAX", DATA_MAX as u64),
        ("PACK_HEAD_MAX", crate::codec::PACK_HEAD_MAX as u64),
        ("PACK_FILE_MAX", PACK_FILE_MAX),
        ("LANES_MAX", LANES_MAX.into()),
        ("ARRIVED_MAX", ARRIVED_MAX),
        ("INCOMING_MAX", INCOMING_MAX as u64),
        ("SIGNED_MAX", SIGNED_MAX as u64),
        ("SUMS_LEN_MAX", SUMS_LEN_MAX as u64),
        ("SUMS_PER_FRAME_MAX", SUMS_PER_FRAME_MAX as u64),
        ("OFFERED_PER_FRAME_MAX", OFFERED_PER_FRAME_MAX as u64),
        ("NAMES_WAITING_MAX", NAMES_WAITING_MAX as u64),
        ("FILLER_LEN", FILLER_LEN as u64),
        ("FLOW_BYTES_MAX", FLOW_BYTES_MAX),
        ("DISK_BYTES_MAX", DISK_BYTES_MAX),
        ("MEASURE_MILLIS_MAX", MEASURE_MILLIS_MAX.into()),
    ];
    let others = ELSEWHERE.into_iter().chain(TIMES);
    let others = others.map(|(name, file)| (name, elsewhere(name, file)));
    let expected: BTreeMap<String, u64> =
        ours.into_iter().chain(others).map(|(name, value)| (format!("`{name}`"), value)).collect();
    let rows = table("## Bounds");
    let described: BTreeMap<String, u64> =
        rows.iter().map(|row| (row[0].to_owned(), number(row[1]))).collect();
    assert_eq!(rows.len(), described.len(), "a bound is there twice");
    assert_eq!(described, expected);
}

#[test]
fn the_capabilities_are_those_of_the_code() {
    let ours = [
        (Caps::LZ4, "LZ4"),
        (Caps::ZSTD, "ZSTD"),
        (Caps::DEDUP, "DEDUP"),
        (Caps::LANES, "LANES"),
        (Caps::MEASURES, "MEASURES"),
        (Caps::CALLS, "CALLS"),
        (Caps::SESSIONS, "SESSIONS"),
    ];
    let all = ours.iter().fold(0, |bits, (cap, _)| bits | cap.bits());
    assert_eq!(all, Caps::OURS.bits());
    let expected = ours.map(|(cap, name)| format!("{:#04x} `{name}`", cap.bits()));
    let (_, section) = DOCUMENT.split_once("| bit | capability |").expect("the table");
    let rows = section.lines().skip(2).take_while(|line| line.starts_with('|'));
    let described: Vec<String> = rows
        .map(|row| row.trim_matches('|').split('|').map(str::trim).take(2).collect::<Vec<_>>())
        .map(|cells| cells.join(" "))
        .collect();
    assert_eq!(described, expected);
    let reserved = [(Caps::FAST, "FAST"), (Caps::SYNC, "SYNC"), (Caps::ATTRIBUTES, "ATTRIBUTES")];
    for (cap, name) in reserved {
        let words = format!("`{name}` ({:#04x})", cap.bits());
        assert!(DOCUMENT.contains(&words), "{words} is missing");
    }
}
