//! The data that is copied, in which direction, against which tools, and how fast haul
//! must be: the table that the benchmarks answer.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use haul_testkit::content::Stream;
use haul_testkit::tree::{self, Made};

use super::tool::Tool;
use crate::repo;

/// One row of the table, or two where two tools are compared with.
pub(crate) struct Workload {
    /// Short, for `--only`.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    pub(crate) data: Data,
    pub(crate) direction: Direction,
    /// The destination's state.
    pub(crate) before: DestinationState,
    /// Which of haul's words does it.
    pub(crate) mode: Mode,
    /// The programs that haul finds on the host.
    pub(crate) transport: Transport,
    /// The other tools, each with the share of its time that haul may take.
    pub(crate) against: &'static [(Tool, f64)],
    /// Those of them that take so long that one round has to do.
    pub(crate) single_round: &'static [Tool],
}

/// The programs on the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// haul, too.
    Haul,
    /// The same, by ssh alone.
    HaulBySsh,
    /// Its SFTP server alone, over that many connections.
    Sftp(u8),
    /// A haul server that stays up, by the transport that haul chooses.
    Server,
    /// The same by QUIC.
    Quic,
    /// haul, over a connection that the last command has kept.
    Kept,
}

impl Transport {
    /// True for a haul server.
    pub(crate) fn is_server(self) -> bool {
        matches!(self, Self::Server | Self::Quic)
    }
}

/// The destination's state before each run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DestinationState {
    Nothing,
    /// All of the source.
    Same,
    /// The state that [`Data::make_stale`] makes.
    Stale,
    /// Nothing, and the chunk cache of haul, which may be used, knows nothing of the file.
    First,
    /// Nothing, but haul has copied the file elsewhere on the host, in that state if there is
    /// such a one.
    Known,
}

impl DestinationState {
    /// True if the destination is empty.
    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Self::Nothing | Self::First | Self::Known)
    }

    /// True if haul may use its chunk cache.
    pub(crate) fn uses_cache(self) -> bool {
        matches!(self, Self::First | Self::Known)
    }
}

/// The command of haul.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `haul copy`.
    Copy,
    /// `haul copy --fast`.
    Fast,
    /// `haul copy --to-all`, to [`DESTINATIONS`].
    ToAll,
    /// `haul sync`, with these options, which rsync is given too.
    Sync(&'static [&'static str]),
}

impl Mode {
    /// True if it is `haul copy`.
    pub(crate) fn is_copy(self) -> bool {
        matches!(self, Self::Copy | Self::Fast | Self::ToAll)
    }
}

/// The destinations of a copy to all: directories in that which other tools copy into.
pub(crate) const DESTINATIONS: [&str; 4] = ["1", "2", "3", "4"];

/// In place of a bound: what is only measured.
pub(crate) const NO_BOUND: f64 = f64::INFINITY;

/// The source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    /// One large random file.
    One,
    /// Many files of 64 KiB.
    Many,
    /// 1,008 files, most of them small.
    Mixed,
    /// One large file of source text.
    Text,
    /// One file of source text that a link takes a while to carry.
    Source,
    /// One random file that a link takes a while to carry.
    Part,
    /// The same with something in front.
    Longer,
    /// Files of 16 KiB, as many as a link takes a while to carry.
    Small,
    /// 50 tiny files in each of many directories.
    Tree,
    /// 50 empty files in each of a great many directories.
    Million,
    /// The image of a disk, of which few pages have changed.
    Pages,
    /// A large file that something was inserted in front of.
    Insert,
}

/// Where it goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Local,
    Upload,
    Download,
}

impl Workload {
    /// Neither side may ever have more than this resident.
    pub(crate) fn peak_rss_bytes_max(&self) -> u64 {
        if let (Data::Million, Mode::Sync(["-aH"])) = (self.data, self.mode) {
            return 200 << 20;
        }
        if self.mode == Mode::ToAll {
            // The shared blocks, and the queues of each job.
            return 256 << 20;
        }
        match self.transport {
            Transport::Server | Transport::Quic => 128 << 20,
            Transport::Haul if self.direction != Direction::Local => 128 << 20,
            Transport::Haul | Transport::HaulBySsh | Transport::Kept => 64 << 20,
            Transport::Sftp(_) => 96 << 20,
        }
    }

