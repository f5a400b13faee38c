//! The program: words become a plain command, the command becomes jobs and
//! requests of the engine, and what these tell is shown.

#![forbid(unsafe_code)]

mod args;
mod command;
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
