//! Compares contents by their hashes, which both sides compute at the same time. Checks need that,
//! and mirrors that compare by content or look for renamed files.

use super::providers::bases::BaseDirs;
use super::providers::renamed::OldFile;
use super::staging;
use crate::control::{Control, CopyStep};
use crate::digest::{changed, seal_of};
use crate::link::SourceHandle;
use crate::receiver::deciding::Case;
use crate::receiver::decision::{Base, outcome_of};
use crate::receiver::{
    Decision, DirState, Filler, Pending, as_source_fault, metadata, parent_fault,
};
use haul_model::{
    BlockRanges, Changes, ContentHash, Fault, Name, OrFault, Outcome, Side, Skip, Updating,
};
use haul_proto::{FileEnd, FileSeal, How, OutcomeItem, Want};
use haul_store::OnExisting;
use haul_tree::{Meta, meta_of};
use std::sync::Arc;

/// A file whose content is being compared.
pub(crate) struct Hashing {
    pending: Pending,
    own: Option<Result<FileSeal, Fault>>,
    /// The peer has sent its hash, which may still be on its way to a worker.
    has_peer_hash: bool,
    of_source: Option<Result<FileSeal, Fault>>,
    /// The object that was hashed, if a proof is needed.
    hashed: Option<Meta>,
    /// Other files that may have the content, and the decision if none has it.
    candidates: Vec<Candidate>,
    otherwise: Decision,
    /// The hashes of the candidates that could be read.
    hashes: Vec<Option<ContentHash>>,
    /// Bytes that were counted as done while the destination's file was hashed.
    counted: u64,
}

/// A file on this machine that may have the content of a wanted one.
#[derive(Clone)]
pub(crate) enum Candidate {
    /// The file of the same name in a base directory, and its other differences.
    Base(Base, Changes),
    /// A file that may be the wanted one under its old name.
    OldFile(OldFile),
}

impl Candidate {
    /// The hash of the content; `None` if the file can't be read or was replaced.
    fn hash(
        &self,
        name: &Name,
        control: &Control<'_>,
        scratch: &mut Vec<u8>,
    ) -> Option<ContentHash> {
        let (node, name, id) = match self {
            Self::Base(base, _) => (&base.0, name, None),
            Self::OldFile(old) => (&old.node, &old.name, Some(old.id)),
        };
        let file = node.handle().and_then(|dir| dir.open_file(name, false)).ok()?;
        if id.is_some() && meta_of(haul_sys::file_stat(file.handle()?).ok()?).id != id {
            return None;
        }
        seal_of(&*file, scratch, control, &mut |_| {}).ok()?.hash
    }

    fn differs(&self) -> bool {
        matches!(self, Self::Base(_, found) if !found.is_empty())
    }
}

