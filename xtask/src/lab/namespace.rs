//! A network namespace: what makes a host of its own out of some processes.
//!
//! It has no name. It is there as long as a process runs in it or its file is
//! open. A process of its own watches over it, and kills all others in it if
//! this program ends without having done so. So nothing of it can be left
//! behind, even after a kill that can't be caught.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use haul_testkit::proc::{self, Signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Result;

/// The watching process: it says that it is there, waits for the end
/// of its input, and kills what lives where it lives. In a group of its own and
/// deaf to what a terminal sends, it outlives what it waits for.
const WATCH: &str = "trap '' INT TERM HUP
here=$(readlink /proc/$$/ns/net) && [ -n \"$here\" ] || exit 1
echo; read line
for process in /proc/[0-9]*; do
    if [ \"$(readlink $process/ns/net)\" = \"$here\" ] && [ $process != /proc/$$ ]; then
        kill -KILL ${process#/proc/}
    fi
done 2>/dev/null";

/// A namespace, held open.
pub(crate) struct Namespace {
    watcher: Child,
    file: File,
    id: PathBuf,
}

impl Namespace {
    /// Makes one, with nothing in it but a loopback that is down.
    pub(crate) fn new() -> Result<Namespace> {
        let mut watcher = Command::new("unshare")
            .args(["--net", "sh", "-c", WATCH])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| format!("can't start unshare: {e}"))?;
        let path = format!("/proc/{}/ns/net", watcher.id());
        let opened = wait_for_watcher(&mut watcher)
            .and_then(|()| Ok((File::open(&path)?, fs::read_link(&path)?)));
        match opened {
            Ok((file, id)) => Ok(Namespace { watcher, file, id }),
            Err(e) => {
                stop_watcher(&mut watcher);
                Err(format!("can't make a network namespace ({e}); it takes root").into())
            }
        }
    }

    /// Does something in a thread that is in the namespace; what it starts is
    /// in it too.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok::<_, io::Error>(work())
            });
            let done = worker.join().map_err(|_| "a thread in a network namespace panicked")?;
            done.map_err(|e| format!("can't enter a network namespace: {e}").into())
        })
    }

    /// Runs a command in the namespace; anything but success is an error with
    /// what it said.
    pub(crate) fn run(&self, program: &str, words: &[&str]) -> Result<()> {
        let done = self.inside(|| Command::new(program).args(words).output())?;
        let done = done.map_err(|e| format!("can't start {program}: {e}"))?;
        if done.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&done.stderr);
        Err(format!("{program} {}: {}: {}", words.join(" "), done.status, stderr.trim()).into())
    }

    /// Sets a kernel parameter of the namespace, by its path below
    /// `/proc/sys/net`.
    pub(crate) fn set(&self, parameter: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/net/{parameter}");
        let set = self.inside(|| fs::write(&path, value))?;
        set.map_err(|e| format!("can't set {path} to {value}: {e}").into())
    }

    /// The value of a kernel parameter, as [`Self::set`].
    pub(crate) fn get(&self, parameter: &str) -> Result<String> {
        let path = format!("/proc/sys/net/{parameter}");
        let read = self.inside(|| fs::read_to_string(&path))?;
        Ok(read.map_err(|e| format!("can't read {path}: {e}"))?.trim().to_owned())
    }

    /// A path by which other commands find it, while this process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Its path in /proc.
    #[cfg(test)]
    pub(crate) fn id(&self) -> &std::path::Path {
        &self.id
    }

    /// Kills all processes in it, whoever started them.
    pub(crate) fn kill_processes(&self) {
        /// A process can start another while it is being looked for.
        const ROUNDS_MAX: usize = 50;
        for _ in 0..ROUNDS_MAX {
            let processes = self.processes();
            if processes.is_empty() {
                return;
            }
            for pid in processes {
                proc::signal(pid, Signal::KILL);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The processes in it that run.
    fn processes(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_in =
            |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|id| id == self.id);
        numbers.filter(is_in).filter(|&pid| proc::is_alive(pid)).collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        stop_watcher(&mut self.watcher);
    }
}

/// Waits until the watching process is where it belongs.
fn wait_for_watcher(watcher: &mut Child) -> io::Result<()> {
    let output = watcher.stdout.as_mut().ok_or_else(|| io::Error::other("no pipe"))?;
    output.read_exact(&mut [0])
}

/// Lets the watching process do its work, and end.
fn stop_watcher(watcher: &mut Child) {
    drop(watcher.stdin.take());
    let _ = watcher.wait();
}
