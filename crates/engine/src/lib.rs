//! The engine: one Sender and one Receiver for every kind of job.
//!
//! # Rooms
//!
//! - `job.rs`: `CopyJob`, `Placement`, `JobError`.
//! - `run.rs`: `run`, and the local placement.
//! - `roles.rs`: both roles in this process, connected.
//! - `workers.rs`: how many threads.
//! - `crew.rs`: where all threads of a job begin.
//! - `remote.rs`: the client's half of a remote job.
//! - `agent.rs`: the other half; `agent/conversation.rs` is what comes before its job.
//! - `vigil.rs`: notices a peer that is silent.
//! - `request.rs`: stat, list and hash, here, at a peer, or through a host's SFTP
//!   server (`request/sftp.rs`); `request/answer.rs` answers.
//! - `relocate.rs`: renames sources, and removes directories that became empty.
//! - `itself.rs`: whether a move would find itself at its destination.
//! - `mark.rs`: what a peer asks to be made for that.
//! - `aside.rs`: sources that are set aside in the moment before they are removed.
//! - `origin.rs`: the number by which a directory is known again that a job made as a
//!   new name.
//! - `clean.rs`: removes what copies have left; it needs one side only, and is no job.
//! - `deploy.rs`: puts haul onto a host, through an SFTP session and a shell that
//!   becomes what was uploaded.
//! - `deploy/program.rs` (what is uploaded), `host.rs` (asks the host what it is, and
//!   the upload whether it greets), `place.rs` (the directory, and whether it is the
//!   user's alone).
//! - `walk.rs`: directories of a source, read before the walk comes to them.
//! - `sender/`: `source.rs` (a named source, found), `special.rs` (one that is a FIFO,
//!   a device or a descriptor), `scan.rs` (the walk; a loop, not a recursion) with
//!   `scan/telling.rs` (its batches), `earlier.rs` (what earlier sources have in the
//!   same place, where several become one directory), `remove.rs` (the end of a move),
//!   `remover.rs` (the same over a wire, where it takes a round trip to prove that a
//!   source can go), `loss.rs` and `linked.rs` (what a move would lose), `mod.rs` (what
//!   is in flight, the window), `read.rs` (workers that pack or cut contents for a
//!   wire).
//! - `receiver/`: `destination.rs` (found and opened), `compare.rs`, `check.rs` (a job
//!   that compares and copies nothing), `mod.rs` (wants, outcomes), `listing.rs` (the
//!   listing as it is taken: where it stands, and what may be in it), `filling.rs` (how
//!   a file gets into its stage), `own.rs` (what a peer on this machine lists and is at
//!   the destination itself), `place.rs` (what happens at an entry's place when it is
//!   listed), `naming.rs` (how entries get their names, so that none takes another's),
//!   `times.rs` (how exactly the destination keeps times), `resume.rs` (what an earlier
//!   job has left), `proving.rs` (that it is of the source as it is now), `proofs.rs`
//!   (what is there of sources that are about to be removed), `dirs.rs` (a directory
//!   that waits for its entries), `sealing.rs` (its mode and time, set last),
//!   `small.rs` (small files through SFTP, many at a time), `work.rs` (workers: local
//!   files and packs), `incoming.rs` (a file in pieces), `hold.rs` (files that have to
//!   be durable or read back before they are published).
//! - `link/`: the two traits; `proof.rs` (that the destination has what is about to be
//!   removed); `memory.rs`; `wire.rs` (two readers), `wire/outgoing.rs` (ports, the
//!   writer).
//! - `sftp.rs`: a job with one of its roles on the tree of a host's SFTP server;
//!   `logins.rs`: its sessions, which begin at the same time.
//! - `copy.rs`: content between two open files; `copy/blocks.rs` by several threads,
//!   `copy/read_back.rs` from its medium.
//! - `digest.rs`: the hash of one.
//! - `dirs.rs`: directories whose handles are opened again when they had to make room.
//! - `pool.rs`: buffers that go round.
//! - `control.rs`: whether the job goes on, and its figures.
//! - `monitor.rs`: what the engine tells; it never prints.

#![forbid(unsafe_code)]

mod agent;
mod aside;
mod clean;
mod control;
mod copy;
mod crew;
mod deploy;
mod digest;
mod dirs;
mod itself;
mod job;
mod link;
mod logins;
mod mark;
mod monitor;
mod origin;
mod pool;
mod receiver;
mod relocate;
mod remote;
mod request;
mod roles;
mod run;
mod sender;
mod sftp;
mod vigil;
mod walk;
mod workers;

pub use agent::{Rights, serve, serve_with, stay_below};
pub use clean::{CleanEvent, CleanRules, clean};
pub use deploy::{Change, DeployError, Deployed, Program, Suspect, Undeployed, deploy, undeploy};
pub use haul_model::{Outcome, Skip, Summary};
pub use haul_store::{Cleaned, Fate, remove_unpublished};
pub use haul_sys::{Memory, spare_address_space};
pub use itself::{Near, is_onto_itself};
pub use job::{CopyJob, JobError, Placement};
pub use monitor::{Event, Monitor, Progress};
pub use origin::origin;
pub use relocate::{Relocated, find_source, relocate};
pub use request::{ListedEntry, RequestError, Requests};
pub use run::run;
pub use sftp::SftpRoute;
