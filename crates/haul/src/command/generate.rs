//! `haul generate` and `haul completions`: man pages and completions for shells, made from
//! the words of the command line themselves.

use crate::args::{CompletedShell, Generate, words};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::report::end_of_command;
use crate::stdout::Stdout;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use haul_model::escape_bytes;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Man pages, below a directory like `~/.local/share` or `/usr/share`.
const MAN: &str = "man/man1";

/// Completions of each shell, below the same directory, and their names there.
const COMPLETIONS: [(CompletedShell, &str, &str); 3] = [
    (CompletedShell::Bash, "bash-completion/completions", "haul"),
    (CompletedShell::Zsh, "zsh/site-functions", "_haul"),
    (CompletedShell::Fish, "fish/vendor_completions.d", "haul.fish"),
];

/// Writes all of them.
pub(super) fn run(words: &Generate) -> ExitCode {
    let dir = &words.dir;
    match man_pages(&dir.join(MAN)).and_then(|()| completions(dir)) {
        Ok(()) => ExitCode::Success,
        Err((path, error)) => {
            let path = escape_bytes(path.as_os_str().as_bytes());
            let error = CommandError::new(ErrorKind::Io, format!("{path}: can't write: {error}"));
            end_of_command(&error)
        }
    }
}

/// A path that could not be written, and why.
type Failed = (PathBuf, io::Error);

/// A page for haul, and one for each command.
fn man_pages(dir: &Path) -> Result<(), Failed> {
    fs::create_dir_all(dir).map_err(|error| (dir.to_owned(), error))?;
    let mut haul = words();
    haul.build();
    let commands = haul.get_subcommands().filter(|command| !command.is_hide_set());
    for command in std::iter::once(&haul).chain(commands) {
        let man = Man::new(command.clone()).manual("haul");
        let path = dir.join(man.get_filename());
        let written = page(&man, command).and_then(|page| fs::write(&path, page));
        written.map_err(|error| (path, error))?;
    }
    Ok(())
}

/// The page of one command.
fn page(man: &Man, command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(text) = command.get_after_help() {
        // It is laid out already, and examples are in columns.
        let mut notes = Roff::new();
        notes.control("SH", ["NOTES"]).control("nf", []);
        for line in text.to_string().lines() {
            notes.text([roman(line)]);
        }
        notes.control("fi", []).to_writer(&mut page)?;
    }
    Ok(page)
}

/// The completions for each shell.
fn completions(dir: &Path) -> Result<(), Failed> {
    for (shell, below, name) in COMPLETIONS {
        let dir = dir.join(below);
        let written =
            fs::create_dir_all(&dir).and_then(|()| fs::write(dir.join(name), script(shell)));
        written.map_err(|error| (dir, error))?;
    }
    Ok(())
}

/// Prints those of one shell.
pub(super) fn print(shell: CompletedShell) -> ExitCode {
    let mut out = Stdout::default();
    out.push(&script(shell));
    match out.finish() {
        Ok(()) => ExitCode::Success,
        Err(error) => end_of_command(&error),
    }
}

/// The completions of `shell`, as it reads them.
fn script(shell: CompletedShell) -> Vec<u8> {
    let shell = match shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut words(), "haul", &mut script);
    script
}