impl Filler<'_> {
    /// Makes both sides hash a file, whose other differences are known.
    pub(crate) fn hash_both(&self, pending: Pending, wants: &mut Vec<Want>) {
        self.hash_candidates(pending, Vec::new(), Decision::Hash, wants);
    }

    /// Makes both sides hash a file whose content one of the `candidates` may have. If none has it,
    /// `otherwise` applies. With [`Decision::Hash`] the destination's file is hashed, too.
    pub(crate) fn hash_candidates(
        &self,
        mut pending: Pending,
        candidates: Vec<Candidate>,
        otherwise: Decision,
        wants: &mut Vec<Want>,
    ) {
        pending.on_existing = match otherwise {
            Decision::Copy(on_existing) => on_existing,
            _ => OnExisting::Replace,
        };
        let index = pending.index;
        pending.dir.add_pending();
        let hashing = Hashing {
            pending,
            own: None,
            has_peer_hash: false,
            of_source: None,
            hashed: None,
            candidates,
            otherwise,
            hashes: Vec::new(),
            counted: 0,
        };
        self.hashing.lock().insert(index, hashing);
        self.job
            .enqueue(move |receiver, buffers| receiver.filler.hash_own(index, &mut buffers.part));
        wants.push(Want { index, how: How::WHOLE_HASH, blocks: BlockRanges::none(), into: None });
    }

    /// True if the hash of a file was requested from the peer and has not arrived.
    pub(crate) fn is_hashing(&self, index: u64) -> bool {
        self.hashing.lock().get(&index).is_some_and(|hashing| !hashing.has_peer_hash)
    }

    /// Hashes the destination's file of a comparison, and the candidates.
    pub(crate) fn hash_own(&self, index: u64, scratch: &mut Vec<u8>) {
        let place = self.hashing.lock().get(&index).map(|hashing| {
            let Pending { dir, name, entry, .. } = &hashing.pending;
            let is_own = hashing.otherwise == Decision::Hash;
            let candidates = hashing.candidates.clone();
            (Arc::clone(dir), name.clone(), entry.name.clone(), candidates, is_own)
        });
        let Some((dir, name, listed, candidates, is_own)) = place else { return };
        let hash = |candidate: &Candidate| candidate.hash(&name, self.job.control, scratch);
        let hashes = candidates.iter().map(hash).collect();
        let node = match &dir.state {
            DirState::Open(node) if is_own => node,
            _ => {
                // The existing file is not compared.
                let own = Err(parent_fault());
                return self.record_result(index, |hashing| {
                    (hashing.own, hashing.hashes) = (Some(own), hashes);
                });
            }
        };
        let (mut hashed, mut counted) = (None, 0);
        let mut count = |step: CopyStep| {
            counted += step.len();
            self.job.reporter.count_progress(step);
            self.job.reporter.at(|| dir.path_of(listed.as_ref()));
        };
        let own = node
            .handle()
            .and_then(|dir| dir.open_file(&name, false))
            .or_fault(Side::Source, "open")
            .and_then(|file| {
                let seal = seal_of(&*file, scratch, self.job.control, &mut count)?;
                if let (true, Some(file)) = (self.completion.keeps_proofs, file.handle()) {
                    hashed = haul_sys::file_stat(file).ok().map(meta_of);
                }
                if let (true, Some(file)) = (self.job.removes(), file.handle()) {
                    // The source of an identical file may be removed, and an earlier job may not
                    // have flushed this copy.
                    file.sync_all()
                        .and_then(|()| node.handle()?.sync(None))
                        .or_fault(Side::Source, "flush it to stable storage")?;
                }
                Ok(seal)
            })
            .map_err(|fault| Fault { side: Side::Destination, ..fault });
        self.record_result(index, |hashing| {
            (hashing.own, hashing.hashes) = (Some(own), hashes);
            hashing.hashed = hashed;
            hashing.counted = counted;
        });
    }

    /// Hashes sources on this machine that are compared with the destination's files.
    pub(crate) fn hash_sources(&self, files: Vec<SourceHandle>, scratch: &mut Vec<u8>) {
        for file in files {
            if self.job.control.stopped() {
                return;
            }
            let seal = |source: Box<_>| seal_of(&*source, scratch, self.job.control, &mut |_| {});
            let result = file.open().and_then(seal);
            self.take_seal(FileEnd { index: file.index, result, by_blocks: false });
        }
    }

    /// Admits a hash from a wire, for [`Self::take_seal`]. If it was not requested or was sent
    /// before, the job fails and this returns `false`.
    pub(crate) fn admit_seal(&self, index: u64) -> bool {
        let is_requested = self
            .hashing
            .lock()
            .get_mut(&index)
            .is_some_and(|hashing| !std::mem::replace(&mut hashing.has_peer_hash, true));
        if !is_requested {
            self.job.fail_protocol("it sent the hash of a file that was not requested");
        }
        is_requested
    }

    /// Takes the Sender's hash of a file that is compared.
    pub(crate) fn take_seal(&self, end: FileEnd) {
        let result = end.result.map_err(as_source_fault).and_then(|seal| match seal.hash {
            Some(_) => Ok(seal),
            None => Err(staging::missing_hash()),
        });
        self.record_result(end.index, |hashing| hashing.of_source = Some(result));
    }

    /// Records a result about a file, and settles the file once both hashes are known.
    fn record_result(&self, index: u64, put: impl FnOnce(&mut Hashing)) {
        let whole = {
            let mut hashing = self.hashing.lock();
            let Some(one) = hashing.get_mut(&index) else { return };
            put(one);
            let is_whole = one.own.is_some() && one.of_source.is_some();
            if is_whole { hashing.remove(&index) } else { None }
        };
        let Some(Hashing {
            own: Some(own),
            of_source: Some(of_source),
            pending,
            hashed,
            counted,
            candidates,
            hashes,
            otherwise,
            ..
        }) = whole
        else {
            return;
        };
        if self.job.control.stopped() {
            // The job was stopped; the file is not at fault.
            return;
        }
        if self.job.copies_nothing() {
            self.end_check(pending, of_source, own, hashed, counted);
            return;
        }
        let is_renaming = matches!(candidates[..], [Candidate::OldFile(_)]);
        let hash = of_source.as_ref().ok().filter(|source| pending.matches_listing(source));
        let hash = hash.and_then(|source| source.hash);
        match hash.and_then(|hash| find_candidate(candidates, &hashes, hash)) {
            Some(Candidate::Base(base, found)) => {
                let differs = !own.is_ok_and(|own| own.hash == hash);
                return BaseDirs.take_from_base(self, pending, base, found, (counted, differs));
            }
            Some(Candidate::OldFile(old)) => {
                return self.providers.renames.take_renamed(self, pending, &old);
            }
            None if is_renaming => self.providers.renames.end_renaming(self),
            None => {}
        }
        match (otherwise, of_source) {
            (Decision::Hash, of_source) => self.end_hashing(pending, of_source, own, counted),
            (_, Err(fault)) => self.linker.report_one(pending, counted, Outcome::Failed(fault)),
            (Decision::Settled(outcome), _) => self.linker.report_one(pending, counted, outcome),
            _ if self.job.plan.dry_run => {
                self.linker.report_one(pending, counted, Outcome::WouldCopy);
            }
            _ => self.want_now(pending, counted),
        }
    }

    /// Reports the result of a check about a file.
    fn end_check(
        &self,
        pending: Pending,
        of_source: Result<FileSeal, Fault>,
        own: Result<FileSeal, Fault>,
        hashed: Option<Meta>,
        counted: u64,
    ) {
        let outcome = match (of_source, own) {
            (Err(fault), _) | (_, Err(fault)) => Outcome::Failed(fault),
            (Ok(source), _) if !pending.matches_listing(&source) => Outcome::Failed(changed()),
            (Ok(source), Ok(own)) => {
                let content = Changes::CONTENT.only_if(source.hash != own.hash);
                outcome_of(pending.found.with(content))
            }
        };
        let dir = pending.dir();
        let Pending { index, name, entry, .. } = &pending;
        self.completion.keep_proof(*index, &dir, name, entry, hashed, &outcome);
        let item = self.completion.finish(pending, counted, outcome);
        self.job.send_outcomes(vec![item]);
        self.completion.settle(dir);
    }

    /// Keeps a file of a mirror if its content equals the source's, and requests the content
    /// otherwise.
    fn end_hashing(
        &self,
        mut pending: Pending,
        of_source: Result<FileSeal, Fault>,
        own: Result<FileSeal, Fault>,
        counted: u64,
    ) {
        let source = match of_source {
            Ok(source) => source,
            Err(fault) => return self.linker.report_one(pending, counted, Outcome::Failed(fault)),
        };
        // A file that can't be read here is replaced. So is one whose source has changed.
        let is_same = own.is_ok_and(|own| own.hash == source.hash);
        let outcome = if is_same && pending.matches_listing(&source) {
            self.job.reporter.hashed(pending.index, source.hash);
            self.keep_hashed(&pending).unwrap_or_else(Outcome::Failed)
        } else if self.job.plan.updating == Updating::Appends {
            // Nothing can be appended: the file is as long as the source.
            Outcome::Skipped(Skip::Ruled)
        } else {
            pending.found = pending.found.with(Changes::CONTENT).with(Changes::SENT);
            if !self.job.plan.dry_run {
                return self.want_now(pending, counted);
            }
            Outcome::WouldCopy
        };
        self.linker.report_one(pending, counted, outcome);
    }

    /// Keeps a file of a mirror whose content equals the source's. Returns its outcome.
    fn keep_hashed(&self, pending: &Pending) -> Result<Outcome, Fault> {
        let Pending { dir, name, entry, found, .. } = pending;
        let DirState::Open(node) = &dir.state else { return Err(parent_fault()) };
        let there = node.handle().and_then(|handle| self.job.stat_entry(&*handle, name));
        metadata(there.and_then(|there| {
            let existing = there.as_ref();
            let entry = &*self.times.as_kept(entry, node, existing);
            self.decider.keep_existing(&Case { dir, node, name, entry, existing }, *found)
        }))
    }

    /// Requests the content of a file after the comparison.
    pub(crate) fn want_now(&self, pending: Pending, counted: u64) {
        self.job.reporter.restart_file(counted, 0);
        let (dir, mut wants) = (pending.dir(), Vec::new());
        let index = pending.index;
        let first = self
            .job
            .is_hard_linked(&pending.entry)
            .then(|| (pending.entry.links, pending.name.clone()));
        if let Some(outcome) = self.want_file(Box::new(pending), &mut wants) {
            self.job.send_outcomes(vec![OutcomeItem { index, outcome: outcome.clone() }]);
            if let Some((group, name)) = first {
                self.linker.settle_first(group, Arc::clone(&dir), name, &outcome);
            }
        }
        if !wants.is_empty() {
            self.job.sender.want(wants);
        }
        // The directory counted the file twice: for the comparison and for the request.
        self.completion.settle(dir);
    }
}

/// The candidate with this content, preferably one without other differences.
fn find_candidate(
    candidates: Vec<Candidate>,
    hashes: &[Option<ContentHash>],
    hash: ContentHash,
) -> Option<Candidate> {
    let matching = candidates.into_iter().zip(hashes).filter(|(_, found)| **found == Some(hash));
    matching.map(|(candidate, _)| candidate).min_by_key(Candidate::differs)
}
