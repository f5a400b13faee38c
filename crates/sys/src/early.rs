//! Looks at standard output before Rust's library begins: that opens `/dev/null` where a standard
//! stream is closed, and nothing tells it from a stream that goes there.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the loader.
//
// SAFETY: the loader calls it before `main`. It only asks for the flags of a descriptor and stores
// an atomic, and uses nothing that the runtime of Rust sets up.
#[used]
#[allow(unsafe_code)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    // SAFETY: it asks for the flags of a number, which need not be that of an open file.
    #[allow(unsafe_code)]
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    IS_STDOUT_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// True if the process was started without a standard output, where the system lets it look in
/// time: what is written there then is lost, and no error tells it.
pub fn is_stdout_closed() -> bool {
    // The loader calls what is linked, and that is what is used.
    let _ = &BEFORE_MAIN;
    IS_STDOUT_CLOSED.load(Ordering::Relaxed)
}
