//! Measuring over links that are slow, or long: the same tools and the same
//! ways, between two hosts of the lab instead of on loopback.

use std::fs;
use std::time::Duration;

use super::measure::Bench;
use super::report::{LAB, Report};
use super::tool::Tool;
use super::workload::{Data, DestinationState, Direction, Mode, NO_BOUND, Transport, Workload};
use super::{Args, Space, conclude};
use crate::Result;
use crate::lab::{Lab, Link, Plan, Rate, SERVER, Share};

/// A link, and what is copied over it.
struct Trial {
    rate_mbit: u64,
    round_trip_ms: u64,
    mtu_bytes: u16,
    /// The share of packets that are lost.
    loss: f64,
    workloads: &'static [Workload],
}

/// scp asks for each file by itself, several times, and waits for each answer:
/// a tree of 2,000 files takes minutes here. It has one round.
const TRIALS: [Trial; 7] = [
    Trial {
        rate_mbit: 200,
        round_trip_ms: 50,
        mtu_bytes: 1500,
        loss: 0.0,
        workloads: &[
            Workload {
                name: "lab-2000-up",
                title: "2,000 files of 16 KiB, upload, 200 Mbit/s, 50 ms",
                data: Data::Small,
                direction: Direction::Upload,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Haul,
                against: &[(Tool::Rsync, 0.82), (Tool::Tar, 0.95)],
                single_round: &[],
            },
            Workload {
                name: "lab-2000-down",
                title: "2,000 files of 16 KiB, download, 200 Mbit/s, 50 ms",
                data: Data::Small,
                direction: Direction::Download,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Haul,
                against: &[(Tool::Rsync, 0.82), (Tool::Tar, 0.95)],
                single_round: &[],
            },
            Workload {
                name: "lab-sftp-2000-up",
                title: "2,000 files of 16 KiB, upload through SFTP, 200 Mbit/s, 50 ms",
                data: Data::Small,
                direction: Direction::Upload,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Sftp(1),
                against: &[(Tool::Scp, 0.02), (Tool::Rsync, 1.3)],
                single_round: &[Tool::Scp],
            },
            Workload {
                name: "lab-sftp-2000-down",
                title: "2,000 files of 16 KiB, download through SFTP, 200 Mbit/s, 50 ms",
                data: Data::Small,
                direction: Direction::Download,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Sftp(1),
                against: &[(Tool::Scp, 0.02), (Tool::Rsync, 1.3)],
                single_round: &[Tool::Scp],
            },
        ],
    },
    Trial {
        rate_mbit: 1000,
        round_trip_ms: 100,
        // Larger packets, so that the link is the limit and not the machine.
        mtu_bytes: 9000,
        loss: 0.0,
        workloads: &[
            Workload {
                name: "lab-128m-up",
                title: "one 128 MiB file, upload, 1 Gbit/s, 100 ms",
                data: Data::Part,
                direction: Direction::Upload,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Haul,
                against: &[(Tool::Scp, 0.32), (Tool::Rsync, NO_BOUND)],
                single_round: &[],
            },
            Workload {
                name: "lab-128m-down",
                title: "one 128 MiB file, download, 1 Gbit/s, 100 ms",
                data: Data::Part,
                direction: Direction::Download,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Haul,
                against: &[(Tool::Scp, 0.32), (Tool::Rsync, NO_BOUND)],
                single_round: &[],
            },
            Workload {
                name: "lab-server-128m-up",
                title: "one 128 MiB file, upload to a server, 1 Gbit/s, 100 ms",
                data: Data::Part,
                direction: Direction::Upload,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Server,
                against: &[(Tool::Scp, 0.20)],
                single_round: &[],
            },
            Workload {
                name: "lab-ssh-128m-up",
                title: "one 128 MiB file, upload by ssh alone, 1 Gbit/s, 100 ms",
                data: Data::Part,
                direction: Direction::Upload,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::HaulBySsh,
                against: &[(Tool::Scp, 0.42)],
                single_round: &[],
            },
            Workload {
                name: "lab-ssh-128m-down",
                title: "one 128 MiB file, download by ssh alone, 1 Gbit/s, 100 ms",
                data: Data::Part,
                direction: Direction::Download,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::HaulBySsh,
                against: &[(Tool::Scp, 0.42)],
                single_round: &[],
            },
            Workload {
                name: "lab-sftp-128m-up",
                title: "one 128 MiB file, upload through SFTP (--parallel 4), 1 Gbit/s, 100 ms",
                data: Data::Part,
                direction: Direction::Upload,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Sftp(4),
                against: &[(Tool::Scp, 0.50)],
                single_round: &[],
            },
            Workload {
                name: "lab-sftp-128m-down",
                title: "one 128 MiB file, download through SFTP (--parallel 4), 1 Gbit/s, 100 ms",
                data: Data::Part,
                direction: Direction::Download,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Sftp(4),
                against: &[(Tool::Scp, 0.50)],
                single_round: &[],
            },
        ],
    },
    Trial {
        rate_mbit: 200,
        round_trip_ms: 50,
        mtu_bytes: 1500,
        loss: 0.001,
        workloads: &[Workload {
            name: "lab-loss-128m-up",
            title: "one 128 MiB file, upload, 200 Mbit/s, 50 ms, 0.1 % loss",
            data: Data::Part,
            direction: Direction::Upload,
            before: DestinationState::Nothing,
            mode: Mode::Copy,
            transport: Transport::Haul,
            against: &[(Tool::Scp, 0.25)],
            single_round: &[],
        }],
    },
    Trial {
        rate_mbit: 200,
        round_trip_ms: 50,
        mtu_bytes: 1500,
        loss: 0.01,
        workloads: &[Workload {
            name: "lab-server-loss-128m-up",
            title: "one 128 MiB file, upload to a server, 200 Mbit/s, 50 ms, 1 % loss",
            data: Data::Part,
            direction: Direction::Upload,
            before: DestinationState::Nothing,
            mode: Mode::Copy,
            transport: Transport::Server,
            against: &[(Tool::OverTcp, 0.35)],
            single_round: &[Tool::OverTcp],
        }],
    },
    Trial {
        rate_mbit: 100,
        round_trip_ms: 30,
        mtu_bytes: 1500,
        loss: 0.0,
        workloads: &[
            Workload {
                name: "lab-source-up",
                title: "64 MiB of source text in one file, upload, 100 Mbit/s, 30 ms",
                data: Data::Source,
                direction: Direction::Upload,
                before: DestinationState::Nothing,
                mode: Mode::Copy,
                transport: Transport::Haul,
                against: &[(Tool::Plain, 0.35)],
                single_round: &[],
            },
            Workload {
                name: "lab-delta-pages-100m",
                title: "haul sync: 1 GiB, 0.1 % of its pages changed, upload, 100 Mbit/s, 30 ms",
                data: Data::Pages,
                direction: Direction::Upload,
                before: DestinationState::Stale,
                mode: Mode::Sync(&["-a"]),
                transport: Transport::Haul,
                against: &[(Tool::Rsync, 0.80)],
                single_round: &[],
            },
            Workload {
                name: "lab-delta-insert-100m",
                title: "haul sync: 1 GiB, 1 KiB inserted in front, upload, 100 Mbit/s, 30 ms",
                data: Data::Insert,
                direction: Direction::Upload,
                before: DestinationState::Stale,
                mode: Mode::Sync(&["-a"]),
                transport: Transport::Haul,
                against: &[(Tool::Rsync, 0.80)],
                single_round: &[],
            },
        ],
    },
    Trial {
        rate_mbit: 80,
        round_trip_ms: 30,
        mtu_bytes: 1500,
        loss: 0.0,
        workloads: &[
            Workload {
                name: "lab-known-first",
                title: "128 MiB that the host has not, kept connection, 80 Mbit/s, 30 ms",
                data: Data::Part,
                direction: Direction::Upload,
                before: DestinationState::First,
                mode: Mode::Copy,
                transport: Transport::Kept,
                against: &[(Tool::Uncached, 1.03)],
                single_round: &[],
            },
            Workload {
                name: "lab-known-again",
                title: "128 MiB that the host has under another name, kept connection, 80 Mbit/s, 30 ms",
                data: Data::Part,
                direction: Direction::Upload,
                before: DestinationState::Known,
                mode: Mode::Copy,
                transport: Transport::Kept,
                against: &[(Tool::Uncached, 0.10)],
                single_round: &[],
            },
            Workload {
                name: "lab-known-longer",
                title: "the same with 1 KiB in front that it has not",
                data: Data::Longer,
                direction: Direction::Upload,
                before: DestinationState::Known,
                mode: Mode::Copy,
                transport: Transport::Kept,
                against: &[(Tool::Uncached, 0.12)],
                single_round: &[],
            },
        ],
    },
    Trial {
        rate_mbit: 1000,
        round_trip_ms: 10,
        mtu_bytes: 9000,
        loss: 0.0,
        workloads: &[
            Workload {
                name: "lab-delta-pages-1g",
                title: "haul sync: 1 GiB, 0.1 % of its pages changed, upload, 1 Gbit/s, 10 ms",
                data: Data::Pages,
                direction: Direction::Upload,
                before: DestinationState::Stale,
                mode: Mode::Sync(&["-a"]),
                transport: Transport::Haul,
                against: &[(Tool::Rsync, 0.60)],
                single_round: &[],
            },
            Workload {
                name: "lab-delta-insert-1g",
                title: "haul sync: 1 GiB, 1 KiB inserted in front, upload, 1 Gbit/s, 10 ms",
                data: Data::Insert,
                direction: Direction::Upload,
                before: DestinationState::Stale,
                mode: Mode::Sync(&["-a"]),
                transport: Transport::Haul,
                against: &[(Tool::Rsync, 0.60)],
                single_round: &[],
            },
        ],
    },
];

