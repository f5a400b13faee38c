//! Lanes that break while a file is sent over them, and workers that wait for the other lanes.

use super::*;
use crate::control::{Control, Reporter};
use crate::dirs::{DirNode, OpenDirs};
use crate::link::ReceiverPort;
use crate::link::wire::{
    ByWire, Frames, LONG_ROUND_TRIP, Lane, Lanes, Load, OnLeaving, Outbox, read_header,
    read_payload, run_writer,
};
use crate::monitor::{Event, Monitor, Progress, Silent};
use crate::pool::Pool;
use crate::sender::item::Version;
use crate::sender::{Item, Readers, Sender, run_reader};
use crate::{Job, JobError};
use haul_model::{BLOCK_LEN, BlockHash, BlockRanges, ContentHash, FaultKind, Kind, Name};
use haul_net::{Connection, Killer, Writer};
use haul_proto::{FrameType, How, ListItem, Taken, Want, decode_data_start};
use haul_testkit::tree;
use haul_tree::{LocalTree, MetaKind, Tree};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of the file.
const FILE: u64 = 1;

/// The number of the lane that breaks.
const LANE: u8 = 1;

/// The longest time in which a worker notices that its lane was lost, and continues.
const NOTICED: Duration = Duration::from_millis(500);

/// A Receiver that ignores all messages.
struct Nobody;

impl ReceiverPort for Nobody {
    fn list(&self, _: Vec<ListItem>) {}

    fn files(&self, _: Vec<crate::link::SourceHandle>) {}
}

fn killer() -> Killer {
    Connection::from_parts(std::io::empty(), std::io::sink()).closer.killer()
}

/// The file `name` of `dir`, as a listed and wanted item.
fn wanted(dir: &std::path::Path, name: &str) -> Item {
    let handle = LocalTree::PLAIN.open(dir.as_os_str().as_bytes()).expect("a directory");
    let name = Name::new(name.as_bytes()).expect("a name");
    let meta = handle.stat(&name, false).expect("looked at").expect("it is there");
    let MetaKind::File { size } = meta.kind else { panic!("no file") };
    let dir = DirNode::root(handle, None, &Arc::new(OpenDirs::default())).expect("a node");
    let mtime = Some(meta.attributes.mtime);
    let item = Item::of(FILE, Some(dir), Some(name), Kind::File { size });
    let want = Want { blocks: BlockRanges::all(), ..item.want };
    Item { listed: Version { mtime, ..item.listed }, want, cost: 1, wanted: true, ..item }
}

/// Reads lane 0 to its end, and reports the blocks of the received pieces.
fn read_main(mut stream: UnixStream, tell: &Call<u64>) {
    while let Ok(header) = read_header(&mut stream)
        && let Ok(payload) = read_payload(&mut stream, header)
    {
        if header.kind == FrameType::Data {
            let view = decode_data_start(&payload, payload.len()).expect("a piece");
            let _ = tell.send(view.offset / BLOCK_LEN);
        }
    }
}

/// A stream that breaks after this many bytes.
struct Breaking(usize);

impl Write for Breaking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = bytes.len().min(self.0);
        self.0 -= len;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of sending a file over a lane that breaks.
#[derive(Default)]
struct Broken {
    /// The blocks received over lane 0 before the Receiver reports what it has from the other lane.
    before: BTreeSet<u64>,
    /// The blocks received afterwards.
    after: BTreeSet<u64>,
    /// The bytes that progress has counted at the end, and the bytes that were reported as leaving.
    counted: u64,
    told: u64,
}

