//! The syntax of rules, in files and on the command line ("FILTER RULES IN DEPTH" in rsync's
//! manual): a prefix, modifiers, and a pattern or the name of a file.

use super::{Action, Pattern, PatternError, Rule, RuleFiles, Sides, Start};
use crate::{Name, escape_bytes, words};
use serde::{Deserialize, Serialize};

/// The syntax of a list of rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Style {
    /// There are only patterns, for rules with this action.
    pub forced: Option<Action>,
    /// Rules end with white space. Otherwise they end with their line.
    pub splits_words: bool,
    /// A single `!` clears all rules, even if there are only patterns.
    pub clears: bool,
    /// Rules match whole paths.
    pub absolute: bool,
    /// Rules are perishable.
    pub perishable: bool,
    /// The sides of all rules, which then can't name sides.
    pub sides: Option<Sides>,
    /// The sides of rules that name none.
    pub plain: Sides,
    /// Rules end with a zero byte in place of a line end.
    pub zeros: bool,
}

/// One rule, or an item in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A rule.
    Rule(Rule),
    /// Rule files in the directories of the job.
    Files(RuleFiles),
    /// The rules of a file are inserted here.
    Merge(Merge),
    /// All earlier rules are cleared.
    Clear,
    /// The rules of CVS are inserted here, in this syntax.
    Cvs(Style),
}

/// A file whose rules are inserted where it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// The path of the file.
    pub path: Vec<u8>,
    /// The syntax of the file.
    pub style: Style,
}

/// The reason why a text is not a rule. At most one letter of the text is repeated: it may come
/// from a file that nobody should see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It has no known prefix.
    #[error("not a rule: it must begin with '+ ', '- ', 'merge ' or similar")]
    Unknown,
    /// A modifier is not valid for this kind of rule.
    #[error("a rule of this kind has no modifier '{}'", escape_bytes(&[*.0]))]
    Modifier(u8),
    /// A pattern, or the name of a file, is missing.
    #[error("a rule ends too early")]
    Short,
    /// There is text after a rule that takes none.
    #[error("a rule of this kind takes no pattern")]
    Long,
    /// A rule names a side, but its file is for one side already.
    #[error("the rules of this file can't name a side")]
    Sided,
    /// The name of rule files is invalid.
    #[error("a rule file must be a name, or a name after '..' or an absolute path")]
    Name,
    /// The pattern is invalid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

/// The name of CVS's rule files.
const CVS_FILE: &[u8] = b".cvsignore";

/// Patterns of the files that CVS ignores.
const CVS_IGNORED: &[u8] = b"RCS SCCS CVS CVS.adm RCSLOG cvslog.* tags TAGS .make.state \
    .nse_depinfo *~ #* .#* ,* _$* *$ *.old *.bak *.BAK *.orig *.rej .del-* *.a *.olb *.o *.obj \
    *.so *.exe *.Z *.elc *.ln core .svn/ .git/ .hg/ .bzr/";

/// The rules in a text, one after the other.
#[derive(Debug, Clone)]
pub struct Lines<'t> {
    text: &'t [u8],
    style: Style,
    /// An additional rule from the last line.
    and: Option<Line>,
}

/// The kinds of rules, by long name and letter.
const KINDS: &[(&[u8], u8)] = &[
    (b"exclude", b'-'),
    (b"include", b'+'),
    (b"merge", b'.'),
    (b"dir-merge", b':'),
    (b"hide", b'H'),
    (b"show", b'S'),
    (b"protect", b'P'),
    (b"risk", b'R'),
    (b"clear", b'!'),
];

/// The parsed prefix of a rule.
#[derive(Default)]
struct Prefix {
    kind: u8,
    style: Style,
    negated: bool,
    of_xattrs: bool,
    cvs: bool,
    excludes_itself: bool,
    is_for_one: bool,
}

/// The built-in rules of CVS, in this `style`.
pub fn cvs_defaults(style: Style) -> Lines<'static> {
    Lines::of(CVS_IGNORED, Style { perishable: true, ..style })
}

impl Style {
    /// The syntax of CVS.
    pub fn of_cvs(self) -> Self {
        Self { forced: Some(Action::Exclude), splits_words: true, clears: true, ..self }
    }

