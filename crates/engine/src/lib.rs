//! The engine: one Sender and one Receiver for every kind of job.
//!
//! # Rooms
//!
//! A job:
//!
//! - `job.rs`: a job in plain words, and why one ended early. `run.rs`: runs it.
//! - `assembly.rs`: puts a job together, from roles, trees and a link, and ends it;
//!   `assembly/side.rs`: a role and its threads; `assembly/wire.rs`: one end of a wire;
//!   `assembly/opening.rs`: the loop that opens further connections as
//!   `assembly/schedule.rs` says: direct ones (`assembly/calling.rs`) or logins
//!   (`assembly/beside.rs`; worth it or not: `assembly/chosen.rs`), each behind
//!   `assembly/carrier.rs`; `assembly/lane.rs`: what one carries; `assembly/roster.rs`: the
//!   stage of each; `callers.rs`: accepts callers by key, `agent/entrance.rs`: by secret.
//! - `request/session.rs`: a connection to an agent; `remote.rs`: a job over one; `agent.rs`: an
//!   agent's way to its client, and
//!   `agent/conversation.rs`: requests before its job; `agent/apart.rs`: a job in a process
//!   of its own; `agent/heir.rs`: the next agent of
//!   the same job. `vigil.rs`: notices a silent peer.
//! - `relay.rs`: a job between two agents; `relay/passing.rs`: the frames from one to the
//!   other; `relay/course.rs`: what they report of the job; `relay/straight.rs` and
//!   `agent/calls.rs`: direct connections between them.
//! - `sftp.rs`: a job with one role on the tree of a host's SFTP server; `logins.rs`: its
//!   sessions, which begin at the same time.
//! - `beneath.rs`: directories behind links that lead nowhere else. `rules.rs`: files with
//!   rules in the trees themselves.
//! - `crew.rs`: the threads of a job; `workers.rs`: how many.
//! - `control.rs`: the course of a job, and its figures. `monitor.rs`: its events;
//!   `told.rs`: what a repeated job has reported, and `told/going.rs`: the sources that
//!   it may have removed; `census.rs`: entries by their kinds. `lacks.rs`: the words about
//!   attributes that are not kept, or that a move would lose. `prefetch.rs`: places that were looked at ahead.
//! - `link/`: the two traits; `memory.rs`; `wire.rs` (a Sender's reader) with
//!   `wire/ports.rs`, `wire/outgoing.rs` (the queue) and `wire/writer.rs`; `wire/lanes.rs`
//!   (the connections of a Sender), `wire/flow.rs` (how fast each is), `wire/ledger.rs` (what
//!   is lost with one), `wire/squeeze.rs` (compression); `greeting.rs`; `proof.rs` (proof that
//!   the destination has what is about to be removed).
//!
//! The Sender, with `walk.rs` (directories, read before the walk comes to them;
//! `walk/merged.rs`: of several sources; `walk/bounds.rs`: those that it does not go into;
//! `walk/led.rs`: links that it follows), in `sender/`:
//!
//! - `source.rs`: a named source. `special.rs`: one that is a FIFO, a device or a
//!   descriptor.
//! - `scan.rs`: the walk, a loop and no recursion; `scan/telling.rs`: its batches;
//!   `scan/places.rs`: several sources as one tree; `scan/bounds.rs`: rules about sources as
//!   a whole; `scan/kept.rs`: the attributes that are told; `scan/linked.rs`: files of
//!   several names; `accounts.rs`: names of users and groups.
//! - `mod.rs`: entries in flight, and the window; `item.rs`: one of them. `portions.rs`:
//!   wanted files on one machine.
//! - `read.rs`: workers that read contents for a wire, and pack small files; `pieces.rs`:
//!   large files, in pieces; `passed.rs`: how far one is; `stripes.rs`: by several workers;
//!   `wants.rs`: the rules for Wants; `offers.rs`: chunks; `differences.rs`: files of which the
//!   Receiver has an older version; `counted.rs`: what counts as sent; `again.rs`: files that
//!   are sent once more; `repeats.rs`: leases of contents, and what was lost with a lane.
//! - `earlier.rs`: entries of earlier sources in the same place, where several become one
//!   directory.
//! - `emptied.rs`: directories that became empty.
//! - `remove.rs`: the end of a move; `remover.rs`: the same over a wire, where proving
//!   that a source can go takes a round trip. `loss.rs`, `linked.rs`: what a move would
//!   lose.
//!
//! The Receiver, in `receiver/`, is a chain of stages. Each has its own type and state, and
//! knows only those below it:
//!
//! | stage | files | does |
//! |---|---|---|
//! | input | `reading.rs`, `arrivals.rs`, `asked.rs` | reads a wire and its lanes; knows what a far Sender was asked for |
//! | `Receiver` | `listing.rs`, `prefetching.rs` | takes the listing, and looks ahead |
//! | `Checker` | `check.rs` | compares entries in a job that copies nothing |
//! | `Maker` | `taking.rs`, `place.rs`, `subdir.rs` | makes directories, links and special files; has files filled |
//! | `Filler` | `filler.rs`, `hashing.rs` | asks the providers and the Sender for content |
//! | `Providers` | `providers/` | have content on this machine |
//! | workers | `work.rs`, `filling.rs`, `incoming.rs`, `small.rs`, `resume.rs`, `proving.rs` | put content into stages |
//! | `Linker` | `linking.rs` | reports outcomes, and links the further names of a file |
//! | `Decider` | `deciding.rs`, `providers/bases.rs` | looks at what exists, and asks the plan |
//! | `Completion` | `completion.rs`, `full.rs` | settles directories, ends the job, keeps proofs for a move |
//! | `Publisher` | `publish.rs`, `hold.rs`, `waiting.rs` | gives whole files their names, at once, when they are durable, or at the end of the job |
//! | `Durability` | `durable.rs` | flushes files and file systems |
//! | `Sealing` | `sealing.rs` | sets the attributes of directories, last |
//! | `Naming` | `naming.rs`, `in_place.rs` | gives names so that no entry takes another's; writes into existing files |
//! | `Removals` | `mirror.rs`, `mirror/` | removes extra and replaced entries |
//! | `Backups` | `backing.rs` | keeps removed and replaced entries under other names |
//! | `Times` | `times.rs` | knows how exactly the destination keeps times |
//! | `Owners` | `given.rs`, `losing.rs` | maps users and groups; knows what a move would lose |
//! | `JobContext` | `context.rs`, `modes.rs`, `ending.rs` | holds the rules of the job and the ways to report |
//!
//! Besides: `destination.rs`, the destination as it is found and opened; `way.rs`, the
//! directories above it; `dirs.rs`, a directory that waits for its entries; `pending.rs`, a file
//! on its way; `own.rs`, entries that are the destination's own.
//!
//! Content:
//!
//! - `copy.rs`: between two open files; `copy/blocks.rs`: by several threads;
//!   `copy/read_back.rs`: from its medium. `digest.rs`: the hash of one file.
//! - `dirs.rs`: directories whose handles are opened again when they had to make room.
//!   `originals.rs`: the files of the sources, into which nothing is written.
//!   `pool.rs`: buffers that go round.
//!
//! Parts of commands that need one side only, or no job:
//!
//! - `request.rs`: stat, list, hash and measure; `request/answer.rs` here and at a peer,
//!   `request/peer.rs` over a connection, `request/sftp.rs` through a host's SFTP server.
//! - `request/measure.rs`: measurements of a host and the connection to it;
//!   `measure/answering.rs`: the agent's side; `measure/door.rs`: its port;
//!   `measure/flow.rs`: what goes over connections; `measure/processor.rs`,
//!   `measure/disk.rs`: a machine.
//! - `expand.rs`: the paths that a pattern stands for.
//! - `moving/`: a move, and the machines that it needs; `moving/course.rs`: its steps;
//!   `moving/not_copied.rs`: what failed, and stays; `moving/removing.rs`: how its
//!   removing is told. `legs.rs`: its jobs, one for each
//!   machine.
//! - `relocate.rs`: renames sources. `aside.rs`: sources that are set aside in the moment
//!   before they are removed.
//! - `itself.rs`: refuses a move that would find itself at its destination; `mark.rs`:
//!   the marks that a peer asks for to find out.
//! - `room.rs`: a bound on the memory for hard links; `receiver/linking/cost.rs`: what is
//!   counted.
//! - `pace.rs`: a bound on the bytes that a job moves in a second. `cache.rs`: its chunk cache.
//! - `origin.rs`: the number of a directory that a job made as a new name.
//! - `clean.rs`: removes what copies have left.

