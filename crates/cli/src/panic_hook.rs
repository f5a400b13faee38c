//! Ends the program if a thread panics. Either haul has a bug, or a library could not handle an
//! error of the system.

use crate::error::ExitCode;
use haul_model::escape_controls;
use std::io::Write;
use std::panic::PanicHookInfo;
use std::process;

/// Installs a hook that ends the process at a panic in any thread, with an error line. No other
/// thread then waits for that thread, or uses its incomplete work. Partial files keep their
/// journals, as after a kill. Small temporary files with a name are removed.
pub(crate) fn install() {
    std::panic::set_hook(Box::new(|panic| {
        // If that fails, there is no other place to report it.
        let _ = std::io::stderr().write_all(line(panic).as_bytes());
        haul_engine::remove_unpublished();
        process::exit(ExitCode::SomeFailed.number().into());
    }));
}

fn line(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("no message");
    let place = panic.location().map(|place| format!(" ({place})")).unwrap_or_default();
    format!(
        "haul: internal error: {}{place}\n  hint: run the same command again; if this happens again, report it\n",
        escape_controls(message)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::{env, thread};

    /// If set, the program panics.
    const PANICS: &str = "HAUL_TEST_PANICS";

    #[test]
    fn a_panic_in_a_thread_ends_the_process_though_others_wait() {
        if env::var_os(PANICS).is_some() {
            install();
            thread::spawn(|| panic!("the\x1b thread's words"));
            loop {
                thread::park();
            }
        }
        let this = "panic_hook::tests::a_panic_in_a_thread_ends_the_process_though_others_wait";
        let run = Command::new(env::current_exe().expect("a path"))
            .args(["--exact", this, "--nocapture"])
            .env(PANICS, "1")
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{said}");
        assert!(said.contains("haul: internal error") && said.contains("thread's words"), "{said}");
        assert!(said.contains("hint: run the same command again"), "{said}");
        assert!(!said.contains('\x1b'), "{said:?}");
    }
}
