//! `haul generate` and `haul completions`: generate man pages and shell completions from the clap
//! definition.

use crate::args::{CompletedShell, Generate, words};
use crate::error::{CommandError, ExitCode};
use crate::report::{print_answer, print_error};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use haul::files::shown;
use haul_model::os_text;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

/// The directory of man pages, below a directory such as `~/.local/share` or `/usr/share`.
const MAN: &str = "man/man1";

/// For each shell: the directory of completions, below the same directory, and the file name.
const COMPLETIONS: [(CompletedShell, &str, &str); 3] = [
    (CompletedShell::Bash, "bash-completion/completions", "haul"),
    (CompletedShell::Zsh, "zsh/site-functions", "_haul"),
    (CompletedShell::Fish, "fish/vendor_completions.d", "haul.fish"),
];

/// Writes all man pages and completions, and prints their paths and the remaining steps.
pub(super) fn run(words: &Generate) -> ExitCode {
    let dir = &words.dir;
    let written = man_pages(&dir.join(MAN)).and_then(|pages| Ok((pages, completions(dir)?)));
    match written {
        Ok((pages, files)) => {
            print_answer(summary(dir, pages, &files, is_searched(dir)).as_bytes())
        }
        Err((path, error)) => {
            let (path, error) = (shown(&path), os_text(&error));
            let error = CommandError::io(format!("{path}: can't write: {error}"));
            print_error(&error)
        }
    }
}

/// The output: the files that were written below `dir`, and the remaining steps. `is_searched`: man
/// already looks for pages there.
fn summary(dir: &Path, pages: usize, completions: &[PathBuf], is_searched: bool) -> String {
    let man = dir.join("man");
    let mut lines = format!("wrote {pages} man pages: {}\n", shown(&dir.join(MAN)));
    for path in completions {
        lines.push_str(&format!("wrote completions: {}\n", shown(path)));
    }
    match is_searched {
        true => lines.push_str("'man haul' shows the first page\n"),
        false => lines.push_str(&format!(
            "for 'man haul', add to your shell's startup file: export MANPATH=\"{}:\"\n",
            shown(&man)
        )),
    }
    let zsh =
        completions.iter().find(|path| path.ends_with("_haul")).and_then(|path| path.parent());
    if let Some(zsh) = zsh {
        lines.push_str(&format!("for zsh, add before compinit: fpath+=('{}')\n", shown(zsh)));
    }
    lines.push_str("bash (with bash-completion) and fish search ~/.local/share and /usr/share\n");
    lines
}

/// True if man looks for pages below `dir`.
fn is_searched(dir: &Path) -> bool {
    let Ok(man) = fs::canonicalize(dir.join("man")) else { return false };
    let output = Command::new("manpath").stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.is_ok_and(|output| {
        let searched = output.stdout.trim_ascii_end().split(|byte| *byte == b':');
        searched
            .map(|path| Path::new(OsStr::from_bytes(path)))
            .any(|path| fs::canonicalize(path).is_ok_and(|path| path == man))
    })
}

/// A path that could not be written, and the reason.
type Failed = (PathBuf, io::Error);

/// Writes a page for haul and one for each command. Returns the number of pages.
fn man_pages(dir: &Path) -> Result<usize, Failed> {
    fs::create_dir_all(dir).map_err(|error| (dir.to_owned(), error))?;
    let mut haul = words();
    haul.build();
    let is_visible = |command: &clap::Command| !command.is_hide_set();
    let commands = haul.get_subcommands().filter(|command| is_visible(command));
    // A command with subcommands has a page for each of them, too.
    let commands = commands.flat_map(|command| {
        std::iter::once(command).chain(command.get_subcommands().filter(|below| is_visible(below)))
    });
    let mut pages = 0;
    for command in std::iter::once(&haul).chain(commands) {
        let man = Man::new(command.clone()).manual("haul");
        let path = dir.join(man.get_filename());
        let written = page(&man, command).and_then(|page| fs::write(&path, page));
        written.map_err(|error| (path, error))?;
        pages += 1;
    }
    Ok(pages)
}

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
        // The text has its own layout, with examples in columns.
        let mut notes = Roff::new();
        notes.control("SH", ["NOTES"]).control("nf", []);
        for line in text.to_string().lines() {
            notes.text([roman(line)]);
        }
        notes.control("fi", []).to_writer(&mut page)?;
    }
    Ok(page)
}

/// Writes the completions for each shell. Returns their paths.
fn completions(dir: &Path) -> Result<Vec<PathBuf>, Failed> {
    let write = |(shell, below, name): (CompletedShell, &str, &str)| {
        let dir = dir.join(below);
        let path = dir.join(name);
        let written = fs::create_dir_all(&dir).and_then(|()| fs::write(&path, script(shell)));
        written.map(|()| path).map_err(|error| (dir, error))
    };
    COMPLETIONS.into_iter().map(write).collect()
}

/// Prints the completions of one shell.
pub(super) fn print(shell: CompletedShell) -> ExitCode {
    print_answer(&script(shell))
}

/// The completion script of `shell`.
fn script(shell: CompletedShell) -> Vec<u8> {
    let of_clap = match shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(of_clap, &mut words(), "haul", &mut script);
    with_remote_completions(shell, &String::from_utf8_lossy(&script)).into_bytes()
}

/// Appended to clap's scripts.
const BASH: &str = include_str!("generate/places.bash");
const FISH: &str = include_str!("generate/places.fish");

/// Inserted before clap's function.
const ZSH: &str = include_str!("generate/places.zsh");

/// Adds hosts and their paths to the script that clap generated for `shell`.
fn with_remote_completions(shell: CompletedShell, script: &str) -> String {
    match shell {
        CompletedShell::Bash => format!("{script}\n{BASH}"),
        CompletedShell::Fish => format!("{script}\n{FISH}"),
        CompletedShell::Zsh => {
            // compinit reads the first line.
            let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
            let mut lines = format!("{first}\n\n{ZSH}\n");
            for line in rest.lines() {
                let is_place = line.starts_with("'*::paths ");
                let line = match is_place {
                    true => line.replace(":_files' ", ":_haul_places' "),
                    false => line.replace(":_hosts' ", ":_haul_hosts' "),
                };
                lines.push_str(&line);
                lines.push('\n');
            }
            lines
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_reported_and_what_is_left_to_do() {
        let files = COMPLETIONS.map(|(_, below, name)| Path::new("/s").join(below).join(name));
        let summary = |is_searched| summary(Path::new("/s"), 14, &files, is_searched);
        insta::assert_snapshot!(summary(false), @r#"
        wrote 14 man pages: /s/man/man1
        wrote completions: /s/bash-completion/completions/haul
        wrote completions: /s/zsh/site-functions/_haul
        wrote completions: /s/fish/vendor_completions.d/haul.fish
        for 'man haul', add to your shell's startup file: export MANPATH="/s/man:"
        for zsh, add before compinit: fpath+=('/s/zsh/site-functions')
        bash (with bash-completion) and fish search ~/.local/share and /usr/share
        "#);
        assert!(summary(true).contains("'man haul' shows the first page\n"));
    }
}
