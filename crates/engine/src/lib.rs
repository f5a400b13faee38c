//! The engine: one Sender and one Receiver for every kind of job.
//!
//! # Files
//!
//! A job:
//!
//! - `job.rs`: a job as a struct, and the reasons why one ends early. `run.rs`: runs it.
//! - `assembly.rs`: puts a job together from roles, trees and a link, and ends it. Its parts are
//!   the files in `assembly/`.
//! - `callers.rs`: accepts direct connections by key. `agent/entrance.rs`: accepts logins by
//!   secret.
//! - `remote.rs`: a job over a connection to an agent.
//! - `agent.rs`: the agent. `agent/conversation.rs`: the requests before its job;
//!   `agent/job_process.rs`: a job in a process of its own; `agent/heir.rs`: the successor of an
//!   agent.
//! - `watchdog.rs`: notices a silent peer.
//! - `relay.rs`: a job between two agents. `relay/forwarding.rs`: forwards frames;
//!   `relay/tracker.rs`: reads the job's progress from them; `relay/direct_plan.rs` and
//!   `agent/calls.rs`: direct connections between the agents.
//! - `sftp.rs`: a job with one role on the tree of a host's SFTP server; `logins.rs`: its sessions,
//!   which are opened in parallel.
//! - `beneath.rs`: directories below a root, reached without links that lead outside.
//! - `rules.rs`: rule files in the trees.
//! - `threads.rs`: the threads of a job; `workers.rs`: their number.
//! - `control.rs`: the state and the figures of a job. `monitor.rs`: its events.
//! - `entry_counts.rs`: entries counted by kind. `not_kept.rs`: messages about attributes that are
//!   not kept, or that a move would lose. `prefetch.rs`: lookups that are made ahead.
//! - `link/`: the two traits, the link within a process, and the proof that the destination has a
//!   source that a move removes. `greeting.rs`: the greeting. `wire.rs`: the ports over a wire.
//! - `link/wire/`: `outgoing.rs` (the queue), `writer.rs`, `lanes.rs` (the connections
//!   of a Sender), `flow.rs` (their speeds), `ledger.rs` (what a lost lane had sent),
//!   `compression_control.rs` (compression).
//!
//! The Sender walks the sources. `walk.rs` reads directories ahead of the walk. `walk/merged.rs`
//! merges several sources, and `walk/bounds.rs` holds the directories that it skips. The files in
//! `sender/`:
//!
//! - `special.rs`: a source that is a FIFO, a device or a descriptor.
//! - `scan.rs`: the walk, a loop without recursion. `scan/batching.rs`: its batches;
//!   `scan/places.rs`: several sources as one tree; `scan/attributes.rs`: the attributes that are
//!   sent; `scan/linked.rs`: files with several names.
//! - `accounts.rs`: names of users and groups.
//! - `ledger.rs`: entries in flight, the window, and the counts of what is sent; `item.rs`: one
//!   entry.
//! - `read.rs`: workers that read contents for a wire, and pack small files. `pieces.rs`: large
//!   files in pieces; `passed.rs`: the progress of one; `stripes.rs`: one read by several workers.
//! - `wants.rs`: the rules for Wants. `offers.rs`: chunks. `differences.rs`: files of which the
//!   Receiver has an older version. `leases.rs`: leases of contents, and contents that were lost
//!   with a lane.
//! - `earlier.rs`: entries of earlier sources in the same place, where several become one
//!   directory.
//! - `empty_dirs.rs`: directories that became empty.
//! - `remove.rs`: the end of a move; `remover.rs`: the same over a wire, where a proof takes a
//!   round trip. `loss.rs`, `linked.rs`: what a move would lose.
//!
//! The Receiver, in `receiver/`, is a chain of stages. Each has its own type and state, and knows
//! only those below it. Providers and workers belong to the filler, and call it back:
//!
//! | stage | files | does |
//! |---|---|---|
//! | input | `reading.rs`, `arrivals.rs`, `requested.rs` | reads a wire and its lanes; checks what a remote Sender may list |
//! | `Receiver` | `listing.rs`, `prefetching.rs` | takes the listing, and looks ahead |
//! | `Checker` | `check.rs` | compares entries in a job that copies nothing |
//! | `Creator` | `creator.rs`, `subdir.rs` | creates directories, links and special files; has files filled |
//! | `Filler` | `filler.rs`, `filler/hashing.rs` | asks the providers and the Sender for content |
//! | `Providers` | `filler/providers/`, `chunks.rs` | have content on this machine |
//! | workers | `work.rs`, `filler/`: `filling.rs`, `incoming.rs`, `small.rs`, `staging.rs`, `resume.rs`, `proving.rs` | put content into stages |
//! | `Linker` | `linking.rs` | reports outcomes, and links the further names of a file |
//! | `Decider` | `deciding.rs`, `decision.rs`, `filler/providers/bases.rs` | looks at what exists, and asks the plan |
//! | `Completion` | `completion.rs`, `disk_space.rs` | settles directories, ends the job, keeps proofs for a move |
//! | `Publisher` | `publish.rs`, `publish/hold.rs`, `publish/waiting.rs` | gives whole files their names, at once, when they are durable, or at the end of the job |
//! | `Durability` | `publish/durable.rs` | flushes files and file systems |
//! | `Sealing` | `publish/sealing.rs` | sets the attributes of directories, last |
//! | `Naming` | `publish/naming.rs` | gives names so that no entry takes another's; writes into existing files |
//! | `Removals` | `publish/removals.rs`, `publish/removals/` | removes extra and replaced entries |
//! | `Backups` | `publish/backup.rs` | keeps removed and replaced entries under other names |
//! | `Times` | `times.rs` | knows how exactly the destination keeps times |
//! | `Owners` | `owners.rs`, `owners/loss_check.rs` | maps users and groups; knows what a move would lose |
//! | `JobContext` | `context.rs`, `modes.rs` | holds the plan of the job, the answers of its ends, and the ways to report |
//!
//! Also: `destination.rs` finds and opens the destination, and creates the directories above it.
//! `dirs.rs`: a directory that waits for its entries, and the objects in it that are the job's.
//! `pending.rs`: a file being written, and the parts of it that are on this machine.
//! `self_copy.rs`: entries that are part of the destination itself.
//!
//! Content:
//!
//! - `copy.rs`: copies between two open files, and reads back from the medium. `copy/blocks.rs`:
//!   copies with several threads. `digest.rs`: the hash of one file.
//! - `dirs.rs`: directory handles, closed and reopened under a bound. `originals.rs`: the files of
//!   the sources, which are never written to. `pool.rs`: reused buffers.
//!
//! Parts of commands that need one side only, or no job:
//!
//! - `request.rs`: stat, list, hash and measure. `request/answer.rs` answers here and at a peer;
//!   `request/peer.rs` asks over a connection, `request/sftp.rs` uses a host's SFTP server.
//! - `request/measure.rs`: measurements of a host and the connection to it, on both sides.
//!   `measure/flow.rs`: the data over connections.
//! - `expand.rs`: the paths that match a pattern.
//! - `moving/`: a move and its machines. `moving/running_move.rs`: its steps;
//!   `moving/not_copied.rs`: the entries that failed and stay.
//! - `routed_jobs.rs`: splits a job by machine.
//! - `relocate.rs`: renames sources. `parked.rs`: sets a source aside just before its removal.
//! - `onto_itself.rs`: refuses a move onto its own source; `marker.rs`: the marks by which two
//!   machines find out.
//! - `memory_budget.rs`: bounds the memory for hard links; `receiver/linking/cost.rs`: the counted
//!   costs.
//! - `throttle.rs`: limits the bytes per second of a job. `cache.rs`: its chunk cache.
//! - `origin.rs`: the number of a directory that a job made under a new name.
//! - `clean.rs`: removes files that interrupted copies left.

