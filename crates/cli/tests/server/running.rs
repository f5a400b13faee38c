//! Copies through a server, its log, and how it starts and stops.

use super::*;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

#[test]
fn files_are_copied_in_both_directions_and_logged() {
    for via in BOTH {
        let server = Server::start();
        let client = server.client("ann", &[]).by(via);
        let source = server.path("photos");
        fs::create_dir_all(source.join("2024")).expect("a directory");
        fs::write(source.join("2024/a.jpg"), vec![7; 3 << 20]).expect("written");
        fs::write(source.join("b.jpg"), "b").expect("written");
        let summary = client.upload(&[&source], "/in/").expect("copied");
        assert_eq!((summary.copied, summary.failed), (2, 0));
        assert_eq!(
            fs::read(server.root().join("in/photos/2024/a.jpg")).expect("read").len(),
            3 << 20
        );
        let back = server.path("back");
        fs::create_dir(&back).expect("a directory");
        client.download("in/photos", &back).expect("copied");
        assert_eq!(fs::read(back.join("photos/b.jpg")).expect("read"), b"b");
        let again = client.upload(&[&source], "/in/").expect("copied");
        assert_eq!((again.copied, again.skipped), (0, 2));
        until("all have left", || server.audit("disconnected").len() == 3);
        let jobs = server.audit("job");
        let told = |job: &serde_json::Value| {
            let text = |key: &str| job[key].as_str().expect("a text").to_owned();
            let number = |key: &str| job[key].as_u64().expect("a number");
            let words = ["client", "task", "role", "right", "outcome"].map(text);
            (words.join(" "), number("entries"), number("bytes"))
        };
        let bytes = (3 << 20) + 1;
        assert_eq!(told(&jobs[0]), ("ann copy receive write done".to_owned(), 4, bytes));
        assert_eq!(told(&jobs[1]).0, "ann copy send write done");
        assert_eq!(told(&jobs[2]), ("ann copy receive write done".to_owned(), 2, 0));
        let outcomes = server.audit("disconnected");
        assert!(outcomes.iter().all(|line| line["outcome"] == "done"), "{outcomes:?}");
        assert!(jobs[0]["from"].as_str().expect("a text").starts_with("127.0.0.1:"));
    }
}

#[test]
fn a_job_of_a_server_of_root_is_of_the_clients_user() {
    if !is_root() {
        return;
    }
    let server = Server::start();
    let client = server.client("bob", &["--run-as=nobody"]);
    let source = server.path("file");
    fs::write(&source, "x").expect("written");
    let refused = client.upload(&[&source], "/");
    assert!(refused.is_ok_and(|summary| (summary.copied, summary.failed) == (0, 1)));
    let nobody = Some(65534);
    std::os::unix::fs::chown(server.root(), nobody, nobody).expect("changed");
    client.upload(&[&source], "/").expect("copied");
    let found = fs::metadata(server.root().join("file")).expect("a file");
    assert_eq!((found.uid(), found.gid()), (65534, 65534));
    // It can't read what only root may.
    fs::write(server.root().join("secret"), "x").expect("written");
    fs::set_permissions(server.root().join("secret"), Permissions::from_mode(0o600)).expect("set");
    let summary = client.download("/secret", server.dir()).expect("a report");
    assert_eq!((summary.copied, summary.failed), (0, 1));
    let key = server.stranger().identity.key().to_string();
    let root = format!("--root={}", server.root().display());
    let refused = server.haul(&["admit", &key, &root, "--name=x"]);
    assert_eq!(refused.status.code(), Some(2), "a client of root's server has no user");
}

#[test]
fn a_client_without_a_user_is_not_served_by_root() {
    if !is_root() {
        return;
    }
    let server = Server::start();
    let client = server.client("ann", &[]);
    let path = server.state("clients.toml");
    let text = fs::read_to_string(&path).expect("records").replace("user = \"root\"\n", "");
    fs::write(&path, text).expect("written");
    server.ok(&["reload"]);
    client.download("/", server.dir()).expect_err("it has no user");
    until("it is logged", || server.audit("refused").len() == 1);
}

#[test]
fn a_server_that_stops_ends_its_jobs_in_order_and_they_can_continue() {
    for via in BOTH {
        let mut server = Server::start();
        let client = server.client("ann", &[]).by(via);
        let source = server.path("large");
        fs::write(&source, vec![3; 64 << 20]).expect("written");
        let job = Job {
            sources: NamedSources::at(vec![source.as_os_str().as_bytes().to_vec()]),
            dest: NamedDest::at(b"/large"),
            wire: at_rate(16),
            ..copy()
        };
        thread::scope(|scope| {
            let copying = scope.spawn(|| client.run(&job, Placement::upload, &Quiet::default()));
            until("a job runs", || server.status()["jobs"][0]["client"] == "ann");
            thread::sleep(Duration::from_millis(1500));
            let begin = Instant::now();
            server.ok(&["stop"]);
            assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());
            let error = copying.join().expect("no panic").expect_err("it was stopped");
            assert!(matches!(error, JobError::Connection(ref lost) if lost.retriable()), "{error}");
        });
        assert!(!server.haul(&["status"]).status.success());
        let status = server.wait().expect("waited");
        assert!(status.success());
        server.run();
        let client = Client { address: server.stranger().address, ..client };
        let job = Job { wire: WireOptions::default(), ..job };
        let summary = client.run(&job, Placement::upload, &Quiet::default()).expect("copied");
        assert!(summary.bytes_resumed > 0, "{summary:?}");
        assert_eq!(fs::metadata(server.root().join("large")).expect("a file").len(), 64 << 20);
    }
}

