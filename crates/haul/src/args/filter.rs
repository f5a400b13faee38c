//! Words about what is left out, as rsync has them. Their order counts, across all of
//! them.

use crate::error::CommandError;
use clap::{Arg, ArgAction, ArgMatches, FromArgMatches, ValueHint, value_parser};
use haul_model::{Action, Fault, Filter, Pattern, Rule, Side, escape_bytes};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

/// The heading of these words in the help.
const HEADING: &str = "What to leave out";

/// Bytes of a file with patterns, at most.
const FILE_LEN_MAX: u64 = 1 << 20;

/// The words, in the order in which they were given.
#[derive(Debug, Default)]
pub(super) struct FilterWords {
    given: Vec<(Form, OsString)>,
}

/// One of the four words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    name: &'static str,
    /// The action of patterns that don't say it themselves.
    action: Action,
    /// The patterns are in a file.
    from_file: bool,
    value: &'static str,
    help: &'static str,
}

const FORMS: [Form; 4] = [
    Form {
        name: "exclude",
        action: Action::Exclude,
        from_file: false,
        value: "PATTERN",
        help: "Leave out what matches, as rsync does: '*.o', 'cache/', '/top/only'",
    },
    Form {
        name: "include",
        action: Action::Include,
        from_file: false,
        value: "PATTERN",
        help: "Don't leave out what matches: of all patterns the first that matches decides",
    },
    Form {
        name: "exclude-from",
        action: Action::Exclude,
        from_file: true,
        value: "FILE",
        help: "Leave out what matches one of the patterns in FILE, one a line",
    },
    Form {
        name: "include-from",
        action: Action::Include,
        from_file: true,
        value: "FILE",
        help: "Don't leave out what matches one of the patterns in FILE",
    },
];

impl clap::Args for FilterWords {
    fn augment_args(command: clap::Command) -> clap::Command {
        FORMS.iter().fold(command, |command, form| {
            command.arg(
                Arg::new(form.name)
                    .long(form.name)
                    .value_name(form.value)
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(OsString))
                    .allow_hyphen_values(true)
                    .value_hint(if form.from_file { ValueHint::FilePath } else { ValueHint::Other })
                    .help(form.help)
                    .help_heading(HEADING),
            )
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FilterWords {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words = Self::default();
        words.update_from_arg_matches(matches)?;
        Ok(words)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let of_form = |form: Form| {
            let values = matches.get_many::<OsString>(form.name).into_iter().flatten();
            let places = matches.indices_of(form.name).into_iter().flatten();
            places.zip(values).map(move |(place, value)| (place, form, value.clone()))
        };
        let mut given: Vec<_> = FORMS.into_iter().flat_map(of_form).collect();
        given.sort_by_key(|(place, ..)| *place);
        self.given.extend(given.into_iter().map(|(_, form, value)| (form, value)));
        Ok(())
    }
}

impl FilterWords {
    /// The rules.
    ///
    /// # Errors
    /// A usage error that names the word, or the file and its line.
    pub(super) fn rules(&self) -> Result<Filter, CommandError> {
        let mut filter = Filter::default();
        for (form, value) in &self.given {
            if form.from_file {
                form.read_file(value, &mut filter)?;
            } else {
                let bytes = value.as_bytes();
                let at = || format!("--{} '{}'", form.name, escape_bytes(bytes));
                form.add(bytes, &mut filter).map_err(|why| wrong(&at(), &why))?;
            }
        }
        Ok(filter)
    }
}

impl Form {
    /// Adds the rules in a file, or in standard input if its name is `-`.
    fn read_file(self, path: &OsStr, filter: &mut Filter) -> Result<(), CommandError> {
        let shown = format!("--{} {}", self.name, escape_bytes(path.as_bytes()));
        let unreadable = |error| Fault::from_io(Side::Source, "read it", &error).message;
        let content = read(path).map_err(|error| wrong(&shown, &unreadable(error)))?;
        for (number, line) in (1..).zip(content.split(|byte| *byte == b'\n')) {
            // A carriage return ends a line, too, and is in no pattern.
            for line in line.split(|byte| *byte == b'\r') {
                if line.is_empty() || matches!(line[0], b';' | b'#') {
                    continue;
                }
                let at = || format!("{shown}:{number}");
                self.add(line, filter).map_err(|why| wrong(&at(), &why))?;
            }
        }
        Ok(())
    }

    /// Adds the rule that `words` are.
    fn add(self, words: &[u8], filter: &mut Filter) -> Result<(), String> {
        let (action, pattern) = match words {
            b"!" => {
                filter.clear();
                return Ok(());
            }
            [b'+', b' ', pattern @ ..] => (Action::Include, pattern),
            [b'-', b' ', pattern @ ..] => (Action::Exclude, pattern),
            pattern => (self.action, pattern),
        };
        let pattern = Pattern::new(pattern).map_err(|error| error.to_string())?;
        filter.push(Rule { action, pattern }).map_err(|error| error.to_string())
    }
}

fn wrong(at: &str, why: &str) -> CommandError {
    CommandError::usage(format!("{at}: {why}"))
}

fn read(path: &OsStr) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let input: Box<dyn Read> = match path.as_bytes() {
        b"-" => Box::new(io::stdin()),
        _ => Box::new(File::open(path)?),
    };
    input.take(FILE_LEN_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > FILE_LEN_MAX {
        let message = format!("it has more than {} KiB", FILE_LEN_MAX >> 10);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}
