//! Words of cp, mv, scp and rsync: those that are taken, and the answers to those
//! that are not.

mod keeping;
mod looks;

use super::help::{CHECK_USAGE, COPY_USAGE, MOVE_USAGE, SYNC_USAGE};
use super::wrong;
use crate::error::CommandError;
use clap::Args;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Words of other programs that `haul copy` and `haul check` take.
#[derive(Debug, Args)]
pub(super) struct FamiliarWords {
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

impl FamiliarWords {
    /// Refuses `-P` in front of a number, where scp has the port.
    ///
    /// # Errors
    /// A usage error that says where the port goes.
    pub(super) fn refuse_port(&self, words: &[OsString]) -> Result<(), CommandError> {
        let is_number = |word: &&OsString| {
            word.len() <= PORT_DIGITS_MAX && word.as_encoded_bytes().iter().all(u8::is_ascii_digit)
        };
        match words.first().filter(|_| self.keeps_links).filter(is_number) {
            Some(port) => {
                let file = format!("a file of that name is ./{}", port.display());
                Err(port_refused(&port.display().to_string()).with_hint(file))
            }
            None => Ok(()),
        }
    }
}

/// The error for a port that is given as to scp.
fn port_refused(port: &str) -> CommandError {
    CommandError::usage(format!("-P {port}: a port is not given like this"))
        .with_hint(format!("write ssh://host:{port}/path or -e 'ssh -p {port}'"))
}

/// Advice in place of an option of ssh.
const FOR_SSH: &str = "what is meant for ssh goes into -e, such as: -e 'ssh -p 2222 -J JUMP'";

/// Advice in place of scp's -3.
const THROUGH_HERE: &str = "from host to host contents go straight where they can, else through this machine: leave it out; --via ssh has all pass here";

/// Digits of the highest port.
const PORT_DIGITS_MAX: usize = 5;

/// The error in `words`, of which the first is the program's name, told as a person
/// would who knows the other programs.
///
/// # Errors
/// clap's own, where it is no error but a help, or the version.
pub(super) fn explain(error: clap::Error, words: &[OsString]) -> Result<CommandError, clap::Error> {
    let first = words.get(1).and_then(|first| first.to_str()).unwrap_or_default();
    let told = match error.kind() {
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
            CommandError::usage("-h asks for the help only where it is the only word")
                .with_hint(format!("'haul {first} --help' shows the options")),
        ),
        _ => None,
    };
    told.map_or_else(|| wrong::told(error, first), Ok)
}

/// `words` as they are read: -h, as the only word behind a command, asks for its help,
/// whatever it means to the command beside others.
pub(super) fn with_help(words: &[OsString]) -> Vec<OsString> {
    let mut words = words.to_vec();
    if let [_, _, only] = &mut *words
        && only == "-h"
    {
        *only = "--help".into();
    }
    words
}

/// True if nothing but the help can be meant. With other words -h is taken for what it
/// means elsewhere: a script would take a command for done that has printed its help.
fn asks_for_help(words: &[OsString]) -> bool {
    let is_alone = words.len() <= 3 && words.last().is_some_and(|word| word == "-h");
    is_alone || words.iter().any(|word| word == "--help")
}

/// The answer to an option that `command` has not.
fn no_option(error: &clap::Error, command: &str, words: &[OsString]) -> Option<CommandError> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let word = given.split('=').next().unwrap_or(given);
    if let Some(port) = keeping::port(word, words) {
        return Some(port_refused(port));
    }
    let hint = keeping::answer(command, word, words)
        .or_else(|| answer_to_option(command, word).map(str::to_owned))
        .or_else(|| sync_has(command, word))?;
    Some(CommandError::usage(format!("'haul {command}' has no {word}")).with_hint(hint))
}

/// The shortest word that can be one of the commands, misspelt: a shorter one, such as the
/// name of a file, is as near to any of them.
const MISSPELT_LEN_MIN: usize = 3;

