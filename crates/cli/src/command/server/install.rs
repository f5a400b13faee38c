//! `haul server install`: writes the unit files of a service.

use super::print;
use crate::error::CommandError;
use crate::server::{ServerPaths, Settings, unit_files};
use haul_engine::is_root;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A directory that exists if systemd runs the system.
const SYSTEMD: &str = "/run/systemd/system";

/// The directory of system units.
const SYSTEM_UNITS: &str = "/etc/systemd/system";

/// The variables that determine the paths of the server's files.
const VARIABLES: [&str; 3] = ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];

pub(super) fn run(user: bool) -> Result<(), CommandError> {
    let program = std::env::current_exe().map_err(CommandError::io)?;
    let set = |name: &'static str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute()).map(|path| (name, path))
    };
    let variables: Vec<_> = VARIABLES.into_iter().filter_map(set).collect();
    if variables.first().is_none_or(|(name, _)| *name != "HOME") {
        return Err(CommandError::usage("HOME is not an absolute path"));
    }
    if !Path::new(SYSTEMD).exists() {
        let words = variables.iter().map(|(name, path)| format!("{name}={} ", quoted(path)));
        return print(format!(
            "this machine does not run systemd: have it run, as this user, when it starts:\n\
             env {}{} server run\n",
            words.collect::<String>(),
            quoted(&program)
        ));
    }
    if !user && !is_root() {
        return Err(CommandError::usage("a service of the system is installed by root")
            .with_hint("add --user for a service of this user"));
    }
    let settings = Settings::load(&ServerPaths::find()?, &[])?;
    let listen: Vec<String> = settings.addresses()?.iter().map(SocketAddr::to_string).collect();
    let dir = match user {
        true => haul::state::base("XDG_CONFIG_HOME", ".config")
            .ok_or_else(|| CommandError::usage("HOME is not an absolute path"))?
            .join("systemd/user"),
        false => PathBuf::from(SYSTEM_UNITS),
    };
    fs::create_dir_all(&dir).map_err(CommandError::io)?;
    for unit in unit_files(&program, &variables, &listen, settings.quic, user) {
        let path = dir.join(unit.name);
        let written = fs::write(&path, unit.text);
        written.map_err(|error| CommandError::io(format!("{}: {error}", path.display())))?;
        print(format!("wrote {}\n", path.display()))?;
    }
    let systemctl = if user { "systemctl --user" } else { "systemctl" };
    let linger = if user { "; 'loginctl enable-linger' keeps it after logout" } else { "" };
    print(format!(
        "start it: {systemctl} daemon-reload && {systemctl} enable --now haul.socket haul.service{linger}\n"
    ))
}

/// Quotes `path` for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/opt/haul-1.0/haul")), "/opt/haul-1.0/haul");
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