#[test]
fn a_server_that_is_killed_takes_its_jobs_along_and_another_one_continues() {
    for via in BOTH {
        let mut server = Server::start();
        let client = server.client("ann", &[]).by(via);
        let connection = client.connect().expect("connected");
        until("a job runs", || server.status()["jobs"][0]["client"] == "ann");
        let pid = server.status()["jobs"][0]["pid"].as_u64().expect("a number");
        server.kill().expect("killed");
        let child = PathBuf::from(format!("/proc/{pid}/exe"));
        until("the child has ended", || fs::read_link(&child).is_err());
        drop(connection);
        server.run();
        let client = Client { address: server.stranger().address, ..client };
        fs::write(server.root().join("x"), "x").expect("written");
        client.download("/x", server.dir()).expect("copied");
    }
}

/// The sockets of a child: that of further connections, and its own. By QUIC that is a pair.
fn sockets_of(via: ServerVia) -> usize {
    if via == ServerVia::Quic { 3 } else { 2 }
}

/// The descriptors of a process, as what they lead to.
fn descriptors(pid: u64) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("a process");
    let paths = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    paths.map(|path| path.display().to_string()).collect()
}

#[test]
fn a_child_has_no_socket_of_others_and_no_log() {
    for via in BOTH {
        let server = Server::start();
        let clients = ["ann", "bob", "eve"].map(|name| server.client(name, &[]).by(via));
        let connections = thread::scope(|scope| {
            let connect = |client: &Client| client.connect().expect("connected");
            let threads = clients.each_ref().map(|client| scope.spawn(move || connect(client)));
            threads.map(|thread| thread.join().expect("no panic"))
        });
        let jobs = || server.status()["jobs"].as_array().expect("jobs").clone();
        until("all are served", || jobs().len() == 3);
        for job in jobs() {
            let limits =
                || fs::read_to_string(format!("/proc/{}/limits", job["pid"])).expect("a process");
            let limit = |name: &str| {
                let limits = limits();
                let line = limits.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
                let mut words = line.split_ascii_whitespace();
                [words.next(), words.next()]
                    .map(|word| word.and_then(|word| word.parse::<u64>().ok()))
            };
            // That is the last step.
            until("it is confined", || limit("Max address space") == [Some(4096 << 20); 2]);
            assert_eq!(limit("Max open files"), [Some(1024); 2]);
            let has = descriptors(job["pid"].as_u64().expect("a number"));
            let sockets: BTreeSet<_> = has.iter().filter(|it| it.starts_with("socket:")).collect();
            assert_eq!(sockets.len(), sockets_of(via), "{has:?}");
            let own = format!("haul/server/caches/{}-", job["client"].as_str().expect("a name"));
            let is_others = |path: &String| path.contains("haul/server") && !path.contains(&own);
            assert!(!has.iter().any(is_others), "{has:?}");
        }
        drop(connections);
    }
}

#[test]
fn a_reload_keeps_jobs_and_takes_the_settings() {
    for via in BOTH {
        let server = Server::start();
        let client = server.client("ann", &[]).by(via);
        let _connection = client.connect().expect("connected");
        until("a job runs", || server.status()["jobs"][0]["client"] == "ann");
        let config = server.path("home/.config/haul");
        fs::create_dir_all(&config).expect("a directory");
        fs::write(config.join("server.toml"), "jobs-per-client = 1\n").expect("written");
        server.ok(&["reload"]);
        assert_eq!(server.status()["jobs"][0]["client"], "ann");
        let error = client.download("/", server.dir()).expect_err("it has a job already");
        assert!(matches!(error, JobError::Connection(ConnectError::Busy { .. })), "{error}");
        until("it is logged", || server.audit("refused").len() == 1);
        assert_eq!(server.audit("refused")[0]["reason"], "too many jobs at once");
        // What is wrong changes nothing, and is not repeated.
        fs::write(config.join("server.toml"), "jobs-per-client = \"secret\"\n").expect("written");
        let refused = server.haul(&["reload"]);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains("server.toml:1") && !error.contains("secret"), "{error}");
        assert_eq!(server.status()["jobs"][0]["client"], "ann");
    }
}

