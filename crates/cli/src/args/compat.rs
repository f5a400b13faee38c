//! Options of cp, mv, scp and rsync: the ones that haul accepts, and hints for the others.

mod attributes;
mod reading;

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

/// The hint for an option of ssh.
const FOR_SSH: &str = "pass options of ssh with -e, such as: -e 'ssh -p 2222 -J JUMP'";

/// The hint for scp's -3.
const THROUGH_HERE: &str = "leave it out: contents go directly between hosts if possible; --via ssh sends them through this machine";

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
    let hint = attributes::answer(command, word, words)
        .or_else(|| answer_to_option(command, word).map(str::to_owned))
        .or_else(|| sync_has(command, word))
        .or_else(|| answer_to_any(command, word).map(str::to_owned))?;
    Some(CommandError::usage(format!("'haul {command}' has no {word}")).with_hint(hint))
}

/// Minimum length of a misspelt command. A shorter word, such as the name of a file, resembles
/// every command.
const MISSPELT_LEN_MIN: usize = 3;

/// The command most similar to `first`, by clap's measure.
fn similar<'e>(error: &'e clap::Error, first: &str) -> Option<&'e str> {
    // These resemble a command, but mean something else.
    if first.len() < MISSPELT_LEN_MIN || alternative(first).is_some() {
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

/// The hint for another program's name in place of a command.
fn alternative(first: &str) -> Option<&'static str> {
    Some(match first {
        "rm" | "delete" => "use rm, on a host through ssh",
        "rsync" => "use 'haul sync', which takes rsync's options",
        "scp" | "sftp" | "get" | "put" => "use 'haul copy'",
        "diff" | "cmp" | "compare" | "verify" => "use 'haul check'",
        "dir" | "list" => "use 'haul ls'",
        "b3sum" | "sum" => "use 'haul hash'",
        _ => return None,
    })
}

fn not_a_command(first: &str) -> CommandError {
    CommandError::usage(format!("'{first}' is not a command of haul"))
}

/// The error if the first word is no command.
fn no_command(first: &str) -> CommandError {
    let hint = alternative(first).unwrap_or("start with a command: haul copy SOURCE... DEST");
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

/// Attributes that a copy always preserves. Only `haul sync` can omit them.
const KEPT: [&str; 6] = ["links", "l", "perms", "p", "times", "t"];

/// The hint that `haul sync` has the option, for a command that copies, moves or checks.
fn sync_has(command: &str, word: &str) -> Option<String> {
    if let Some(alternative) = super::sync::alternative(word) {
        return matches!(command, "copy" | "cp" | "move" | "mv" | "check")
            .then(|| alternative.to_owned());
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
        "copy" | "cp" => Some(format!("use 'haul sync', which has {word}")),
        "move" | "mv" => Some(format!("use 'haul sync -a --remove-source-files' with {word}")),
        _ => None,
    }
}

/// The hint for an option that the command does not have.
fn answer_to_option(command: &str, word: &str) -> Option<&'static str> {
    match command {
        "copy" | "cp" => answer_to_copy(word).or_else(|| answer_to_transfer(false, word)),
        "move" | "mv" => answer_to_move(word).or_else(|| answer_to_transfer(true, word)),
        "sync" => answer_to_sync(word),
        "check" => answer_to_check(word).or_else(|| answer_to_transfer(false, word)),
        _ => reading::answer(command, word),
    }
}

/// The hint for an option that only `haul copy` answers.
fn answer_to_copy(word: &str) -> Option<&'static str> {
    Some(match word {
        "-3" => THROUGH_HERE,
        "-s" => "for cp's use 'ln -s'; for scp's use --transport sftp",
        "-O" => "for rsync's use 'haul sync -O'; for scp's leave it out: haul has its own protocol",
        "--no-dereference" => "use -P; with -r, links stay links anyway",
        _ => return None,
    })
}

/// The hint for an option that only `haul move` answers.
fn answer_to_move(word: &str) -> Option<&'static str> {
    Some(match word {
        "--progress" | "--partial" => {
            "leave it out: haul shows progress on a terminal, and resumes interrupted files"
        }
        "--strip-trailing-slashes" => "leave it out, and the slash",
        _ => return None,
    })
}

/// The hint for an option of cp or scp; `haul sync` has all of rsync's.
fn answer_to_sync(word: &str) -> Option<&'static str> {
    Some(match word {
        "-3" => THROUGH_HERE,
        "--symbolic-link" | "--link" => "use 'ln', or --link-dest=DIR for links to another copy",
        "--reflink" => "leave it out: haul shares content where the file system can",
        "--parents" => "use -R",
        "--preserve" => {
            "use -a (modes, times, owners, groups), -A (access control lists), -X (extended attributes), -H (hard links)"
        }
        "--no-preserve" => "use --no-perms, --no-times, --no-owner or --no-group",
        "--no-dereference" => "use -l (part of -a)",
        "--dereference" => "use -L",
        "--no-clobber" => "use --ignore-existing",
        "--target-directory" => "put the destination last",
        "--no-target-directory" => "end the source with '/' to copy its content",
        _ => return None,
    })
}