/// Sends a file of `len` bytes over a lane that breaks after `takes` bytes. The Receiver reports
/// that it has received nothing over it.
fn broken(len: u64, takes: usize) -> Broken {
    let dir = tempfile::tempdir().expect("a directory");
    tree::random_file(dir.path().join("file"), len, 1).expect("a file");
    let silent = Silent::default();
    let control = Control::new(&silent);
    let (queue, wanted_files) = unbounded();
    let reporter = Reporter::new(&silent);
    let (job, nobody) = (Job::default(), Arc::new(Nobody));
    let sender = Sender::new(&control, Some(&reporter), nobody, &job, Some(queue), None);
    let item = wanted(dir.path(), "file");
    sender.ledger.insert(item.clone());
    let (main, main_frames) = Outbox::new(false);
    let lanes = Lanes::new(Arc::clone(&main), ByWire::Any);
    let (outbox, frames): (_, Frames) = lanes.sibling();
    let lane = Lane::new(LANE, Arc::clone(&outbox));
    lanes.expect(&lane, killer());
    lanes.join(lane, Some(Duration::ZERO));
    let readers = Readers::new(Arc::clone(&sender), wanted_files, lanes, Pool::new(16), true);
    sender.send_wanted(vec![item]);
    assert_eq!(sender.wanted_len(), len);
    let (here, there) = UnixStream::pair().expect("a pair");
    let (tell, news) = unbounded();
    let blocks_of = |blocks: &Calls<u64>| {
        let next = || blocks.recv_timeout(NOTICED).ok();
        std::iter::from_fn(next).collect::<BTreeSet<u64>>()
    };
    let told = AtomicU64::new(0);
    let on_leaving = |index, len| {
        told.fetch_add(len, Ordering::Relaxed);
        sender.ledger.count_sent(index, len);
    };
    let of_job = || Some((&control, &on_leaving as OnLeaving<'_>));
    std::thread::scope(|scope| {
        scope.spawn(|| read_main(there, &tell));
        scope.spawn(|| {
            let mut output = Writer::new(here, None);
            run_writer(&mut output, &main_frames, Vec::new(), None, of_job()).is_ok()
        });
        scope.spawn(|| run_reader(&readers, &control));
        if takes > 0 {
            let mut output = Writer::new(Breaking(takes), None);
            let sent = run_writer(&mut output, &frames, Vec::new(), None, of_job());
            assert!(sent.is_err(), "it has taken all");
        }
        // No more can be sent by then.
        std::thread::sleep(NOTICED);
        scope.spawn(|| readers.lanes.lose(LANE, frames, &control));
        let before = blocks_of(&news);
        let taken = readers.lanes.taken(Taken { lane: LANE, frames: 0, is_over: true });
        let after = blocks_of(&news);
        control.fail(JobError::Interrupted);
        sender.close_queue();
        main.close();
        let counted = silent.progress().bytes_done.load(Ordering::Relaxed);
        let told = told.load(Ordering::Relaxed);
        taken.map(|()| Broken { before, after, counted, told }).unwrap_or_default()
    })
}

#[test]
fn a_begun_block_is_sent_again_only_after_the_receiver_reports() {
    // The queue has room for the first block and half of the second.
    let Broken { before, after, counted, told } = broken(6 * BLOCK_LEN, 0);
    assert_eq!(before, BTreeSet::from([2, 3, 4, 5]));
    assert_eq!(after, BTreeSet::from([0, 1]));
    let all = 6 * BLOCK_LEN;
    assert_eq!([counted, told], [all, all], "what never left counts when it leaves");
}

#[test]
fn bytes_that_had_left_are_not_counted_again() {
    let all = 6 * BLOCK_LEN;
    for takes in [1 << 20, (6 << 20) + 4321] {
        let Broken { after, counted, told, .. } = broken(all, takes);
        assert!(after.contains(&0), "{after:?}");
        assert_eq!([counted, told], [all, all], "{takes}");
    }
}

#[test]
fn a_begun_file_in_pieces_is_sent_again_only_after_the_receiver_reports() {
    let Broken { before, after, counted, told } = broken(2 * BLOCK_LEN, 0);
    assert_eq!([counted, told], [2 * BLOCK_LEN, 2 * BLOCK_LEN]);
    assert_eq!(before, BTreeSet::new());
    assert_eq!(after, BTreeSet::from([0, 1]));
}

/// Blocks each check for cancellation until it is answered or the channel is closed.
struct Asking {
    progress: Progress,
    asks: Call<()>,
    answers: Calls<()>,
}

impl Monitor for Asking {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, _: Event<'_>) {}

    fn cancelled(&self) -> bool {
        if self.asks.send(()).is_ok() {
            let _ = self.answers.recv();
        }
        false
    }
}

/// Reads a file of 16 MiB with the only lane, a far one. For each part that is read, returns
/// whether another block could take the lane.
fn others_go_on(how: How, blocks: BlockRanges) -> [bool; 4] {
    let dir = tempfile::tempdir().expect("a directory");
    tree::random_file(dir.path().join("file"), 4 * BLOCK_LEN, 1).expect("a file");
    let ((asks, asked), (answer, answers)) = (unbounded(), unbounded());
    let monitor = Asking { progress: Progress::default(), asks, answers };
    let control = Control::new(&monitor);
    let silent = Silent::default();
    let over = Control::new(&silent);
    over.fail(JobError::Interrupted);
    let (queue, wanted_files) = unbounded();
    let (job, nobody) = (Job::default(), Arc::new(Nobody));
    let sender = Sender::new(&control, None, nobody, &job, Some(queue), None);
    let lanes = Lanes::new(Outbox::new(false).0, ByWire::Nothing);
    let (outbox, _frames) = lanes.sibling();
    lanes.join(Lane::new(LANE, outbox), Some(LONG_ROUND_TRIP));
    let readers = Readers::new(Arc::clone(&sender), wanted_files, lanes, Pool::new(16), true);
    let item = wanted(dir.path(), "file");
    let item = Item { want: Want { how, blocks, ..item.want }, ..item };
    sender.ledger.insert(item.clone());
    sender.send_wanted(vec![item]);
    let load = Load { len: BLOCK_LEN, is_block: true, of_job: BLOCK_LEN };
    std::thread::scope(|scope| {
        scope.spawn(|| run_reader(&readers, &control));
        let is_running = [(); 4].map(|()| {
            let is_asked = asked.recv_timeout(Duration::from_secs(60)).is_ok();
            let is_running = readers.lanes.of(1, load, &over).is_some();
            let _ = answer.send(());
            is_asked && is_running
        });
        drop((asked, answer));
        control.fail(JobError::Interrupted);
        sender.close_queue();
        is_running
    })
}

#[test]
fn hashing_unsent_content_does_not_hold_a_lane() {
    assert_eq!(others_go_on(How::WHOLE_HASH, BlockRanges::none()), [true; 4]);
    assert_eq!(others_go_on(How::WHOLE_HASH, BlockRanges::from(3)), [true; 4]);
}

#[test]
fn the_sum_of_wanted_lengths_saturates() {
    let dir = tempfile::tempdir().expect("a directory");
    tree::random_file(dir.path().join("file"), 1, 1).expect("a file");
    let silent = Silent::default();
    let control = Control::new(&silent);
    let (job, nobody) = (Job::default(), Arc::new(Nobody));
    let (queue, _wanted_files) = unbounded();
    let sender = Sender::new(&control, None, nobody, &job, Some(queue), None);
    let huge = Item { kind: Kind::File { size: u64::MAX / 2 }, ..wanted(dir.path(), "file") };
    sender.send_wanted(vec![huge.clone(); 3]);
    sender.send_wanted(vec![huge]);
    assert_eq!(sender.wanted_len(), u64::MAX);
}

/// A file of `blocks` blocks, the last one short, as stripes.
fn striped(dir: &std::path::Path, blocks: u64) -> Striped {
    let file = std::fs::File::create(dir.join("file")).expect("a file");
    file.set_len((blocks - 1) * BLOCK_LEN + 1).expect("a hole");
    let item = wanted(dir, "file");
    let (node, name) = (item.dir.as_ref().expect("a directory"), item.name.as_ref());
    let handle = node.handle().expect("open");
    let source = handle.open_file(name.expect("a name"), false).expect("a source");
    Striped::new(&item, &source.into()).expect("it is large enough")
}

/// An event on a lane of the model.
#[derive(Debug, Clone, Copy)]
enum Happens {
    /// A worker takes a block and queues it.
    Block,
    /// A worker takes a block and can't read it.
    Fault,
    /// The first queued content arrives.
    Arrival,
    /// The lane dies, with a block that a worker has not queued if set. Another lane replaces it.
    Death(bool),
}

/// A Sender of one file, its lanes, and the blocks that have arrived.
struct Model {
    file: Striped,
    control: Control<'static>,
    lanes: Vec<VecDeque<(BlockTask, bool)>>,
    arrived: Vec<u64>,
    faults: usize,
    told: Vec<bool>,
}

impl Model {
    fn queue(&mut self, lane: usize, is_fault: bool) -> Option<BlockTask> {
        let block_task = self.file.next(lane as u8, &self.control)?;
        let hash = BlockHash::from([block_task.block as u8; 32]);
        let hash = if is_fault { Err(given_up()) } else { Ok(Some(hash)) };
        self.file.record_queued(block_task.block, hash);
        self.lanes[lane].push_back((block_task.clone(), !is_fault));
        self.faults += usize::from(is_fault);
        Some(block_task)
    }

    fn happens(&mut self, lane: usize, what: Happens) {
        match what {
            // The queue of a lane is short.
            Happens::Block if self.lanes[lane].len() < 3 => drop(self.queue(lane, false)),
            Happens::Fault if self.lanes[lane].len() < 3 => drop(self.queue(lane, true)),
            Happens::Block | Happens::Fault => {}
            Happens::Arrival => {
                if let Some((block_task, is_whole)) = self.lanes[lane].pop_front() {
                    if is_whole {
                        self.arrived.push(block_task.block);
                    }
                    self.file.settle(block_task, true);
                }
            }
            Happens::Death(has_unsent) => {
                let unsent = has_unsent.then(|| self.file.next(lane as u8, &self.control));
                let lost = std::mem::take(&mut self.lanes[lane]);
                let lost =
                    lost.into_iter().map(|(block_task, _)| block_task).chain(unsent.flatten());
                lost.for_each(|block_task| {
                    self.file.settle(block_task, false);
                });
            }
        }
        while let Some(step) = self.file.step() {
            match step {
                EndStep::ComputeEnd(_) => self.file.set_end(Ok(seal(&self.file))),
                EndStep::SendEnd(end) => {
                    let is_still = self.lanes.iter().all(VecDeque::is_empty);
                    assert!(end.is_ok() || is_still, "the receiver may ask again");
                    self.told.push(end.is_ok());
                    self.file.told();
                }
            }
        }
    }
}

fn seal(file: &Striped) -> haul_proto::FileSeal {
    let seal = file.source.seal();
    haul_proto::FileSeal { size: seal.size, mtime: seal.mtime, hash: None, grew: false }
}

/// The number of lanes of the model.
const LANES: usize = 3;

fn happenings() -> impl proptest::strategy::Strategy<Value = Vec<(usize, Happens)>> {
    use proptest::prelude::*;
    let happens = prop_oneof![
        8 => Just(Happens::Block),
        1 => Just(Happens::Fault),
        6 => Just(Happens::Arrival),
        3 => any::<bool>().prop_map(Happens::Death),
    ];
    prop::collection::vec((0..LANES, happens), 0..60)
}

proptest::proptest! {
    #[test]
    fn every_block_arrives_once_despite_lost_lanes(
        blocks in 3_u64..12,
        happenings in happenings(),
        faults in proptest::prelude::any::<bool>(),
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let silent: &'static Silent = Box::leak(Box::default());
        let (file, lanes) = (striped(dir.path(), blocks), vec![VecDeque::new(); LANES]);
        let control = Control::new(silent);
        let (arrived, told) = (Vec::new(), Vec::new());
        let mut model = Model { file, control, lanes, arrived, faults: 0, told };
        let is_allowed = |what: &Happens| faults || !matches!(what, Happens::Fault);
        for (lane, what) in happenings.into_iter().filter(|(_, what)| is_allowed(what)) {
            model.happens(lane, what);
        }
        // From here on, no lane fails.
        while !model.file.is_over() {
            let before = (model.arrived.len(), model.lanes.iter().map(VecDeque::len).sum::<usize>());
            (0..LANES).for_each(|lane| model.happens(lane, Happens::Arrival));
            model.happens(0, Happens::Block);
            let after = (model.arrived.len(), model.lanes.iter().map(VecDeque::len).sum::<usize>());
            assert!(before != after || model.file.is_over(), "nothing happens any more");
        }
        assert!(!model.file.needs_workers());
        model.arrived.sort_unstable();
        let once = model.arrived.windows(2).all(|pair| pair[0] != pair[1]);
        assert!(once, "{:?}", model.arrived);
        if model.faults == 0 {
            assert_eq!(model.arrived, (0..blocks).collect::<Vec<_>>());
            assert_eq!(model.told, [true]);
        } else {
            assert!(matches!(model.told[..], [false] | [true, false]), "{:?}", model.told);
        }
    }
}

#[test]
fn a_source_of_which_only_the_mode_changed_is_hashed_again_and_has_not_grown() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    std::fs::write(&path, "one").expect("written");
    let (silent, nobody) = (Silent::default(), Arc::new(Nobody));
    let control = Control::new(&silent);
    let sender = Sender::new(&control, None, nobody, &Job::default(), None, None);
    let item = wanted(dir.path(), "file");
    let source = sender.open(&item).expect("opened");
    // More than a tick of the clock of the file system.
    std::thread::sleep(Duration::from_millis(20));
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("set");
    let (right, wrong) = (ContentHash::of(b"one"), ContentHash::of(b"two"));
    let end = |item: &Item, hash| {
        let end = seal_at_end(&sender, item, &*source, hash);
        end.map(|end| (end.hash, end.grew)).map_err(|fault| fault.kind)
    };
    assert_eq!(end(&item, Some(right)), Ok((Some(right), false)));
    assert_eq!(end(&item, Some(wrong)), Err(FaultKind::Changed));
    assert_eq!(end(&item, None), Ok((None, false)));
    // The hash of a part proves nothing here: the Receiver compares the whole.
    let part = Item { want: Want { blocks: BlockRanges::from(1), ..item.want.clone() }, ..item };
    assert_eq!(end(&part, Some(wrong)), Ok((Some(right), true)));
}
