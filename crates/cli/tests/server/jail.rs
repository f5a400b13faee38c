//! The places that a client of a server can't reach, and those that one who reads can't change.

use super::*;
use haul_model::{Backup, Moving, Remove};
use std::os::unix::fs::{MetadataExt, symlink};

/// Everything below `dir`, with its times and sizes.
fn listed(dir: &Path) -> Vec<(PathBuf, i64, i64, u64, u32)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("read") {
        let path = entry.expect("an entry").path();
        let found = fs::symlink_metadata(&path).expect("metadata");
        all.push((path.clone(), found.mtime(), found.mtime_nsec(), found.len(), found.mode()));
        if found.is_dir() {
            all.extend(listed(&path));
        }
    }
    all.sort();
    all
}

#[test]
fn a_client_does_not_leave_its_root() {
    let server = Server::start();
    let client = server.client("ann", &[]);
    let outside = server.path("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("secret"), "secret").expect("written");
    symlink(&outside, server.root().join("out")).expect("a link");
    symlink("..", server.root().join("up")).expect("a link");
    symlink("/proc/self/cwd/../outside", server.root().join("proc")).expect("a link");
    let (before, source) = (listed(&outside), server.path("file"));
    fs::write(&source, "planted").expect("written");
    let got = server.path("got");
    fs::create_dir(&got).expect("a directory");
    let above = outside.display().to_string();
    for from in [
        "/out/secret",
        "/up/outside/secret",
        "../outside/secret",
        "proc/secret",
        "/../outside/secret",
        &format!("{above}/secret"),
        "/proc/1/environ",
    ] {
        match client.download(from, &got) {
            Ok(summary) => assert_eq!(summary.copied, 0, "{from}"),
            Err(error) => assert!(!error.to_string().contains("secret words"), "{error}"),
        }
        assert_eq!(listed(&got), [], "{from}");
    }
    for to in ["/out/", "/up/outside/", "../outside/", "/proc/", "/out/x/", &format!("{above}/")] {
        let _ = client.upload(&[&source], to);
        assert_eq!(listed(&outside), before, "{to}");
        assert!(!server.path("file").with_file_name("planted").exists());
    }
    // Options that name places.
    let backup = Backup { dir: Some(above.clone().into_bytes()), suffix: b"~".to_vec() };
    fs::write(server.root().join("file"), "old content").expect("written");
    let job = Job {
        sources: NamedSources::at(vec![source.as_os_str().as_bytes().to_vec()]),
        dest: NamedDest { into_dir: true, ..NamedDest::at(b"/") },
        ..copy()
    };
    let jobs = [
        Job { dest: NamedDest { backup: Some(backup), ..job.clone().dest }, ..job.clone() },
        Job {
            dest: NamedDest { staging: Some(above.clone().into_bytes()), ..job.clone().dest },
            ..job.clone()
        },
        Job { dest: NamedDest { bases: vec![above.into_bytes()], ..job.dest }, ..job },
    ];
    for job in jobs {
        let _ = client.run(&job, Placement::upload, &Quiet::default());
        assert_eq!(listed(&outside), before);
    }
}

#[test]
fn a_root_that_another_client_has_replaced_by_a_link_is_not_entered() {
    let server = Server::start();
    let (inbox, outside) = (server.root().join("inbox"), server.path("outside"));
    fs::create_dir(&inbox).expect("a directory");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("secret"), "secret").expect("written");
    let client = server.client_of("bob", &inbox, &[]);
    let got = server.path("got");
    fs::create_dir(&got).expect("a directory");
    fs::remove_dir(&inbox).expect("removed");
    symlink(&outside, &inbox).expect("a link");
    client.download("/secret", &got).expect_err("it is not served");
    assert_eq!(listed(&got), []);
    until("it is logged", || !server.audit("refused").is_empty());
}

#[test]
fn a_client_that_reads_changes_nothing() {
    let server = Server::start();
    let client = server.client("ann", &["--read-only"]);
    fs::create_dir(server.root().join("dir")).expect("a directory");
    fs::write(server.root().join("dir/x"), "x").expect("written");
    let before = listed(&server.root());
    let got = server.path("got");
    fs::create_dir(&got).expect("a directory");
    assert_eq!(client.download("/dir", &got).expect("copied").copied, 1);
    let source = server.path("y");
    fs::write(&source, "y").expect("written");
    client.upload(&[&source], "/").expect_err("it may not write");
    let refused = |job: &serde_json::Value| job["role"] == "receive" && job["entries"] == 0;
    until("it is logged", || server.audit("job").iter().any(refused));
    let task = Task::Remove { rule: Remove::SameContent, moving: Moving::Lossy };
    let dest = got.as_os_str().as_bytes().to_vec();
    let removal = Job {
        sources: NamedSources::at(vec![b"/dir".to_vec()]),
        dest: NamedDest { into_dir: true, ..NamedDest::at(dest) },
        task,
        ..copy()
    };
    client.run(&removal, Placement::download, &Quiet::default()).expect_err("it may not remove");
    assert_eq!(listed(&server.root()), before);
}
