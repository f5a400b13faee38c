//! Inspects another process of this user: the round trip of its connections, its terminal, and the
//! progress of an ssh.

#[cfg(target_os = "linux")]
pub use system::{has_session, has_terminal, round_trip_of};

elsewhere!(pub fn round_trip_of(u32) -> Option<std::time::Duration> = None);
elsewhere!(pub fn has_terminal(u32) -> bool = false);
elsewhere!(pub fn has_session(u32) -> bool = false);

#[cfg(target_os = "linux")]
mod system {
    use crate::routes::info::TcpInfo;
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    use std::fs;
    use std::os::fd::{AsFd, RawFd};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    /// Most processes that are checked: `process`, its children, and theirs.
    const PROCESSES_MAX: usize = 8;

    /// The shortest round trip of a TCP connection of `process`, or of a process that it has started.
    /// Of several connections, the largest value. `None` if it has none, or the system does not report
    /// it (only Linux does).
    pub fn round_trip_of(process: u32) -> Option<Duration> {
        let mut processes = vec![process];
        let mut at = 0;
        let mut longest = None;
        while let Some(process) = processes.get(at).copied() {
            longest = longest.max(of_one(process));
            let left = PROCESSES_MAX - processes.len();
            processes.extend(started_by(process).into_iter().take(left));
            at += 1;
        }
        longest
    }

    fn of_one(process: u32) -> Option<Duration> {
        let pid = Pid::from_raw(i32::try_from(process).ok()?)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let sockets = open_by(process).filter(|(_, what)| is_socket(what));
        let round_trip = |(number, _)| {
            let socket = pidfd_getfd(&handle, number, PidfdGetfdFlags::empty()).ok()?;
            TcpInfo::of(socket.as_fd()).filter(TcpInfo::is_established)?.round_trip()
        };
        sockets.filter_map(round_trip).max()
    }

    /// The descriptors of a process, each with its file's name in /proc.
    fn open_by(process: u32) -> impl Iterator<Item = (RawFd, PathBuf)> {
        let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            Some((number, fs::read_link(entry.path()).ok()?))
        })
    }

    fn is_socket(what: &Path) -> bool {
        what.to_string_lossy().starts_with("socket:[")
    }

    fn is_pipe(what: &Path) -> bool {
        what.to_string_lossy().starts_with("pipe:[")
    }

    fn started_by(process: u32) -> Vec<u32> {
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        let children = children.unwrap_or_default();
        children.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    }

    /// True if `process` has a terminal open. Known on Linux only.
    pub fn has_terminal(process: u32) -> bool {
        open_by(process).any(|(_, what)| {
            let name = what.to_string_lossy();
            name.starts_with("/dev/tty") || name.starts_with("/dev/pts/")
        })
    }

    /// True if `process`, an ssh whose standard input is a pipe or a socket, has started its session,
    /// which it does right after the login. OpenSSH then holds its standard input a second time. Known
    /// on Linux only.
    pub fn has_session(process: u32) -> bool {
        let input = fs::read_link(format!("/proc/{process}/fd/0"));
        let Some(input) = input.ok().filter(|what| is_socket(what) || is_pipe(what)) else {
            return false;
        };
        open_by(process).any(|(number, what)| number > libc::STDERR_FILENO && what == input)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use haul_testkit::proc;
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn the_round_trip_is_found_in_the_process_or_its_children() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let near = TcpStream::connect(address).expect("connected");
        let (far, _) = listener.accept().expect("accepted");
        // A process other than this one, whose other tests have connections.
        let sleeps = |stdin: Stdio, words: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", words]).stdin(stdin).spawn().expect("it starts")
        };
        let mut none = sleeps(Stdio::null(), "exec sleep 60");
        let mut own = sleeps(
            std::os::fd::OwnedFd::from(near.try_clone().expect("it")).into(),
            "exec sleep 60",
        );
        // Only the child has the connection. A shell gives /dev/null as standard input to
        // background commands.
        let passes_on = "exec 3<&0; sleep 60 <&3 3<&- & exec <&- 3<&-; wait";
        let mut other = sleeps(std::os::fd::OwnedFd::from(near).into(), passes_on);
        let told = haul_testkit::holds_within(Duration::from_secs(10), || {
            [&own, &other].iter().all(|child| round_trip_of(child.id()).is_some())
        });
        let found = [&none, &own, &other].map(|child| round_trip_of(child.id()));
        for pid in proc::descendants(other.id()) {
            proc::signal(pid, proc::Signal::KILL);
        }
        for child in [&mut none, &mut own, &mut other] {
            let _ = child.kill();
            child.wait().expect("it ends");
        }
        drop(far);
        assert!(told, "{found:?}");
        assert_eq!(found[0], None);
        let is_short = |time: &Option<Duration>| time.is_some_and(|time| time.as_secs() == 0);
        assert!(found[1..].iter().all(is_short), "{found:?}");
    }

    #[test]
    fn an_ssh_has_a_session_only_after_the_login() {
        let sshd = haul_testkit::Sshd::start().expect("sshd starts");
        let mut admitted = sshd.command("cat");
        let mut admitted =
            admitted.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("ssh");
        let deaf = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = deaf.local_addr().expect("an address").port().to_string();
        let mut waits = Command::new("ssh");
        waits.args(["-F", "/dev/null", "-o", "BatchMode=yes", "-p", &port, "127.0.0.1", "cat"]);
        let mut waits = waits.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("ssh");
        let is_seen = haul_testkit::holds_within(Duration::from_secs(20), || {
            has_session(admitted.id()) && round_trip_of(waits.id()).is_some()
        });
        let is_seen_without = has_session(waits.id());
        for child in [&mut admitted, &mut waits] {
            let _ = child.kill();
            child.wait().expect("it ends");
        }
        assert!(is_seen && !is_seen_without);
    }

    #[test]
    fn an_open_terminal_is_detected() {
        let words = ["-qefc", "sleep 60; true", "/dev/null"];
        let begun = Command::new("script").args(words).stdin(Stdio::null()).spawn();
        let Some(mut script) = haul_testkit::fixture::made("a terminal (script)", begun) else {
            return;
        };
        let below = || proc::descendants(script.id());
        let is_seen = || below().into_iter().any(has_terminal);
        let is_seen = haul_testkit::holds_within(Duration::from_secs(10), is_seen);
        let mut sleep = Command::new("sleep");
        sleep.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut without = sleep.spawn().expect("it starts");
        let is_seen_without = has_terminal(without.id());
        for pid in below() {
            proc::signal(pid, proc::Signal::KILL);
        }
        for child in [&mut script, &mut without] {
            let _ = child.kill();
            child.wait().expect("it ends");
        }
        assert!(is_seen && !is_seen_without);
    }
}
