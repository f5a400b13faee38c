//! The paths of a server's files: its configuration, and its directory
//! `~/.local/state/haul/server`.

use crate::error::CommandError;
use haul::files::shown;
use haul::state;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerPaths {
    dir: PathBuf,
    config: PathBuf,
}

impl ServerPaths {
    /// Finds the paths from the environment.
    ///
    /// # Errors
    /// If the environment has no absolute path for them.
    pub(crate) fn find() -> Result<Self, CommandError> {
        match (state::dir(), state::config_dir()) {
            (Some(dir), Some(config)) => {
                Ok(Self { dir: dir.join("server"), config: config.join("server.toml") })
            }
            _ => Err(CommandError::usage("there is no place for the files of a server")
                .with_hint("set HOME to an absolute path")),
        }
    }

    /// Creates the directory, which only its user may enter.
    ///
    /// # Errors
    /// Errors of the file system, and if other users may enter it.
    pub(crate) fn make(&self) -> Result<(), CommandError> {
        let failed = |error: io::Error| failed(&self.dir, &error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(failed)?;
        let found = fs::metadata(&self.dir).map_err(failed)?;
        if found.mode() & OTHERS != 0 || found.uid() != haul_engine::effective_user() {
            let message = format!("{}: other users may enter it", shown(&self.dir));
            return Err(CommandError::usage(message).with_hint("run 'chmod 700' on it"));
        }
        Ok(())
    }

    /// The file with the settings.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }
}

/// Defines a method for the path of each file in the server's directory.
macro_rules! files {
    ($($(#[$doc:meta])* $name:ident => $file:literal,)*) => {
        impl ServerPaths {
            $($(#[$doc])*
            pub(crate) fn $name(&self) -> PathBuf {
                self.dir.join($file)
            })*
        }
    };
}

files! {
    /// The file with clients and invitations.
    clients => "clients.toml",
    keys => "keys",
    caches => "caches",
    /// The directory with the lock files of clients.
    slots => "slots",
    /// The socket for requests to the running server.
    control => "control.sock",
    /// The default audit log.
    audit_log => "audit.jsonl",
    /// The messages of a server in the background.
    log_path => "server.log",
    /// The lock file that the running server holds.
    server_lock => "server.lock",
    /// The lock file for changes of the records.
    clients_lock => "clients.lock",
}

/// The error of the file at `path`.
pub(crate) fn failed(path: &Path, error: &io::Error) -> CommandError {
    CommandError::io(format!("{}: {error}", shown(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ServerPaths {
        /// Puts all files in `dir`.
        pub(in super::super) fn below(dir: &Path) -> Self {
            Self { dir: dir.to_owned(), config: dir.join("server.toml") }
        }
    }
}
