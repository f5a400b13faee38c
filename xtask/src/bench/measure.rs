//! One workload, measured: a round that warms up, samples memory and compares
//! every byte, then the rounds that count.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use haul_testkit::Sshd;
use haul_testkit::proc::{Usage, Watch};
use haul_testkit::snapshot::{Compare, Snapshot, snapshot};
use haul_testkit::tree::{self, Made};

use super::server::Servers;
use super::tool::{Job, Tool};
use super::workload::{DESTINATIONS, Data, DestinationState, Mode, Scale, Transport, Workload};
use crate::Result;

/// No run takes this long. The longest, scp of 2,000 files over a link of 50 ms,
/// takes about half of it.
const LIMIT: Duration = Duration::from_secs(900);

/// How often memory is sampled, in the round that doesn't count.
const SAMPLE_EVERY: Duration = Duration::from_millis(2);

/// The results of a workload's runs.
pub(crate) struct Measured {
    /// Seconds of each round that counts, by tool: haul first, then in the
    /// order of the workload's table.
    pub(crate) seconds: Vec<(Tool, Vec<f64>)>,
    /// Bytes that went over the lab's link in each of these rounds, with what the network
    /// itself adds; none on loopback.
    pub(crate) sent_bytes: Vec<(Tool, Vec<f64>)>,
    /// haul's peak resident memory.
    pub(crate) client_rss_bytes: Option<u64>,
    /// That of its agent, if it had one.
    pub(crate) agent_rss_bytes: Option<u64>,
}

/// A bench with its server, its space, and the sources made so far.
pub(crate) struct Bench<'a> {
    haul: &'a Path,
    sshd: &'a Sshd,
    space: PathBuf,
    home: PathBuf,
    scale: Scale,
    rounds: u32,
    sources: BTreeMap<&'static str, Source>,
    /// Started when they are needed first.
    servers: Option<Servers>,
}

