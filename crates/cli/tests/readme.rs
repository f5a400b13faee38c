//! The examples in the documents, run in the order of their page.
//!
//! `nas` (in some pages `web1` and `web2`) is this machine behind a real ssh server. Each page
//! has a new home directory there and a new `photos` here.

use haul_testkit::sshd::system_sftp_server;
use haul_testkit::{Sshd, TempDir, nasty, tree};
use std::env;
use std::ffi::OsStr;
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

/// The first line of the client's configuration: the names that pages give to the host.
const HOSTS: &str = "Host nas web1 web2\n";

/// At least so many pages have examples. Fewer means that they are no longer found.
const PAGES_MIN: usize = 12;

/// At least so many messages are explained. Fewer means that they are no longer found.
const MESSAGES_MIN: usize = 20;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The README's first command, which a reader runs in the repository.
const DEMO: &str = "cargo run --release -- copy -r docs /tmp/haul-demo/";

#[test]
fn every_example_in_the_readme_says_what_it_shows() {
    let readme = document(&Path::new(ROOT).join("README.md"));
    assert_eq!(readme.matches(DEMO).count(), 2, "the first command is there, and again");
    let demo = TempDir::with_prefix("haul-demo-").expect("a temporary directory");
    let command = format!("haul copy -r {ROOT}/docs {}/", demo.path().join("demo").display());
    World::new().run_examples("README", &readme.replace(DEMO, &command));
}

#[test]
fn every_example_in_the_pages_says_what_it_shows() {
    let docs = Path::new(ROOT).join("docs");
    let mut pages = vec![docs.join("quick-start.md")];
    for dir in ["coming-from", "how-to"] {
        let found = fs::read_dir(docs.join(dir)).expect("a directory of pages");
        pages.extend(found.map(|page| page.expect("a page").path()));
    }
    pages.sort();
    let world = World::new();
    let mut run = 0;
    for page in pages {
        let text = document(&page);
        if text.contains("```console\n$ ") {
            let name = page.file_stem().and_then(OsStr::to_str).expect("a name");
            world.run_examples(name, &text);
            run += 1;
        }
    }
    assert!(run >= PAGES_MIN, "{run} pages have examples");
}

#[test]
fn every_message_in_the_troubleshooting_page_is_one_of_the_program() {
    let page = document(&Path::new(ROOT).join("docs/troubleshooting.md"));
    let (_, table) = page.split_once("\n## Messages\n").expect("a table of messages");
    let mut code = String::new();
    for part in fs::read_dir(Path::new(ROOT).join("crates")).expect("the crates") {
        read_sources(&part.expect("a crate").path().join("src"), &mut code);
    }
    let messages: Vec<&str> = table.lines().filter_map(|row| row.split('`').nth(1)).collect();
    assert!(messages.len() >= MESSAGES_MIN, "{messages:?}");
    for message in messages {
        // The names and figures in a message are other words in the code.
        let is_filled_in = |word: &&str| !word.contains(char::is_lowercase);
        for words in message.split(' ').collect::<Vec<_>>().split(is_filled_in) {
            let words = words.join(" ");
            assert!(code.contains(&words), "no message has \"{words}\": {message}");
        }
    }
}

/// Adds the text of all Rust files below `dir` to `code`.
fn read_sources(dir: &Path, code: &mut String) {
    for entry in fs::read_dir(dir).expect("a directory of sources") {
        let path = entry.expect("a source").path();
        if path.is_dir() {
            read_sources(&path, code);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            code.push_str(&document(&path));
        }
    }
}

fn document(path: &Path) -> String {
    fs::read_to_string(path).expect("a document")
}

/// A host and the programs that reach it.
struct World {
    dir: TempDir,
    _sshd: Sshd,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::with_prefix("haul-readme-").expect("a temporary directory");
        let path = |name: &str| dir.path().join(name);
        for name in ["bin", "there", "there/bin"] {
            fs::create_dir(path(name)).expect("a directory");
        }