    /// How much may go over the link, as a share of what each other tool sends, if that is
    /// measured.
    pub(crate) fn sent_max(&self) -> Option<f64> {
        matches!(self.data, Data::Pages | Data::Insert).then_some(1.1)
    }
}

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "local-1g",
        title: "one 1 GiB file",
        data: Data::One,
        direction: Direction::Local,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Cp, 1.1)],
        single_round: &[],
    },
    Workload {
        name: "local-10k",
        title: "10,000 files of 64 KiB",
        data: Data::Many,
        direction: Direction::Local,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Cp, 0.75)],
        single_round: &[],
    },
    Workload {
        name: "up-1g",
        title: "one 1 GiB file, upload",
        data: Data::One,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Scp, 0.50)],
        single_round: &[],
    },
    Workload {
        name: "down-1g",
        title: "one 1 GiB file, download",
        data: Data::One,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Scp, 0.50), (Tool::Cat, 1.15)],
        single_round: &[],
    },
    Workload {
        name: "ssh-down-1g",
        title: "one 1 GiB file, download by ssh alone",
        data: Data::One,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::HaulBySsh,
        against: &[(Tool::Cat, 1.15)],
        single_round: &[],
    },
    Workload {
        name: "up-text-1g",
        title: "1 GiB of source text in one file, upload",
        data: Data::Text,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Plain, 1.05), (Tool::Zstd, 1.05)],
        single_round: &[],
    },
    Workload {
        name: "up-random-1g",
        title: "1 GiB of random bytes in one file, upload",
        data: Data::One,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Plain, 1.05), (Tool::Zstd, 1.05)],
        single_round: &[],
    },
    Workload {
        name: "up-10k",
        title: "10,000 files of 64 KiB, upload",
        data: Data::Many,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Scp, 0.30), (Tool::Tar, 0.75)],
        single_round: &[],
    },
    Workload {
        name: "down-10k",
        title: "10,000 files of 64 KiB, download",
        data: Data::Many,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Scp, 0.30), (Tool::Tar, 0.75)],
        single_round: &[],
    },
    Workload {
        name: "cache-up-1g",
        title: "one 1 GiB file, upload with the chunk cache",
        data: Data::One,
        direction: Direction::Upload,
        before: DestinationState::First,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Uncached, 1.03)],
        single_round: &[],
    },
    Workload {
        name: "fast-up-1g",
        title: "one 1 GiB file, upload with --fast",
        data: Data::One,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Fast,
        transport: Transport::Haul,
        against: &[(Tool::Hashing, 0.85)],
        single_round: &[],
    },
    Workload {
        name: "fast-up-10k",
        title: "10,000 files of 64 KiB, upload with --fast",
        data: Data::Many,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Fast,
        transport: Transport::Haul,
        against: &[(Tool::Hashing, 0.85)],
        single_round: &[],
    },
    Workload {
        name: "fast-down-1g",
        title: "one 1 GiB file, download with --fast",
        data: Data::One,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Fast,
        transport: Transport::Haul,
        against: &[(Tool::Hashing, 0.85)],
        single_round: &[],
    },
    Workload {
        name: "fast-down-10k",
        title: "10,000 files of 64 KiB, download with --fast",
        data: Data::Many,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Fast,
        transport: Transport::Haul,
        against: &[(Tool::Hashing, 0.85)],
        single_round: &[],
    },
    Workload {
        name: "small-up",
        title: "1,008 mixed files, upload",
        data: Data::Mixed,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Rsync, 0.70)],
        single_round: &[],
    },
    Workload {
        name: "small-again",
        title: "1,008 mixed files, unchanged, upload",
        data: Data::Mixed,
        direction: Direction::Upload,
        before: DestinationState::Same,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Rsync, 0.88)],
        single_round: &[],
    },
    Workload {
        name: "tree-again",
        title: "100,000 files, unchanged",
        data: Data::Tree,
        direction: Direction::Local,
        before: DestinationState::Same,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Rsync, 0.45)],
        single_round: &[],
    },
    Workload {
        name: "tree-again-up",
        title: "100,000 files, unchanged, upload",
        data: Data::Tree,
        direction: Direction::Upload,
        before: DestinationState::Same,
        mode: Mode::Copy,
        transport: Transport::Haul,
        against: &[(Tool::Rsync, 0.62)],
        single_round: &[],
    },
    Workload {
        name: "sftp-up-1g",
        title: "one 1 GiB file, upload through SFTP",
        data: Data::One,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Sftp(1),
        against: &[(Tool::Scp, 0.70)],
        single_round: &[],
    },
    Workload {
        name: "sftp-up-1g-2",
        title: "one 1 GiB file, upload through SFTP (--parallel 2)",
        data: Data::One,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Sftp(2),
        against: &[(Tool::Scp, 0.70)],
        single_round: &[],
    },
    Workload {
        name: "sftp-down-1g",
        title: "one 1 GiB file, download through SFTP",
        data: Data::One,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Sftp(1),
        against: &[(Tool::Scp, 0.70)],
        single_round: &[],
    },
    Workload {
        name: "sftp-down-1g-2",
        title: "one 1 GiB file, download through SFTP (--parallel 2)",
        data: Data::One,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Sftp(2),
        against: &[(Tool::Scp, 0.70)],
        single_round: &[],
    },
    Workload {
        name: "sftp-up-10k",
        title: "10,000 files of 64 KiB, upload through SFTP",
        data: Data::Many,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Sftp(1),
        against: &[(Tool::Scp, 0.40)],
        single_round: &[],
    },
    Workload {
        name: "sftp-down-10k",
        title: "10,000 files of 64 KiB, download through SFTP",
        data: Data::Many,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Sftp(1),
        against: &[(Tool::Scp, 0.40)],
        single_round: &[],
    },
    Workload {
        name: "sync-first",
        title: "haul sync: 10,000 files of 64 KiB",
        data: Data::Many,
        direction: Direction::Local,
        before: DestinationState::Nothing,
        mode: Mode::Sync(&["-a"]),
        transport: Transport::Haul,
        against: &[(Tool::Rsync, 0.35)],
        single_round: &[],
    },
    Workload {
        name: "sync-again",
        title: "haul sync: 100,000 files, unchanged",
        data: Data::Tree,
        direction: Direction::Local,
        before: DestinationState::Same,
        mode: Mode::Sync(&["-a"]),
        transport: Transport::Haul,
        against: &[(Tool::Rsync, 0.45)],
        single_round: &[],
    },
    Workload {
        name: "to-all-1g",
        title: "one 1 GiB file to 4 hosts",
        data: Data::One,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::ToAll,
        transport: Transport::Haul,
        against: &[(Tool::OneByOne, 0.6)],
        single_round: &[],
    },
    Workload {
        name: "sync-again-up",
        title: "haul sync: 100,000 files, unchanged, upload",
        data: Data::Tree,
        direction: Direction::Upload,
        before: DestinationState::Same,
        mode: Mode::Sync(&["-a"]),
        transport: Transport::Haul,
        against: &[(Tool::Rsync, 0.62)],
        single_round: &[],
    },
    Workload {
        name: "sync-changed-up",
        title: "haul sync: 1,008 mixed files, 100 changed, upload",
        data: Data::Mixed,
        direction: Direction::Upload,
        before: DestinationState::Stale,
        mode: Mode::Sync(&["-a", "--delete"]),
        transport: Transport::Haul,
        against: &[(Tool::Rsync, NO_BOUND), (Tool::Login, 1.0)],
        single_round: &[],
    },
    Workload {
        name: "server-up",
        title: "1,008 mixed files, upload to a server",
        data: Data::Mixed,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Server,
        against: &[(Tool::Daemon, 0.50)],
        single_round: &[],
    },
    Workload {
        name: "server-again",
        title: "1,008 mixed files, unchanged, upload to a server",
        data: Data::Mixed,
        direction: Direction::Upload,
        before: DestinationState::Same,
        mode: Mode::Copy,
        transport: Transport::Server,
        against: &[(Tool::Daemon, 0.08)],
        single_round: &[],
    },
    Workload {
        name: "server-changed",
        title: "haul sync: 1,008 mixed files, 100 changed, upload to a server",
        data: Data::Mixed,
        direction: Direction::Upload,
        before: DestinationState::Stale,
        mode: Mode::Sync(&["-a", "--delete"]),
        transport: Transport::Server,
        against: &[(Tool::Daemon, 0.12)],
        single_round: &[],
    },
    Workload {
        name: "server-tree-again",
        title: "100,000 files, unchanged, upload to a server",
        data: Data::Tree,
        direction: Direction::Upload,
        before: DestinationState::Same,
        mode: Mode::Copy,
        transport: Transport::Server,
        against: &[(Tool::Daemon, 0.50)],
        single_round: &[],
    },
    Workload {
        name: "server-up-1g",
        title: "one 1 GiB file, upload to a server",
        data: Data::One,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Server,
        against: &[(Tool::Scp, 0.35)],
        single_round: &[],
    },
    Workload {
        name: "server-down-1g",
        title: "one 1 GiB file, download from a server",
        data: Data::One,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Server,
        against: &[(Tool::Scp, 0.40)],
        single_round: &[],
    },
    Workload {
        name: "server-quic-up-1g",
        title: "one 1 GiB file, upload to a server by QUIC",
        data: Data::One,
        direction: Direction::Upload,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Quic,
        against: &[(Tool::OverTcp, 1.5)],
        single_round: &[],
    },
    Workload {
        name: "server-quic-down-1g",
        title: "one 1 GiB file, download from a server by QUIC",
        data: Data::One,
        direction: Direction::Download,
        before: DestinationState::Nothing,
        mode: Mode::Copy,
        transport: Transport::Quic,
        against: &[(Tool::OverTcp, 1.5)],
        single_round: &[],
    },
    Workload {
        name: "kept-again",
        title: "1,008 mixed files, unchanged, upload over a kept connection",
        data: Data::Mixed,
        direction: Direction::Upload,
        before: DestinationState::Same,
        mode: Mode::Copy,
        transport: Transport::Kept,
        against: &[(Tool::Rsync, 0.05)],
        single_round: &[],
    },
    Workload {
        name: "sync-million",
        title: "haul sync -a: 1,000,000 files, unchanged",
        data: Data::Million,
        direction: Direction::Local,
        before: DestinationState::Same,
        mode: Mode::Sync(&["-a"]),
        transport: Transport::Haul,
        against: &[(Tool::Rsync, 0.40)],
        single_round: &[],
    },
    Workload {
        name: "sync-million-links",
        title: "haul sync -aH: 1,000,000 files, unchanged",
        data: Data::Million,
        direction: Direction::Local,
        before: DestinationState::Same,
        mode: Mode::Sync(&["-aH"]),
        transport: Transport::Haul,
        against: &[(Tool::Rsync, 0.40)],
        single_round: &[],
    },
];

