//! Parses the formats of `--out-format` and `--log-file-format`, as rsync does.

use crate::error::CommandError;
use haul_model::escape_bytes;

/// Maximum width of a part, in columns. rsync truncates longer lines.
const WIDTH_MAX: usize = 1024;

/// Maximum digits of a width. As in rsync, an escape with more digits is plain text.
const WIDTH_DIGITS_MAX: usize = 23;

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) field: Field,
    /// Minimum width, in columns.
    width: usize,
    /// The value is left-aligned.
    is_left: bool,
}

/// The content of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    /// Plain text. `%a`, `%h`, `%P` and `%u` are text too, as in rsync without a daemon.
    Text(Vec<u8>),
    /// `%i`.
    Changes,
    /// `%n`; or `%f`, without a slash after directories.
    Name { slash: bool },
    /// `%L`.
    Target,
    /// `%l`.
    Len,
    /// `%o`.
    Operation,
    /// `%p`.
    Process,
    /// `%t`.
    Now,
    /// `%b` and `%c`: haul does not count these bytes per file.
    Bytes,
    /// `%C`: BLAKE3, instead of rsync's checksums.
    Checksum,
    /// `%B`.
    Mode,
    /// `%M`.
    Time,
    /// `%U`.
    User,
    /// `%G`.
    Group,
    /// `%m`: the module of a daemon.
    Module,
}

impl Part {
    /// Pads the value to the width.
    pub(super) fn padded(&self, value: String) -> String {
        match (self.width, self.is_left) {
            (0, _) => value,
            (width, true) => format!("{value:<width$}"),
            (width, false) => format!("{value:>width$}"),
        }
    }
}

/// Parses `format`, the value of the option `word`.
///
/// # Errors
/// If it contains an unknown escape.
pub(super) fn parts(word: &str, format: &[u8]) -> Result<Vec<Part>, CommandError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut text = Vec::new();
    let plain = |field| Part { field, width: 0, is_left: false };
    let mut rest = format;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        if *byte != b'%' {
            text.push(*byte);
            continue;
        }
        let is_left = rest.first() == Some(&b'-');
        let digits = &rest[usize::from(is_left)..];
        let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let width = digits[..len]
            .iter()
            .fold(0, |width: usize, digit| WIDTH_MAX.min(width * 10 + usize::from(digit - b'0')));
        if len > WIDTH_DIGITS_MAX {
            text.push(b'%');
            continue;
        }
        let end = (usize::from(is_left) + len + 1).min(rest.len());
        let field = match digits.get(len) {
            Some(b'%') if end == 1 => Field::Text(b"%".to_vec()),
            Some(letter @ (b'a' | b'h' | b'P' | b'u')) if end == 1 => {
                Field::Text(vec![b'%', *letter])
            }
            Some(b'i') => Field::Changes,
            Some(b'n') => Field::Name { slash: true },
            Some(b'f') => Field::Name { slash: false },
            Some(b'L') => Field::Target,
            Some(b'l') => Field::Len,
            Some(b'o') => Field::Operation,
            Some(b'p') => Field::Process,
            Some(b't') => Field::Now,
            Some(b'b' | b'c') => Field::Bytes,
            Some(b'C') => Field::Checksum,
            Some(b'm') => Field::Module,
            Some(b'B') => Field::Mode,
            Some(b'M') => Field::Time,
            Some(b'U') => Field::User,
            Some(b'G') => Field::Group,
            _ => {
                let escape = escape_bytes(&rest[..end]);
                return Err(CommandError::usage(format!(
                    "{word}: unknown %{escape}; haul knows %a, %b, %B, %c, %C, %f, %G, %h, %i, %l, %L, %m, %M, %n, %o, %p, %P, %t, %u, %U and %%"
                )));
            }
        };
        rest = &rest[end..];
        if let Field::Text(more) = field {
            text.extend(more);
            continue;
        }
        if !text.is_empty() {
            parts.push(plain(Field::Text(std::mem::take(&mut text))));
        }
        parts.push(Part { field, width, is_left });
    }
    if !text.is_empty() {
        parts.push(plain(Field::Text(text)));
    }
    Ok(parts)
}