        // The host: haul is on its PATH, and a login starts in its home directory.
        let home = path("there/home").display().to_string();
        let login = format!("cd '{home}' && exec '{HAUL}' \"$@\"");
        script(&path("there/bin/haul"), &login);
        let paths = format!("{}:/usr/bin:/bin", path("there/bin").display());
        let sftp = system_sftp_server().map(|program| program.display().to_string());
        let sftp = sftp.unwrap_or_else(|| "internal-sftp".to_owned());
        let sshd = Sshd::builder().env("PATH", paths).sftp(format!("{sftp} -d {home}"));
        let sshd = sshd.start().expect("sshd starts");

        // This side: the system's ssh, which knows the host under its names.
        let config = fs::read_to_string(sshd.ssh_config()).expect("a configuration");
        let config = config.replace(&format!("Host {}\n", sshd.host()), HOSTS);
        fs::write(path("ssh_config"), config).expect("a configuration");
        let here = env::var("PATH").expect("a PATH");
        let ssh = format!("PATH='{here}'\nexec ssh -F '{}' \"$@\"", path("ssh_config").display());
        script(&path("bin/ssh"), &ssh);
        Self { dir, _sshd: sshd }
    }

    /// Runs the examples of a page in their order, beside a directory `photos`, and compares
    /// their output with the page.
    fn run_examples(&self, name: &str, page: &str) {
        let path = |name: &str| self.dir.path().join(name);
        let home = path("there/home");
        if home.exists() {
            fs::remove_dir_all(&home).expect("the home of the page before");
        }
        fs::create_dir(&home).expect("a directory");
        let world = path(&format!("{name}.in"));
        fs::create_dir(&world).expect("a directory");
        make_photos(&world.join("photos"));

        let file = path(&format!("{name}.md"));
        fs::write(&file, runnable(page)).expect("written");
        let here = env::var("PATH").expect("a PATH");
        trycmd::TestCases::new()
            .register_bin("haul", trycmd::schema::Bin::Path(HAUL.into()))
            .env("PATH", format!("{}:{here}", path("bin").display()))
            .env("XDG_CONFIG_HOME", path("none").display().to_string())
            .env("XDG_STATE_HOME", path(&format!("{name}.state")).display().to_string())
            .timeout(LIMIT)
            .case(file)
            .run();
    }
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

/// `page` as trycmd takes it: with a wildcard for each figure that differs from run to run, the
/// exit code 1 for each command that is shown with an error or a difference, and an empty line
/// after each command's output.
fn runnable(page: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut command = None;
    let mut is_demo = false;
    for line in page.lines() {
        if line.starts_with("$ ") || line == "```" {
            if command.take().is_some() {
                lines.push(String::new());
            }
            if line.starts_with("$ ") {
                command = Some(lines.len());
                is_demo = line.contains("/docs ");
            }
        }
        if let Some(command) = command.filter(|_| fails(line))
            && lines.get(command + 1).is_none_or(|line| line != "? 1")
        {
            lines.insert(command + 1, "? 1".to_owned());
        }
        lines.push(match line.split_once(" in ") {
            Some(("copied nothing", _)) if is_demo => "copied nothing in [..]".to_owned(),
            Some(_) if is_demo => "copied [..] files, [..]".to_owned(),
            Some((done, time)) if is_summary(done) => {
                let rest = time.split_once(';').map(|(_, rest)| rest).unwrap_or_default();
                match rest {
                    "" => format!("{done} in [..]"),
                    // How much of it depends on when direct connections are ready.
                    _ if rest.ends_with("through this machine") => format!("{done} in [..]"),
                    _ => format!("{done} in [..];{rest}"),
                }
            }
            _ => line.to_owned(),
        });
    }
    lines.join("\n") + "\n"
}

/// True if a command that prints `line` exits with 1.
fn fails(line: &str) -> bool {
    let is_error = line.starts_with("haul: ") && !line.starts_with("haul: warning: ");
    is_error || line.split_once(" in ").is_some_and(|(done, _)| begins(done, &DIFFERENCES))
}

/// True if a summary begins with `done`, and ends with how long it took.
fn is_summary(done: &str) -> bool {
    begins(done, &["copied ", "moved ", "no difference"]) || begins(done, &DIFFERENCES)
}

fn begins(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.starts_with(word))
}

/// How summaries of `haul check` begin, where the two sides differ.
const DIFFERENCES: [&str; 3] = ["different ", "missing ", "extra "];
