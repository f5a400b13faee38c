//! Checks standard output before Rust's library starts. The library opens `/dev/null` in place of a
//! closed standard stream, so a later check can't tell the two apart.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the loader.
//
// SAFETY: the loader calls it before `main`. It only reads the flags of a descriptor and stores an
// atomic, and uses nothing that Rust's runtime sets up.
#[used]
#[allow(unsafe_code)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    // SAFETY: it reads the flags of a descriptor, which need not be open.
    #[allow(unsafe_code)]
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    IS_STDOUT_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// True if the process was started without a standard output, where the system allows an early
/// check. Output is then lost without an error.
pub fn is_stdout_closed() -> bool {
    // Referencing it keeps the linker from dropping it.
    let _ = &BEFORE_MAIN;
    IS_STDOUT_CLOSED.load(Ordering::Relaxed)
}
