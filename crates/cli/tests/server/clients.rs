//! Clients that are enrolled, revoked and invited, and keys that change.

use super::*;

#[test]
fn a_client_gets_no_user_that_does_not_exist() {
    let server = Server::start();
    let output = server.haul(&["invite", "--run-as=no-such-user", "--name=x"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("there is no user 'no-such-user'"), "{said}");
}

#[test]
fn who_is_not_enrolled_or_was_revoked_learns_nothing() {
    for via in BOTH {
        let server = Server::start();
        let (stranger, revoked) = (server.stranger().by(via), server.client("ann", &[]).by(via));
        revoked.download("/", server.dir()).expect("copied");
        server.ok(&["revoke", "ann"]);
        let refusals = [&stranger, &revoked].map(|client| {
            let error = client.download("/", server.dir()).expect_err("refused");
            assert!(
                matches!(error, JobError::Connection(ConnectError::NotEnrolled { .. })),
                "{error}"
            );
            error.to_string()
        });
        assert_eq!(refusals[0], refusals[1]);
        assert_eq!(server.haul(&["revoke", "ann"]).status.code(), Some(2));
    }
}

#[test]
fn a_revoked_client_loses_its_running_jobs_within_a_second() {
    for via in BOTH {
        let server = Server::start();
        let (ann, bob) = (server.client("ann", &[]).by(via), server.client("bob", &[]).by(via));
        let source = server.path("large");
        fs::write(&source, vec![3; 64 << 20]).expect("written");
        let job = |name: &str| Job {
            sources: NamedSources::at(vec![source.as_os_str().as_bytes().to_vec()]),
            dest: NamedDest::at(name),
            wire: at_rate(16),
            ..copy()
        };
        let copy =
            |client: &Client, name| client.run(&job(name), Placement::upload, &Quiet::default());
        thread::scope(|scope| {
            let (anns, bobs) = (scope.spawn(|| copy(&ann, "/a")), scope.spawn(|| copy(&bob, "/b")));
            until("both run", || {
                server.status()["jobs"].as_array().is_some_and(|all| all.len() == 2)
            });
            thread::sleep(Duration::from_millis(300));
            let begin = Instant::now();
            server.ok(&["revoke", "ann"]);
            until("one runs", || {
                server.status()["jobs"].as_array().is_some_and(|all| all.len() == 1)
            });
            assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
            anns.join().expect("no panic").expect_err("it was revoked");
            bobs.join().expect("no panic").expect("copied");
        });
        assert!(!server.root().join("a").exists());
        let ends = server.audit("disconnected");
        assert!(
            ends.iter().any(|end| end["client"] == "ann" && end["outcome"] == "revoked"),
            "{ends:?}"
        );
    }
}

/// The words that invite a client.
fn invite(server: &Server, options: &[&str]) -> String {
    let root = format!("--root={}", server.root().display());
    let mut words = vec!["invite", &root];
    words.extend(options);
    if is_root() {
        words.push("--run-as=root");
    }
    server.ok(&words).trim().to_owned()
}

#[test]
fn an_invitation_enrols_one_client_once() {
    let server = Server::start();
    let line = invite(&server, &["--read-only"]);
    let join = |home: &str, name: &str| {
        let words = ["join", &line, "--name", name, "--host", "nas"];
        server.command_of(home, &words).output().expect("it runs")
    };
    let joined = join("ann", "ann");
    let error = String::from_utf8_lossy(&joined.stderr).into_owned();
    assert!(joined.status.success(), "{error}");
    assert!(server.ok(&["clients"]).starts_with("ann  read "));
    let again = join("bob", "bob");
    assert_eq!(again.status.code(), Some(3));
    let error = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(error.contains("has expired, or was used already"), "{error}");
    let servers = server.path("ann/.local/state/haul/servers.toml");
    assert!(fs::read_to_string(servers).expect("servers").contains("host = \"nas\""));
    let logged = server.audit("enrolled");
    assert_eq!((logged.len(), &logged[0]["name"]), (1, &"ann".into()));
}

#[test]
fn no_client_is_invited_to_the_keys_of_the_server() {
    let server = Server::start();
    for name in ["", "keys"] {
        let root = format!("--root={}", server.state(name).display());
        let mut words = vec!["invite", &root];
        words.extend(is_root().then_some("--run-as=root"));
        let refused = server.command(&words).output().expect("it runs");
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains("the keys of the server are in it"), "{error}");
    }
    for address in ["nas:0", "nas:99999", "::1:7:"] {
        let root = format!("--root={}", server.root().display());
        let mut words = vec!["invite", &root, "--address", address];
        words.extend(is_root().then_some("--run-as=root"));
        let refused = server.command(&words).output().expect("it runs");
        assert_eq!(refused.status.code(), Some(2), "{address}");
    }
}

