//! Processes seen from outside: what one cost, what it started, and its end.
//!
//! Peak memory is the kernel's own high-water mark (`VmHWM`), read again and
//! again until the process ends, since it is gone afterwards. It only grows, so
//! what a sample can miss is what was added after the last one. CPU time is
//! read once, when the process has ended and nobody has reaped it yet.

use std::collections::BTreeMap;
use std::fs;
use std::io;
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
        let keeper = thread::spawn(move || self.keep(pid, started, &stop));
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
    fn keep(self, pid: u32, started: Instant, stop: &mpsc::Receiver<()>) -> Kept {
        /// Looking through all of /proc is dear, so agents are looked for less
        /// often than known ones are read.
        const LOOK_EVERY: Duration = Duration::from_millis(50);
        let mut kept = Kept::default();
        let mut agents: Vec<u32> = Vec::new();
        let mut looked: Option<Instant> = None;
        loop {
            if self.sample_every.is_some() {
                kept.peak_rss_bytes = kept.peak_rss_bytes.max(peak_rss_bytes(pid));
                if let Some(ancestor) = self.agents_below
                    && looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY)
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
struct Kept {
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
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all() {
        if let Some(stat) = stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
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

/// All processes in whose initial environment `variable` (`NAME=value`) is.
/// Those of other users are not seen, except by root.
pub fn with_variable(variable: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.split(|&b| b == 0).any(|v| v == variable.as_bytes()))
    };
    all().into_iter().filter(has).collect()
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
    user_ticks: u64,
    system_ticks: u64,
}

/// Reads /proc/PID/stat; see proc_pid_stat(5) for its fields.
fn stat(pid: u32) -> Option<Stat> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let line = String::from_utf8_lossy(&line);
    // The second field is the name in parentheses, and can hold anything.
    let fields: Vec<&str> = line[line.rfind(')')? + 1..].split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        user_ticks: number(14)? + number(16)?,
        system_ticks: number(15)? + number(17)?,
    })
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
