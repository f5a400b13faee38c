//! The state of a disk after a cut of the power.

use super::disk::{Body, Change, Data, Disk, DiskState, FileBody, Names, ROOT, write_at};
use crate::content::Stream;

/// Into what a write falls apart, in bytes, of which each piece survives or is
/// lost for itself: pages, or larger extents. Each cut draws one.
const PIECE_LENS: [u64; 3] = [4 << 10, 256 << 10, 4 << 20];

/// Of 100 pieces or changes, how many survive. Each cut draws one.
const SURVIVORS: [u64; 3] = [5, 50, 95];

/// How much of what was not synced is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All of it.
    Everything,
    /// A part that is drawn by lot: each piece of a write and each change of a
    /// length, a name or metadata.
    Some,
    /// The same, and of each file's last write only the beginning survives, up
    /// to any byte.
    Torn,
}

impl Loss {
    /// Every kind.
    pub const ALL: [Loss; 3] = [Loss::Everything, Loss::Some, Loss::Torn];
}

/// Draws lots.
struct Lottery {
    random: Stream,
    survivors: u64,
    piece_len: u64,
}

impl Lottery {
    fn keeps(&mut self) -> bool {
        self.random.below(100) < self.survivors
    }
}

impl Disk {
    /// Decides, after a cut, what of all that was not synced is lost: `seed`
    /// says which part. Then the power is on again. Nothing may have it mounted.
    pub fn lose(&self, loss: Loss, seed: u64) {
        let mut random = Stream::new(seed);
        let mut draw = |from: [u64; 3]| from[random.below(3) as usize];
        let (survivors, piece_len) = (draw(SURVIVORS), draw(PIECE_LENS));
        let mut lottery = Lottery { random, survivors, piece_len };
        let mut state = self.state();
        let log = std::mem::take(&mut state.log);
        let kept = surviving(log, state.names, loss, &mut lottery);
        state.make_durable(kept);
        for node in state.nodes.values_mut() {
            node.meta = node.durable;
            match &mut node.body {
                Body::File(body) => lose_data(body, loss, &mut lottery),
                Body::Dir(body) => body.now = body.durable.clone(),
                Body::Link(_) => {}
            }
        }
        state.forget_unreachable();
        state.boot += 1;
        state.power_on();
    }
}

fn surviving(mut log: Vec<Change>, names: Names, loss: Loss, lottery: &mut Lottery) -> Vec<Change> {
    match (loss, names) {
        (Loss::Everything, _) => log.clear(),
        (_, Names::Journaled) => log.truncate(lottery.random.below(log.len() as u64 + 1) as usize),
        (_, Names::Posix) => log.retain(|_| lottery.keeps()),
    }
    log
}

fn lose_data(body: &mut FileBody, loss: Loss, lottery: &mut Lottery) {
    let pending = std::mem::take(&mut body.pending);
    let last = pending.iter().rposition(|data| matches!(data, Data::Write { .. }));
    for (k, data) in pending.iter().enumerate() {
        match (data, loss) {
            (_, Loss::Everything) => {}
            (Data::Write { at, bytes }, Loss::Torn) if Some(k) == last => {
                let torn = lottery.random.below(bytes.len() as u64 + 1) as usize;
                write_at(&mut body.durable, *at, &bytes[..torn]);
            }
            (Data::Write { at, bytes }, _) => lose_pieces(&mut body.durable, *at, bytes, lottery),
            (Data::SetLen(_), _) => {
                if lottery.keeps() {
                    data.apply(&mut body.durable);
                }
            }
        }
    }
    body.now = body.durable.clone();
}

/// Writes those pieces that survive; and, drawn for itself, the length.
fn lose_pieces(content: &mut Vec<u8>, at: u64, bytes: &[u8], lottery: &mut Lottery) {
    let end = at + bytes.len() as u64;
    let mut from = at;
    while from < end {
        let to = end.min((from / lottery.piece_len + 1) * lottery.piece_len);
        if lottery.keeps() {
            write_at(content, from, &bytes[(from - at) as usize..(to - at) as usize]);
        }
        from = to;
    }
    if (content.len() as u64) < end && lottery.keeps() {
        content.resize(end as usize, 0);
    }
}

impl DiskState {
    fn forget_unreachable(&mut self) {
        let mut reached = vec![ROOT];
        let mut next = 0;
        while let Some(ino) = reached.get(next) {
            if let Body::Dir(body) = &self.nodes[ino].body {
                reached.extend(body.now.values());
            }
            next += 1;
        }
        self.nodes.retain(|ino, _| reached.contains(ino));
    }
}
