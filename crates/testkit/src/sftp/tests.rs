//! The odd server is odd only where it is to be: OpenSSH's own client works
//! with it, through a shell that passes the bytes on.

use super::*;
use crate::{TempDir, tree};
use std::fs;
use std::process::{Command, Stdio};

/// Runs the system's `sftp` against the server, connected by two named pipes.
fn sftp(dir: &Path, odd: Oddities, commands: &str) -> (bool, String) {
    let pipes = TempDir::new().expect("a temporary directory");
    let (up, down) = (pipes.path().join("up"), pipes.path().join("down"));
    let made = Command::new("mkfifo").arg(&up).arg(&down).status().expect("it starts");
    assert!(made.success());
    let (_server, mut output, mut input) = OddSftp::serve(dir, odd).expect("served");
    // sftp starts this in place of ssh, with its own standard streams.
    let script = pipes.path().join("connect");
    let text = format!(
        "#!/bin/sh\nexec 3<&0\ncat <&3 >'{}' &\nexec cat '{}'\n",
        up.display(),
        down.display()
    );
    fs::write(&script, text).expect("written");
    Command::new("chmod").arg("755").arg(&script).status().expect("it starts");
    let to_server = thread::spawn(move || {
        let mut from = fs::File::open(up).expect("opened");
        let _ = io::copy(&mut from, &mut input);
    });
    let from_server = thread::spawn(move || {
        let mut to = fs::File::create(down).expect("opened");
        let _ = io::copy(&mut output, &mut to);
    });
    let mut client = Command::new("sftp")
        .arg("-S")
        .arg(&script)
        .args(["-b", "-", "anywhere"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sftp starts");
    let mut stdin = client.stdin.take().expect("a pipe");
    stdin.write_all(commands.as_bytes()).expect("written");
    drop(stdin);
    let done = client.wait_with_output().expect("it ends");
    to_server.join().expect("it ends");
    from_server.join().expect("it ends");
    (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn the_systems_own_client_works_with_it() {
    let dir = TempDir::new().expect("a temporary directory");
    tree::random_file(dir.path().join("a"), 1_000_000, 1).expect("made");
    let place = dir.path().display();
    let commands = format!(
        "put {place}/a up\nget up {place}/down\nmkdir d\nrename up d/up\nln -s up d/link\nls -l d\nchmod 640 d/up\n"
    );
    let odd = Oddities { reversed: true, ..Oddities::default() };
    let (ok, said) = sftp(dir.path(), odd, &commands);
    assert!(ok, "{said}");
    let read = |name: &str| fs::read(dir.path().join(name)).expect("there");
    assert!(read("a") == read("down") && read("a") == read("d/up"));
    assert_eq!(fs::read_link(dir.path().join("d/link")).expect("a link"), Path::new("up"));
}

#[test]
fn a_fault_is_one() {
    let dir = TempDir::new().expect("a temporary directory");
    let odd = Oddities { fault: Some((0, Fault::Claim(1 << 30))), ..Oddities::default() };
    let (ok, said) = sftp(dir.path(), odd, "ls\n");
    assert!(!ok && said.contains("too long"), "{said}");
}
