//! Checks the Receiver's requests, and keeps the checksums of the Receiver's old versions of files.

use super::{Item, Sender};
use haul_delta::{Key, Shape, Signature};
use haul_model::{Kind, Updating};
use haul_proto::{How, SIGNED_MAX, SUMS_LEN_MAX, Want};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The checksums of files that are not completely sent.
#[derive(Default)]
pub(super) struct Signatures(Mutex<SignatureTable>);

#[derive(Default)]
struct SignatureTable {
    /// Checksums that no worker uses yet.
    by_index: HashMap<u64, Signature>,
    /// The number of all signatures, and the bytes of their checksums when complete.
    count: usize,
    sums_len: usize,
}

impl SignatureTable {
    fn begin(&mut self, index: u64, signature: Signature) -> Result<(), &'static str> {
        let sums_len = signature.shape().sums_len();
        if self.count >= SIGNED_MAX || self.sums_len + sums_len > SUMS_LEN_MAX {
            return Err("it sent too many checksums at once");
        }
        if self.by_index.insert(index, signature).is_some() {
            return Err("it sent the checksums of a file twice");
        }
        self.count += 1;
        self.sums_len += sums_len;
        Ok(())
    }

    fn append(&mut self, index: u64, sums: &[u8]) -> Result<(), &'static str> {
        let signature = self.by_index.get_mut(&index);
        let signature = signature.ok_or("it sent checksums out of order")?;
        signature.take(sums).map_err(|_| "it sent more checksums than blocks")
    }

    fn release(&mut self, shape: &Shape) {
        self.count -= 1;
        self.sums_len -= shape.sums_len();
    }
}

impl Signatures {
    /// Takes the checksums of a file, for the worker that sends it. They count until
    /// [`Self::release`].
    pub(super) fn take(&self, index: u64) -> Option<Signature> {
        self.0.lock().by_index.remove(&index)
    }

    /// Ends the use of checksums that were taken.
    pub(super) fn release(&self, shape: &Shape) {
        self.0.lock().release(shape);
    }

    /// Drops the checksums of a file that no worker will use.
    pub(super) fn forget(&self, index: u64) {
        let mut table = self.0.lock();
        if let Some(signature) = table.by_index.remove(&index) {
            table.release(signature.shape());
        }
    }

    fn has_complete_sums(&self, index: u64) -> bool {
        self.0.lock().by_index.get(&index).is_some_and(Signature::is_complete)
    }
}

impl Sender<'_> {
    /// Adds checksums of the Receiver's old version of a file.
    pub(super) fn take_sums(&self, message: haul_proto::Signature) {
        let index = message.index();
        let may_differ = |item: &mut Item| !item.wanted && item.may_have_signature();
        let may_differ = self.ledger.in_flight.lock().get_mut(index).is_some_and(may_differ);
        if !may_differ || !self.plan.delta {
            return self.fail_protocol("it sent checksums of a file that is sent whole");
        }
        let taken = match message {
            haul_proto::Signature::Begin { old_size, block_len, strong_len, key, .. } => {
                match Shape::new(old_size, block_len, strong_len) {
                    Some(shape) => {
                        let signature = Signature::new(shape, Key::from(key));
                        self.signatures.0.lock().begin(index, signature)
                    }
                    None => Err("it sent checksums of an unknown kind"),
                }
            }
            haul_proto::Signature::Sums { sums, .. } => {
                self.signatures.0.lock().append(index, &sums)
            }
        };
        if let Err(rule) = taken {
            self.fail_protocol(rule);
        }
    }

    fn may_leave_unhashed(&self, want: &Want) -> bool {
        let Want { how, blocks, .. } = want;
        let is_plain = !how.has_any(How::DELTA.with(How::WHOLE_HASH)) && blocks.is_all();
        is_plain && self.plan.copies && !self.plan.wants_hashes
    }

    /// The rule that this request of the Receiver breaks, if any.
    pub(super) fn broken_rule(&self, item: &Item, want: &Want) -> Option<&'static str> {
        let Kind::File { size } = item.kind else { return None };
        match want.blocks.is_empty() {
            true if !self.plan.compares_content && !self.plan.finds_renamed => {
                return Some("it requested a hash where contents are not compared");
            }
            false if self.copies_nothing() => return Some("it requested content in a comparison"),
            _ => {}
        }
        if want.how.has(How::UNHASHED) && !self.may_leave_unhashed(want) {
            return Some("it requested content without a hash where one is needed");
        }
        if want.into.is_some() && self.plan.updating == Updating::Replaces {
            return Some("it would write into a file in a job that replaces files");
        }
        if !want.blocks.begin_within(size) {
            return Some("it claims more of a file than its size");
        }
        let is_known = !want.blocks.is_empty()
            && !item.wanted
            && self.signatures.has_complete_sums(item.index);
        (want.how.has(How::DELTA) && !is_known).then_some("it requested a delta without checksums")
    }
}