    /// The rule with this `pattern`.
    fn rule(self, action: Action, pattern: &[u8]) -> Result<Rule, RuleError> {
        let Self { absolute, perishable, .. } = self;
        let sides = self.sides.unwrap_or(self.plain);
        let pattern = Pattern::new(pattern)?;
        Ok(Rule { sides, absolute, perishable, ..Rule::new(action, pattern) })
    }
}

impl<'t> Lines<'t> {
    /// The rules in `text`, in this syntax.
    pub fn of(text: &'t [u8], style: Style) -> Self {
        Self { text, style, and: None }
    }

    /// Parses one rule from the command line.
    ///
    /// # Errors
    /// See [`RuleError`].
    pub fn of_word(text: &[u8], style: Style) -> Result<Vec<Line>, RuleError> {
        let mut lines = Lines::of(b"", style);
        let first = lines.line(text)?;
        Ok([Some(first), lines.and].into_iter().flatten().collect())
    }

    /// Takes the next word from the text.
    fn word(&mut self) -> &'t [u8] {
        let start = self.text.iter().position(|byte| !byte.is_ascii_whitespace());
        let text = &self.text[start.unwrap_or(self.text.len())..];
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.text = rest;
        word
    }

    /// Takes the next non-empty line from the text.
    fn next_line(&mut self) -> Option<&'t [u8]> {
        if self.style.splits_words {
            let word = self.word();
            return (!word.is_empty()).then_some(word);
        }
        let is_end = |byte: &u8| match self.style.zeros {
            true => *byte == 0,
            // A carriage return ends a line, too, and is in no pattern.
            false => matches!(byte, b'\n' | b'\r'),
        };
        while !self.text.is_empty() {
            let end = self.text.iter().position(is_end).unwrap_or(self.text.len());
            let (line, rest) = self.text.split_at(end);
            self.text = rest.get(1..).unwrap_or_default();
            if !line.is_empty() && !matches!(line[0], b';' | b'#') {
                return Some(line);
            }
        }
        None
    }

    fn line(&mut self, line: &'t [u8]) -> Result<Line, RuleError> {
        let style = self.style;
        if style.clears && line == b"!" {
            return Ok(Line::Clear);
        }
        if let Some(action) = style.forced {
            return style.rule(action, line).map(Line::Rule);
        }
        let (prefix, mut rest) = style.prefix(line)?;
        let takes_none = prefix.kind == b'!' || prefix.cvs && !matches!(prefix.kind, b'.' | b':');
        if takes_none && !rest.is_empty() {
            return Err(RuleError::Long);
        }
        let may_be_none = takes_none || prefix.cvs;
        if rest.is_empty() && style.splits_words && !may_be_none {
            rest = self.word();
        }
        if rest.is_empty() && !may_be_none {
            return Err(RuleError::Short);
        }
        self.of_prefix(&prefix, rest)
    }

    fn of_prefix(&mut self, prefix: &Prefix, rest: &[u8]) -> Result<Line, RuleError> {
        let Prefix { kind, style, negated, of_xattrs, cvs, .. } = *prefix;
        let action = match kind {
            b'!' => return Ok(Line::Clear),
            b'.' | b':' => return self.files(prefix, rest),
            _ if cvs => return Ok(Line::Cvs(style.of_cvs())),
            b'-' | b'H' | b'P' => Action::Exclude,
            _ => Action::Include,
        };
        let sides = match kind {
            b'H' | b'S' => Some(Sides::Sender),
            b'P' | b'R' => Some(Sides::Receiver),
            _ => style.sides,
        };
        let rule = Style { sides, ..style }.rule(action, rest)?;
        Ok(Line::Rule(Rule { negated, of_xattrs, ..rule }))
    }

    /// A file with rules, or a kind of rule files.
    fn files(&mut self, prefix: &Prefix, rest: &[u8]) -> Result<Line, RuleError> {
        let path = if rest.is_empty() { CVS_FILE } else { rest };
        let style = if prefix.cvs { prefix.style.of_cvs() } else { prefix.style };
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        if prefix.excludes_itself {
            let rule = self.style.rule(Action::Exclude, name)?;
            self.and = Some(Line::Rule(rule));
        }
        if prefix.kind == b'.' {
            return Ok(Line::Merge(Merge { path: path.to_vec(), style }));
        }
        let dir = &path[..path.len() - name.len()];
        let levels = words::components(dir);
        let start = match dir {
            b"" => Start::First,
            [b'/', ..] if levels.clone().all(|name| name != b"..") => Start::At(dir.into()),
            _ if levels.clone().all(|name| name == b"..") => {
                Start::Above(u16::try_from(levels.count()).unwrap_or(u16::MAX))
            }
            _ => return Err(RuleError::Name),
        };
        let name = Name::new(name).map_err(|_| RuleError::Name)?;
        let is_for_one = prefix.is_for_one || prefix.cvs;
        Ok(Line::Files(RuleFiles { name, start, is_for_one, style }))
    }
}

