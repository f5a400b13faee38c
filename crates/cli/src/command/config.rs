//! `haul config`: shows the settings that apply, and the origin of each.

use crate::args::ShowConfig;
use crate::config::{Origin, variable};
use crate::error::ExitCode;
use crate::json;
use crate::progress::Screen;
use crate::report::{Lazy, Report, Show};
use haul::files::shown;
use haul_model::escape_controls;
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;

/// Width of the longest key, and of most values, in columns.
const KEY_WIDTH: usize = 12;
const VALUE_WIDTH: usize = 20;

/// Prints one line for each key.
pub(super) fn run(command: &ShowConfig) -> ExitCode {
    let report = Report::new(command.detail, &Screen::default());
    report.message(&heading(command));
    for (key, value, origin) in command.settings.rows() {
        let path = command.path.as_ref().map(|path| path.as_os_str().as_bytes());
        let host = command.host.as_deref();
        report.message(&Lazy {
            level: Show::Quiet,
            text: || row(key, value.as_ref(), origin),
            json: || json::setting(host, key, value.as_ref(), origin, path),
        });
    }
    report.finish(ExitCode::Success)
}

/// The first line: the configuration file, and the host if one is given.
fn heading(command: &ShowConfig) -> String {
    let file = match &command.path {
        Some(path) => {
            let missing = if command.exists { "" } else { " (there is none)" };
            format!("{}{missing}", shown(path))
        }
        None => "none: neither XDG_CONFIG_HOME nor HOME is an absolute path".to_owned(),
    };
    let host = command.host.as_ref().map(|host| format!(", for {host}")).unwrap_or_default();
    format!("file: {file}{host}\n")
}

/// The line about a setting.
fn row(key: &str, value: Option<&Value>, origin: Option<Origin>) -> String {
    let value = match value {
        None => "-".to_owned(),
        Some(Value::String(text)) => format!("\"{}\"", escape_controls(text)),
        Some(value) => value.to_string(),
    };
    let origin = match origin {
        None => "default".to_owned(),
        Some(Origin::File(line)) => format!("file, line {line}"),
        Some(Origin::HostSection(line)) => format!("file, line {line}, for this host"),
        Some(Origin::Environment) => format!("environment, {}", variable(key)),
        Some(Origin::CommandLine) => "command line".to_owned(),
    };
    format!("{key:KEY_WIDTH$} {value:VALUE_WIDTH$} {origin}\n")
}
