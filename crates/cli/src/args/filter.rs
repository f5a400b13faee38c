//! The filter options, as in rsync. Their order matters, across all of them.

use crate::error::CommandError;
use clap::{Arg, ArgAction, ArgMatches, FromArgMatches, ValueHint, value_parser};
use haul_engine::Links;
use haul_model::escape_bytes;
use haul_model::{Action, Fault, Filter, Line, Lines, Pattern, Rule, Side, Style, cvs_defaults};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

/// Maximum depth of rule files that name other rule files.
const DEPTH_MAX: usize = 16;

/// The filter options, in the order given. `ALL`: all of rsync's, else only those with patterns.
#[derive(Debug, Default)]
pub(super) struct FilterArgs<const ALL: bool = false> {
    /// The positions of the options on the command line, their names, and their values.
    given: Vec<(usize, &'static str, OptionValue, OsString)>,
}

/// The value of a filter option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionValue {
    /// A pattern. It has this action unless it contains a prefix.
    Pattern(Action),
    /// A file with such patterns.
    File(Action),
    /// A rule with its prefix.
    Rule,
    /// No value: the option stands for other rules.
    Nothing,
}

/// The option that stands for [`SHORTHANDS`]: the first rule when first given, the second when
/// repeated.
const SHORTHAND: &str = "F";

/// The option for the rules of CVS, which apply after all others.
const CVS: &str = "cvs-exclude";

/// The options: their names, letters and values.
const FILTER_OPTIONS: [(&str, Option<char>, OptionValue); 7] = [
    ("exclude", None, OptionValue::Pattern(Action::Exclude)),
    ("include", None, OptionValue::Pattern(Action::Include)),
    ("exclude-from", None, OptionValue::File(Action::Exclude)),
    ("include-from", None, OptionValue::File(Action::Include)),
    ("filter", Some('f'), OptionValue::Rule),
    (SHORTHAND, Some('F'), OptionValue::Nothing),
    (CVS, Some('C'), OptionValue::Nothing),
];

const SHORTHANDS: [&[u8]; 2] = [b"dir-merge /.rsync-filter", b"exclude .rsync-filter"];

impl<const ALL: bool> FilterArgs<ALL> {
    const OPTIONS: &[(&'static str, Option<char>, OptionValue)] =
        if ALL { &FILTER_OPTIONS } else { FILTER_OPTIONS.split_at(4).0 };
}

/// An option with this name. A name of one letter is not a long option, but is accepted as one.
pub(super) fn named_arg(name: &'static str, short: Option<char>) -> Arg {
    let arg = Arg::new(name).short(short);
    if name.len() > 1 { arg.long(name) } else { arg.alias(name) }
}

/// The values of an option, each with its position on the command line.
pub(super) fn values_of(
    matches: &ArgMatches,
    name: &str,
) -> impl Iterator<Item = (usize, OsString)> {
    let values = matches.get_many::<OsString>(name).into_iter().flatten();
    matches.indices_of(name).into_iter().flatten().zip(values.cloned())
}

impl<const ALL: bool> clap::Args for FilterArgs<ALL> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let args = Self::OPTIONS.iter().map(|(name, short, value)| {
            let arg = named_arg(name, *short).action(ArgAction::Append);
            let arg = arg.value_parser(value_parser!(OsString));
            let (value_name, hint) = match value {
                OptionValue::Pattern(_) => ("PATTERN", ValueHint::Other),
                OptionValue::File(_) => ("FILE", ValueHint::FilePath),
                OptionValue::Rule => ("RULE", ValueHint::Other),
                // Counting the option would keep only one position.
                OptionValue::Nothing => return arg.num_args(0).default_missing_value(""),
            };
            arg.value_name(value_name).allow_hyphen_values(true).value_hint(hint)
        });
        command.args(args)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<const ALL: bool> FromArgMatches for FilterArgs<ALL> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words = Self::default();
        words.update_from_arg_matches(matches)?;
        Ok(words)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for (name, _, kind) in Self::OPTIONS {
            let values = values_of(matches, name);
            self.given.extend(values.map(|(index, value)| (index, *name, *kind, value)));
        }
        self.given.sort_by_key(|(index, ..)| *index);
        Ok(())
    }
}

