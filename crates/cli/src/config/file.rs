//! Parses the configuration file.

use super::{Config, KEYS, Origin, Raw, Settings};
use crate::error::CommandError;
use haul::files::{line_at, shown};
use haul_model::escape_text;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The table with the sections of hosts.
const HOST: &str = "host";

/// The TOML parser's message for an invalid value, which suggests that a text was meant.
const UNQUOTED: &str = "string values must be quoted";

/// Parses `text`, the content of the file at `path`.
///
/// # Errors
/// Errors name the file, the line and the key, and never show a value.
pub(super) fn parse(text: &str, path: &Path) -> Result<Config, CommandError> {
    let config_text = ConfigText { text, shown: shown(path) };
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let message = match error.message().contains(UNQUOTED) {
            true => config_text.expected(&span),
            false => None,
        };
        let message = message.unwrap_or_else(|| escape_text(error.message()));
        config_text.error(span, &message)
    })?;
    let mut config = Config::default();
    for (key, value) in table.get_ref() {
        if *key.get_ref() == HOST {
            let DeValue::Table(hosts) = value.get_ref() else {
                return Err(
                    config_text.error(key.span(), "'host' must be a table: write [host.NAME]")
                );
            };
            for (name, section) in hosts {
                let settings = config_text.section(name, section)?;
                config.hosts.push((name.get_ref().to_string(), settings));
            }
        } else {
            config_text.set(&mut config.general, key, value, false)?;
        }
    }
    config_text.refuse_contradiction(&config.general)?;
    Ok(config)
}

/// The text and the name of the file, for error messages.
struct ConfigText<'t> {
    text: &'t str,
    shown: String,
}

type Key<'t> = Spanned<std::borrow::Cow<'t, str>>;

impl ConfigText<'_> {
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
                let known: Vec<_> = KEYS.iter().map(|(known, _)| *known).collect();
                let known = known.join(", ");
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
        let origin = if of_host { Origin::HostSection(line) } else { Origin::File(line) };
        let raw = match value.get_ref() {
            DeValue::String(text) => Raw::Text(text),
            DeValue::Boolean(switch) => Raw::Switch(*switch),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).map_or(Raw::Other, Raw::Number)
            }
            _ => Raw::Other,
        };
        // Variables write numbers and switches as text; the file must not.
        let raw = match (raw, name) {
            (Raw::Text(_), "timeout" | "parallel" | "retries" | "verify" | "sync") => Raw::Other,
            (raw, _) => raw,
        };
        settings
            .set(name, raw, origin)
            .map_err(|expected| self.error(key.span(), &format!("'{name}' must be {expected}")))
    }

    fn refuse_contradiction(&self, settings: &Settings) -> Result<(), CommandError> {
        match &settings.remote_haul {
            Some(given) if settings.is_contradictory() => {
                let (Origin::File(line) | Origin::HostSection(line)) = given.origin else {
                    return Ok(());
                };
                let message = "'remote-haul' and transport = \"sftp\" exclude each other";
                Err(CommandError::usage(format!("{}:{line}: {message}", self.shown)))
            }
            _ => Ok(()),
        }
    }

    /// The kind of value that the key at `span` requires, if the key is known.
    fn expected(&self, span: &Range<usize>) -> Option<String> {
        let line = self.text.lines().nth(self.line(span) - 1)?;
        let key = line.split_once('=')?.0.trim();
        KEYS.iter().find(|(known, _)| *known == key)?;
        let expected = Settings::default().set(key, Raw::Other, Origin::Environment).err()?;
        let quotes = if expected.ends_with("a text") { " in quotes" } else { "" };
        Some(format!("'{key}' must be {expected}{quotes}"))
    }

    fn line(&self, span: &Range<usize>) -> usize {
        line_at(self.text.as_bytes(), span.start)
    }

    fn error(&self, span: Range<usize>, message: &str) -> CommandError {
        CommandError::usage(format!("{}:{}: {message}", self.shown, self.line(&span)))
    }
}
