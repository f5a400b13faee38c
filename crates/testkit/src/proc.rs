//! Processes seen from outside: what one cost, what it started, and its end.
//!
//! Peak memory is the kernel's own high-water mark (`VmHWM`), read again and
//! again until the process ends, since it is gone afterwards. It only grows, so
//! what a sample can miss is what was added after the last one. CPU time is
//! read once, when the process has ended and nobody has reaped it yet.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

pub use rustix::process::Signal;

/// How often memory is sampled unless told otherwise.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// The resources that a process used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// From start to end.
    pub wall: Duration,
    /// CPU time in user mode, that of its reaped children included.
    pub user: Duration,
    /// CPU time in the kernel, that of its reaped children included.
    pub system: Duration,
    /// Peak resident memory of the process itself, if it was sampled.
    pub peak_rss_bytes: Option<u64>,
    /// Greatest peak of any agent (`haul serve`), if one was seen.
    pub agent_peak_rss_bytes: Option<u64>,
}

/// How a watched process ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// The resources that it used.
    pub usage: Usage,
    /// True if its group was killed because the time was up.
    pub timed_out: bool,
}

/// How to wait for a child: for how long, and what to sample meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    limit: Duration,
    sample_every: Option<Duration>,
    agents_below: Option<u32>,
}

impl Watch {
    /// Kills the child's process group after `limit`. Samples nothing, so that
    /// it costs nothing while the child runs.
    pub fn new(limit: Duration) -> Watch {
        Watch { limit, sample_every: None, agents_below: None }
    }

    /// Samples the child's peak memory.
    pub fn sampling(self, every: Duration) -> Watch {
        Watch { sample_every: Some(every), ..self }
    }

    /// Samples agents too: all that descend from `ancestor`, the ssh server.
    pub fn agents_below(self, ancestor: u32) -> Watch {
        Watch { agents_below: Some(ancestor), ..self }
    }

