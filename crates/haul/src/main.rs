//! The program: words become a plain command, the command becomes jobs and
//! requests of the engine, and what these tell is shown.
//! `args.rs`, `command/*.rs`, the engine; and back through `monitor.rs` and `report.rs`,
//! which is text (`progress.rs`) or JSON (`json.rs`). Only this crate reads arguments and environment, and only it
//! prints. `HAUL_LOG=debug` turns on a developer's log.
//!
//! # Rooms
//!
//! - `report.rs`: the trait of a report, and of what can be told in both forms;
//!   `report/text.rs` and `report/json.rs`: the two reports, over `report/output.rs`.
//! - `location.rs`: the forms of a place. `hint.rs`: what a person can do about an error.
//! - `error.rs`: errors of commands, and the exit codes.
//! - `config.rs`: settings from the file, the environment and the command line.
//! - `interrupt.rs`: signals; those that are ignored from the start stay so.
//! - `mistake.rs`: the end of the process after a panic.
//! - `peer.rs`: connects. `hosts.rs`: runs jobs, and turns to a host's SFTP server when
//!   there is no haul (`ConnectError::lacks_haul`), as `peer.rs` does for single requests.
//! - `state.rs`: the user's directories, and that for the journals of uploads. `haul_store::Journals` makes
//!   it, and refuses one that is not the user's alone.

#![forbid(unsafe_code)]

mod args;
mod command;
mod config;
mod error;
mod hint;
mod hosts;
mod interrupt;
mod json;
mod location;
mod log;
mod mistake;
mod monitor;
mod peer;
mod progress;
mod quantity;
mod report;
mod state;
mod stdout;

#[global_allocator]
static MEMORY: haul_engine::Memory = haul_engine::Memory;

fn main() -> std::process::ExitCode {
    haul_engine::spare_address_space();
    mistake::ends_the_program();
    log::start();
    let code = match args::from_env() {
        Ok(command) => command::run(command),
        Err(error) => report::end_of_command(&error),
    };
    code.into()
}
