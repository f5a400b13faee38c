//! The operating system: directories held open by handle, metadata through
//! handles, ways to move content inside the kernel, and confinement.
//!
//! Everything that differs between systems is behind one name here. rustix
//! wraps the system calls; one that it doesn't have is called through libc.

mod confine;
mod content;
mod dir;
mod durability;
mod limits;
mod lock;
mod meta;
mod schedule;
mod sharing;
mod unnamed;

pub use confine::{Access, confine};
pub use content::{advise_sequential, copy_range, next_data, pipe_of, splice_to_pipe};
pub use dir::{Dir, DirEntry, path_link, path_stat};
pub use durability::{
    DIRECT_ALIGN, drop_cached, is_cached, read_directly, start_write_back, write_out_at,
};
pub use limits::{boot_id, cache_id, effective_user, open_files_max, raise_open_files, volume_id};
pub use lock::try_lock;
pub use meta::{Stat, file_stat, set_mode, set_mtime};
pub use schedule::wait_for_turns;
pub use sharing::clone_file;
