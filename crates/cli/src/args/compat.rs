//! Options of cp, mv, scp and rsync: the ones that haul accepts, and hints for the others.

mod attributes;

use super::help::{CHECK_USAGE, COPY_USAGE, MOVE_USAGE, SYNC_USAGE};
use super::usage_error;
use crate::error::CommandError;
use clap::Args;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Options of other programs that `haul copy` and `haul check` accept.
#[derive(Debug, Args)]
pub(super) struct CompatArgs {
    #[arg(short = 'p')]
    preserve: bool,
    #[arg(short = 'P')]
    pub(super) keeps_links: bool,
    /// Taken, and done anyway
    #[arg(long, alias = "progress", hide = true)]
    partial: bool,
    #[arg(short = 'z')]
    squeeze: bool,
    /// Taken, and done anyway: figures have units
    #[arg(short = 'h', long, hide = true)]
    human_readable: bool,
}

impl CompatArgs {
    /// Refuses `-P` before a number: in scp this is the port.
    ///
    /// # Errors
    /// A usage error that explains how to set the port.
    pub(super) fn refuse_port(&self, words: &[OsString]) -> Result<(), CommandError> {
        let is_number = |word: &&OsString| {
            word.len() <= PORT_DIGITS_MAX && word.as_encoded_bytes().iter().all(u8::is_ascii_digit)
        };
        match words.first().filter(|_| self.keeps_links).filter(is_number) {
            Some(port) => {
                let file = format!("use ./{} for a file of that name", port.display());
                Err(port_refused(&port.display().to_string()).with_hint(file))
            }
            None => Ok(()),
        }
    }
}

/// The error for a port given as in scp.
fn port_refused(port: &str) -> CommandError {
    CommandError::usage(format!("-P {port}: haul has no option for the port"))
        .with_hint(format!("use ssh://host:{port}/path or -e 'ssh -p {port}'"))
}

/// The hints for options of other programs.
const ANSWERS: &str = include_str!("compat/answers.txt");

/// Digits of the largest port number.
const PORT_DIGITS_MAX: usize = 5;

/// Explains clap's error in `words` to a user of the other programs. The first word is the
/// program's name.
///
/// # Errors
/// clap's own error, if it prints the help or the version.
pub(super) fn explain(error: clap::Error, words: &[OsString]) -> Result<CommandError, clap::Error> {
    let first = words.get(1).and_then(|first| first.to_str()).unwrap_or_default();
    let command_error = match error.kind() {
        ErrorKind::UnknownArgument if first.starts_with('-') => Some(no_command(first)),
        ErrorKind::UnknownArgument => no_option(&error, first, words),
        ErrorKind::MissingRequiredArgument => no_places(first),
        ErrorKind::InvalidSubcommand => Some(match similar(&error, first) {
            Some(command) => not_a_command(first).with_hint(format!("do you mean '{command}'?")),
            None => no_command(first),
        }),
        ErrorKind::DisplayHelp if words.len() > 2 && first.starts_with('-') => {
            Some(no_command(first))
        }
        ErrorKind::DisplayHelp if !asks_for_help(words) => Some(
            CommandError::usage("-h shows the help only if it is the only argument")
                .with_hint(format!("'haul {first} --help' shows the options")),
        ),
        _ => None,
    };
    command_error.map_or_else(|| usage_error::command_error(error, first), Ok)
}

/// Replaces -h by --help if it is the only word after a command. Otherwise -h has the command's own
/// meaning.
pub(super) fn with_help(words: &[OsString]) -> Vec<OsString> {
    let mut words = words.to_vec();
    if let [_, _, only] = &mut *words
        && only == "-h"
    {
        *only = "--help".into();
    }
    words
}

/// True if only the help can be meant. With other words -h keeps its meaning elsewhere: a script
/// would take a printed help for a completed command.
fn asks_for_help(words: &[OsString]) -> bool {
    let is_alone = words.len() <= 3 && words.last().is_some_and(|word| word == "-h");
    is_alone || words.iter().any(|word| word == "--help")
}

/// The error for an option that `command` does not have.
fn no_option(error: &clap::Error, command: &str, words: &[OsString]) -> Option<CommandError> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let word = given.split('=').next().unwrap_or(given);
    if let Some(port) = attributes::port(word, words) {
        return Some(port_refused(port));
    }
    let known = match command {
        "cp" => "copy",
        "mv" => "move",
        command => command,
    };
    let hint = attributes::answer(known, word, words)
        .or_else(|| answer_in(known, word).map(str::to_owned))
        .or_else(|| sync_has(known, word))
        .or_else(|| answer_in("any", word).filter(|_| takes_places(known)).map(str::to_owned))?;
    let name = match find_answer("rsync", word).filter(|_| command == "sync") {
        Some((words, _)) => full_name(words).unwrap_or_else(|| word.to_owned()),
        None => word.to_owned(),
    };
    Some(CommandError::usage(format!("'haul {command}' has no {name}")).with_hint(hint))
}

