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
const NESTED_MAX: usize = 16;

/// The filter options, in the order given. `ALL`: all of rsync's, else only those with patterns.
#[derive(Debug, Default)]
pub(super) struct FilterWords<const ALL: bool = false> {
    given: Vec<(usize, Form, OsString)>,
}

/// A filter option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    name: &'static str,
    short: Option<char>,
    takes: Takes,
    value: &'static str,
}

/// The value of a filter option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
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

const FORMS: [Form; 7] = [
    Form { name: "exclude", short: None, takes: Takes::Pattern(Action::Exclude), value: "PATTERN" },
    Form { name: "include", short: None, takes: Takes::Pattern(Action::Include), value: "PATTERN" },
    Form { name: "exclude-from", short: None, takes: Takes::File(Action::Exclude), value: "FILE" },
    Form { name: "include-from", short: None, takes: Takes::File(Action::Include), value: "FILE" },
    Form { name: "filter", short: Some('f'), takes: Takes::Rule, value: "RULE" },
    Form { name: SHORTHAND, short: Some('F'), takes: Takes::Nothing, value: "" },
    Form { name: CVS, short: Some('C'), takes: Takes::Nothing, value: "" },
];

const SHORTHANDS: [&[u8]; 2] = [b"dir-merge /.rsync-filter", b"exclude .rsync-filter"];

impl<const ALL: bool> FilterWords<ALL> {
    fn forms() -> &'static [Form] {
        if ALL { &FORMS } else { &FORMS[..4] }
    }
}

impl<const ALL: bool> clap::Args for FilterWords<ALL> {
    fn augment_args(command: clap::Command) -> clap::Command {
        Self::forms().iter().fold(command, |command, form| {
            let mut arg = Arg::new(form.name);
            // A name of one letter is not a long option, but is accepted as one.
            arg = if form.name.len() > 1 { arg.long(form.name) } else { arg.alias(form.name) };
            if let Some(short) = form.short {
                arg = arg.short(short);
            }
            let hint = match form.takes {
                Takes::Nothing => {
                    // Counting the option would keep only one position.
                    let arg = arg.action(ArgAction::Append).num_args(0);
                    return command
                        .arg(arg.default_missing_value("").value_parser(value_parser!(OsString)));
                }
                Takes::File(_) => ValueHint::FilePath,
                Takes::Pattern(_) | Takes::Rule => ValueHint::Other,
            };
            command.arg(
                arg.value_name(form.value)
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(OsString))
                    .allow_hyphen_values(true)
                    .value_hint(hint),
            )
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<const ALL: bool> FromArgMatches for FilterWords<ALL> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words = Self::default();
        words.update_from_arg_matches(matches)?;
        Ok(words)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let of_form = |form: Form| {
            let places = matches.indices_of(form.name).into_iter().flatten();
            let values = matches.get_many::<OsString>(form.name).into_iter().flatten();
            places.zip(values).map(move |(place, value)| (place, form, value.clone()))
        };
        let mut given: Vec<_> = Self::forms().iter().copied().flat_map(of_form).collect();
        given.sort_by_key(|(place, ..)| *place);
        self.given.extend(given);
        Ok(())
    }
}

impl<const ALL: bool> FilterWords<ALL> {
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
        let mut found = Found { filter: Filter::default(), style, links, zeros: false };
        let mut shorthands = 0;
        for (place, form, value) in &self.given {
            found.zeros = zeros(*place);
            let bytes = value.as_bytes();
            let at = || format!("--{} '{}'", form.name, escape_bytes(bytes));
            match form.takes {
                Takes::Pattern(action) => {
                    found.add(action, bytes).map_err(|why| wrong(&at(), &why))?;
                }
                Takes::File(action) => {
                    let shown = format!("--{} {}", form.name, escape_bytes(bytes));
                    found.read_patterns(action, value, &shown)?;
                }
                Takes::Rule => found.take_word(bytes, &at())?,
                Takes::Nothing if form.name == SHORTHAND => {
                    if let Some(rule) = SHORTHANDS.get(shorthands) {
                        found.take_word(rule, SHORTHAND)?;
                    }
                    shorthands += 1;
                }
                Takes::Nothing => {}
            }
        }
        if self.given.iter().any(|(_, form, _)| form.name == CVS) {
            found.zeros = style.zeros;
            found.take_word(b":C", CVS)?;
            found.take_word(b"-C", CVS)?;
        }
        Ok(found.filter)
    }
}