impl<const ALL: bool> FilterArgs<ALL> {
    /// The rules. A rule without a side of its own applies to the sides of `style`. A file of rules
    /// uses NUL as line end if `zeros` is true for the position of its option. Only `links` are
    /// followed to such a file.
    ///
    /// # Errors
    /// A usage error that names the option, or the file and its rule.
    pub(super) fn rules(
        &self,
        style: Style,
        links: Links,
        zeros: impl Fn(usize) -> bool,
    ) -> Result<Filter, CommandError> {
        let mut builder = FilterBuilder { filter: Filter::default(), style, links, zeros: false };
        let mut shorthands = 0;
        for (index, option, kind, value) in &self.given {
            builder.zeros = zeros(*index);
            let bytes = value.as_bytes();
            let at = || format!("--{option} '{}'", escape_bytes(bytes));
            match *kind {
                OptionValue::Pattern(action) => {
                    builder.add(action, bytes).map_err(|why| usage_error(&at(), &why))?;
                }
                OptionValue::File(action) => {
                    let shown = format!("--{option} {}", escape_bytes(bytes));
                    builder.read_patterns(action, value, &shown)?;
                }
                OptionValue::Rule => builder.add_option_rules(bytes, &at())?,
                OptionValue::Nothing if *option == SHORTHAND => {
                    if let Some(rule) = SHORTHANDS.get(shorthands) {
                        builder.add_option_rules(rule, SHORTHAND)?;
                    }
                    shorthands += 1;
                }
                OptionValue::Nothing => {}
            }
        }
        if self.given.iter().any(|(_, option, ..)| *option == CVS) {
            builder.zeros = style.zeros;
            builder.add_option_rules(b":C", CVS)?;
            builder.add_option_rules(b"-C", CVS)?;
        }
        Ok(builder.filter)
    }
}

/// The rules found so far.
struct FilterBuilder {
    filter: Filter,
    style: Style,
    links: Links,
    /// NUL ends each line of the file that the current option reads.
    zeros: bool,
}

impl FilterBuilder {
    /// Adds the patterns in a file; `-` is standard input.
    fn read_patterns(
        &mut self,
        action: Action,
        path: &OsStr,
        shown: &str,
    ) -> Result<(), CommandError> {
        let content = read(path, self.links).map_err(|error| unreadable(shown, &error))?;
        let is_end = |byte: &u8| match self.zeros {
            true => *byte == 0,
            // A carriage return also ends a line, and is never part of a pattern.
            false => matches!(byte, b'\n' | b'\r'),
        };
        let lines: Vec<_> = content.split(is_end).collect();
        for (number, line) in (1..).zip(lines) {
            if !line.is_empty() && !matches!(line[0], b';' | b'#') {
                let at = || format!("{shown}:{number}");
                self.add(action, line).map_err(|why| usage_error(&at(), &why))?;
            }
        }
        Ok(())
    }

    /// Adds the rule in `words`; without a prefix it has `action`.
    fn add(&mut self, action: Action, words: &[u8]) -> Result<(), String> {
        let (action, pattern) = match words {
            b"!" => {
                self.filter.clear();
                return Ok(());
            }
            [b'+', b' ', pattern @ ..] => (Action::Include, pattern),
            [b'-', b' ', pattern @ ..] => (Action::Exclude, pattern),
            pattern => (action, pattern),
        };
        let pattern = Pattern::new(pattern).map_err(|error| error.to_string())?;
        let rule = Rule { sides: self.style.plain, ..Rule::new(action, pattern) };
        self.filter.push(rule).map_err(|error| error.to_string())
    }