/// How large the sources are.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    one_bytes: u64,
    many_files: u64,
    part_bytes: u64,
    small_files: u64,
    tree_dirs: u64,
    million_dirs: u64,
}

impl Scale {
    /// As the table says.
    pub(crate) const FULL: Scale = Scale {
        one_bytes: 1 << 30,
        many_files: 10_000,
        part_bytes: 128 << 20,
        small_files: 2_000,
        tree_dirs: 2_000,
        million_dirs: 20_000,
    };
    /// Enough to see that everything works.
    pub(crate) const QUICK: Scale = Scale {
        one_bytes: 64 << 20,
        many_files: 500,
        part_bytes: 8 << 20,
        small_files: 40,
        tree_dirs: 20,
        million_dirs: 40,
    };
}

impl Data {
    /// The name that the source has, and gets at the destination.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Data::One => "one",
            Data::Many => "many",
            Data::Mixed => "mixed",
            Data::Text => "text",
            Data::Source => "source",
            Data::Part => "part",
            Data::Longer => "longer",
            Data::Small => "small",
            Data::Tree => "tree",
            Data::Million => "million",
            Data::Pages => "pages",
            Data::Insert => "insert",
        }
    }

    /// True if copying it takes `-r`.
    pub(crate) fn is_tree(self) -> bool {
        use Data as D;
        !matches!(self, D::One | D::Part | D::Longer | D::Text | D::Source | D::Pages | D::Insert)
    }

    /// Makes a copy at `path` that of an earlier day. Of the mixed files, the 100 of a
    /// directory have other contents, of half the length, and there are 8 that the source
    /// lacks; of the image, one of 1,000 pages differs; and what was inserted is missing.
    pub(crate) fn make_stale(self, path: &Path) -> io::Result<()> {
        match self {
            Data::Mixed => Self::make_mixed_stale(path),
            Data::Pages => change_pages(path),
            Data::Insert | Data::Longer => remove_first_kib(path),
            _ => Err(io::Error::other("it has no earlier day")),
        }
    }

    fn make_mixed_stale(path: &Path) -> io::Result<()> {
        const STALE_BYTES: u64 = 2 << 10;
        let small = path.join("small");
        for (seed, entry) in (100..).zip(fs::read_dir(small.join("dir-000"))?) {
            tree::random_file(entry?.path(), STALE_BYTES, seed)?;
        }
        for more in 0..8 {
            tree::random_file(small.join(format!("more-{more}")), STALE_BYTES, more)?;
        }
        Ok(())
    }

    /// Makes it at `path`.
    pub(crate) fn make(self, path: &Path, scale: Scale) -> io::Result<Made> {
        const FILE_BYTES: u64 = 64 << 10;
        const SMALL_BYTES: u64 = 16 << 10;
        const DIRS: u64 = 20;
        const TINY_BYTES: u64 = 200;
        const FILES_PER_DIR: u64 = 50;
        let one = |bytes, seed| {
            tree::random_file(path, bytes, seed)?;
            Ok(Made { files: 1, dirs: 0, bytes })
        };
        match self {
            Data::One => one(scale.one_bytes, 1),
            Data::Many => tree::many(path, scale.many_files, FILE_BYTES, DIRS, 2),
            Data::Mixed => tree::mixed(path, 3),
            Data::Text => text(path, scale.one_bytes),
            Data::Source => text(path, scale.part_bytes / 2),
            Data::Part => one(scale.part_bytes, 4),
            Data::Longer => one(scale.part_bytes, 9),
            Data::Pages => one(scale.one_bytes, 7),
            Data::Insert => one(scale.one_bytes, 8),
            Data::Small => tree::many(path, scale.small_files, SMALL_BYTES, DIRS, 5),
            Data::Tree => {
                let dirs = scale.tree_dirs;
                tree::many(path, dirs * FILES_PER_DIR, TINY_BYTES, dirs, 6)
            }
            Data::Million => {
                let dirs = scale.million_dirs;
                tree::many(path, dirs * FILES_PER_DIR, 0, dirs, 10)
            }
        }
    }
}

