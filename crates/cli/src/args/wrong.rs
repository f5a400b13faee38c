//! Words that clap refuses, in the form of all other errors: what is wrong, and one hint.
//! `familiar.rs` has answered what it knows from other programs before.

use crate::error::CommandError;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::error::Error;
use std::num::ParseIntError;

/// The error of clap about the words of `command`.
///
/// # Errors
/// clap's own, where it is no error but a help, or the version.
pub(super) fn told(error: clap::Error, command: &str) -> Result<CommandError, clap::Error> {
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

/// The problem with the words.
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

/// The value of the context of this `kind`, without the names of options' values. What the user
/// has typed stays as it is.
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

/// clap's own words, without the usage behind them.
fn first_paragraph(error: &clap::Error) -> String {
    let rendered = error.render().to_string();
    let told = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    let lines = told.lines().take_while(|line| !line.is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join(" ")
}

/// Options by which files go: none is suggested.
const REMOVING: [&str; 5] = ["--del", "--remove", "--force", "--all", "--inplace"];

/// Characters at one place that tell a misspelt option from the one that is meant, at most.
const MISSPELT_MAX: usize = 2;

/// True if `typed` has at most `differing` characters at one place that are not as in `meant`, and
/// as many others that are.
pub(super) fn is_misspelt(typed: &str, meant: &str, differing: usize) -> bool {
    let alike = |one: &mut dyn Iterator<Item = char>, other: &mut dyn Iterator<Item = char>| {
        one.zip(other).take_while(|(one, other)| one == other).count()
    };
    let longer = typed.chars().count().max(meant.chars().count());
    let ahead = alike(&mut typed.chars(), &mut meant.chars());
    let behind = alike(&mut typed.chars().rev(), &mut meant.chars().rev());
    ahead + behind + differing.min(ahead + behind) >= longer
}

/// The option that was meant, if only one place of the given one has to be corrected. clap's
/// measure alone finds one for many a word that means something else.
fn similar_option(error: &clap::Error) -> Option<String> {
    let (given, similar) =
        (text(error, ContextKind::InvalidArg)?, text(error, ContextKind::SuggestedArg)?);
    let given = given.split('=').next().unwrap_or_default();
    // With what all options begin with, two that have nothing in common would be alike.
    let name = |option: &str| option.trim_start_matches("--").trim_start_matches("no-").to_owned();
    let (typed, meant) = (name(given), name(&similar));
    let is_misspelt = is_misspelt(&typed, &meant, MISSPELT_MAX);
    let is_removing = REMOVING.iter().any(|start| similar.starts_with(start));
    let is_negated = |option: &str| option.starts_with("--no-");
    let is_meant = is_negated(given) == is_negated(&similar);
    (is_misspelt && is_meant && !is_removing).then_some(similar)
}