#[test]
fn a_client_that_leaves_between_requests_is_not_lost() {
    for via in BOTH {
        let server = Server::start();
        let client = server.client("ann", &[]).by(via);
        let connection = client.connect().expect("connected");
        let mut requests = haul_engine::Requests::remote(connection).expect("greeted");
        requests.stat(b"/", true).expect("a directory");
        drop(requests);
        until("it has left", || server.audit("disconnected").len() == 1);
        assert_eq!(server.audit("disconnected")[0]["outcome"], "done", "by {via:?}");
        assert_eq!(server.audit("requests")[0]["count"], 1, "by {via:?}");
    }
}

#[test]
fn all_connections_of_a_client_with_too_many_jobs_are_reported_so() {
    /// More than the lanes of a job, and its jobs.
    const CALLS: usize = 32;
    for via in BOTH {
        let mut server = Server::prepare();
        fs::create_dir_all(server.path("home/.config/haul")).expect("a directory");
        let settings = server.path("home/.config/haul/server.toml");
        fs::write(settings, "jobs-per-client = 1\n").expect("written");
        server.run();
        let client = server.client("ann", &[]).by(via);
        let connection = client.connect().expect("connected");
        until("a job runs", || server.status()["jobs"][0]["client"] == "ann");
        // None of them leaves before all have called.
        let together = Barrier::new(CALLS);
        let call = || {
            let called = client.connect();
            together.wait();
            match called.map_err(JobError::from).and_then(haul_engine::Requests::remote) {
                Err(JobError::Connection(ConnectError::Busy { .. })) => {}
                Err(error) => panic!("by {via:?}: {error}"),
                Ok(_) => panic!("by {via:?}: it is served"),
            }
        };
        thread::scope(|scope| (0..CALLS).for_each(|_| drop(scope.spawn(call))));
        // Those that are refused are no jobs: the next one is served.
        drop(connection);
        until("it has ended", || server.status()["jobs"].as_array().is_some_and(Vec::is_empty));
        let served = haul_engine::Requests::remote(client.connect().expect("connected"));
        assert!(served.is_ok(), "by {via:?}: {:?}", served.err());
    }
}

#[test]
fn a_service_manager_receives_when_the_server_is_ready() {
    let server = Server::prepare();
    let socket = UnixDatagram::bind(server.path("notify")).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut command = server.command(&["run", "--listen", "127.0.0.1:0"]);
    let child = command.env("NOTIFY_SOCKET", server.path("notify")).stderr(Stdio::null()).spawn();
    let mut child = child.expect("it starts");
    let heard = || {
        let mut state = [0; 64];
        let len = socket.recv(&mut state).expect("a state");
        String::from_utf8_lossy(&state[..len]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    server.ok(&["reload"]);
    assert!(heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(heard(), "READY=1");
    server.ok(&["stop"]);
    assert_eq!(heard(), "STOPPING=1");
    assert!(child.wait().expect("waited").success());
}

#[test]
fn a_service_manager_may_hand_over_the_sockets() {
    let activate = "/usr/bin/systemd-socket-activate";
    if !Path::new(activate).exists() {
        return;
    }
    let mut server = Server::prepare();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let mut command = Command::new(activate);
    let home = format!("HOME={}", server.path("home").display());
    let others = (1..20).map(|last| SocketAddr::from(([127, 0, 1, last], address.port())));
    let all: Vec<_> = std::iter::once(address).chain(others).map(|it| it.to_string()).collect();
    for address in &all {
        command.args(["-l", address]);
    }
    command.args(["-E", &home, HAUL, "server", "run"]);
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    server.adopt(child);
    // The first caller has the server started.
    until("it listens", || std::net::TcpStream::connect(address).is_ok());
    until("it runs", || server.haul(&["status"]).status.success());
    assert_eq!(server.status()["listen"], serde_json::json!(all));
    let client = server.client("ann", &[]);
    fs::write(server.root().join("x"), "x").expect("written");
    client.download("/x", server.dir()).expect("copied");
}

#[test]
fn a_second_server_of_a_user_does_not_start_and_one_can_start_in_the_background() {
    let mut server = Server::start();
    let socket = fs::metadata(server.state("control.sock")).expect("a socket");
    assert_eq!(socket.mode() & 0o777, 0o600);
    let refused = server.haul(&["run", "--listen", "127.0.0.1:0"]);
    assert!(!refused.status.success());
    server.ok(&["stop"]);
    server.wait().expect("waited");
    assert!(server.ok(&["start", "--listen", "127.0.0.1:0"]).contains("this machine only"));
    assert!(server.ok(&["start"]).contains("runs already"));
    let pid = server.status()["pid"].as_u64().expect("a number");
    server.ok(&["stop"]);
    until("it has ended", || fs::read_link(format!("/proc/{pid}/exe")).is_err());
}
