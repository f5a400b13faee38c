//! The program `haul`. `args.rs` parses the command line into a plain command. `command/` turns the
//! command into jobs and requests of the engine. `monitor.rs` and `report.rs` show their events and
//! results. Only this crate reads arguments and the environment, and only it prints.
//!
//! # Rooms
//!
//! - `args.rs`: commands as plain structs. `args/words.rs`: the clap definitions; those of one
//!   command are in a file beside it (`args/sync/`: rsync's options). `args/options.rs`: the help
//!   of options, from a text file. `args/deferred.rs`: defers a command's options until clap needs
//!   them. `args/compat.rs`: answers to options of other programs, from a text file.
//! - `command/`: one file for each command, with its parts in a folder.
//! - `monitor.rs`: receives the events of jobs. `monitor/`: messages about the entries of copies
//!   and moves, and the paths of entries on both sides.
//! - `report.rs`: the report of a command, as text or JSON, its messages and its log, over
//!   `report/output.rs`. `deployed.rs`: lines about a haul that was installed on a host.
//! - `json.rs`: the JSON lines, their fields, and the words of closed sets. `lines.rs`: the lines
//!   of rsync.
//! - `progress.rs`: the progress line, and progress on a signal. `progress/meter.rs`: its text.
//! - `quantity.rs`: sizes, rates, times and counts for people. `stdout.rs`: standard output.
//!   `sshd.rs`: the ssh login that started an agent.
//! - `hint.rs`: what a user can do about an error.
//! - `error.rs`: errors of commands, and the exit codes.
//! - `config.rs`: settings from the file (`config/file.rs`), the environment and the command line.
//! - `interrupt.rs`: signals. A signal that is ignored at the start stays ignored.
//! - `server.rs` and `server/`: `haul server`.
//! - `cache.rs`: the chunk cache of this user.
//!
//! This file has the entry point, the hook for panics, and the developer's log (`HAUL_LOG=debug`).

#![forbid(unsafe_code)]

mod args;
mod cache;
mod command;
mod config;
mod deadline;
mod deployed;
mod error;
mod hint;
mod interrupt;
mod json;
mod lines;
mod monitor;
mod progress;
mod quantity;
mod report;
mod server;
mod sshd;
mod stdout;

use crate::error::ExitCode;
use haul_model::escape_controls;
use std::io::Write;
use std::panic::PanicHookInfo;
use std::process;
use tracing::level_filters::LevelFilter;

#[global_allocator]
static MEMORY: haul_engine::Memory = haul_engine::Memory;

fn main() -> std::process::ExitCode {
    progress::answer_signals();
    haul_engine::limit_arenas();
    install_panic_hook();
    start_log();
    // Fails only for a signal that can't be caught.
    let _ = interrupt::ignore_size_limit_signal();
    let code = match args::from_env() {
        Ok(command) => command::run(command),
        Err(error) => args::exit_code_for_args(report::print_error(&error)),
    };
    code.into()
}

/// The variable with the level of the developer's log: `error`, `warn`, `info`, `debug` or `trace`.
const LOG_VARIABLE: &str = "HAUL_LOG";

/// Starts the developer's log on standard error if the variable is set. Otherwise no subscriber is
/// created.
fn start_log() {
    let Some(level) = std::env::var(LOG_VARIABLE).ok().and_then(|word| level(&word)) else {
        return;
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}

/// Parses a level. An unknown word turns the log off: it must not prevent a copy.
fn level(word: &str) -> Option<LevelFilter> {
    let level = word.parse().ok().filter(|level| *level != LevelFilter::OFF);
    // The parser accepts an empty word as "error".
    level.filter(|_| !word.is_empty())
}

/// Installs a hook that ends the process at a panic in any thread, with an error line. No other
/// thread then waits for that thread, or uses its incomplete work. Partial files keep their
/// journals, as after a kill. Small temporary files with a name are removed.
fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        // If that fails, there is no other place to report it.
        let _ = std::io::stderr().write_all(panic_line(panic).as_bytes());
        haul_engine::remove_unpublished();
        process::exit(ExitCode::SomeFailed.number().into());
    }));
}

fn panic_line(panic: &PanicHookInfo<'_>) -> String {
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

    #[test]
    fn only_a_level_turns_the_log_on() {
        assert_eq!(level("debug"), Some(LevelFilter::DEBUG));
        assert_eq!(level("off"), None);
        assert_eq!(level(""), None);
        assert_eq!(level("loud"), None);
    }

    /// If set, the program panics.
    const PANICS: &str = "HAUL_TEST_PANICS";

    #[test]
    fn a_panic_in_a_thread_ends_the_process_though_others_wait() {
        if env::var_os(PANICS).is_some() {
            install_panic_hook();
            thread::spawn(|| panic!("the\x1b thread's words"));
            loop {
                thread::park();
            }
        }
        let this = "tests::a_panic_in_a_thread_ends_the_process_though_others_wait";
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
