//! QUIC alone: its process, and clients whose packets take other ways.

use super::ways::{HOST, command, joined};
use super::*;
use haul_testkit::Link;

/// The number of the process that serves QUIC.
fn quic_process(server: &Server) -> Option<u64> {
    server.status()["quic_process"].as_u64()
}

#[test]
fn the_process_for_quic_has_no_rights_and_no_files() {
    let server = Server::start();
    let pid = quic_process(&server).expect("a process");
    // It gives up its rights before it serves, but after it was started.
    until("it has no rights", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
        let user = status.lines().find(|line| line.starts_with("Uid:")).expect("a line");
        let is_nobody = !is_root() || !user.split('\t').skip(1).any(|id| id == "0");
        is_nobody && status.contains("NoNewPrivs:\t1")
    });
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("a process");
    let has: Vec<String> = entries
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.len() > 1 || name > "2"))
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .map(|path| path.display().to_string())
        .collect();
    // The way to the main process, and the port.
    let sockets = has.iter().filter(|path| path.starts_with("socket:")).count();
    let files = has.iter().filter(|path| path.starts_with('/') && *path != "/dev/null").count();
    assert_eq!((sockets, files), (2, 0), "{has:?}");
}

#[test]
fn a_process_for_quic_that_crashes_is_replaced_and_harms_no_other_job() {
    let server = Server::start();
    let client = server.client("ann", &[]);
    let source = server.path("large");
    fs::write(&source, vec![3; 32 << 20]).expect("written");
    let slow = Job {
        sources: NamedSources::at(vec![source.as_os_str().as_bytes().to_vec()]),
        dest: NamedDest::at(b"/large"),
        wire: at_rate(16),
        ..copy()
    };
    let before = quic_process(&server).expect("a process");
    thread::scope(|scope| {
        let by_tcp = scope.spawn(|| client.run(&slow, Placement::upload, &Quiet::default()));
        until("a job runs", || server.status()["jobs"][0]["client"] == "ann");
        let pid = rustix::process::Pid::from_raw(i32::try_from(before).expect("a number"));
        rustix::process::kill_process(pid.expect("a process"), rustix::process::Signal::KILL)
            .expect("killed");
        until("another one runs", || quic_process(&server).is_some_and(|pid| pid != before));
        by_tcp.join().expect("no panic").expect("copied");
    });
    let client = client.by(ServerVia::Quic);
    client.download("/large", server.dir()).expect("copied");
    let log = fs::read_to_string(server.path("log")).expect("messages");
    assert!(log.contains("the process for QUIC has ended; another one starts"), "{log}");
}

#[test]
fn a_server_without_quic_reports_it_and_a_reload_adds_it() {
    let mut server = Server::prepare();
    let config = server.path("home/.config/haul");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("server.toml"), "quic = false\n").expect("written");
    server.run();
    assert!(server.ok(&["status"]).contains(" by TCP (this machine only)"));
    let client = server.client("ann", &[]).by(ServerVia::Quic);
    let error = client.download("/", server.dir()).expect_err("nobody listens");
    assert!(matches!(error, JobError::Connection(ConnectError::NoServer { .. })), "{error}");
    // The port that it has by TCP is taken for QUIC as well.
    let address = client.address.to_string();
    server.ok(&["stop"]);
    server.wait().expect("waited");
    server.run_on(&address).expect("it starts");
    fs::write(config.join("server.toml"), "congestion = \"cubic\"\n").expect("written");
    server.ok(&["reload"]);
    assert!(server.ok(&["status"]).contains(" by TCP and QUIC (this machine only)"));
    client.download("/", server.dir()).expect("copied");
}