struct Source {
    path: PathBuf,
    made: Made,
    snapshot: Snapshot,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        haul: &'a Path,
        sshd: &'a Sshd,
        space: &Path,
        scale: Scale,
        rounds: u32,
    ) -> Result<Bench<'a>> {
        let home = space.join("home");
        fs::create_dir(&home)?;
        fs::create_dir(space.join("source"))?;
        let space = space.to_path_buf();
        Ok(Bench {
            haul,
            sshd,
            space,
            home,
            scale,
            rounds,
            sources: BTreeMap::new(),
            servers: None,
        })
    }

    /// Starts the servers at an address of the host.
    pub(crate) fn start_servers(&mut self, address: Ipv4Addr) -> Result<()> {
        self.servers = Some(Servers::start(self.haul, &self.space, address)?);
        Ok(())
    }

    /// Runs every tool of the workload in turn, round by round.
    pub(crate) fn measure(&mut self, workload: &Workload) -> Result<Measured> {
        self.make(workload.data)?;
        if workload.transport.is_server() && self.servers.is_none() {
            self.start_servers(Ipv4Addr::LOCALHOST)?;
        }
        let servers = self.servers.as_ref().filter(|_| workload.transport.is_server());
        let server_pid = servers.map_or(self.sshd.pid(), Servers::pid);
        let mut tools = vec![Tool::Haul];
        tools.extend(workload.against.iter().map(|(tool, _)| *tool));
        let mut measured = Measured {
            seconds: tools.iter().map(|tool| (*tool, Vec::new())).collect(),
            sent_bytes: tools.iter().map(|tool| (*tool, Vec::new())).collect(),
            client_rss_bytes: None,
            agent_rss_bytes: None,
        };
        let starts_empty = workload.before.is_empty();
        if workload.before == DestinationState::Known {
            self.seed_host_copy(workload)?;
        }
        if !starts_empty {
            for &tool in &tools {
                self.empty(tool)?;
                if workload.sent_max().is_some() {
                    // A link would take a while for that.
                    let source = &self.sources[workload.data.name()].path;
                    fs::copy(source, Self::into(self, tool).join(workload.data.name()))?;
                } else {
                    self.copy(workload, tool, Watch::new(LIMIT))?;
                }
            }
        }
        for round in 0..=self.rounds {
            let warming_up = round == 0;
            let mut line = format!("{} {round}/{}:", workload.name, self.rounds);
            for (index, &tool) in tools.iter().enumerate() {
                let single_round = workload.single_round.contains(&tool);
                if single_round && round != 1 {
                    continue;
                }
                self.prepare(workload, tool)?;
                let mut watch = Watch::new(LIMIT);
                if warming_up {
                    watch = watch.sampling(SAMPLE_EVERY).agents_below(server_pid);
                }
                let before = link_bytes();
                let usage = self.copy(workload, tool, watch)?;
                let sent = link_bytes().saturating_sub(before);
                self.check(workload, tool, warming_up || single_round)?;
                let seconds = usage.wall.as_secs_f64();
                line.push_str(&format!(" {} {seconds:.3} s", tool.name()));
                if !warming_up {
                    measured.seconds[index].1.push(seconds);
                    measured.sent_bytes[index].1.push(sent as f64);
                } else if tool == Tool::Haul {
                    measured.client_rss_bytes = usage.peak_rss_bytes;
                    measured.agent_rss_bytes = usage.agent_peak_rss_bytes;
                }
                if starts_empty {
                    self.remove(tool)?;
                }
            }
            eprintln!("{line}");
        }
        for &tool in &tools {
            self.remove(tool)?;
        }
        Ok(measured)
    }

    /// Gives the tool the destination that the workload has before each run.
    fn prepare(&self, workload: &Workload, tool: Tool) -> Result<()> {
        match workload.before {
            _ if tool == Tool::Login => Ok(()),
            DestinationState::Nothing | DestinationState::First | DestinationState::Known => {
                self.empty(tool)
            }
            DestinationState::Same => Ok(()),
            DestinationState::Stale => {
                Ok(workload.data.make_stale(&self.into(tool).join(workload.data.name()))?)
            }
        }
    }

    /// Has haul copy the file of the workload, or its state of an earlier day, to another directory
    /// of the host.
    fn seed_host_copy(&self, workload: &Workload) -> Result<()> {
        let source = &self.sources[workload.data.name()].path;
        let known = self.space.join(format!("known-{}", workload.name));
        fs::create_dir(&known)?;
        let has_changed = workload.data == Data::Longer;
        let whole = source.with_extension("whole");
        if has_changed {
            fs::rename(source, &whole)?;
            fs::copy(&whole, source)?;
            workload.data.make_stale(source)?;
        }
        self.copy_into(workload, Tool::Haul, Watch::new(LIMIT), &known)?;
        if has_changed {
            fs::rename(&whole, source)?;
        }
        Ok(())
    }

    /// Makes a source once.
    fn make(&mut self, data: Data) -> Result<()> {
        if self.sources.contains_key(data.name()) {
            return Ok(());
        }
        eprintln!("making the source `{}`", data.name());
        let path = self.space.join("source").join(data.name());
        let made = data.make(&path, self.scale)?;
        let snapshot = snapshot(&path)?;
        self.sources.insert(data.name(), Source { path, made, snapshot });
        Ok(())
    }

    /// Runs one tool to its end.
    fn copy(&self, workload: &Workload, tool: Tool, watch: Watch) -> Result<Usage> {
        self.copy_into(workload, tool, watch, &self.into(tool))
    }

    fn copy_into(
        &self,
        workload: &Workload,
        tool: Tool,
        watch: Watch,
        into: &Path,
    ) -> Result<Usage> {
        let source = &self.sources[workload.data.name()];
        let mut command = tool.command(&Job {
            haul: self.haul,
            sshd: self.sshd,
            source: &source.path,
            into,
            is_tree: workload.data.is_tree(),
            direction: workload.direction,
            mode: workload.mode,
            transport: workload.transport,
            uses_cache: workload.before.uses_cache(),
            servers: self.servers.as_ref().filter(|_| workload.transport.is_server()),
        });
        let output = self.space.join("said");
        let log = File::create(&output)?;
        command
            .env("HOME", &self.home)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let started = Instant::now();
        let mut child = command.spawn().map_err(|e| format!("can't start {}: {e}", tool.name()))?;
        let ended = watch.wait(&mut child, started)?;
        if ended.timed_out || !ended.status.success() {
            let output = fs::read(&output).unwrap_or_default();
            let output = String::from_utf8_lossy(&output);
            return Err(format!(
                "{} on {}: {}\n{output}",
                tool.name(),
                workload.name,
                ended.status
            )
            .into());
        }
        Ok(ended.usage)
    }

    /// True if the copy is whole: by its totals, or by every byte.
    fn check(&self, workload: &Workload, tool: Tool, every_byte: bool) -> Result<()> {
        if tool == Tool::Login {
            return Ok(());
        }
        let into = self.into(tool);
        match workload.mode {
            Mode::ToAll => DESTINATIONS
                .iter()
                .try_for_each(|name| self.check_in(&into.join(name), workload, tool, every_byte)),
            _ => self.check_in(&into, workload, tool, every_byte),
        }
    }

    fn check_in(
        &self,
        into: &Path,
        workload: &Workload,
        tool: Tool,
        every_byte: bool,
    ) -> Result<()> {
        let source = &self.sources[workload.data.name()];
        let copy = into.join(workload.data.name());
        let what = || format!("{} on {}", tool.name(), workload.name);
        let made = tree::count(&copy)?;
        if made != source.made {
            return Err(format!("{}: {:?} became {made:?}", what(), source.made).into());
        }
        if every_byte {
            // What the others keep is their own affair; haul keeps all of it.
            let rules = match tool {
                // That protocol has whole seconds.
                Tool::Haul if matches!(workload.transport, Transport::Sftp(_)) => {
                    Compare::content_only()
                }
                Tool::Haul if workload.mode.is_copy() => {
                    Compare::everything().ignoring_dir_mtimes()
                }
                // Times of directories, too: what was unchanged has not been touched.
                Tool::Haul => Compare::everything(),
                _ => Compare::content_only(),
            };
            if let Some(first) = source.snapshot.differences(&snapshot(&copy)?, rules).first() {
                return Err(format!("{}: the copy differs: {first}", what()).into());
            }
        }
        Ok(())
    }

    /// The directory that a tool copies into.
    fn into(&self, tool: Tool) -> PathBuf {
        self.space.join(format!("into-{}", tool.name()))
    }

    fn empty(&self, tool: Tool) -> Result<()> {
        self.remove(tool)?;
        Ok(fs::create_dir(self.into(tool))?)
    }

    fn remove(&self, tool: Tool) -> Result<()> {
        match fs::remove_dir_all(self.into(tool)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }
}

/// Bytes that have gone over all networks of this thread's namespace but loopback, in both
/// directions.
fn link_bytes() -> u64 {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let of_row = |row: &str| {
        let (name, counts) = row.split_once(':')?;
        let counts: Vec<u64> = counts.split_whitespace().flat_map(str::parse).collect();
        // The first column of each half.
        (name.trim() != "lo").then(|| counts.first().unwrap_or(&0) + counts.get(8).unwrap_or(&0))
    };
    table.lines().filter_map(of_row).sum()
}