/// The rules found so far.
struct Found {
    filter: Filter,
    style: Style,
    links: Links,
    /// NUL ends each line of the file that the current option reads.
    zeros: bool,
}

impl Found {
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
                self.add(action, line).map_err(|why| wrong(&at(), &why))?;
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
    fn take_word(&mut self, word: &[u8], at: &str) -> Result<(), CommandError> {
        let lines = Lines::of_word(word, self.style);
        for line in lines.map_err(|why| wrong(at, &why.to_string()))? {
            self.take(line, at, 0)?;
        }
        Ok(())
    }

    /// Adds a line read at `at`. `nested` is the depth of files that name each other.
    fn take(&mut self, line: Line, at: &str, nested: usize) -> Result<(), CommandError> {
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
            Line::Merge(_) if nested >= NESTED_MAX => {
                return Err(wrong(
                    at,
                    "merge-file include depth limit exceeded: files name each other",
                ));
            }
            Line::Merge(merge) => {
                let path = OsStr::from_bytes(&merge.path);
                let content = read(path, self.links).map_err(|error| unreadable(at, &error))?;
                let name = escape_bytes(&merge.path);
                let style = Style { zeros: self.zeros, ..merge.style };
                return self.take_all(&content, style, &name, nested + 1);
            }
            Line::Cvs(style) => return self.take_cvs(style, nested + 1),
        };
        added.map_err(|why| wrong(at, &why.to_string()))
    }

    fn take_all(
        &mut self,
        text: &[u8],
        style: Style,
        name: &str,
        nested: usize,
    ) -> Result<(), CommandError> {
        for (number, line) in (1..).zip(Lines::of(text, style)) {
            let at = format!("{name}: rule {number}");
            self.take(line.map_err(|why| wrong(&at, &why.to_string()))?, &at, nested)?;
        }
        Ok(())
    }

    /// Adds the built-in rules of CVS, then the user's CVS rules.
    fn take_cvs(&mut self, style: Style, nested: usize) -> Result<(), CommandError> {
        for line in cvs_defaults(style) {
            self.take(line.expect("they are rules"), CVS, nested)?;
        }
        if let Some(home) = std::env::home_dir() {
            let path = home.join(".cvsignore");
            match read(path.as_os_str(), self.links) {
                Ok(text) => self.take_all(&text, style, "~/.cvsignore", nested)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unreadable("~/.cvsignore", &error)),
            }
        }
        let own = std::env::var_os("CVSIGNORE").unwrap_or_default();
        self.take_all(own.as_bytes(), style, "CVSIGNORE", nested)
    }
}

fn unreadable(at: &str, error: &io::Error) -> CommandError {
    let fault = Fault::from_io(Side::Source, "read it", error);
    wrong(at, &fault.message).of_named(&fault)
}

fn wrong(at: &str, why: &str) -> CommandError {
    CommandError::usage(format!("{at}: {why}"))
}

fn read(path: &OsStr, links: Links) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let input: Box<dyn Read> = match path.as_bytes() {
        b"-" => Box::new(io::stdin()),
        _ => Box::new(haul_engine::open_named(path.as_ref(), links)?),
    };
    input.take(Filter::FILE_LEN_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > Filter::FILE_LEN_MAX {
        let message = format!("it is larger than {} KiB", Filter::FILE_LEN_MAX >> 10);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}