#[test]
fn a_client_is_revoked_also_where_the_settings_are_wrong() {
    let server = Server::start();
    let client = server.client("ann", &[]);
    fs::write(server.root().join("x"), "x").expect("written");
    client.download("/x", server.dir()).expect("copied");
    let config = server.path("home/.config/haul");
    fs::create_dir_all(&config).expect("made");
    fs::write(config.join("server.toml"), "no settings").expect("written");
    let revoked = server.command(&["revoke", "ann"]).output().expect("it runs");
    assert!(!revoked.status.success());
    let error = String::from_utf8_lossy(&revoked.stderr).into_owned();
    assert!(error.contains("the change is written, but the running server reports"), "{error}");
    client.download("/x", server.dir()).expect_err("it was revoked");
    assert_eq!(fs::read_dir(server.state("slots")).expect("a directory").count(), 0);
    // An invitation that is stored is printed.
    let root = format!("--root={}", server.root().display());
    let mut words = vec!["invite", &root];
    words.extend(is_root().then_some("--run-as=root"));
    let invited = server.haul(&words);
    let line = String::from_utf8_lossy(&invited.stdout).into_owned();
    assert!(!invited.status.success(), "{line}");
    line.trim().parse::<haul_net::Invitation>().expect("an invitation");
}

#[test]
fn an_invitation_replaces_no_server_that_is_known() {
    let (server, other) = (Server::start(), Server::start());
    let join = |line: &str, options: &[&str]| {
        let words = [&["join", line, "--name", "ann"], options].concat();
        let joined = server.command_of("ann", &words).output().expect("it runs");
        (joined.status.code(), String::from_utf8_lossy(&joined.stderr).into_owned())
    };
    assert_eq!(join(&invite(&server, &[]), &[]).0, Some(0));
    let line = invite(&other, &[]);
    let (code, error) = join(&line, &[]);
    assert_eq!(code, Some(2));
    assert!(error.contains("127.0.0.1 is known as a server with another key"), "{error}");
    assert_eq!(join(&line, &["--host=127.0.0.1"]).0, Some(0), "the user has chosen that");
}

#[test]
fn old_keys_stay_while_the_records_are_not_written() {
    let server = Server::start();
    let client = server.client("ann", &[]);
    fs::write(server.root().join("x"), "x").expect("written");
    server.ok(&["rotate"]);
    let clients = server.state("clients.toml");
    let records = fs::read(&clients).expect("read");
    for is_there in [true, false] {
        match is_there {
            true => fs::write(&clients, "").expect("written"),
            false => fs::remove_file(&clients).expect("removed"),
        }
        let _ = server.command(&["reload"]).output().expect("it runs");
        fs::write(&clients, &records).expect("written");
        server.ok(&["reload"]);
        client.download("/x", server.dir()).expect("it knows the old key");
    }
    assert_eq!(fs::read_dir(server.state("keys")).expect("a directory").count(), 2);
    server.ok(&["revoke", "ann"]);
    assert_eq!(fs::read_dir(server.state("keys")).expect("a directory").count(), 1);
}

#[test]
fn the_secret_of_an_invitation_opens_nothing_else() {
    let server = Server::start();
    let line = invite(&server, &[]);
    let invitation: haul_net::Invitation = line.parse().expect("an invitation");
    let guest = Client { identity: invitation.identity().expect("a key"), ..server.stranger() };
    fs::write(server.root().join("x"), "x").expect("written");
    guest.download("/x", server.dir()).expect_err("it is no client");
    assert!(!server.path("x").exists());
    // It can still be used as it is meant.
    let words = ["join", &line, "--name", "ann"];
    let joined = server.command_of("ann", &words).output().expect("it runs");
    assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
}

