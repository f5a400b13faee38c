//! A test that collects all messages and hints, so that they can be read together.

use super::*;
use crate::error::CommandError;
use haul::deploy::{DeployError, LikelyCause};
use haul_engine::JobError;
use haul_proto::HandshakeError;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// Adds a message and its hint to the table.
fn line(table: &mut String, message: impl std::fmt::Display, hint: Option<&str>) {
    let _ = writeln!(table, "haul: {message}");
    if let Some(hint) = hint {
        let _ = writeln!(table, "  hint: {hint}");
    }
}

fn connections() -> Vec<ConnectError> {
    use ConnectError as E;
    let host = || "nas".to_owned();
    let detail = || "DETAIL".to_owned();
    let tried = || Some("/opt/haul".to_owned());
    let problem = "it is empty";
    vec![
        E::HostName { name: host(), problem },
        E::UserName { name: "ann".into(), problem },
        E::RemoteShell { words: "ssh".into(), problem },
        E::RemoteHaul { path: "/opt/haul".into(), problem },
        E::Start { host: host(), program: "ssh".into(), cause: io::ErrorKind::NotFound.into() },
        E::Unreachable { host: host(), detail: detail() },
        E::HostKey { host: host(), changed: false },
        E::HostKey { host: host(), changed: true },
        E::LoginRefused { host: host(), detail: detail() },
        E::Setup { host: host(), detail: detail() },
        E::HaulMissing { host: host(), tried: None, address: host() },
        E::HaulMissing { host: host(), tried: tried(), address: host() },
        E::HaulUnusable { host: host(), detail: detail() },
        E::NoHaul { host: host(), tried: None },
        E::NoHaul { host: host(), tried: tried() },
        E::SftpOnly { host: host() },
        E::NoShell { host: host(), text: "TEXT".into() },
        E::SubsystemMissing { host: host(), name: "sftp" },
        E::Agent { host: host(), status: 7, detail: detail() },
        E::NoisyShell { host: host(), text: "TEXT".into() },
        E::Lost { host: host(), detail: detail() },
        E::Silent { host: host(), seconds: 15 },
        E::Unanswered { host: host(), seconds: 30 },
        E::NotDirect { host: host(), detail: detail() },
        E::DirectLost { host: host(), detail: detail() },
        E::ServerKey { host: host(), stored: "FINGERPRINT".into() },
        E::NotEnrolled { host: host() },
        E::Busy { host: host() },
        E::Unserved { host: host() },
        E::NoServer { host: host(), detail: detail() },
        E::Stopped { host: host() },
    ]
}

fn jobs() -> Vec<JobError> {
    let fault = |kind| Fault::new(Side::Destination, kind, "MESSAGE");
    let version = HandshakeError::Version { theirs: 9, their_program: "0.0.9".into() };
    vec![
        JobError::Usage("MESSAGE".into()),
        JobError::Protocol("MESSAGE".into()),
        JobError::Version { host: "nas".into(), cause: version },
        JobError::Destination { path: "dir/".into(), fault: fault(FaultKind::NotFound) },
        JobError::Destination { path: "dir".into(), fault: fault(FaultKind::NotFound) },
        JobError::Threads(io::ErrorKind::WouldBlock.into()),
        JobError::OpenFiles(64),
        JobError::Panicked,
        JobError::Interrupted,
    ]
}

fn deployments() -> Vec<DeployError> {
    use DeployError as E;
    let (host, path) = (|| "nas".to_owned(), || "~/.local".to_owned());
    let suspected = |suspect| E::DoesNotStart { host: host(), cause: "CAUSE".into(), suspect };
    let fault = Fault::new(Side::Destination, FaultKind::NoSpace, "MESSAGE");
    vec![
        E::Program { path: "haul".into(), why: "it is not a regular file".into() },
        E::Bound { host: host() },
        E::FactsMissing { host: host(), said: "TEXT".into() },
        E::WrongMachine {
            host: host(),
            theirs: "Linux aarch64".into(),
            ours: "linux on x86_64".into(),
        },
        E::Place { host: host(), path: path(), why: "WHY", hint: "HINT" },
        E::Irreplaceable { host: host(), path: path() },
        E::Upload { host: host(), path: path(), fault },
        E::Differs { host: host(), path: path() },
        suspected(LikelyCause::Libraries),
        suspected(LikelyCause::Directory),
        E::NoHaul { host: host(), cause: "CAUSE".into() },
        E::Version { theirs: "7.8.9".into() },
    ]
}