    /// Adds the rule of an option; `at` names the option in errors.
    fn add_option_rules(&mut self, word: &[u8], at: &str) -> Result<(), CommandError> {
        let lines = Lines::of_word(word, self.style);
        for line in lines.map_err(|why| usage_error(at, &why.to_string()))? {
            self.take(line, at, 0)?;
        }
        Ok(())
    }

    /// Adds a line read at `at`. `depth` is the depth of files that name each other.
    fn take(&mut self, line: Line, at: &str, depth: usize) -> Result<(), CommandError> {
        let added = match line {
            Line::Rule(rule) => self.filter.push(rule),
            Line::Files(mut files) => {
                files.style.zeros = self.style.zeros;
                self.filter.push_files(files)
            }
            Line::Clear => {
                self.filter.clear();
                Ok(())
            }
            Line::Merge(_) if depth >= DEPTH_MAX => {
                return Err(usage_error(
                    at,
                    "merge-file include depth limit exceeded: files name each other",
                ));
            }
            Line::Merge(merge) => {
                let path = OsStr::from_bytes(&merge.path);
                let content = read(path, self.links).map_err(|error| unreadable(at, &error))?;
                let name = escape_bytes(&merge.path);
                let style = Style { zeros: self.zeros, ..merge.style };
                return self.add_lines(&content, style, &name, depth + 1);
            }
            Line::Cvs(style) => return self.add_cvs_rules(style, depth + 1),
        };
        added.map_err(|why| usage_error(at, &why.to_string()))
    }

    fn add_lines(
        &mut self,
        text: &[u8],
        style: Style,
        name: &str,
        depth: usize,
    ) -> Result<(), CommandError> {
        for (number, line) in (1..).zip(Lines::of(text, style)) {
            let at = format!("{name}: rule {number}");
            self.take(line.map_err(|why| usage_error(&at, &why.to_string()))?, &at, depth)?;
        }
        Ok(())
    }

    /// Adds the built-in rules of CVS, then the user's CVS rules.
    fn add_cvs_rules(&mut self, style: Style, depth: usize) -> Result<(), CommandError> {
        for line in cvs_defaults(style) {
            self.take(line.expect("they are rules"), CVS, depth)?;
        }
        if let Some(home) = std::env::home_dir() {
            let path = home.join(".cvsignore");
            match read(path.as_os_str(), self.links) {
                Ok(text) => self.add_lines(&text, style, "~/.cvsignore", depth)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unreadable("~/.cvsignore", &error)),
            }
        }
        let own = std::env::var_os("CVSIGNORE").unwrap_or_default();
        self.add_lines(own.as_bytes(), style, "CVSIGNORE", depth)
    }
}

fn unreadable(at: &str, error: &io::Error) -> CommandError {
    let fault = Fault::from_io(Side::Source, "read it", error);
    usage_error(at, &fault.message).for_named_file(&fault)
}

fn usage_error(at: &str, why: &str) -> CommandError {
    CommandError::usage(format!("{at}: {why}"))
}

fn read(path: &OsStr, links: Links) -> io::Result<Vec<u8>> {
    let too_long = format!("it is larger than {} KiB", Filter::FILE_LEN_MAX >> 10);
    read_named(path, links, Filter::FILE_LEN_MAX, &too_long)
}

/// Reads a file that the command line names; `-` is standard input. Only `links` are followed to
/// it. `too_long` is the error if it is longer than `len_max`.
pub(super) fn read_named(
    path: &OsStr,
    links: Links,
    len_max: u64,
    too_long: &str,
) -> io::Result<Vec<u8>> {
    let input: Box<dyn Read> = match path.as_bytes() {
        b"-" => Box::new(io::stdin()),
        _ => Box::new(haul_engine::open_named(path.as_ref(), links)?),
    };
    let mut content = Vec::new();
    input.take(len_max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > len_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_long));
    }
    Ok(content)
}
