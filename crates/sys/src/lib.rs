//! The operating system: open directories, metadata through handles, ways to move content inside
//! the kernel, and confinement.
//!
//! Everything that differs between systems has one name here. rustix wraps the system calls. Ten
//! functions that it lacks, or lacks with their result, are called through libc (`activation.rs`,
//! `child.rs`, `early.rs`, `schedule.rs`, `memory.rs`, `close_errors.rs`, `durability.rs`,
//! `content/extents.rs`, `pattern.rs`, `routes.rs`). Those are the only unsafe code of the
//! workspace, with one more request (`reflink.rs`), the allocator that reports a lack of memory
//! (`memory.rs`), and the switch to optional processor instructions (`vectors.rs`). Each file has a
//! portable fallback.
//!
//! # Rooms
//!
//! - `activation.rs`: sockets opened for this process. `privileges.rs`: rights that it gives up for
//!   good.
//! - `dir.rs`: `Dir`, an open directory. Each operation takes one name in it. Links are refused
//!   unless the method's name says `following`. It also has files without a name (`O_TMPFILE`).
//! - `content.rs`: `copy_file_range`, `splice`, holes by `SEEK_DATA` and `SEEK_HOLE`.
//!   `content/extents.rs`: blocks that were never written but look like data once they are cached.
//! - `reflink.rs`: files that share their content, by reflink or, on macOS, clonefile.
//! - `durability.rs`: makes content and directories durable, writes content out early, drops it
//!   from the page cache, or reads past the cache.
//! - `early.rs`: detects a closed standard output before Rust's library starts.
//! - `known.rs`: file systems with known behaviour. On others haul checks the result of its
//!   requests.
//! - `close_errors.rs`: errors that closing a file reports. `space.rs`: space for a file to be
//!   written.
//! - `stat.rs`: the metadata of an entry. `meta.rs`: sets attributes through open handles.
//!   `attributes.rs`: extended attributes and access control lists. `held.rs`: entries that must not
//!   be opened. `not_kept.rs`: the error of an attribute that can't be set.
//! - `faked.rs`: root's attributes stored for any user, in rsync's form.
//! - `accounts.rs`: users and groups by name and ID.
//! - `confine.rs`: Landlock. `jail.rs`: the directory that `haul serve` may be confined to. It
//!   resolves every path that a user or a peer names, and every followed link. `named.rs`: such
//!   paths, without following links of other users.
//! - `limits.rs`: open files, the effective user, the IDs of this machine and of its boot.
//! - `child.rs`: a child process with a copy of this process's memory.
//! - `generated.rs`: files whose content the kernel generates.
//! - `handover.rs`: hands streams over to another process.
//! - `descriptors.rs`: descriptors inherited from another program.
//! - `passing.rs`: passes descriptors to another process.
//! - `lease.rs`: a post that one process at a time holds, and the next takes over. `rendezvous.rs`:
//!   how such processes find each other.
//! - `making.rs`: links, FIFOs, sockets and devices.
//! - `lock.rs`: file locks. `login.rs`: the system's limits on connections. `ssh_settings.rs`: the
//!   syntax of ssh's configuration files.
//! - `memory.rs`: the allocator, and less use of a limited address space.
//! - `inspect_process.rs`: connections, terminals and sessions of a process that this one has
//!   started.
//! - `pattern.rs`: names that match a pattern. `routes.rs`: network paths, and statistics about
//!   their packets.
//! - `schedule.rs`: the scheduling of a thread. `vectors.rs`: instructions that only some
//!   processors have. `waiting.rs`: waits for descriptors.

/// Defines a function that needs Linux for other systems, with its result there.
macro_rules! elsewhere {
    ($vis:vis fn $name:ident($($parameter:ty),*) -> $result:ty = $value:expr) => {
        /// Not supported on this system.
        #[cfg(not(target_os = "linux"))]
        $vis fn $name($(_: $parameter),*) -> $result {
            $value
        }
    };
}

mod accounts;
mod activation;
mod attributes;
mod child;
mod close_errors;
mod confine;
mod content;
mod descriptors;
mod dir;
mod durability;
mod early;
mod faked;
mod generated;
mod handover;
mod held;
mod inspect_process;
mod jail;
mod known;
mod lease;
mod limits;
mod lock;
mod login;
mod memory;
mod meta;
mod mounts;
mod named;
mod not_kept;
mod passing;
mod pattern;
mod privileges;
mod reflink;
mod rendezvous;
mod routes;
mod schedule;
mod space;
mod ssh_settings;
mod stat;
mod vectors;
mod waiting;

pub use accounts::{
    AccountKind, account_name, account_number, home_of_user, is_in_group, preload_accounts,
};
pub use activation::{Activated, sockets_from_parent};
pub use attributes::{
    attribute, attribute_names, extended, remove_attribute, set_attribute, supports_attributes,
};
pub use child::{Child, exit_at_once, fork, is_single_threaded};
pub use close_errors::check_by_closing;
pub use confine::{Access, confine};
pub use content::{copy_range, has_unwritten_blocks, next_data, read_full, splice_to_pipe};
pub use descriptors::close_descriptors_on_exec;
pub use dir::{Dir, DirEntry, if_found, path_link, path_stat};
pub use durability::{
    DIRECT_ALIGN, Loss, drop_cached, is_cached, read_cached, read_directly, start_write_back,
    write_out_at,
};
pub use early::is_stdout_closed;
pub use generated::{is_generated, memory_file};
pub use handover::{Giver, HandedOver, Handover, HandoverTarget};
pub use held::{Held, extended_following};
pub use inspect_process::{has_session, has_terminal, round_trip_of};
pub use jail::{absolute, enter as enter_jail, is_jailed, path_to};
pub use known::caches_reads;
pub use lease::{Lease, Successor};
pub use limits::{
    FreeSpace, ROOT, boot_id, boot_time, cache_id, effective_group, effective_user, free_space,
    is_in_foreground, is_older_than, is_out_of_handles, is_root, node_name, open_files_max,
    raise_open_files, umask, volume_id,
};
pub use lock::try_lock;
pub use login::{Limit, congestion_control, is_congestion_name, login_limit};
pub use memory::{Memory, limit_arenas};
pub use meta::{
    check_renamable, is_mount_point, keep_mtime, keeps_ctime, set_attributes, set_mode, set_mtime,
};
pub use mounts::MountPoints;
pub use named::{Links, append_to_named, append_to_private, open_named};
pub use not_kept::NotKept;
pub use passing::{is_of_user, pass, receive_passed};
pub use pattern::name_matches;
pub use privileges::{ResourceLimits, become_user, die_with_parent, give_to_user, user_id};
pub use reflink::{clone_file, clone_range, create_clone, punch_hole};
pub use rendezvous::{SECRET_LEN, secret};
pub use routes::{PacketStats, mtu_to, packet_stats};
pub use schedule::use_batch_scheduling;
pub use space::{is_out_of_space, reserve};
pub use ssh_settings::{ssh_files, ssh_setting};
pub use stat::{Stat, file_stat};
pub use vectors::{VectorWork, with_vectors};
pub use waiting::{wait_for_input, wait_ready};