/// The command that is most like the word `first`, by clap's measure, if one is.
fn similar<'e>(error: &'e clap::Error, first: &str) -> Option<&'e str> {
    // These are like a command, and mean something else.
    if first.len() < MISSPELT_LEN_MIN || instead(first).is_some() {
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

/// Advice about another program's name in place of a command.
fn instead(first: &str) -> Option<&'static str> {
    Some(match first {
        "rm" | "delete" => "haul removes no files by themselves: use rm, there through ssh",
        "rsync" => "'haul sync' takes the words of rsync",
        "scp" | "sftp" | "get" | "put" => "'haul copy' copies to hosts and from them",
        "diff" | "cmp" | "compare" | "verify" => "'haul check' compares",
        "dir" | "list" => "'haul ls' lists directories",
        "b3sum" | "sum" => "'haul hash' prints hashes as b3sum does",
        _ => return None,
    })
}

fn not_a_command(first: &str) -> CommandError {
    CommandError::usage(format!("'{first}' is not a command of haul"))
}

/// The error for words whose first is no command.
fn no_command(first: &str) -> CommandError {
    let hint = instead(first).unwrap_or("a command comes first, as in: haul copy SOURCE... DEST");
    not_a_command(first).with_hint(hint).with_hint("'haul help' lists the commands")
}

/// The error of a command that goes from one place to another, and was given none.
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

/// The advice that `haul sync` has the option, for a command that copies or moves.
fn sync_has(command: &str, word: &str) -> Option<String> {
    if !super::sync::has(word) {
        return None;
    }
    match command {
        "copy" | "cp" => {
            Some(format!("'haul sync' has {word}, with the meaning that rsync gives it"))
        }
        "move" | "mv" => Some(format!(
            "'haul sync -a --remove-source-files' takes {word}, with the meaning that rsync gives it"
        )),
        _ => None,
    }
}

/// Advice in place of an option that the command does not have.
fn answer_to_option(command: &str, word: &str) -> Option<&'static str> {
    match command {
        "copy" | "cp" => answer_to_copy(word).or_else(|| answer_to_transfer(false, word)),
        "move" | "mv" => answer_to_move(word).or_else(|| answer_to_transfer(true, word)),
        "sync" => answer_to_sync(word),
        "check" => answer_to_check(word).or_else(|| answer_to_transfer(false, word)),
        _ => looks::answer(command, word),
    }
}

/// The same for a copy, where not each command that has two sides says so.
fn answer_to_copy(word: &str) -> Option<&'static str> {
    Some(match word {
        "-3" => THROUGH_HERE,
        "-s" | "--symbolic-link" | "--link" => "'ln' makes links; haul makes copies",
        "--reflink" => "content is shared where the file system can do that: leave it out",
        "--strip-trailing-slashes" => "leave out both the slash and this word",
        "--no-dereference" => {
            "-P copies a symbolic link that is named, as cp's -P does; in trees all stay links"
        }
        "--attributes-only" => {
            "where size and time agree no content is copied: 'haul copy -a' corrects the attributes"
        }
        "--parents" => "'haul sync -aR' makes the directories of the source's path, too",
        "--no-preserve" => {
            "modes and times are always kept; 'haul sync -rl' keeps only what it is told to"
        }
        _ => return None,
    })
}

/// The same for a move.
fn answer_to_move(word: &str) -> Option<&'static str> {
    Some(match word {
        "--progress" | "--partial" => {
            "progress is shown on a terminal, and the same command goes on with what was interrupted: leave it out"
        }
        "--strip-trailing-slashes" => "leave out both the slash and this word",
        _ => return None,
    })
}

/// The same for a mirror, which has all that rsync has: words of cp and scp.
fn answer_to_sync(word: &str) -> Option<&'static str> {
    Some(match word {
        "-3" => THROUGH_HERE,
        "--symbolic-link" | "--link" => "'ln' makes links; --link-dest=DIR those to another copy",
        "--reflink" => "content is shared where the file system can do that: leave it out",
        "--parents" => "-R has each source keep its path",
        "--preserve" => {
            "-a keeps modes, times, owners and groups; -A access control lists, -X extended attributes, -H hard links"
        }
        "--no-preserve" => "--no-perms, --no-times, --no-owner and --no-group keep less of -a",
        "--no-dereference" => "-l, which is in -a, keeps symbolic links as links",
        "--dereference" => "-L copies what symbolic links point to",
        "--no-clobber" => "--ignore-existing replaces nothing",
        "--target-directory" => "the destination is the last word",
        "--no-target-directory" => "a source that ends with / is what is in it",
        _ => return None,
    })
}