#![forbid(unsafe_code)]

mod agent;
mod aside;
mod assembly;
mod beneath;
mod cache;
mod callers;
mod census;
mod clean;
mod control;
mod copy;
mod crew;
mod digest;
mod dirs;
mod expand;
mod in_flight;
mod itself;
mod job;
mod lacks;
mod legs;
mod link;
mod logins;
mod mark;
mod monitor;
mod moving;
mod origin;
mod originals;
mod pace;
mod pool;
mod prefetch;
mod receiver;
mod relay;
mod relocate;
mod remote;
mod request;
mod room;
mod rules;
mod run;
mod sender;
mod sftp;
mod told;
mod vigil;
mod walk;
mod workers;

pub use agent::{OnEnd, Serving, serve, serve_with, stay_below};
pub use cache::{CacheFigures, CachePlace, CheckedChunks, ChunkCache};
pub use census::{Census, Kinds};
pub use clean::{CleanEvent, CleanRules, CleanSummary, Stages, clean};
pub use expand::{Expanded, expand, is_pattern};
pub use haul_model::{Outcome, Skip, Summary};
pub use haul_proto::Hashing;
pub use haul_proto::VERSION as PROTOCOL;
pub use haul_sftp::Session as SftpSession;
pub use haul_store::{Cleaned, Fate, remove_unpublished};
pub use haul_sys::{
    Activated, Bounds, Child, Links, Memory, ROOT, append_to_named, append_to_private, become_user,
    effective_user, end_with_parent, fork, give_to_user, is_in_foreground, is_root,
    is_stdout_closed, leave_descriptors_to_none, node_name, open_named, secret,
    sockets_from_parent, spare_address_space, try_lock, user_number,
};
pub use haul_tree::{SHARED_LEN_MAX, SharedBlocks, Sharer};
pub use job::{Job, JobError, Munging, SftpRoute};
pub use legs::{Leg, Route, Spot, legs};
pub use link::greeting::greet;
pub use link::wire::RELAYED_FIRST;
pub use monitor::{At, Change, Event, LinkEvent, Monitor, Progress, Silent, Unfinished};
pub use moving::{Machines, MoveJob, NotCopied, run_move};
pub use relay::{Between, Straight};
pub use request::{
    Greeted, ListedEntry, RequestError, Requests, Rights, Session, Standing, measure_directly,
};
pub use run::{Placement, run};
