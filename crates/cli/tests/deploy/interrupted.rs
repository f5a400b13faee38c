//! Deployments that end early, that are damaged on their way, and that run at
//! the same time.

use super::*;
use haul_testkit::holds_within;
use haul_testkit::nasty;
use haul_testkit::proc::{self, Signal};
use haul_testkit::sshd::system_sftp_server;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

/// How much of what is sent passes before the rest waits, in bytes.
const PASSES: u64 = 400_000;

/// How long something on the host may take.
const SOON: Duration = Duration::from_secs(20);

/// A host whose SFTP server gets [`PASSES`] bytes of each session at once, and
/// the rest when the file "go" is there.
fn halting(world: &World) -> Host<'_> {
    Host::with(world, |server| {
        let dir = world.path();
        let sftp = system_sftp_server().expect("an SFTP server");
        let wait = format!("while [ ! -e {}/go ]; do sleep 0.05; done", dir.display());
        // Byte by byte, so that none waits in a buffer.
        let some = format!("dd bs=1 count={PASSES} 2>/dev/null");
        let lines = format!("({some}; {wait}; exec cat) | exec {}", sftp.display());
        server.sftp(script(&dir.join("halting-sftp"), &lines).display().to_string())
    })
}

/// The file that is being uploaded, once some of it is there.
fn staged(host: &Host<'_>) -> Option<PathBuf> {
    let names = host.names();
    let name = names.iter().find(|name| name.starts_with(".haul-"))?;
    let path = host.home(BIN).join(name);
    fs::metadata(&path).is_ok_and(|meta| meta.len() > PASSES / 4).then_some(path)
}

#[test]
fn the_host_removes_what_was_uploaded_when_the_client_is_killed() {
    let world = World::new();
    let host = halting(&world);
    let running = host.deploy(&[]).spawn().expect("it starts");
    assert!(running.until(SOON, || staged(&host).is_some()), "it uploads");
    assert_eq!(mode_of(staged(&host).expect("a file")), 0o600, "it can't be run yet");
    running.kill_group();
    drop(running);
    holds_within(SOON, || host.names().is_empty());
    assert_eq!(host.names(), [""; 0]);
}

#[test]
fn what_a_lost_host_has_left_is_removed_by_a_later_deployment() {
    let world = World::new();
    let host = halting(&world);
    let running = host.deploy(&[]).spawn().expect("it starts");
    assert!(running.until(SOON, || staged(&host).is_some()), "it uploads");
    // The shell goes first, or it would see the end of the others and tidy up.
    for pid in host.server.sessions() {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&words).contains("read -r go") {
            proc::signal(pid, Signal::KILL);
        }
    }
    host.server.cut();
    let run = running.wait().expect("it ends").expect_code(3);
    assert!(said(&run)[0].starts_with("haul: the connection to haul-test was lost"), "{run}");
    // The private name alone, and nothing that could be taken for haul.
    let names = host.names();
    assert!(names.len() == 1 && names[0].starts_with(".haul-"), "{names:?}");

    // As long as it may be that of a running one, it stays.
    fs::write(world.path().join("go"), "").expect("a file");
    host.deploy(&[]).run().expect_ok();
    assert_eq!(host.names().len(), 2);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    let old = i64::try_from(now.as_secs()).expect("a time") - 2 * 60 * 60;
    nasty::set_mtime(host.home(BIN).join(&names[0]), old, 0).expect("a time");
    host.deploy(&[]).run().expect_ok();
    assert_eq!(host.names(), ["haul"]);
}

#[test]
fn what_is_damaged_in_transit_is_not_run_and_taken_back() {
    let world = World::new();
    let host = halting(&world);
    let running = host.deploy(&[]).spawn().expect("it starts");
    assert!(running.until(SOON, || staged(&host).is_some()), "it uploads");
    let path = staged(&host).expect("a file");
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, PASSES / 8).expect("read");
    file.write_all_at(&[!byte[0]], PASSES / 8).expect("written");
    drop(file);
    fs::write(world.path().join("go"), "").expect("a file");
    let run = running.wait().expect("it ends").expect_code(4);
    let said = said(&run);
    assert!(said[0].ends_with("the uploaded file reads back different"), "{run}");
    assert!(
        said[1].contains("run the same command again; if it fails again, check the host's disk"),
        "{run}"
    );
    assert_eq!(names_in(&host.home("")), [""; 0]);
}

#[test]
fn deployments_at_the_same_time_do_not_disturb_each_other() {
    let world = World::new();
    let host = Host::new(&world);
    let running: Vec<_> = (0..4).map(|_| host.deploy(&[]).spawn().expect("it starts")).collect();
    for running in running {
        running.wait().expect("it ends").expect_ok();
    }
    assert_eq!(host.names(), ["haul"]);
    host.copy().run().expect_ok();
    assert_eq!(host.scene.read("copied"), "abc");
}
