//! `haul config`: shows the settings that apply, and the origin of each.

use crate::args::ShowConfig;
use crate::config::{Origin, SettingValue, variable};
use crate::error::ExitCode;
use crate::json::{JsonOrigin, Line, Path, SettingLine};
use crate::progress::Screen;
use crate::report::Message;
use haul_model::{escape_bytes, escape_controls};
use std::os::unix::ffi::OsStrExt;

/// Width of the longest key, and of most values, in columns.
const KEY_WIDTH: usize = 12;
const VALUE_WIDTH: usize = 20;

/// Prints one line for each key.
pub(super) fn run(command: &ShowConfig) -> ExitCode {
    let report = command.detail.report(&Screen::default());
    report.message(&heading(command));
    for (key, value, origin) in command.settings.rows() {
        report.message(&Row { command, key, value, origin });
    }
    report.finish(ExitCode::Success)
}

/// The first line: the configuration file, and the host if one is given.
fn heading(command: &ShowConfig) -> String {
    let file = match &command.path {
        Some(path) => {
            let missing = if command.exists { "" } else { " (there is none)" };
            format!("{}{missing}", escape_bytes(path.as_os_str().as_bytes()))
        }
        None => "none: neither XDG_CONFIG_HOME nor HOME is an absolute path".to_owned(),
    };
    let host = command.host.as_ref().map(|host| format!(", for {host}")).unwrap_or_default();
    format!("file: {file}{host}\n")
}

/// A setting: its key, value and origin.
struct Row<'a> {
    command: &'a ShowConfig,
    key: &'static str,
    value: Option<SettingValue>,
    origin: Option<Origin>,
}

impl Message for Row<'_> {
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
            Some(Origin::File(line)) => format!("file, line {line}"),
            Some(Origin::HostSection(line)) => format!("file, line {line}, for this host"),
            Some(Origin::Environment) => format!("environment, {}", variable(key)),
            Some(Origin::CommandLine) => "command line".to_owned(),
        };
        format!("{key:KEY_WIDTH$} {value:VALUE_WIDTH$} {origin}\n").into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        let (word, line) = match self.origin {
            None => (JsonOrigin::Default, None),
            Some(Origin::File(line) | Origin::HostSection(line)) => (JsonOrigin::File, Some(line)),
            Some(Origin::Environment) => (JsonOrigin::Environment, None),
            Some(Origin::CommandLine) => (JsonOrigin::CommandLine, None),
        };
        let path = self.command.path.as_ref().filter(|_| line.is_some());
        let setting = SettingLine {
            host: self.command.host.as_deref(),
            key: self.key,
            value: self.value.as_ref(),
            origin: word,
            path: path.map(|path| Path::of(path.as_os_str().as_bytes())),
            line,
        };
        Line::Setting(setting).to_bytes()
    }
}
