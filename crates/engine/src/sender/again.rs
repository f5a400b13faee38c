//! Contents that are sent once more: of files that changed while they were sent, and of
//! those whose difference did not make them.

use super::{Item, Sender};
use haul_model::Kind;

/// A content that is sent once more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It is not.
    #[default]
    No,
    /// It has changed while it was sent, or its difference was: the Receiver may ask for it
    /// again.
    Offered,
    /// It has asked.
    Asked,
}

impl Sender<'_> {
    /// True if no source may change in any way while it is read.
    pub(super) fn wants_still(&self) -> bool {
        self.task.copies().is_some_and(|policy| policy.strict_source)
    }

    /// Lets the Receiver ask once more for a file.
    pub(super) fn offer_again(&self, index: u64) {
        if let Some(item) = self.in_flight.lock().items.get_mut(&index)
            && item.repeat == Repeat::No
        {
            item.repeat = Repeat::Offered;
        }
    }

    /// A wanted file was opened, and is `size` bytes long by now.
    pub(super) fn was_opened(&self, index: u64, size: u64) {
        if self.reporter.is_some()
            && let Some(item) = self.in_flight.lock().items.get_mut(&index)
        {
            item.kind = Kind::File { size };
        }
    }

    /// The Receiver asks for a file that it has asked for before, if only for its hash.
    pub(super) fn begin_again(&self, item: &mut Item) {
        if item.wanted {
            item.repeat = Repeat::Asked;
        }
        let (counted, resumed) = (std::mem::take(&mut item.counted), item.left_out());
        if let Some(reporter) = self.reporter {
            reporter.begins_again(counted, resumed);
            reporter.not_matched(std::mem::take(&mut item.matched));
        }
    }
}
