//! The examples in the documents, done as they stand there.
//!
//! In the README and the guide, `nas` is this machine behind a real ssh server,
//! and its home directory is made for the run.

use haul_testkit::{Sshd, TempDir, nasty, tree};
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// How long one step of an example may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The README's first command, which a reader runs in the repository.
const DEMO: &str = "cargo run --release -- copy -r docs /tmp/haul-demo/";

#[test]
fn every_example_in_the_readme_says_what_it_shows() {
    let readme = document("README.md");
    assert_eq!(readme.matches(DEMO).count(), 2, "the first command is there, and again");
    let demo = TempDir::with_prefix("haul-demo-").expect("a temporary directory");
    let command = format!("haul copy -r {ROOT}/docs {}/", demo.path().join("demo").display());
    run_examples(&readme.replace(DEMO, &command));
}

#[test]
fn every_example_in_the_guide_says_what_it_shows() {
    run_examples(&document("docs/guide.md"));
}

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(name)).expect("a document")
}

/// Runs the examples of a document in their order, beside a directory `photos`,
/// and compares their output with what the document shows.
fn run_examples(document: &str) {
    let world = TempDir::with_prefix("haul-readme-").expect("a temporary directory");
    let path = |name: &str| world.path().join(name);
    let there = path("there");
    for dir in ["bin", "page.in", "there", "there/bin", "there/home"] {
        fs::create_dir(path(dir)).expect("a directory");
    }
    make_photos(&path("page.in/photos"));

    // The host: haul is on its PATH, and a login starts in its home directory.
    let login = format!("cd '{}/home' && exec '{HAUL}' \"$@\"", there.display());
    script(&there.join("bin/haul"), &login);
    let paths = format!("{}/bin:/usr/bin:/bin", there.display());
    let sshd = Sshd::builder().env("PATH", paths).start().expect("sshd starts");

    // This side: the system's ssh, which knows the host under its name.
    let config = fs::read_to_string(sshd.ssh_config()).expect("a configuration");
    let config = config.replace(sshd.host(), "nas");
    fs::write(path("ssh_config"), config).expect("a configuration");
    let here = env::var("PATH").expect("a PATH");
    let ssh = format!("PATH='{here}'\nexec ssh -F '{}' \"$@\"", path("ssh_config").display());
    script(&path("bin/ssh"), &ssh);

    fs::write(path("page.md"), runnable(document)).expect("written");
    trycmd::TestCases::new()
        .register_bin("haul", trycmd::schema::Bin::Path(HAUL.into()))
        .env("PATH", format!("{}:{here}", path("bin").display()))
        .env("XDG_CONFIG_HOME", path("none").display().to_string())
        .timeout(LIMIT)
        .case(path("page.md"))
        .run();
}

#[test]
fn the_conversation_in_the_protocol_is_a_real_one() {
    let document = Path::new(ROOT).join("docs/protocol.md");
    let document = fs::read_to_string(document).expect("the protocol");
    let (_, example) = document.split_once("\n## An example\n").expect("an example");
    let said: Vec<Vec<u8>> = example.split("```text\n").skip(1).map(bytes_of).collect();
    let [first, answer, second, end] = &said[..] else {
        panic!("{} parts of a conversation", said.len());
    };

    let home = TempDir::with_prefix("haul-protocol-").expect("a temporary directory");
    fs::create_dir(home.path().join("in")).expect("a directory");
    let agent = Command::new(HAUL)
        .arg("serve")
        .current_dir(home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut agent = agent.expect("an agent");
    let mut input = agent.stdin.take().expect("a pipe");
    let mut output = agent.stdout.take().expect("a pipe");
    let (mouth, ear) = mpsc::channel();
    let lengths = [answer.len(), end.len()];
    thread::spawn(move || {
        for len in lengths {
            let mut heard = vec![0; len];
            let said = output.read_exact(&mut heard).map(|()| heard);
            mouth.send(said).expect("somebody listens");
        }
        let mut more = Vec::new();
        let said = output.read_to_end(&mut more).map(|_| more);
        mouth.send(said).expect("somebody listens");
    });
    let hear = || ear.recv_timeout(LIMIT).expect("in time").expect("the agent speaks");
    input.write_all(first).expect("the agent listens");
    assert_eq!(hear(), *answer);
    input.write_all(second).expect("the agent listens");
    assert_eq!(hear(), *end);
    assert_eq!(hear(), b"", "that was all");
    assert!(agent.wait().expect("it ends").success());
    assert_eq!(fs::read(home.path().join("in/t/d/l")).expect("the file"), b"hello\n");
}

/// The bytes of a block: hexadecimal digits up to a semicolon in each line.
fn bytes_of(block: &str) -> Vec<u8> {
    let (lines, _) = block.split_once("```").expect("the end of the block");
    let digits = lines.lines().flat_map(|line| line.split(';').next());
    let digits: Vec<u32> = digits
        .flat_map(|line| line.chars().filter(|c| *c != ' '))
        .map(|c| c.to_digit(16).expect("a digit"))
        .collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits");
    digits.chunks_exact(2).map(byte).collect()
}

/// 1,000 small files in 10 directories, and 8 large ones.
fn make_photos(root: &Path) {
    let file = |dir: &str, name: String, len: u64, seed: u64| {
        let dir = root.join(dir);
        fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join(name);
        tree::random_file(&path, len, seed).expect("a file");
        nasty::set_mode(&path, 0o644).expect("a mode");
        let day = 24 * 60 * 60;
        let seconds = 1_700_000_000 + i64::try_from(seed).expect("a small number") * day;
        nasty::set_mtime(&path, seconds, 0).expect("a time");
    };
    for n in 0..1000 {
        file(&format!("2024-{:02}", n / 100 + 1), format!("thumb-{:03}.jpg", n % 100), 4 << 10, n);
    }
    for n in 1..=8 {
        file("raw", format!("img-{n}.raw"), 2 << 20, n);
    }
}

fn script(path: &Path, lines: &str) {
    fs::write(path, format!("#!/bin/sh\n{lines}\n")).expect("a script");
    nasty::set_mode(path, 0o755).expect("a mode");
}

/// `readme` as trycmd wants it: with a wildcard for each figure that differs
/// from run to run, the exit code 1 for each command that is shown with an
/// error line, and a line end behind each command's output.
fn runnable(readme: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut command = None;
    let mut is_demo = false;
    for line in readme.lines() {
        if line.starts_with("$ ") || line == "```" {
            if command.take().is_some() {
                lines.push(String::new());
            }
            if line.starts_with("$ ") {
                command = Some(lines.len());
                is_demo = line.contains("/docs ");
            }
        }
        if let Some(command) = command.filter(|_| line.starts_with("haul: "))
            && lines.get(command + 1).is_none_or(|line| line != "? 1")
        {
            lines.insert(command + 1, "? 1".to_owned());
        }
        lines.push(match line.split_once(" in ") {
            Some(("copied nothing", _)) if is_demo => "copied nothing in [..]".to_owned(),
            Some(_) if is_demo => "copied [..] files, [..]".to_owned(),
            Some((done, time))
                if ["copied ", "moved ", "no difference"]
                    .iter()
                    .any(|word| done.starts_with(word)) =>
            {
                let rest = time.split_once(';').map(|(_, rest)| format!(";{rest}"));
                format!("{done} in [..]{}", rest.unwrap_or_default())
            }
            _ => line.to_owned(),
        });
    }
    lines.join("\n") + "\n"
}
