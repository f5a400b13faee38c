//! `server.toml`: the settings of a server.

use super::ServerPaths;
use super::listening::{PORT, parse};
use crate::error::CommandError;
use haul::files;
use haul_engine::{LANES_OPEN_FILES_MIN, ResourceLimits};
use haul_net::{Congestion, GateLimits, QUIC_SOCKETS_MAX};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::net::SocketAddr;
use std::path::PathBuf;

/// All settings, each with a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Addresses of this machine, with or without a port.
    pub(crate) listen: Vec<String>,
    /// The default port of the addresses.
    pub(crate) port: u16,
    /// Also listen at the same UDP ports, for QUIC.
    pub(crate) quic: bool,
    /// The congestion control for sending by QUIC.
    pub(crate) congestion: Congestion,
    /// Maximum number of simultaneous jobs of one client.
    pub(crate) jobs_per_client: usize,
    /// Maximum number of open files of one job.
    pub(crate) open_files_per_job: u64,
    /// Maximum address space of one job, in MiB.
    pub(crate) memory_per_job_mib: u64,
    /// Maximum number of simultaneous unauthenticated connections.
    pub(crate) handshakes: usize,
    /// Maximum number of these from one address.
    pub(crate) handshakes_per_source: usize,
    /// The audit log; [`Self::load`] replaces an empty path.
    #[serde(deserialize_with = "absolute")]
    pub(crate) audit_log: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        let GateLimits { handshakes_max, per_source_max, .. } = GateLimits::default();
        Self {
            listen: vec!["127.0.0.1".to_owned(), "::1".to_owned()],
            port: PORT,
            quic: true,
            congestion: Congestion::default(),
            jobs_per_client: 16,
            open_files_per_job: 1024,
            memory_per_job_mib: 4096,
            handshakes: handshakes_max,
            handshakes_per_source: per_source_max,
            audit_log: PathBuf::new(),
        }
    }
}

/// Requires an absolute path, so that servers and agents use the same file.
fn absolute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    match path.is_absolute() {
        true => Ok(path),
        false => Err(de::Error::custom("it is not an absolute path")),
    }
}

/// Maximum of each of the numbers in [`Settings::load`].
const NUMBER_MAX: usize = 4096;

/// Minimum address space of one job, in MiB. With 8 connections, 768 are too few.
const MEMORY_MIB_MIN: u64 = 1024;

impl Settings {
    /// Loads the file. A non-empty `listen` replaces its addresses.
    ///
    /// # Errors
    /// A usage error that names the file, and the line or the key.
    pub(crate) fn load(paths: &ServerPaths, listen: &[String]) -> Result<Self, CommandError> {
        let mut settings: Self = files::load(paths.config())?;
        if !listen.is_empty() {
            settings.listen = listen.to_vec();
        }
        if settings.audit_log.as_os_str().is_empty() {
            settings.audit_log = paths.audit_log();
        }
        settings.addresses()?;
        let is_number = |number: usize| (1..=NUMBER_MAX).contains(&number);
        let of_number = |key| format!("'{key}' must be a number from 1 to {NUMBER_MAX}");
        let has_enough = settings.open_files_per_job >= LANES_OPEN_FILES_MIN
            && settings.memory_per_job_mib >= MEMORY_MIB_MIN;
        let of_few = format!(
            "'open-files-per-job' must be {LANES_OPEN_FILES_MIN} or more, and 'memory-per-job-mib' {MEMORY_MIB_MIN} or more"
        );
        let of_many =
            format!("'listen' can have {QUIC_SOCKETS_MAX} addresses, and more with 'quic = false'");
        let checks = [
            (is_number(settings.jobs_per_client), of_number("jobs-per-client")),
            (is_number(settings.handshakes), of_number("handshakes")),
            (is_number(settings.handshakes_per_source), of_number("handshakes-per-source")),
            (has_enough, of_few),
            (!settings.quic || settings.listen.len() <= QUIC_SOCKETS_MAX, of_many),
        ];
        match checks.into_iter().find(|(is_right, _)| !is_right) {
            Some((_, problem)) => {
                let file = files::shown(paths.config());
                Err(CommandError::usage(format!("{file}: {problem}")))
            }
            None => Ok(settings),
        }
    }