    /// Waits for `child`, which was started at `started` as the leader of a
    /// process group of its own.
    pub fn wait(self, child: &mut Child, started: Instant) -> io::Result<Ended> {
        let pid = child.id();
        let (ended, stop) = mpsc::channel();
        let keeper = thread::spawn(move || self.sample_until_stopped(pid, started, &stop));
        let waited = waitid(WaitId::Pid(known(pid)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let wall = started.elapsed();
        // The child is a zombie now, so its number can't belong to another.
        let times = cpu_times(pid).unwrap_or_default();
        let _ = ended.send(());
        let kept = keeper.join().map_err(|_| io::Error::other("the watching thread panicked"))?;
        waited?;
        let usage = Usage {
            wall,
            user: times.0,
            system: times.1,
            peak_rss_bytes: kept.peak_rss_bytes,
            agent_peak_rss_bytes: kept.agent_peak_rss_bytes,
        };
        Ok(Ended { status: child.wait()?, usage, timed_out: kept.timed_out })
    }

    /// Samples until told to stop; kills the group when the time is up.
    fn sample_until_stopped(
        self,
        pid: u32,
        started: Instant,
        stop: &mpsc::Receiver<()>,
    ) -> Samples {
        /// Looking through all of /proc is dear, so agents are looked for less
        /// often than known ones are read.
        const SCAN_EVERY: Duration = Duration::from_millis(50);
        let mut kept = Samples::default();
        let mut agents: Vec<u32> = Vec::new();
        let mut looked: Option<Instant> = None;
        loop {
            if self.sample_every.is_some() {
                kept.peak_rss_bytes = kept.peak_rss_bytes.max(peak_rss_bytes(pid));
                if let Some(ancestor) = self.agents_below
                    && looked.is_none_or(|at| at.elapsed() >= SCAN_EVERY)
                {
                    agents =
                        descendants(ancestor).into_iter().filter(|&pid| is_agent(pid)).collect();
                    looked = Some(Instant::now());
                }
                let peak = agents.iter().filter_map(|&agent| peak_rss_bytes(agent)).max();
                kept.agent_peak_rss_bytes = kept.agent_peak_rss_bytes.max(peak);
            }
            let left = self.limit.saturating_sub(started.elapsed());
            let nap = if kept.timed_out { Duration::MAX } else { left };
            match stop.recv_timeout(nap.min(self.sample_every.unwrap_or(Duration::from_secs(3600))))
            {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return kept,
                Err(RecvTimeoutError::Timeout)
                    if !kept.timed_out && started.elapsed() >= self.limit =>
                {
                    kept.timed_out = true;
                    kill_group(pid);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// The watching thread's result.
#[derive(Default)]
struct Samples {
    peak_rss_bytes: Option<u64>,
    agent_peak_rss_bytes: Option<u64>,
    timed_out: bool,
}

/// Sends a signal to one process. A process that is gone is no error.
pub fn signal(pid: u32, signal: Signal) {
    let _ = kill_process(known(pid), signal);
}

/// Sends a signal to the group that `leader` leads.
pub fn signal_group(leader: u32, signal: Signal) {
    let _ = kill_process_group(known(leader), signal);
}

/// Kills the whole group that `leader` leads, at once (SIGKILL).
pub fn kill_group(leader: u32) {
    signal_group(leader, Signal::KILL);
}

/// True if the process runs: it exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    matches!(stat(pid), Some(stat) if stat.state != 'Z' && stat.state != 'X')
}

/// True if the process's first thread neither runs nor waits for a processor or a medium:
/// it has nothing to do, is stopped, or is gone.
pub fn is_idle(pid: u32) -> bool {
    !matches!(stat(pid), Some(stat) if matches!(stat.state, 'R' | 'D'))
}

/// All processes that descend from `ancestor` now, itself not included.
pub fn descendants(ancestor: u32) -> Vec<u32> {
    descendants_in(&table(), ancestor)
}

/// All processes that descend from `ancestor` now, and those in whose initial environment
/// `variable` (`NAME=value`) is, in order. Of other users' only the former are seen, except
/// by root.
pub fn descendants_and_marked(ancestor: u32, variable: &str) -> Vec<u32> {
    let table = table();
    let mut found = descendants_in(&table, ancestor);
    let mut environ = Vec::new();
    let mut has = |&pid: &u32| {
        let read = read_into(&format!("/proc/{pid}/environ"), &mut environ);
        read.is_some() && environ.split(|&b| b == 0).any(|v| v == variable.as_bytes())
    };
    found.extend(table.iter().map(|(pid, _)| *pid).filter(&mut has));
    found.sort_unstable();
    found.dedup();
    found
}

fn descendants_in(table: &[(u32, Stat)], ancestor: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, stat) in table {
        children.entry(stat.parent).or_default().push(*pid);
    }
    let mut found = Vec::new();
    let mut open = vec![ancestor];
    while let Some(pid) = open.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        open.extend(&below);
        found.extend(below);
    }
    found
}

/// The words that the process was started with; empty for a zombie.
pub fn command_line(pid: u32) -> Vec<Vec<u8>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&b| b == 0).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()
}

/// True if the process is `haul serve`: the program itself (or a script of
/// that name), not the shell or the ssh that started it.
pub fn is_agent(pid: u32) -> bool {
    let words = command_line(pid);
    let is_haul = |word: &Vec<u8>| word == b"haul" || word.ends_with(b"/haul");
    words.iter().take(2).any(is_haul) && words.iter().any(|word| word == b"serve")
}

/// The process's peak resident memory so far. None once it has ended.
pub fn peak_rss_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// User and system time so far, those of reaped children included.
pub fn cpu_times(pid: u32) -> Option<(Duration, Duration)> {
    let stat = stat(pid)?;
    let tick = |ticks: u64| {
        Duration::from_micros(ticks * 1_000_000 / rustix::param::clock_ticks_per_second())
    };
    Some((tick(stat.user_ticks), tick(stat.system_ticks)))
}

struct Stat {
    state: char,
    parent: u32,
    is_of_the_kernel: bool,
    user_ticks: u64,
    system_ticks: u64,
}

/// Reads /proc/PID/stat; see proc_pid_stat(5) for its fields.
fn stat(pid: u32) -> Option<Stat> {
    /// The flag of a thread of the kernel (include/linux/sched.h).
    const PF_KTHREAD: u64 = 0x0020_0000;
    let mut line = Vec::new();
    read_into(&format!("/proc/{pid}/stat"), &mut line)?;
    // The second field is the name in parentheses, and can hold anything.
    let behind_name = line.iter().rposition(|&byte| byte == b')')? + 1;
    let rest = str::from_utf8(&line[behind_name..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
    // The ninth field, and from the fourteenth on.
    let is_of_the_kernel = fields.nth(4)?.parse::<u64>().ok()? & PF_KTHREAD != 0;
    let mut ticks = fields.skip(4).map_while(|field| field.parse::<u64>().ok());
    let mut next = || ticks.next();
    let (user, system) = (next()?, next()?);
    let (user_ticks, system_ticks) = (user + next()?, system + next()?);
    Some(Stat { state, parent, is_of_the_kernel, user_ticks, system_ticks })
}

/// Reads a file of /proc in as few calls as can be: tests look through all processes again
/// and again.
fn read_into(path: &str, content: &mut Vec<u8>) -> Option<()> {
    /// More than most of them have.
    const USUAL_LEN: usize = 8 << 10;
    let mut file = fs::File::open(path).ok()?;
    content.resize(content.len().max(USUAL_LEN), 0);
    let mut len = 0;
    loop {
        match file.read(&mut content[len..]).ok()? {
            0 => break,
            more => len += more,
        }
        if len < content.len() {
            // A short answer is the last one.
            break;
        }
        content.resize(2 * len, 0);
    }
    content.truncate(len);
    Some(())
}

/// All processes, without the threads of the kernel.
fn table() -> Vec<(u32, Stat)> {
    let of = |pid| stat(pid).map(|stat| (pid, stat));
    all().into_iter().filter_map(of).filter(|(_, stat)| !stat.is_of_the_kernel).collect()
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process number from the kernel as the type of the calls that take one.
fn known(pid: u32) -> Pid {
    let pid = i32::try_from(pid).expect("the kernel's process numbers fit");
    Pid::from_raw(pid).expect("no child has the number 0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holds_within;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    fn shell(script: &str) -> (Child, Instant) {
        let started = Instant::now();
        let child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        (child, started)
    }

    #[test]
    fn a_process_that_takes_too_long_is_killed_with_its_children() {
        let (mut child, started) = shell("sleep 321 & sleep 322");
        let pid = child.id();
        let ended =
            Watch::new(Duration::from_millis(300)).wait(&mut child, started).expect("waited");
        assert!(ended.timed_out);
        assert!(!ended.status.success());
        assert!(ended.usage.wall < Duration::from_secs(20), "{:?}", ended.usage);
        let of_group = || {
            all()
                .into_iter()
                .filter(|&p| {
                    let words = command_line(p);
                    words.len() == 2 && (words[1] == b"321" || words[1] == b"322") && is_alive(p)
                })
                .count()
        };
        let are_gone = holds_within(Duration::from_secs(5), || of_group() == 0);
        assert!(are_gone, "the children of {pid} still run");
    }

    #[test]
    fn who_waits_is_idle_and_who_works_is_not() {
        let (mut waiting, _) = shell("exec sleep 60");
        let (mut working, _) = shell("while :; do :; done");
        let is_known = || is_idle(waiting.id()) && !is_idle(working.id());
        let known = holds_within(Duration::from_secs(20), is_known);
        for child in [&mut waiting, &mut working] {
            kill_group(child.id());
            child.wait().expect("waited");
        }
        assert!(known && is_idle(working.id()));
    }

    #[test]
    fn time_and_memory_are_those_of_the_child() {
        // dd's buffer of 40 MB is touched as a whole.
        let (mut child, started) =
            shell("exec dd if=/dev/zero of=/dev/null bs=40M count=40 2>/dev/null");
        let ended = Watch::new(Duration::from_secs(60))
            .sampling(Duration::from_millis(1))
            .wait(&mut child, started)
            .expect("waited");
        assert!(ended.status.success() && !ended.timed_out);
        let peak = ended.usage.peak_rss_bytes.expect("sampled");
        assert!((40 << 20..120 << 20).contains(&peak), "{peak}");
        assert!(ended.usage.user + ended.usage.system > Duration::ZERO);
    }

    #[test]
    fn memory_of_the_parent_does_not_count() {
        // A child begins with the memory of its parent, until it is a program of its own.
        let held = vec![1u8; 100 << 20];
        let (mut child, started) = shell("sleep 0.1");
        let ended = Watch::new(Duration::from_secs(60))
            .sampling(Duration::from_millis(1))
            .wait(&mut child, started)
            .expect("waited");
        let ours = peak_rss_bytes(std::process::id()).expect("it runs");
        assert!(ours > held.len() as u64, "{ours}");
        let peak = ended.usage.peak_rss_bytes.expect("sampled");
        assert!(peak < 50 << 20, "{peak}");
    }

    #[test]
    fn what_the_kernel_runs_is_no_process_of_anybodys() {
        let ours = table();
        let known = |pid| ours.iter().any(|(found, _)| *found == pid);
        assert!(known(std::process::id()));
        let is_kthreadd = fs::read_to_string("/proc/2/comm").is_ok_and(|it| it == "kthreadd\n");
        assert!(!is_kthreadd || !known(2));
    }

    #[test]
    fn a_variable_is_found_in_an_environment_of_any_length() {
        let long = "x".repeat(50_000);
        let mut child = Command::new("sleep")
            .arg("60")
            .env("HAUL_TEST_LONG", &long)
            .env("HAUL_TEST_MARK", "7")
            .spawn()
            .expect("sleep starts");
        let found = |mark: &str| descendants_and_marked(child.id(), mark).contains(&child.id());
        let is_marked = holds_within(Duration::from_secs(10), || found("HAUL_TEST_MARK=7"));
        let is_long = found(&format!("HAUL_TEST_LONG={long}"));
        let is_another = found("HAUL_TEST_MARK=") || found("HAUL_TEST_MARK=77");
        child.kill().expect("killed");
        child.wait().expect("waited");
        assert!(is_marked && is_long && !is_another);
    }

    #[test]
    fn descendants_are_found_through_generations() {
        let (mut child, _) = shell("sh -c 'sleep 60; true'; true");
        let mut found = Vec::new();
        holds_within(Duration::from_secs(10), || {
            found = descendants(child.id());
            found.len() == 2
        });
        kill_group(child.id());
        child.wait().expect("waited");
        assert_eq!(found.len(), 2);
        assert!(!is_alive(child.id()));
    }
}
