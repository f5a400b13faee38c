//! The help of options. Each option has one text, heading and position in the help, for all
//! commands that accept it. `options/table.rs` contains them.

mod table;

use clap::{Arg, ArgAction, Command};
use std::ffi::OsString;
use table::{COMMON, SECTIONS};

/// The help text of an option.
#[derive(Debug)]
struct OptionHelp {
    /// The long name, or the letter of an option without one.
    name: &'static str,
    /// The commands that the text is for; empty: all.
    commands: &'static [&'static str],
    /// One line: a verb and an object.
    help: &'static str,
    /// Further sentences for the man page and the reference.
    details: &'static str,
}

/// The position of a text, from 0, its heading, and the text.
type HelpEntry = (usize, &'static str, &'static OptionHelp);

impl OptionHelp {
    const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, commands: &[], help, details: "" }
    }

    /// Limits the text to these commands. It must be listed before the text for all others.
    const fn of(self, commands: &'static [&'static str]) -> Self {
        Self { commands, ..self }
    }

    const fn details(self, details: &'static str) -> Self {
        Self { details, ..self }
    }
}

/// Adds the options of `words` and `--help` to `command`, with their texts and in the order of the
/// table. An option without a text is hidden.
pub(super) fn add(command: Command, words: &Command) -> Command {
    let mut help = Arg::new("help").long("help").action(ArgAction::HelpShort);
    if words.get_arguments().all(|arg| arg.get_short() != Some('h')) {
        help = help.short('h');
    }
    let name = command.get_name().to_owned();
    let args = words.get_arguments().chain([&help]);
    let mut args: Vec<_> = args.map(|arg| (help_entry(&name, arg), arg)).collect();
    args.sort_by_key(|(help_entry, _)| help_entry.map(|(at, ..)| at));
    let groups = words.get_groups().cloned();
    let command = command.groups(groups).disable_help_flag(true);
    args.into_iter()
        .fold(command, |command, (help_entry, arg)| command.arg(with_text(arg, help_entry)))
}

/// The position, heading and text of an option; `None` without a text.
fn help_entry(command: &str, arg: &Arg) -> Option<HelpEntry> {
    if arg.is_positional() || arg.is_hide_set() {
        return None;
    }
    let name = arg.get_long().unwrap_or(arg.get_id().as_str());
    let letter = arg.get_short().filter(|_| arg.get_long().is_none()).map(String::from);
    let is_it = |text: &OptionHelp| {
        (text.name == name || letter.as_deref() == Some(text.name))
            && (text.commands.is_empty() || text.commands.contains(&command))
    };
    let texts =
        SECTIONS.iter().flat_map(|(heading, texts)| texts.iter().map(move |text| (*heading, text)));
    let mut entries = texts.enumerate().map(|(at, (heading, text))| (at, heading, text));
    entries.find(|(_, _, text)| is_it(text))
}

/// Adds the text to the option; an option without a text is hidden.
fn with_text(arg: &Arg, help_entry: Option<HelpEntry>) -> Arg {
    let arg = arg.clone();
    let Some((at, heading, text)) = help_entry else {
        return if arg.is_positional() { arg } else { arg.hide(true) };
    };
    let arg = match text.details {
        "" => arg,
        details => arg.long_help(format!("{}. {details}", text.help)),
    };
    arg.help(text.help).help_heading(heading).display_order(at)
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