/// The same for a check.
fn answer_to_check(word: &str) -> Option<&'static str> {
    Some(match word {
        "-u" | "--update" | "--force" | "--no-clobber" => {
            "a check changes nothing, and tells all that differs: leave it out"
        }
        "-i" | "--itemize-changes" => "'haul check -v' says in what each entry differs",
        _ => return None,
    })
}

/// The same for each command that has sources and a destination; `moves` says that it
/// removes the sources.
fn answer_to_transfer(moves: bool, word: &str) -> Option<&'static str> {
    Some(match word {
        "--exclude" | "--include" | "--exclude-from" | "--include-from" => {
            "a move takes all of a tree: name the parts that are to be moved, or copy with --exclude"
        }
        "--filter" | "-f" | "-F" if !moves => {
            "--exclude, --include, --exclude-from and --include-from say what is left out; 'haul sync' has --filter"
        }
        "--files-from" | "--relative" | "--no-implied-dirs" if !moves => {
            "name the parts that are wanted; 'haul sync' has it"
        }
        "--filter" | "--files-from" | "--cvs-exclude" => {
            "name the parts that are to be moved; 'haul sync -a --remove-source-files' has it"
        }
        "--delete" | "--del" | "--delete-before" | "--delete-during" | "--delete-delay"
        | "--delete-after" | "--delete-excluded" => {
            "'haul sync -a --delete' does that; 'haul check -r' shows what is extra"
        }
        "-n" | "--dry-run" if moves => {
            "--no-clobber replaces nothing; what would be copied is shown by 'haul copy -rn'"
        }
        "-n" | "--dry-run" => "'haul check' changes nothing: leave it out",
        "-r" | "-R" | "--recursive" | "-a" | "--archive" => {
            "directories are moved with all that is in them: leave it out"
        }
        "-c" | "--checksum" => {
            "rsync's is 'haul check --content', which compares contents, or --force, which copies whatever size and time say; scp's cipher goes into -e 'ssh -c CIPHER'"
        }
        "--mkpath" => "a DEST that ends with a slash is made, with all above it: leave it out",
        "--info" if !moves => {
            "progress is shown on a terminal, and the last line has the figures: leave it out; 'haul sync' has --info"
        }
        "--remove-source-files" => "'haul move' removes what has arrived",
        "-A" | "-X" | "-H" | "-o" | "-g" | "-D" | "--acls" | "--xattrs" | "--owner" | "--group"
        | "--hard-links" | "--devices" | "--specials" | "-p" | "-d" | "--preserve"
            if moves =>
        {
            "a move keeps all of it, and leaves what would lose something: leave it out"
        }
        "-D" => "--devices and --specials make devices, FIFOs and sockets anew",
        "-g" => "--group keeps groups",
        "-P" => {
            "a port is written ssh://host:PORT/path or -e 'ssh -p PORT'; progress needs no word"
        }
        "-d" => {
            "cp's is -P, which keeps symbolic links, and -H, which keeps hard links; 'haul sync -d' has rsync's"
        }
        "--links" | "--times" | "--perms" | "--sparse" => {
            "modes, times, links in trees and holes are always kept: leave it out"
        }
        "-t" | "--target-directory" => {
            "the destination is the last word, and times are always kept: leave it out"
        }
        "-T" | "--no-target-directory" => {
            "'dir/.' is what is in a directory: haul copy -r SOURCE/. DEST"
        }
        "-C" | "-z" | "--compress" => "what travels is compressed where that pays: leave it out",
        "-o" if !moves => {
            "rsync's is --owner; what is meant for ssh goes into -e, such as: -e 'ssh -p 2222 -J JUMP'"
        }
        "-i" => "nothing is asked; a key for ssh goes into -e 'ssh -i KEY'",
        "-o" | "-F" | "-J" | "-4" | "-6" | "--port" => FOR_SSH,
        "--rsync-path" => "--remote-haul PATH says where haul is on the host",
        "-x" | "--one-file-system" => {
            "file systems that are mounted in a tree are copied, too; 'haul sync -ax' leaves them out"
        }
        "-b" | "--backup" => {
            "the old content of a file is gone once it is replaced; 'haul sync -ab' keeps it"
        }
        "--inplace" | "--append" if !moves => {
            "a file is replaced in one step, never written into; 'haul sync' has it"
        }
        "-W" | "--whole-file" => "haul copy always copies changed files whole: leave it out",
        "--stats" => "the last line has the figures: leave it out",
        _ => return None,
    })
}
