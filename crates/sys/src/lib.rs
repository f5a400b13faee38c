//! The operating system: directories held open by handle, metadata through
//! handles, ways to move content inside the kernel, and confinement.
//!
//! Everything that differs between systems is behind one name here. rustix
//! wraps the system calls; those that it doesn't have are called through libc.

mod attributes;
mod closing;
mod confine;
mod content;
mod dir;
mod durability;
mod jail;
mod known;
mod limits;
mod lock;
mod made_up;
mod memory;
mod meta;
mod schedule;
mod sharing;
mod unnamed;

pub use attributes::{attribute, attribute_names, keeps_attributes, set_attribute};
pub use closing::tell_by_closing;
pub use confine::{Access, confine};
pub use content::{copy_range, lacks_blocks, next_data, pipe_of, splice_to_pipe, wait_for_room};
pub use dir::{Dir, DirEntry, path_link, path_stat};
pub use durability::{
    DIRECT_ALIGN, Loss, drop_cached, is_cached, read_cached, read_directly, start_write_back,
    write_out_at,
};
pub use jail::enter as enter_jail;
pub use known::remembers_reads;
pub use limits::{
    boot_id, cache_id, effective_group, effective_user, is_out_of_handles, node_name,
    open_files_max, raise_open_files, started_at, volume_id,
};
pub use lock::try_lock;
pub use made_up::{is_made_up, is_readable_within, memory_file};
pub use memory::{Memory, spare_address_space};
pub use meta::{Stat, file_stat, keep_mtime, keeps_ctime, set_mode, set_mtime};
pub use schedule::wait_for_turns;
pub use sharing::clone_file;