#[test]
fn a_reload_that_gets_no_address_takes_the_other_settings() {
    let mut server = Server::start();
    let client = server.client("ann", &[]).by(ServerVia::Quic);
    // On a port that is not for the system to choose.
    server.ok(&["stop"]);
    server.wait().expect("waited");
    server.run_on(&client.address.to_string()).expect("it starts");
    let served = haul_engine::Requests::remote(client.connect().expect("connected"));
    let served = served.expect("greeted");
    let config = server.path("home/.config/haul");
    fs::create_dir_all(&config).expect("a directory");
    let set = |text: &str| fs::write(config.join("server.toml"), text).expect("written");
    set("quic = false\n");
    server.ok(&["reload"]);
    // The process for QUIC holds the port for the job.
    set("jobs-per-client = 1\n");
    let reload = || {
        let output = server.haul(&["reload"]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_done, said) = reload();
    assert!(!is_done && said.contains("run 'haul server reload' again"), "{said}");
    let client = client.by(ServerVia::Tcp);
    let error = client.download("/", server.dir()).expect_err("it has a job already");
    assert!(matches!(error, JobError::Connection(ConnectError::Busy { .. })), "{error}");
    drop(served);
    until("the port is free", || reload().0);
    until("the job has ended", || server.status()["jobs"].as_array().is_some_and(Vec::is_empty));
    client.by(ServerVia::Quic).download("/", server.dir()).expect("copied");
}

#[test]
fn a_client_continues_with_a_server_that_was_killed_and_started_again() {
    let mut server = joined(&[]);
    let address = server.status()["listen"][0].as_str().expect("an address").to_owned();
    fs::write(server.path("user/large"), vec![3; 48 << 20]).expect("written");
    let there = format!("{HOST}:large");
    let words =
        ["copy", "--via", "quic", "--bwlimit", "16m", "--compress", "none", "large", &there];
    let mut copying = command(&server, &words);
    let mut copying = copying.stderr(Stdio::piped()).spawn().expect("it starts");
    until("a job runs", || server.status()["jobs"][0]["client"] == "user");
    thread::sleep(Duration::from_millis(1000));
    server.kill().expect("killed");
    server.run_on(&address).expect("it starts");
    let begin = Instant::now();
    let status = copying.wait().expect("waited");
    assert!(status.success());
    // The server resets connections that it does not know: nobody waits for a silent one.
    assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());
    assert_eq!(fs::metadata(server.root().join("large")).expect("a file").len(), 48 << 20);
}

/// A server, and a client that reaches it by QUIC through a link.
fn relayed() -> (Server, Client, Link) {
    let server = Server::start();
    let client = server.client("ann", &[]).by(ServerVia::Quic);
    let link = Link::to_address(server.address().expect("an address")).expect("a link");
    let client = Client { address: link.address().into(), ..client };
    (server, client, link)
}

/// An upload of some seconds.
fn upload_of(source: &Path) -> Job {
    fs::write(source, vec![3; 24 << 20]).expect("written");
    Job {
        sources: NamedSources::at(vec![source.as_os_str().as_bytes().to_vec()]),
        dest: NamedDest::at(b"/large"),
        wire: at_rate(8),
        ..copy()
    }
}

#[test]
fn a_job_continues_when_the_clients_address_changes() {
    let (server, client, link) = relayed();
    let job = upload_of(&server.path("large"));
    thread::scope(|scope| {
        let copying = scope.spawn(|| client.run(&job, Placement::upload, &Quiet::default()));
        until("a job runs", || server.status()["jobs"][0]["client"] == "ann");
        thread::sleep(Duration::from_millis(800));
        assert!(!copying.is_finished());
        link.roam().expect("another address");
        let summary = copying.join().expect("no panic").expect("copied");
        assert_eq!(summary.copied, 1);
    });
    assert_eq!(fs::metadata(server.root().join("large")).expect("a file").len(), 24 << 20);
    until("it has left", || server.audit("disconnected").len() == 1);
    assert_eq!(server.audit("connected").len(), 1, "it has not connected again");
}

#[test]
fn a_peer_that_is_silent_is_noticed_on_both_sides() {
    let (server, client, link) = relayed();
    let job = upload_of(&server.path("large"));
    thread::scope(|scope| {
        let copying = scope.spawn(|| {
            let timeout = Timeouts::from_seconds(2);
            let options =
                ConnectOptions { via: client.via, timeouts: timeout, ..ConnectOptions::default() };
            let addresses = [client.address.clone()];
            let (key, identity) = (client.server, &client.identity);
            let connection = connect_server("box", &addresses, key, identity, options, |_| ())?;
            haul_engine::run(&job, Placement::upload(connection), &Quiet::default())
        });
        until("a job runs", || server.status()["jobs"][0]["client"] == "ann");
        thread::sleep(Duration::from_millis(500));
        link.silence();
        let begin = Instant::now();
        let error = copying.join().expect("no panic").expect_err("it is lost");
        assert!(matches!(error, JobError::Connection(ref lost) if lost.retriable()), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
        until("the server has noticed it", || !server.audit("disconnected").is_empty());
    });
    assert_eq!(server.audit("disconnected")[0]["outcome"], "lost");
}
