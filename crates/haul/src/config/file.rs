//! The configuration file: who may have written it, and its keys.

use super::{Config, GivenIn, KEYS, Raw, Settings};
use crate::error::{CommandError, ErrorKind};
use haul_model::{escape_bytes, escape_text, is_missing};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest file that is read, in bytes: hundreds of hosts.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The permission bits that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// The table of the sections for hosts.
const HOST: &str = "host";

/// The reader's words for a value that is none, as if a text was meant.
const UNQUOTED: &str = "string values must be quoted";

/// The text of the file; `None` if there is none.
///
/// # Errors
/// If the file can't be read, if others may have written it, or if it is no text.
pub(crate) fn read(path: &Path) -> Result<Option<String>, CommandError> {
    let shown = shown(path);
    let unreadable = |error: io::Error| {
        CommandError::new(ErrorKind::Usage, format!("{shown}: can't read it: {error}"))
    };
    // Opening a FIFO would wait.
    match fs::metadata(path) {
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
        Ok(found) if !found.is_file() => {
            return Err(CommandError::usage(format!("{shown}: not a regular file")));
        }
        Ok(_) => {}
    }
    let file = File::open(path).map_err(unreadable)?;
    refuse_others(&file.metadata().map_err(unreadable)?, haul_engine::effective_user(), &shown)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("{shown}: longer than {FILE_BYTES_MAX} bytes");
        return Err(CommandError::usage(message));
    }
    text(bytes, &shown).map(Some)
}

/// The text in `bytes`, which are the file that is `shown` so.
pub(super) fn text(bytes: Vec<u8>, shown: &str) -> Result<String, CommandError> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = line_at(valid, valid.len());
        CommandError::usage(format!("{shown}:{line}: not UTF-8"))
            .with_hint("save the file as UTF-8")
    })
}

/// The number of the line in which the byte `at` is.
fn line_at(bytes: &[u8], at: usize) -> usize {
    bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// Refuses a file that another user may have written: whoever writes it chooses a
/// program that runs with the rights of `user`.
fn refuse_others(file: &Metadata, user: u32, shown: &str) -> Result<(), CommandError> {
    let why = "haul refuses it because it can name a program (rsh) to run as you";
    if file.uid() != user && file.uid() != 0 {
        return Err(CommandError::usage(format!("{shown}: it belongs to another user"))
            .with_hint(format!("{why}; create a file of your own")));
    }
    if file.mode() & OTHERS_WRITE != 0 {
        return Err(CommandError::usage(format!("{shown}: other users can write to it"))
            .with_hint(format!("{why}; run 'chmod go-w' on it")));
    }
    Ok(())
}

/// Reads `text`, which is the file at `path`.
///
/// # Errors
/// Name the file, the line and the key, and never show a value.
pub(super) fn parse(text: &str, path: &Path) -> Result<Config, CommandError> {
    let page = Page { text, shown: shown(path) };
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let message = match error.message().contains(UNQUOTED) {
            true => page.wanted(&span),
            false => None,
        };
        let message = message.unwrap_or_else(|| escape_text(error.message()));
        page.error(span, &message)
    })?;
    let mut config = Config::default();
    for (key, value) in table.get_ref() {
        if *key.get_ref() == HOST {
            let DeValue::Table(hosts) = value.get_ref() else {
                return Err(page.error(key.span(), "'host' must be a table: write [host.NAME]"));
            };
            for (name, section) in hosts {
                let settings = page.section(name, section)?;
                config.hosts.push((name.get_ref().to_string(), settings));
            }
        } else {
            page.set(&mut config.general, key, value, false)?;
        }
    }
    page.refuse_contradiction(&config.general)?;
    Ok(config)
}

fn shown(path: &Path) -> String {
    escape_bytes(path.as_os_str().as_bytes())
}

/// The text and the name of the file, for messages.
struct Page<'t> {
    text: &'t str,
    shown: String,
}

type Key<'t> = Spanned<std::borrow::Cow<'t, str>>;

impl Page<'_> {
    /// The settings of one host.
    fn section(
        &self,
        name: &Key<'_>,
        section: &Spanned<DeValue<'_>>,
    ) -> Result<Settings, CommandError> {
        let DeValue::Table(keys) = section.get_ref() else {
            let name = escape_text(name.get_ref());
            let message = format!("'{name}' must be a table: write [host.{name}]");
            return Err(self.error(section.span(), &message));
        };
        let mut settings = Settings::default();
        for (key, value) in keys {
            self.set(&mut settings, key, value, true)?;
        }
        self.refuse_contradiction(&settings)?;
        Ok(settings)
    }

    fn set(
        &self,
        settings: &mut Settings,
        key: &Key<'_>,
        value: &Spanned<DeValue<'_>>,
        of_host: bool,
    ) -> Result<(), CommandError> {
        let name = key.get_ref().as_ref();
        let line = self.line(&key.span());
        match KEYS.iter().find(|(known, _)| *known == name) {
            None => {
                let known = KEYS.map(|(known, _)| known).join(", ");
                return Err(self
                    .error(key.span(), &format!("unknown key '{}'", escape_text(name)))
                    .with_hint(format!("known keys are {known}, and sections [host.NAME]")));
            }
            Some((_, false)) if of_host => {
                let message =
                    format!("'{name}' applies to all hosts: write it above the first section");
                return Err(self.error(key.span(), &message));
            }
            Some(_) => {}
        }
        let origin = if of_host { GivenIn::HostSection(line) } else { GivenIn::File(line) };
        let raw = match value.get_ref() {
            DeValue::String(text) => Raw::Text(text),
            DeValue::Boolean(switch) => Raw::Switch(*switch),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).map_or(Raw::Odd, Raw::Number)
            }
            _ => Raw::Odd,
        };
        // A variable has nothing but text; a file has numbers.
        let raw = match (raw, name) {
            (Raw::Text(_), "timeout" | "parallel" | "retries" | "verify" | "sync") => Raw::Odd,
            (raw, _) => raw,
        };
        settings
            .set(name, raw, origin)
            .map_err(|wanted| self.error(key.span(), &format!("'{name}' must be {wanted}")))
    }

    fn refuse_contradiction(&self, settings: &Settings) -> Result<(), CommandError> {
        match &settings.remote_haul {
            Some(given) if settings.contradict() => {
                let (GivenIn::File(line) | GivenIn::HostSection(line)) = given.origin else {
                    return Ok(());
                };
                let message = "'remote-haul' and transport = \"sftp\" exclude each other";
                Err(CommandError::usage(format!("{}:{line}: {message}", self.shown)))
            }
            _ => Ok(()),
        }
    }

    /// Where a value can't be read, and the key is known, what its value must be.
    fn wanted(&self, span: &Range<usize>) -> Option<String> {
        let line = self.text.lines().nth(self.line(span) - 1)?;
        let key = line.split_once('=')?.0.trim();
        KEYS.iter().find(|(known, _)| *known == key)?;
        let wanted = Settings::default().set(key, Raw::Odd, GivenIn::Environment).err()?;
        let quotes = if wanted.ends_with("a text") { " in quotes" } else { "" };
        Some(format!("'{key}' must be {wanted}{quotes}"))
    }

    /// The number of the line where `span` begins.
    fn line(&self, span: &Range<usize>) -> usize {
        line_at(self.text.as_bytes(), span.start)
    }

    fn error(&self, span: Range<usize>, message: &str) -> CommandError {
        CommandError::usage(format!("{}:{}: {message}", self.shown, self.line(&span)))
    }
}