/// Changes one of 1,000 pages of the file at `path`, at places drawn by a fixed lot.
fn change_pages(path: &Path) -> io::Result<()> {
    const PAGE_BYTES: u64 = 4 << 10;
    const ONE_OF: u64 = 1000;
    let file = fs::OpenOptions::new().write(true).open(path)?;
    let pages = file.metadata()?.len() / PAGE_BYTES;
    let mut positions = Stream::new(9);
    let mut page = vec![0; PAGE_BYTES as usize];
    for _ in 0..pages / ONE_OF {
        positions.fill(&mut page);
        file.write_all_at(&page, positions.below(pages) * PAGE_BYTES)?;
    }
    Ok(())
}

/// Takes the first KiB away from the file at `path`.
fn remove_first_kib(path: &Path) -> io::Result<()> {
    const FRONT_BYTES: u64 = 1 << 10;
    let temporary = path.with_extension("cut");
    let mut from = fs::File::open(path)?;
    from.seek(io::SeekFrom::Start(FRONT_BYTES))?;
    io::copy(&mut from, &mut fs::File::create(&temporary)?)?;
    fs::rename(temporary, path)
}

/// Makes a file of `bytes` out of the repository's own sources, over and over. They are
/// together longer than what is compressed at once.
fn text(path: &Path, bytes: u64) -> io::Result<Made> {
    let mut sources = Vec::new();
    let root = repo::root().join("crates");
    for (file, _) in haul_testkit::snapshot(&root)?.files() {
        sources.extend(fs::read(root.join(OsStr::from_bytes(file)))?);
    }
    let mut out = io::BufWriter::new(fs::File::create(path)?);
    let mut left = bytes;
    while left > 0 {
        let part = &sources[..sources.len().min(left as usize)];
        out.write_all(part)?;
        left -= part.len() as u64;
    }
    out.flush()?;
    Ok(Made { files: 1, dirs: 0, bytes })
}
