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
//! - `monitor.rs`: receives the events of jobs. `monitor/`: messages about the entries of copies,
//!   comparisons and moves, the paths of entries on both sides, `monitor/course.rs`: begin and end of
//!   jobs, and `monitor/side.rs`: the monitor of jobs beside these.
//! - `report.rs`: the report of a command, as text or JSON, and its messages, over
//!   `report/output.rs`. `report/selection.rs`: the outcomes that are reported. `report/link.rs`:
//!   lines about connections. `report/log_file.rs`: the log of errors. `deployed.rs`: lines about
//!   a haul that was installed on a host.
//! - `json.rs`: the JSON lines and their fields. `json/`: how they are written, and the words of
//!   closed sets. `lines.rs`: the lines of rsync.
//! - `progress.rs`: the progress line. `progress/meter.rs`: its text. `progress/on_signal.rs`:
//!   progress on a signal. `progress/periodic.rs`: progress without a terminal.
//! - `quantity.rs`: sizes, rates, times and counts for people. `stdout.rs`: standard output.
//!   `sshd.rs`: the ssh login that started an agent.
//! - `hint.rs`: what a user can do about an error.
//! - `error.rs`: errors of commands, and the exit codes.
//! - `config.rs`: settings from the file (`config/file.rs`), the environment and the command line.
//! - `interrupt.rs`: signals. A signal that is ignored at the start stays ignored.
//! - `panic_hook.rs`: ends the process after a panic.
//! - `server.rs` and `server/`: `haul server`.
//! - `cache.rs`: the chunk cache of this user.
//! - `log.rs`: the developer's log (`HAUL_LOG=debug`).

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
mod log;
mod monitor;
mod panic_hook;
mod progress;
mod quantity;
mod report;
mod server;
mod sshd;
mod stdout;

#[global_allocator]
static MEMORY: haul_engine::Memory = haul_engine::Memory;

fn main() -> std::process::ExitCode {
    progress::answer_signals();
    haul_engine::limit_arenas();
    panic_hook::install();
    log::start();
    // Fails only for a signal that can't be caught.
    let _ = interrupt::ignore_size_limit_signal();
    let code = match args::from_env() {
        Ok(command) => command::run(command),
        Err(error) => args::exit_code_for_args(report::print_error(&error)),
    };
    code.into()
}
