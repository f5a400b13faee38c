//! Memory, and what becomes of a process that gets no more of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// The system's allocator. Where it has no more memory, the process ends with a
/// line that says so and the exit code 1, as after a kill: nothing goes on with
/// what is half done.
#[derive(Debug)]
pub struct Memory;

// SAFETY: every call is passed on to the system's allocator as it came, and what
// that returns is returned unless it is null.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this very method.
        or_end(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        or_end(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        // SAFETY: as above; `old` came from the system's allocator.
        or_end(unsafe { System.realloc(old, layout, new_len) })
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as above; `old` came from the system's allocator.
        unsafe { System.dealloc(old, layout) }
    }
}

fn or_end(allocated: *mut u8) -> *mut u8 {
    if allocated.is_null() {
        end();
    }
    allocated
}

#[cold]
fn end() -> ! {
    // Needs no memory, and there is no other place to say it.
    let _ = std::io::stderr().write_all(b"haul: out of memory (see 'ulimit -v'); run the same command again with more memory: finished files are skipped\n");
    std::process::exit(1)
}

/// Where the address space is limited, has all threads share what memory is handed
/// out from. glibc reserves 64 MiB for each thread else, which can be all there is.
/// To be called before there are threads.
pub fn spare_address_space() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some() {
        // SAFETY: it sets a number, and there is no other thread yet.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1)
        };
    }
}