/// The hint for an option of cp or mv that no command has.
fn answer_to_any(command: &str, word: &str) -> Option<&'static str> {
    if !matches!(command, "copy" | "cp" | "move" | "mv" | "sync" | "check") {
        return None;
    }
    Some(match word {
        "--attributes-only" => {
            "use 'haul copy -a', which only sets attributes if size and mtime match"
        }
        "--context" | "-Z" => {
            "leave it out: haul sets no security context; -X preserves extended attributes"
        }
        "--copy-contents" => {
            "leave it out: haul reads FIFOs and devices only if they are named without -r"
        }
        "--debug" => "use -v, or HAUL_LOG=debug",
        "--dereference" => "use 'haul copy -L'",
        "--exchange" | "--no-copy" => "use 'mv'",
        "--interactive" => "leave it out: haul asks nothing",
        "--keep-directory-symlink" => "use 'haul sync -K'",
        "--link" | "--symbolic-link" => "use 'ln': haul makes copies",
        "--no-dereference" => "leave it out: symbolic links stay links",
        "--no-preserve" => "use 'haul sync -rl', which preserves neither modes nor mtimes",
        "--parents" => "use 'haul sync -aR'",
        "--reflink" => "leave it out: haul shares content where the file system can",
        "--remove-destination" => "leave it out: haul replaces files instead of writing into them",
        "--strip-trailing-slashes" => "leave it out, and the slash",
        "--version" => "use 'haul --version'",
        "-3" => "leave it out: haul chooses the way of contents",
        _ => return None,
    })
}

/// The hint for an option that only `haul check` answers.
fn answer_to_check(word: &str) -> Option<&'static str> {
    Some(match word {
        "-u" | "--update" | "--force" | "--no-clobber" => "leave it out: check changes nothing",
        "-i" | "--itemize-changes" => "leave it out: check names what differs",
        "-c" | "--checksum" => {
            "use --content to compare contents; for scp's use -e 'ssh -c CIPHER'"
        }
        _ => return None,
    })
}

/// The hint for an option of any command with sources and a destination. `moves`: the command
/// removes the sources.
fn answer_to_transfer(moves: bool, word: &str) -> Option<&'static str> {
    Some(match word {
        "--exclude" | "--include" | "--exclude-from" | "--include-from" => {
            "name the parts to move, or use 'haul copy' with --exclude"
        }
        "--filter" | "-f" | "-F" if !moves => {
            "use --exclude or --include, or 'haul sync' with --filter; for scp's -F use -e 'ssh -F FILE'"
        }
        "--files-from" | "--relative" | "--no-implied-dirs" if !moves => {
            "name the parts, or use 'haul sync', which has it"
        }
        "--filter" | "--files-from" | "--cvs-exclude" => {
            "name the parts to move, or use 'haul sync -a --remove-source-files', which has it"
        }
        "--delete" | "--del" | "--delete-before" | "--delete-during" | "--delete-delay"
        | "--delete-after" | "--delete-excluded" => {
            "use 'haul sync -a --delete'; 'haul check -r' shows what is extra"
        }
        "-n" | "--dry-run" if moves => "use 'haul copy -rn' to see what would be copied",
        "-n" | "--dry-run" => "leave it out: check changes nothing",
        "-r" | "-R" | "--recursive" | "-a" | "--archive" => {
            "leave it out: move takes whole directories"
        }
        "-c" | "--checksum" => {
            "for rsync's use 'haul check --content' to compare contents, or --force; for scp's use -e 'ssh -c CIPHER'"
        }
        "--mkpath" => "leave it out, and end DEST with '/' to create it",
        "--info" if !moves => {
            "leave it out: haul shows progress and figures anyway; 'haul sync' has --info"
        }
        "--remove-source-files" => "use 'haul move'",
        "-A" | "-X" | "-H" | "-o" | "-g" | "-D" | "--acls" | "--xattrs" | "--owner" | "--group"
        | "--hard-links" | "--devices" | "--specials" | "-p" | "-d" | "--preserve"
            if moves =>
        {
            "leave it out: move preserves all attributes"
        }
        "-D" => "use --devices and --specials",
        "-g" => "use --group",
        "-P" => "use ssh://host:PORT/path or -e 'ssh -p PORT' for a port; progress needs no option",
        "-d" => "for cp's use -P and -H; for rsync's use 'haul sync -d'",
        "--links" | "--times" | "--perms" | "--sparse" => {
            "leave it out: modes, times, links in trees and holes are always preserved"
        }
        "-t" | "--target-directory" => "put the destination last; times are always preserved",
        "-T" | "--no-target-directory" => {
            "for cp's use 'haul copy -r SOURCE/. DEST'; for rsync's use 'haul sync -T DIR'; scp's is not needed"
        }
        "-C" | "-z" | "--compress" => "leave it out: haul compresses where it pays",
        "-o" if !moves => {
            "for rsync's use --owner; pass options of ssh with -e, such as: -e 'ssh -p 2222 -J JUMP'"
        }
        "-i" => "for scp's use -e 'ssh -i KEY'; for cp's leave it out: haul asks nothing",
        "-o" | "-F" | "-J" | "-4" | "-6" | "--port" => FOR_SSH,
        "--rsync-path" => "use --remote-haul PATH",
        "-x" | "--one-file-system" => "use 'haul sync -ax'",
        "-b" | "--backup" => "use 'haul sync -ab'",
        "--inplace" | "--append" if !moves => {
            "use 'haul sync', which has it: copy replaces files in one step"
        }
        "-W" | "--whole-file" => "leave it out: copy sends changed files whole",
        "--stats" => "leave it out: the last line has the figures",
        _ => return None,
    })
}