impl Trial {
    fn plan(&self) -> Plan {
        let link = Link {
            rate: Rate(self.rate_mbit * 1_000_000),
            delay: Duration::from_millis(self.round_trip_ms),
            loss: Share(self.loss),
            queue: None,
            mtu: self.mtu_bytes,
        };
        Plan { link, congestion: None, via: None }
    }
}

/// Measures and prints.
pub(super) fn run(args: &Args) -> Result<()> {
    let wanted =
        |workload: &&Workload| args.only.as_deref().is_none_or(|part| workload.name.contains(part));
    if !TRIALS.iter().flat_map(|trial| trial.workloads).any(|workload| wanted(&workload)) {
        return Err("no such workload in the lab".into());
    }
    let haul = args.program()?;
    let space = Space::new(args.dir.as_deref())?;
    let mut report = None;
    for trial in &TRIALS {
        let workloads: Vec<_> = trial.workloads.iter().filter(wanted).collect();
        let Some(first) = workloads.first() else { continue };
        let lab = Lab::start(&trial.plan())?;
        eprintln!("lab: {}", lab.describe());
        let report = report.get_or_insert_with(|| {
            let network = format!("two hosts of the lab, a link by {}", lab.implementation());
            Report::new(&haul, space.kind(), &network, args)
        });
        let dir = space.path().join(first.name);
        fs::create_dir(&dir)?;
        let mut bench = Bench::new(&haul, lab.sshd(), &dir, args.scale(), args.rounds())?;
        if workloads.iter().any(|workload| workload.transport.is_server()) {
            let start = || bench.start_servers(SERVER).map_err(|e| e.to_string());
            lab.server().inside(start)??;
        }
        for workload in workloads {
            let measured = lab.client().inside(|| {
                // An error need not be able to leave the thread.
                bench.measure(workload).map_err(|e| e.to_string())
            })?;
            report.add(workload, measured?);
        }
    }
    report.map_or(Ok(()), |report| conclude(&report, args, LAB))
}