#[test]
fn a_new_key_of_the_server_needs_no_new_enrolment() {
    for via in BOTH {
        let server = Server::start();
        let line = invite(&server, &["--name=ann"]);
        let ran = |words: &[&str]| {
            let output = server.command_of("ann", words).output().expect("it runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        ran(&["join", &line, "--host", "nas"]);
        let bob = server.client("bob", &[]).by(via);
        let open = invite(&server, &["--name=eve"]);
        let old = server.status()["key"].clone();
        server.ok(&["rotate"]);
        let new = server.status()["key"].clone();
        assert_ne!(old, new);
        // The old key still works, and whoever uses it learns the new one.
        let (told, tell) = std::sync::mpsc::channel();
        let addresses = [bob.address.clone()];
        let connected = connect_server(
            "nas",
            &addresses,
            bob.server,
            &bob.identity,
            Timeouts::default(),
            move |key| {
                let _ = told.send(key);
            },
        );
        haul_engine::Requests::remote(connected.expect("connected")).expect("greeted");
        let learnt = tell.recv_timeout(PATIENCE).expect("a key");
        assert_eq!(learnt.to_string(), new.as_str().expect("a text"));
        let keys = || fs::read_dir(server.state("keys")).expect("keys").count();
        assert_eq!(keys(), 2);
        // When all have used the new one, the old one goes: also if the last that lack it are
        // revoked. An invitation from before still works.
        let bob = Client { server: learnt, ..bob };
        bob.download("/", server.dir()).expect("copied");
        until("it is noted", || {
            let records = fs::read_to_string(server.state("clients.toml")).expect("records");
            records.contains(&learnt.to_string())
        });
        server.ok(&["revoke", "ann"]);
        let output = server.command_of("eve", &["join", &open, "--host", "nas"]).output();
        assert!(output.expect("it runs").status.success());
        assert_eq!(keys(), 2);
        server.ok(&["revoke", "eve"]);
        until("the old key is gone", || keys() == 1);
        bob.download("/", server.dir()).expect("copied");
    }
}

#[test]
fn a_server_with_another_key_is_not_talked_to() {
    for via in BOTH {
        let server = Server::start();
        let client = server.client("ann", &[]).by(via);
        let client = Client { server: Identity::new().expect("a key").key(), ..client };
        let error = client.download("/", server.dir()).expect_err("another server");
        assert!(matches!(error, JobError::Connection(ConnectError::ServerKey { .. })), "{error}");
    }
}

#[test]
fn each_client_has_a_chunk_cache_of_its_own() {
    for via in BOTH {
        let server = Server::start();
        let root = server.root().display().to_string();
        let [ann, bob] = ["ann", "bob"].map(|name| {
            // Both reach the same files.
            server.client(name, &["--root", &root]).by(via)
        });
        let source = server.path("content");
        haul_testkit::tree::random_file(&source, 3 << 20, 1).expect("a file");
        // The client's machine has no place for a cache.
        let cache = Some(CacheConfig { dir: PathBuf::new(), kept_max: 0 });
        let upload = |client: &Client, name: &str| {
            let job = Job {
                sources: NamedSources::at(vec![source.as_os_str().as_bytes().to_vec()]),
                dest: NamedDest::at(name),
                cache: cache.clone(),
                ..copy()
            };
            let done = client.run(&job, Placement::upload, &Quiet::default()).expect("copied");
            (done.bytes_transferred, done.bytes_matched)
        };
        assert_eq!(upload(&ann, "/a"), (3 << 20, 0));
        assert!(upload(&ann, "/b").1 > 0);
        assert_eq!(upload(&bob, "/c"), (3 << 20, 0), "it is not bob's");
        assert!(upload(&bob, "/d").1 > 0);
        fs::create_dir(server.root().join("sub")).expect("made");
        assert!(upload(&ann, "/sub/e").1 > 0, "a job below may read what is above");
        let content = fs::read(&source).expect("read");
        for name in ["a", "b", "c", "d", "sub/e"] {
            assert!(fs::read(server.root().join(name)).expect("read") == content, "{name}");
        }
        let caches = || {
            let entries = fs::read_dir(server.state("caches")).expect("it is there");
            let names = entries.map(|entry| entry.expect("an entry").file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().expect("text")).collect();
            names.sort();
            names
        };
        assert!(caches()[0].starts_with("ann-") && caches().len() == 2, "{:?}", caches());
        server.ok(&["revoke", "ann"]);
        assert!(caches()[0].starts_with("bob-") && caches().len() == 1, "{:?}", caches());
    }
}

#[test]
fn a_client_that_cannot_be_served_receives_that_the_log_has_the_reason() {
    for via in BOTH {
        let server = Server::start();
        let client = server.client("ann", &[]).by(via);
        let refused = |reason: &str, nth: usize| {
            let error = client.download("/", server.dir()).expect_err("it can't be served");
            let JobError::Connection(error) = error else { panic!("{error}") };
            assert!(
                matches!(error, ConnectError::Unserved { .. }) && !error.retriable(),
                "{error}"
            );
            until("it is logged", || server.audit("refused").len() > nth);
            let logged = server.audit("refused")[nth]["reason"].clone();
            assert!(logged.as_str().expect("a text").contains(reason), "{logged}");
        };
        fs::rename(server.root(), server.path("away")).expect("renamed");
        refused("can't restrict access to", 0);
        fs::rename(server.path("away"), server.root()).expect("renamed");
        client.download("/", server.dir()).expect("it is served");
        if via == ServerVia::Tcp {
            let pid = server.status()["pid"].as_i64().expect("a number");
            until("all others have ended", || server.audit("disconnected").len() == 2);
            leave_descriptors(i32::try_from(pid).expect("a process"), 2);
            refused("os error 24", 1);
        }
    }
}

/// Leaves that process so many descriptors that it may still open.
fn leave_descriptors(pid: i32, count: usize) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let is_free = |fd: &u64| !Path::new(&format!("/proc/{pid}/fd/{fd}")).exists();
    let limit = (0..).filter(is_free).nth(count).expect("a number");
    let limits = Rlimit { current: Some(limit), maximum: Some(limit) };
    prlimit(Pid::from_raw(pid), Resource::Nofile, limits).expect("set");
}
