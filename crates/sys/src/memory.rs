//! The memory allocator, and the end of a process that runs out of memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// The system's allocator. If memory runs out, the process prints a line and exits with code 1. As
/// after a kill, half-done work is not continued.
#[derive(Debug)]
pub struct Memory;

// SAFETY: every call is passed unchanged to the system's allocator, and its result is returned
// unless it is null.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this very method.
        or_exit(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        or_exit(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        // SAFETY: as above; `old` came from the system's allocator.
        or_exit(unsafe { System.realloc(old, layout, new_len) })
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as above; `old` came from the system's allocator.
        unsafe { System.dealloc(old, layout) }
    }
}

fn or_exit(allocated: *mut u8) -> *mut u8 {
    if allocated.is_null() {
        end();
    }
    allocated
}

#[cold]
fn end() -> ! {
    // This needs no memory, and no other place can report it.
    let _ = std::io::stderr().write_all(b"haul: out of memory (see 'ulimit -v'); run the same command again with more memory: finished files are skipped\n");
    std::process::exit(1)
}

/// If the address space is limited, makes all threads share one arena. Otherwise glibc reserves 64
/// MiB per thread, which may exceed the limit. Call it before other threads are started.
pub fn limit_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some() {
        // SAFETY: it sets a number, and there is no other thread yet.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1)
        };
    }
}