impl<'t> Iterator for Lines<'t> {
    type Item = Result<Line, RuleError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(line) = self.and.take() {
            return Some(Ok(line));
        }
        let line = self.next_line()?;
        Some(self.line(line))
    }
}

impl Style {
    /// Parses the prefix of a rule. Returns it, and the rest of the line.
    fn prefix(self, line: &[u8]) -> Result<(Prefix, &[u8]), RuleError> {
        let is_end = |byte: Option<&u8>| matches!(byte, None | Some(b',' | b' ' | b'_'));
        let long = KINDS.iter().find_map(|(name, kind)| {
            let rest = line.strip_prefix(*name)?;
            is_end(rest.first()).then_some((*kind, rest))
        });
        let short = line.split_first().map(|(kind, rest)| (*kind, rest));
        let is_known = |(kind, _): &(u8, &[u8])| KINDS.iter().any(|(_, known)| known == kind);
        let (kind, mut rest) = long.or(short.filter(is_known)).ok_or(RuleError::Unknown)?;
        let is_files = matches!(kind, b'.' | b':');
        let style = match is_files {
            // A file does not inherit this part of the syntax from the file that names it.
            true => Self { splits_words: false, clears: false, ..self },
            false => self,
        };
        let mut prefix = Prefix { kind, style, ..Prefix::default() };
        if self.sides.is_some() && matches!(kind, b'H' | b'S' | b'P' | b'R') {
            return Err(RuleError::Sided);
        }
        if rest.first() == Some(&b',') {
            rest = &rest[1..];
        }
        while let Some((&modifier, behind)) = rest.split_first() {
            rest = behind;
            if matches!(modifier, b' ' | b'_') {
                break;
            }
            self.modify(&mut prefix, modifier)?;
        }
        Ok((prefix, rest))
    }

    fn modify(self, prefix: &mut Prefix, modifier: u8) -> Result<(), RuleError> {
        let kind = prefix.kind;
        let is_files = matches!(kind, b'.' | b':');
        let is_plain = matches!(kind, b'-' | b'+');
        let style = &mut prefix.style;
        match modifier {
            _ if kind == b'!' => return Err(RuleError::Modifier(modifier)),
            b'-' | b'+' if is_files && style.forced.is_none() => {
                let action = if modifier == b'-' { Action::Exclude } else { Action::Include };
                style.forced = Some(action);
            }
            b'e' if is_files => prefix.excludes_itself = true,
            b'n' if is_files => prefix.is_for_one = true,
            b'w' if is_files => style.splits_words = true,
            b'C' if is_files || kind == b'-' => prefix.cvs = true,
            b'!' if !is_files => prefix.negated = true,
            b'x' if !is_files => prefix.of_xattrs = true,
            b'/' => style.absolute = true,
            b'p' => style.perishable = true,
            b's' | b'r' if is_files || is_plain => {
                if self.sides.is_some() {
                    return Err(RuleError::Sided);
                }
                let side = if modifier == b's' { Sides::Sender } else { Sides::Receiver };
                let is_other = style.sides.is_some_and(|before| before != side);
                style.sides = Some(if is_other { Sides::Both } else { side });
            }
            _ => return Err(RuleError::Modifier(modifier)),
        }
        Ok(())
    }
}
