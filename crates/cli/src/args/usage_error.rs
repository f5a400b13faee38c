//! Turns clap's errors into the form of all other errors: the problem and one hint. `compat.rs`
//! handles options of other programs before.

use crate::error::CommandError;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;
use std::num::ParseIntError;

/// Converts clap's error about the arguments of `command`.
///
/// # Errors
/// clap's own error, if it prints the help or the version.
pub(super) fn command_error(
    error: clap::Error,
    command: &str,
) -> Result<CommandError, clap::Error> {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Err(error);
    }
    let see_help = || format!("'haul {command} --help' shows the options");
    let value = text(&error, ContextKind::InvalidValue);
    let hint = match (error.kind(), value) {
        (ErrorKind::TooManyValues, Some(value)) => Some(format!("leave out '={value}'")),
        _ => similar_option(&error).map(|option| format!("do you mean '{option}'?")),
    };
    Ok(CommandError::usage(problem(&error, command)).with_hint(hint.unwrap_or_else(see_help)))
}

/// The text of the problem.
fn problem(error: &clap::Error, command: &str) -> String {
    let known = match error.kind() {
        ErrorKind::UnknownArgument => text(error, ContextKind::InvalidArg)
            .map(|word| format!("'haul {command}' has no {word}")),
        ErrorKind::ArgumentConflict => {
            let [one, other] =
                [ContextKind::InvalidArg, ContextKind::PriorArg].map(|kind| text(error, kind));
            one.zip(other).map(|(one, other)| match one == other {
                true => format!("{one} is given twice"),
                false => format!("{one} and {other} exclude each other"),
            })
        }
        ErrorKind::MissingRequiredArgument => {
            text(error, ContextKind::InvalidArg).map(|word| format!("{word} is missing"))
        }
        ErrorKind::TooManyValues => {
            text(error, ContextKind::InvalidArg).map(|option| format!("{option} takes no value"))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => wrong_value(error),
        _ => None,
    };
    known.unwrap_or_else(|| first_paragraph(error))
}

/// The problem with the value of an option.
fn wrong_value(error: &clap::Error) -> Option<String> {
    let option = text(error, ContextKind::InvalidArg)?;
    let value = text(error, ContextKind::InvalidValue).filter(|value| !value.is_empty());
    let Some(value) = value else { return Some(format!("{option} needs a value")) };
    let reason = match (error.source(), text(error, ContextKind::ValidValue)) {
        (Some(cause), _) if cause.is::<ParseIntError>() => "not a number".to_owned(),
        (Some(cause), _) => cause.to_string().replace("..=", " to "),
        (None, Some(valid)) => format!("not one of {valid}"),
        (None, None) => return None,
    };
    Some(format!("{option} '{value}': {reason}"))
}

/// The value of the context of this `kind`, without the placeholders of values. Typed arguments
/// stay unchanged.
fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    let is_typed = match kind {
        ContextKind::InvalidValue => true,
        ContextKind::InvalidArg => error.kind() == ErrorKind::UnknownArgument,
        _ => false,
    };
    let short = |word: &String| match word.split_once(" <") {
        _ if is_typed => word.clone(),
        Some((option, _)) => option.to_owned(),
        None => word.replace(['<', '>', '.'], ""),
    };
    match error.get(kind)? {
        ContextValue::String(word) => Some(short(word)),
        ContextValue::Strings(words) => {
            Some(words.iter().map(short).collect::<Vec<_>>().join(", "))
        }
        _ => None,
    }
}

/// clap's own text, without the usage after it.
fn first_paragraph(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let message = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    let lines = message.lines().take_while(|line| !line.is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join(" ")
}

/// Options that remove or overwrite files: they are never suggested.
const REMOVING: [&str; 5] = ["--del", "--remove", "--force", "--all", "--inplace"];

/// Maximum number of adjacent characters in which a misspelt option differs.
const MISSPELT_MAX: usize = 2;

/// True if `typed` and `meant` differ in at most `differing` adjacent characters, and at least as
/// many are equal.
pub(super) fn is_misspelt(typed: &str, meant: &str, differing: usize) -> bool {
    let alike = |one: &mut dyn Iterator<Item = char>, other: &mut dyn Iterator<Item = char>| {
        one.zip(other).take_while(|(one, other)| one == other).count()
    };
    let longer = typed.chars().count().max(meant.chars().count());
    let ahead = alike(&mut typed.chars(), &mut meant.chars());
    let behind = alike(&mut typed.chars().rev(), &mut meant.chars().rev());
    ahead + behind + differing.min(ahead + behind) >= longer
}

/// The option that was most likely meant. clap's measure alone suggests one for many options that
/// mean something else.
fn similar_option(error: &clap::Error) -> Option<String> {
    let (given, similar) =
        (text(error, ContextKind::InvalidArg)?, text(error, ContextKind::SuggestedArg)?);
    let given = given.split('=').next().unwrap_or_default();
    // The common prefixes would make unrelated options look similar.
    let name = |option: &str| option.trim_start_matches("--").trim_start_matches("no-").to_owned();
    let (typed, meant) = (name(given), name(&similar));
    let is_misspelt = is_misspelt(&typed, &meant, MISSPELT_MAX);
    let is_removing = REMOVING.iter().any(|start| similar.starts_with(start));
    let is_negated = |option: &str| option.starts_with("--no-");
    let is_meant = is_negated(given) == is_negated(&similar);
    (is_misspelt && is_meant && !is_removing).then_some(similar)
}
