//! `haul config`: shows the settings that apply, and the origin of each.

use crate::args::ShowConfig;
use crate::config::{GivenIn, SettingValue, variable};
use crate::error::ExitCode;
use crate::json::{Line, OriginWord, Path, SettingLine};
use crate::progress::Screen;
use crate::report::Statement;
use haul_model::{escape_bytes, escape_controls};
use std::os::unix::ffi::OsStrExt;

/// Width of the longest key, and of most values, in columns.
const KEY_WIDTH: usize = 12;
const VALUE_WIDTH: usize = 20;

/// Prints one line for each key.
pub(super) fn run(asked: &ShowConfig) -> ExitCode {
    let report = asked.detail.report(&Screen::default());
    report.tell(&heading(asked));
    for (key, value, origin) in asked.settings.rows() {
        report.tell(&Row { asked, key, value, origin });
    }
    report.finish(ExitCode::Success)
}

/// The first line: the configuration file, and the host if one is given.
fn heading(asked: &ShowConfig) -> String {
    let file = match &asked.path {
        Some(path) => {
            let missing = if asked.exists { "" } else { " (there is none)" };
            format!("{}{missing}", escape_bytes(path.as_os_str().as_bytes()))
        }
        None => "none: neither XDG_CONFIG_HOME nor HOME is an absolute path".to_owned(),
    };
    let host = asked.host.as_ref().map(|host| format!(", for {host}")).unwrap_or_default();
    format!("file: {file}{host}\n")
}

/// A setting: its key, value and origin.
struct Row<'a> {
    asked: &'a ShowConfig,
    key: &'static str,
    value: Option<SettingValue>,
    origin: Option<GivenIn>,
}

impl Statement for Row<'_> {
    fn text(&self) -> Vec<u8> {
        let key = self.key;
        let value = match &self.value {
            None => "-".to_owned(),
            Some(SettingValue::Text(text)) => format!("\"{}\"", escape_controls(text)),
            Some(SettingValue::Number(number)) => number.to_string(),
            Some(SettingValue::Switch(switch)) => switch.to_string(),
        };
        let origin = match self.origin {
            None => "default".to_owned(),
            Some(GivenIn::File(line)) => format!("file, line {line}"),
            Some(GivenIn::HostSection(line)) => format!("file, line {line}, for this host"),
            Some(GivenIn::Environment) => format!("environment, {}", variable(key)),
            Some(GivenIn::CommandLine) => "command line".to_owned(),
        };
        format!("{key:KEY_WIDTH$} {value:VALUE_WIDTH$} {origin}\n").into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        let (word, line) = match self.origin {
            None => (OriginWord::Default, None),
            Some(GivenIn::File(line) | GivenIn::HostSection(line)) => {
                (OriginWord::File, Some(line))
            }
            Some(GivenIn::Environment) => (OriginWord::Environment, None),
            Some(GivenIn::CommandLine) => (OriginWord::CommandLine, None),
        };
        let path = self.asked.path.as_ref().filter(|_| line.is_some());
        let setting = SettingLine {
            host: self.asked.host.as_deref(),
            key: self.key,
            value: self.value.as_ref(),
            origin: word,
            path: path.map(|path| Path::of(path.as_os_str().as_bytes())),
            line,
        };
        Line::Setting(setting).to_bytes()
    }
}
