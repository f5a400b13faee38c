//! The program: words become a plain command (`args.rs`), the command becomes jobs and
//! requests of the engine (`command/`), and what these tell comes back through
//! `monitor.rs` and `report.rs`. Only this crate reads arguments and environment, and
//! only it prints.
//!
//! # Rooms
//!
//! - `args.rs`: commands as plain structs; `args/words.rs`: the words, with a file for each
//!   kind of them beside it (`args/sync/`: those of rsync); `args/options.rs`: the help of
//!   options, from one table; `args/late.rs`: when clap hears of them; `args/familiar.rs`: the
//!   answers to words of other programs. `command/`: one file for
//!   each command, with its parts below it.
//! - `monitor.rs`: hands on what jobs tell; `monitor/`: the statements about entries of
//!   copies, comparisons and moves, and where these are on both sides.
//! - `report.rs`: the trait of a report, and of what can be told in both forms;
//!   `report/text.rs` and `report/json.rs`: the two reports, over `report/output.rs`;
//!   `report/addressed.rs`, `report/log_file.rs`: reports in front of one of them.
//! - `json.rs`: the lines of JSON, all fields; `json/`: those of some commands, and the words
//!   of closed sets. `lines.rs`: the lines of rsync. `progress.rs`: the line on the terminal;
//!   `progress/meter.rs`: its words; `progress/asked.rs`: the same for a signal,
//!   `progress/paced.rs`: once a second without a terminal. `quantity.rs`: figures for
//!   people. `stdout.rs`: standard output. `sshd.rs`: the login that has started an agent.
//! - `hint.rs`: what a person can do about an error.
//! - `error.rs`: errors of commands, and the exit codes.
//! - `config.rs`: settings from the file (`config/file.rs`), the environment and the
//!   command line.
//! - `interrupt.rs`: signals; those that are ignored from the start stay so.
//! - `mistake.rs`: the end of the process after a panic.
//! - `server.rs` and `server/`: `haul server`.
//! - `cache.rs`: the chunk cache of this user.
//! - `log.rs`: the developer's log, which `HAUL_LOG=debug` turns on.

#![forbid(unsafe_code)]

mod args;
mod cache;
mod command;
mod config;
mod error;
mod hint;
mod interrupt;
mod json;
mod lines;
mod log;
mod mistake;
mod monitor;
mod progress;
mod quantity;
mod report;
mod server;
mod sshd;
mod stdout;
mod until;

#[global_allocator]
static MEMORY: haul_engine::Memory = haul_engine::Memory;

fn main() -> std::process::ExitCode {
    progress::answer_signals();
    haul_engine::spare_address_space();
    mistake::ends_the_program();
    log::start();
    // Refused only for a signal that can't be caught.
    let _ = interrupt::outlive_size_limit();
    let code = match args::from_env() {
        Ok(command) => command::run(command),
        Err(error) => args::code_of_words(report::end_of_command(&error)),
    };
    code.into()
}