#![forbid(unsafe_code)]

mod agent;
mod assembly;
mod beneath;
mod cache;
mod callers;
mod clean;
mod control;
mod copy;
mod digest;
mod dirs;
mod entry_counts;
mod expand;
mod in_flight;
mod job;
mod link;
mod logins;
mod marker;
mod memory_budget;
mod monitor;
mod moving;
mod not_kept;
mod onto_itself;
mod origin;
mod originals;
mod parked;
mod pool;
mod prefetch;
mod receiver;
mod relay;
mod relocate;
mod remote;
mod request;
mod routed_jobs;
mod rules;
mod run;
mod sender;
mod sftp;
mod threads;
mod throttle;
mod walk;
mod watchdog;
mod workers;

pub use agent::{LANES_OPEN_FILES_MIN, OnEnd, ServeOptions, confine_below, serve, serve_with};
pub use cache::{CacheConfig, CacheFigures, CheckedChunks, ChunkCache};
pub use clean::{CleanEvent, CleanRules, CleanSummary, LeftoverTotal, clean};
pub use entry_counts::{EntryCounts, Kinds};
pub use expand::{Expanded, expand, is_pattern};
pub use haul_model::{Outcome, Skip, Summary};
pub use haul_proto::VERSION as PROTOCOL;
pub use haul_proto::{Hashing, NamedDest, NamedSources};
pub use haul_sftp::Session as SftpSession;
pub use haul_store::{Cleaned, Fate, remove_unpublished};
pub use haul_sys::{
    Activated, Child, Links, Memory, ROOT, ResourceLimits, append_to_named, append_to_private,
    become_user, close_descriptors_on_exec, die_with_parent, effective_user, fork, give_to_user,
    is_in_foreground, is_root, is_stdout_closed, limit_arenas, node_name, open_named, secret,
    sockets_from_parent, try_lock, user_id,
};
pub use haul_tree::{SHARED_LEN_MAX, SharedBlocks, Sharer};
pub use job::{Job, JobError, Munging, SftpRoute, WireOptions};
pub use link::greeting::greet;
pub use link::wire::RELAYED_FIRST;
pub use monitor::{
    Change, Event, FaultLocation, LinkEvent, Monitor, PeerState, Progress, Silent, Unfinished,
};
pub use moving::{Machines, MoveJob, NotCopied, run_move};
pub use relay::{Between, DirectPlan};
pub use request::{
    Greeted, ListedEntry, OpenConnection, RequestError, Requests, Rights, Session, measure_directly,
};
pub use routed_jobs::{HostPath, Route, RoutedJob, routed_jobs};
pub use run::{Placement, run};
