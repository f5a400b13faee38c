//! The help of options. Each option has one text, heading and position in the help, for all
//! commands that accept it. `options/help.txt` contains them.

use clap::{Arg, ArgAction, Command};
use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::LazyLock;

/// The help text of an option.
#[derive(Debug)]
struct OptionHelp {
    heading: &'static str,
    /// The long name, or the letter of an option without one.
    name: &'static str,
    /// The commands that the text is for, separated by spaces; empty: all.
    commands: &'static str,
    /// One line: a verb and an object.
    help: &'static str,
    /// Further sentences for the man page and the reference.
    details: &'static str,
}

/// The texts of all options, in the order of the help.
static HELP: LazyLock<Vec<OptionHelp>> =
    LazyLock::new(|| parse(include_str!("options/help.txt")).expect("the file has this form"));

/// The options that `-h` shows for commands with many options.
const COMMON: &[(&str, &str)] = &[
    (
        "copy",
        "recursive dereference exclude force no-clobber update archive dry-run verify sync \
         rsh parallel bwlimit quiet verbose",
    ),
    ("move", "force no-clobber update verify lossy rsh parallel bwlimit quiet verbose json"),
    ("check", "recursive dereference content exclude archive rsh quiet verbose json"),
    (
        "sync",
        "archive recursive one-file-system exclude update checksum hard-links acls xattrs \
         dry-run backup link-dest mkpath delete max-delete rsh bwlimit itemize-changes \
         verbose stats",
    ),
];

/// Parses the texts. Returns `None` if a line has another form.
fn parse(text: &'static str) -> Option<Vec<OptionHelp>> {
    let (mut heading, mut all) = ("", Vec::<OptionHelp>::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            heading = name.strip_suffix(']')?;
        } else if let Some(details) = line.strip_prefix("  ") {
            all.last_mut()?.details = details;
        } else {
            let (option, help) = line.split_once(": ")?;
            let (name, commands) = option.split_once(' ').unwrap_or((option, ""));
            all.push(OptionHelp { heading, name, commands, help, details: "" });
        }
    }
    Some(all)
}

/// Adds the options of `words` and `--help` to `command`, with their texts and in the order of the
/// texts. An option without a text is hidden.
pub(super) fn add(command: Command, words: &Command) -> Command {
    let mut help = Arg::new("help").long("help").action(ArgAction::HelpShort);
    if words.get_arguments().all(|arg| arg.get_short() != Some('h')) {
        help = help.short('h');
    }
    let texts = texts_of(command.get_name());
    let args = words.get_arguments().chain([&help]);
    let mut args: Vec<_> = args.map(|arg| (text_of(&texts, arg), arg)).collect();
    args.sort_by_key(|(text, _)| text.map(|(at, _)| at));
    let groups = words.get_groups().cloned();
    let command = command.groups(groups).disable_help_flag(true);
    args.into_iter().fold(command, |command, (text, arg)| command.arg(with_text(arg, text)))
}

/// A text, and its position in the help.
type Placed = (usize, &'static OptionHelp);

/// The texts for this command, by the names of their options.
fn texts_of(command: &str) -> HashMap<&'static str, Placed> {
    let mut texts = HashMap::new();
    for (at, text) in HELP.iter().enumerate() {
        let is_for_all = text.commands.is_empty();
        if is_for_all || text.commands.split(' ').any(|name| name == command) {
            texts.entry(text.name).or_insert((at, text));
        }
    }
    texts
}

/// The text of an option.
fn text_of(texts: &HashMap<&'static str, Placed>, arg: &Arg) -> Option<Placed> {
    if arg.is_positional() || arg.is_hide_set() {
        return None;
    }
    let letter = arg.get_short().map(String::from);
    texts.get(arg.get_long().or(letter.as_deref())?).copied()
}

/// Adds the text to the option; an option without a text is hidden.
fn with_text(arg: &Arg, text: Option<Placed>) -> Arg {
    let arg = arg.clone();
    let Some((at, text)) = text else {
        return if arg.is_positional() { arg } else { arg.hide(true) };
    };
    let arg = match text.details {
        "" => arg,
        details => arg.long_help(format!("{}. {details}", text.help)),
    };
    arg.help(text.help).help_heading(text.heading).display_order(at)
}

/// The answer to `-h` alone: the common options. `None` for a command with few options.
pub(super) fn short_help(words: &[OsString]) -> Option<String> {
    let [_, command, only] = words else { return None };
    if only != "-h" {
        return None;
    }
    let mut all = super::words();
    all.build();
    let command = all.find_subcommand(command)?;
    let name = command.get_name().to_owned();
    let (_, common) = COMMON.iter().find(|(of, _)| *of == name)?;
    let examples = examples(command);
    let is_common =
        |arg: &Arg| arg.get_long().is_some_and(|long| common.split(' ').any(|name| name == long));
    let shown = command.clone().mut_args(|arg| {
        let is_hidden = arg.is_hide_set() || !arg.is_positional() && !is_common(&arg);
        arg.help_heading(None::<&'static str>).hide(is_hidden)
    });
    let after = format!("{examples}\n\n'haul {name} --help' shows all options.");
    Some(shown.after_help(after).render_help().to_string())
}

/// The examples in the help of a command.
fn examples(command: &Command) -> String {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = after.split("\n\n").find(|part| part.starts_with("Examples:"));
    examples.unwrap_or_default().to_owned()
}

/// The answer to `haul sync` without arguments: usage and examples.
pub(super) fn usage(words: &[OsString]) -> Option<String> {
    let [_, name] = words else { return None };
    if name != "sync" {
        return None;
    }
    let all = super::words();
    let command = all.find_subcommand(name)?;
    Some(format!(
        "haul: the source and the destination are missing\n\nUsage: {}\n\n{}\n\n'haul sync -h' shows the common options.\n",
        super::help::SYNC_USAGE,
        examples(command)
    ))
}

#[cfg(test)]
mod tests;