const KINDS: [FaultKind; 20] = {
    use FaultKind as K;
    [
        K::NotFound,
        K::PermissionDenied,
        K::NoSpace,
        K::ReadOnly,
        K::TooLong,
        K::IsDirectory,
        K::NotDirectory,
        K::NotRecursive,
        K::SameFile,
        K::IntoItself,
        K::Changed,
        K::Corrupt,
        K::Link,
        K::Busy,
        K::Special,
        K::Parent,
        K::Io,
        K::Lossy,
        K::Taken,
        K::ForeignLink,
    ]
};

#[test]
fn errors_have_a_cause_and_at_most_one_hint() {
    let mut table = String::new();
    for error in connections() {
        let hint = error.hint();
        line(&mut table, error, hint.as_deref());
    }
    table.push('\n');
    for error in jobs() {
        let error = CommandError::from(error);
        assert!(error.hints.len() <= 1, "{error}: {:?}", error.hints);
        line(&mut table, &error, error.hints.first().map(String::as_str));
    }
    table.push('\n');
    for error in deployments() {
        let hint = error.hint();
        line(&mut table, error, hint);
    }
    table.push('\n');
    for kind in KINDS {
        for side in [Side::Source, Side::Destination] {
            let fault = Fault::new(side, kind, "MESSAGE");
            line(&mut table, format!("PATH: {kind:?}, {side:?}"), fault.hint());
        }
    }
    insta::assert_snapshot!(table);
}

/// Minimum words of a string that counts as a message.
const WORDS_MIN: usize = 4;

/// The messages in a source file: its strings of several words. Tests, comments and `expect` are
/// skipped.
fn texts(source: &str) -> Vec<&str> {
    let end = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    let (source, mut texts, mut at) = (&source[..end], Vec::new(), 0);
    while let Some(found) = source[at..].find(['"', '/', '\'']) {
        let start = at + found;
        let rest = &source[start..];
        let len = |end: &str| rest[1..].find(end).map_or(rest.len(), |len| len + 1 + end.len());
        at = start
            + match rest.as_bytes() {
                [b'/', b'/', ..] => len("\n"),
                [b'\'', b'\\', _, b'\'', ..] => 4,
                [b'\'', _, b'\'', ..] => 3,
                [b'"', ..] if source[..start].ends_with("r#") => len("\"#"),
                [b'"', ..] => {
                    let is_end = |at: &usize| !escaped(&rest[1..*at]);
                    let quotes = rest.match_indices('"').map(|(at, _)| at).skip(1);
                    let len = quotes.into_iter().find(is_end).unwrap_or(rest.len() - 1);
                    let text = &rest[1..len];
                    let is_seen = !source[..start].trim_end().ends_with("expect(");
                    if is_seen && text.split_whitespace().count() >= WORDS_MIN {
                        texts.push(text);
                    }
                    len + 1
                }
                _ => 1,
            };
    }
    texts
}

/// True if the character after `text` is escaped.
fn escaped(text: &str) -> bool {
    text.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Adds the messages of the files below `dir`. The help has its own snapshots.
fn collect(dir: &Path, table: &mut String) {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if name.ends_with("tests") || ["options", "help", "messages"].contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            collect(&path, table);
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            // Each line is words, and the answer to them.
            let lines = fs::read_to_string(&path).expect("text");
            let answers = lines.lines().filter_map(|line| Some(line.split_once(": ")?.1));
            let answers = answers.filter(|text| text.split_whitespace().count() >= WORDS_MIN);
            answers.for_each(|text| table.push_str(&format!("{text}\n")));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("text");
            for text in texts(&source) {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                table.push_str(&format!("{}\n", text.replace("\\ ", "")));
            }
        }
    }
}

#[test]
fn all_messages_of_all_crates() {
    for name in
        ["model", "plan", "proto", "sys", "store", "tree", "net", "sftp", "engine", "haul", "cli"]
    {
        let dir = format!("{}/../{name}/src", env!("CARGO_MANIFEST_DIR"));
        let mut table = String::new();
        collect(Path::new(&dir), &mut table);
        assert!(table.lines().count() > 3, "{table}");
        insta::assert_snapshot!(name, table);
    }
}