/// The long name of an option of rsync and its letter, if `words` are these two.
fn full_name(words: &str) -> Option<String> {
    let (long, letter) = words.split_once(' ')?;
    (letter.len() == 2).then(|| format!("{long} ({letter})"))
}

/// Minimum length of a misspelt command. A shorter word, such as the name of a file, resembles
/// every command.
const MISSPELT_LEN_MIN: usize = 3;

/// The command most similar to `first`, by clap's measure.
fn similar<'e>(error: &'e clap::Error, first: &str) -> Option<&'e str> {
    // These resemble a command, but mean something else.
    if first.len() < MISSPELT_LEN_MIN || answer_in("commands", first).is_some() {
        return None;
    }
    let begins_alike = |command: &&str| {
        let pairs = command.bytes().zip(first.bytes());
        pairs.take_while(|(one, other)| one == other).count()
    };
    match error.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::Strings(commands) => {
            commands.iter().map(String::as_str).max_by_key(begins_alike)
        }
        ContextValue::String(command) => Some(command),
        _ => None,
    }
}

fn not_a_command(first: &str) -> CommandError {
    CommandError::usage(format!("'{first}' is not a command of haul"))
}

/// The error if the first word is no command.
fn no_command(first: &str) -> CommandError {
    let hint =
        answer_in("commands", first).unwrap_or("start with a command: haul copy SOURCE... DEST");
    not_a_command(first).with_hint(format!("{hint}; run 'haul help' for all commands"))
}

/// The error if a command has neither source nor destination.
fn no_places(command: &str) -> Option<CommandError> {
    let usage = match command {
        "copy" | "cp" => COPY_USAGE,
        "move" | "mv" => MOVE_USAGE,
        "sync" => SYNC_USAGE,
        "check" => CHECK_USAGE,
        _ => return None,
    };
    let error = CommandError::usage("the source and the destination are missing");
    Some(error.with_hint(format!("usage: {usage}; 'haul {command} --help' has examples")))
}

/// True if the command has sources and a destination.
fn takes_places(command: &str) -> bool {
    matches!(command, "copy" | "move" | "sync" | "check")
}

/// Attributes that a copy always preserves. Only `haul sync` can omit them.
const KEPT: [&str; 6] = ["links", "l", "perms", "p", "times", "t"];

/// The hint that `haul sync` has the option, for a command that copies, moves or checks.
fn sync_has(command: &str, word: &str) -> Option<String> {
    if let Some(answer) = answer_in("rsync", word) {
        return takes_places(command).then(|| answer.to_owned());
    }
    if !super::sync::has(word) {
        return None;
    }
    if let Some(option) = word.strip_prefix("--no-").filter(|option| !KEPT.contains(option)) {
        return Some(format!("leave it out: without --{option} it is off"));
    }
    match command {
        "check" => Some(format!(
            "leave it out, or use 'haul sync -n', which has {word}, to see what would change"
        )),
        "copy" => Some(format!("use 'haul sync', which has {word}")),
        "move" => Some(format!("use 'haul sync -a --remove-source-files' with {word}")),
        _ => None,
    }
}

/// The first answer to `word` in the sections of [`ANSWERS`] for `command`, or for a kind of words.
fn answer_in(command: &str, word: &str) -> Option<&'static str> {
    find_answer(command, word).map(|(_, answer)| answer)
}

/// The line of that answer: its words and the answer.
fn find_answer(command: &str, word: &str) -> Option<(&'static str, &'static str)> {
    let has = |words: &str, word: &str| words.split(' ').any(|it| it == word);
    let mut is_of_command = false;
    ANSWERS.lines().find_map(|line| {
        if let Some(heading) = line.strip_prefix('[') {
            is_of_command = has(heading.trim_end_matches(']'), command);
        }
        let (words, answer) = line.split_once(": ").filter(|_| is_of_command)?;
        has(words, word).then_some((words, answer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_can_be_found() {
        let mut heading = "";
        for line in ANSWERS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(commands) = line.strip_prefix('[') {
                heading = commands.strip_suffix(']').expect("commands");
                continue;
            }
            let (words, answer) = line.split_once(": ").expect("words and an answer");
            for word in words.split(' ') {
                // An answer for several commands may be behind one for some of them.
                let of = |command: &str| answer_in(command, word) == Some(answer);
                assert!(heading.split(' ').any(of), "{heading}: {word}");
                assert!(word.starts_with('-') || heading == "commands", "{word}");
            }
        }
        let all = crate::args::words();
        let known = |name: &str| all.find_subcommand(name).is_some();
        let headings = ANSWERS.lines().filter_map(|line| line.strip_prefix('['));
        for name in headings.flat_map(|heading| heading.trim_end_matches(']').split(' ')) {
            assert!(known(name) || ["commands", "rsync", "any"].contains(&name), "{name}");
        }
    }
}