    /// The addresses to listen on.
    ///
    /// # Errors
    /// A usage error about an invalid address.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, CommandError> {
        self.listen.iter().map(|text| parse(text, self.port)).collect()
    }

    /// Takes the addresses, the port and the QUIC settings from `other`.
    pub(crate) fn with_addresses_of(self, other: &Self) -> Self {
        let Self { port, quic, congestion, .. } = *other;
        Self { listen: other.listen.clone(), port, quic, congestion, ..self }
    }

    /// The limits for unauthenticated connections.
    pub(crate) fn gate_limits(&self) -> GateLimits {
        GateLimits {
            handshakes_max: self.handshakes,
            per_source_max: self.handshakes_per_source,
            ..GateLimits::default()
        }
    }

    /// The limits of one job's process.
    pub(crate) fn bounds(&self) -> ResourceLimits {
        let memory_max = self.memory_per_job_mib.saturating_mul(1 << 20);
        ResourceLimits { open_files_max: self.open_files_per_job, memory_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_sets_what_it_names_and_nothing_unknown() {
        let of = |text: &str| toml::from_str::<Settings>(text);
        assert_eq!(of("").expect("settings"), Settings::default());
        let settings = of("listen = [\"0.0.0.0\", \"[::]:443\"]\njobs-per-client = 2\n");
        let settings = settings.expect("settings");
        assert_eq!((settings.jobs_per_client, settings.port), (2, PORT));
        let addresses = settings.addresses().expect("addresses");
        let texts = [format!("0.0.0.0:{PORT}"), "[::]:443".to_owned()];
        assert_eq!(addresses, texts.map(|text| text.parse().expect("an address")));
        let settings = of("quic = false\ncongestion = \"cubic\"\n").expect("settings");
        assert_eq!((settings.quic, settings.congestion), (false, Congestion::Cubic));
        for text in [
            "jobs = 2",
            "congestion = \"reno\"",
            "port = 70000",
            "listen = \"all\"",
            "port = \"x\"",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
        assert!(of("listen = [\"nas\"]").expect("a text").addresses().is_err());
    }

    #[test]
    fn the_audit_log_has_an_absolute_path() {
        let files = tempfile::TempDir::new().expect("a directory");
        let paths = ServerPaths::below(&files.path().join("server"));
        fs::create_dir_all(paths.config().parent().expect("a directory")).expect("made");
        let load = |path: &str| {
            let text = format!("port = 7\naudit-log = \"{path}\"\n");
            fs::write(paths.config(), text).expect("written");
            Settings::load(&paths, &[])
        };
        assert_eq!(load("/var/log/a").expect("settings").audit_log, PathBuf::from("/var/log/a"));
        for relative in ["audit", "./audit", "~/audit", ""] {
            let error = load(relative).expect_err("a relative path").to_string();
            assert!(error.contains("server.toml:2: "), "{error}");
        }
    }

    #[test]
    fn quic_has_a_limit_of_addresses() {
        let files = tempfile::TempDir::new().expect("a directory");
        let paths = ServerPaths::below(&files.path().join("server"));
        let load = |count: u8| {
            let listen: Vec<_> = (1..=count).map(|last| format!("127.0.0.{last}")).collect();
            Settings::load(&paths, &listen)
        };
        load(16).expect("settings");
        let error = load(17).expect_err("too many").to_string();
        assert!(error.contains("'listen' can have 16 addresses"), "{error}");
        fs::create_dir_all(paths.config().parent().expect("a directory")).expect("made");
        fs::write(paths.config(), "quic = false\n").expect("written");
        load(17).expect("settings");
    }

    #[test]
    fn the_limits_leave_a_job_enough() {
        let files = tempfile::TempDir::new().expect("a directory");
        let paths = ServerPaths::below(&files.path().join("server"));
        fs::create_dir_all(paths.config().parent().expect("a directory")).expect("made");
        for (open_files, memory, is_enough) in
            [(512, 1024, true), (511, 1024, false), (512, 1023, false)]
        {
            let text = format!("open-files-per-job = {open_files}\nmemory-per-job-mib = {memory}");
            fs::write(paths.config(), text).expect("written");
            let loaded = Settings::load(&paths, &[]);
            assert_eq!(loaded.is_ok(), is_enough, "{open_files} {memory}");
        }
    }

    #[test]
    fn without_settings_only_this_machine_is_listened_to() {
        let addresses = Settings::default().addresses().expect("addresses");
        assert!(addresses.iter().all(|address| address.ip().is_loopback()));
    }
}
