//! Puts AES-GCM first if this machine's processor has AES and the user has not chosen ciphers. It
//! nearly doubles ssh's rate over its default, ChaCha20.
//!
//! `ssh -G` prints the settings that ssh would use with the user's options and configuration. If
//! its cipher list is a default of OpenSSH, the user has chosen none. Otherwise ssh is asked again,
//! without options or configuration, since this client may have been built with a default of its
//! own. A `-c` or `-oCiphers` among the user's options appears only in the first answer, so it
//! counts as a choice. A choice that equals a default of OpenSSH is not recognised: it is reordered
//! too.
//!
//! ssh is asked before a login that will carry file contents. Its cipher options override the
//! user's configuration, it has no option for a weaker default, and it can't change ciphers once
//! connected. A login started on a wrong guess would have to be cut, which servers take for an
//! attack. Logins for requests, comparisons and dry runs start at once.
//!
//! The list given to ssh is its own default in another order, never `^aes...`. Clients before
//! OpenSSH 8.1 don't know that form. A cipher that the client was built without would be an error.

use crate::process::{stderr_of, stdout_of};
use crate::target::RemoteShell;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The ciphers to put first, fastest first.
const PREFERRED: [&str; 2] = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];

/// The defaults of OpenSSH's clients, since 7.6 (2017) and since 10.0 (2025). If a default is
/// missing here, ssh runs once more, nothing else.
const DEFAULTS: [&str; 2] = [
    "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,\
     aes128-gcm@openssh.com,aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com,aes256-gcm@openssh.com,\
     aes128-ctr,aes192-ctr,aes256-ctr",
];

/// Settings that the user's configuration leaves open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// The list for `Ciphers`, or `None` to leave it alone.
    pub(crate) ciphers: Option<String>,
    /// The user has enabled ssh's keep-alive messages.
    pub(crate) has_keep_alive: bool,
    /// The name or address that ssh looks up, if ssh was asked.
    pub(crate) host: Option<String>,
    /// The client has options for its session.
    pub(crate) supports_session_options: bool,
}

impl Settings {
    /// The settings of a client that was not asked for the user's.
    pub(crate) fn for_client(supports_session_options: bool) -> Self {
        Self { supports_session_options, ..Self::default() }
    }
}

/// The first version of OpenSSH with options for its session.
const SESSION_OPTIONS_SINCE: (u32, u32) = (8, 7);

/// Asks a client for its version. True if it has options for its session.
pub(crate) fn supports_session_options(shell: &RemoteShell) -> bool {
    let mut ask = Command::new(&shell.program);
    ask.arg("-V").stdin(Stdio::null()).stdout(Stdio::null());
    // ssh prints its version on standard error.
    stderr_of(&mut ask).is_some_and(|words| version(&words) >= Some(SESSION_OPTIONS_SINCE))
}

/// The version in words like "OpenSSH_9.2p1 Debian-2, OpenSSL 3.0.19".
fn version(words: &[u8]) -> Option<(u32, u32)> {
    let words = std::str::from_utf8(words).ok()?;
    let (major, rest) = words.split_once("OpenSSH_")?.1.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The client's cached answer for a host, as asking takes a noticeable time. The answer follows
/// from how the host is reached, so two of them always compare as equal.
#[derive(Debug, Clone)]
pub(crate) struct Cached<T>(OnceLock<T>);

impl<T> Cached<T> {
    /// Returns the cached answer, or calls `ask`.
    pub(crate) fn get_or_init(&self, ask: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(ask)
    }
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> PartialEq for Cached<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Cached<T> {}

/// Asks ssh for the user's settings. `args` are the arguments that ssh will be started with, up to
/// the remote command.
///
/// Waits for one or two short runs of ssh: the ciphers are arguments of the connection and can't be
/// changed later. The first run executes a `Match exec` in the user's configuration.
pub(crate) fn query_settings(shell: &RemoteShell, args: &[String], host: &str) -> Settings {
    let Some(user_settings) = settings(&shell.program, args, host) else {
        return Settings::default();
    };
    let interval = user_settings.lines().find_map(|line| line.strip_prefix("serveraliveinterval "));
    Settings {
        ciphers: preferred_list(shell, &user_settings, host),
        has_keep_alive: interval.is_some_and(|interval| interval != "0"),
        host: host_name(&user_settings),
        supports_session_options: user_settings
            .lines()
            .any(|line| line.starts_with("sessiontype ")),
    }
}

/// The list for ssh's `Ciphers` option, given the settings `user_settings`.
fn preferred_list(shell: &RemoteShell, user_settings: &str, host: &str) -> Option<String> {
    let list = ciphers(user_settings).filter(|_| cpu_has_aes())?;
    let preferred = reordered(list)?;
    if !DEFAULTS.contains(&list) {
        // Every client accepts an empty file; "-F none" is newer than "-G".
        let defaults = settings(&shell.program, &["-F".into(), "/dev/null".into()], host)?;
        if list != ciphers(&defaults)? {
            return None;
        }
    }
    Some(preferred)
}

/// Asks ssh for the name or address that it looks up for `host`.
pub(crate) fn query_host_name(shell: &RemoteShell, args: &[String], host: &str) -> Option<String> {
    host_name(&settings(&shell.program, args, host)?)
}

fn host_name(settings: &str) -> Option<String> {
    settings.lines().find_map(|line| line.strip_prefix("hostname ")).map(str::to_owned)
}

/// AES-GCM needs both the cipher's rounds and carry-less multiplication.
pub(crate) fn cpu_has_aes() -> bool {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    return std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    return false;
}

/// The settings that ssh would use with `args` for `host`, as `-G` prints them. `None` on a
/// timeout, as a `Match exec` program in the user's configuration may hang.
fn settings(program: &str, args: &[String], host: &str) -> Option<String> {
    let mut ask = Command::new(program);
    ask.args(args).args(["-G", "--", host]).stdin(Stdio::null()).stderr(Stdio::null());
    String::from_utf8(stdout_of(&mut ask)?).ok()
}

/// Moves the preferred ciphers in `list` to the front. `None` if it has none.
fn reordered(list: &str) -> Option<String> {
    let (first, rest): (Vec<&str>, Vec<&str>) =
        list.split(',').partition(|name| PREFERRED.contains(name));
    if first.is_empty() {
        return None;
    }
    let first = PREFERRED.iter().copied().filter(|name| first.contains(name));
    Some(first.chain(rest).collect::<Vec<_>>().join(","))
}

fn ciphers(settings: &str) -> Option<&str> {
    settings.lines().find_map(|line| line.strip_prefix("ciphers "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_list_is_reordered_and_nothing_is_added() {
        assert_eq!(
            reordered(
                "chacha20-poly1305@openssh.com,aes128-ctr,\
                 aes256-gcm@openssh.com,aes128-gcm@openssh.com"
            )
            .unwrap(),
            "aes128-gcm@openssh.com,aes256-gcm@openssh.com,\
             chacha20-poly1305@openssh.com,aes128-ctr"
        );
        assert_eq!(reordered("aes128-ctr,chacha20-poly1305@openssh.com"), None);
        let one = "aes128-ctr,aes256-gcm@openssh.com";
        assert_eq!(reordered(one).unwrap(), "aes256-gcm@openssh.com,aes128-ctr");
    }

    /// Runs the system's ssh with a configuration of its own.
    fn real(config: &str, words: &[&str]) -> Option<String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(config.as_bytes()).unwrap();
        let mut args = vec!["-F".to_owned(), file.path().to_str().unwrap().to_owned()];
        args.extend(words.iter().map(|&word| word.to_owned()));
        let shell = RemoteShell { program: "ssh".into(), args: Vec::new() };
        query_settings(&shell, &args, "box").ciphers
    }

    #[test]
    fn the_real_ssh_reports_if_the_user_chose_ciphers() {
        if !cpu_has_aes() {
            return;
        }
        let untouched = real("Host *\n  User ann\n", &["-p", "2222"]);
        assert!(
            untouched.is_some_and(|list| list.starts_with("aes128-gcm@openssh.com,aes256-gcm")),
        );
        assert_eq!(real("Host box\n  Ciphers aes256-ctr\n", &[]), None);
        assert_eq!(real("Host box\n  Ciphers ^aes256-ctr\n", &[]), None);
        assert!(real("Host other\n  Ciphers aes256-ctr\n", &[]).is_some());
        assert_eq!(real("", &["-c", "aes256-ctr"]), None);
        assert_eq!(real("", &["-oCiphers=aes256-ctr"]), None);
        assert_eq!(real("NoSuchSetting yes\n", &[]), None);
    }

    /// A client that prints `with` when asked with the user's arguments, and `without` when asked
    /// for its defaults.
    fn told(with: &str, without: &str) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("ssh");
        let script = format!(
            "#!/bin/sh\necho user ann\ncase \"$*\" in\n\
             *null*) echo {without};;\n*) echo {with};;\nesac\n"
        );
        // Another process writes the file: a child of this process could still have it open.
        let writes = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
        let written = Command::new("sh").args(["-c", writes]).arg(&program).arg(script).status();
        assert!(written.unwrap().success());
        let shell = RemoteShell { program: program.to_str().unwrap().to_owned(), args: Vec::new() };
        query_settings(&shell, &["-p2222".to_owned()], "box").ciphers
    }

    #[test]
    fn the_real_ssh_reports_its_keep_alive() {
        if !cpu_has_aes() {
            return;
        }
        let shell = RemoteShell { program: "ssh".into(), args: Vec::new() };
        let has_keep_alive = |words: &[&str]| {
            let words = [&["-F", "/dev/null"], words].concat();
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            query_settings(&shell, &words, "box").has_keep_alive
        };
        assert!(has_keep_alive(&["-oServerAliveInterval=30"]));
        assert!(!has_keep_alive(&["-oServerAliveInterval=0"]));
        assert!(!has_keep_alive(&[]));
    }

    #[test]
    fn a_clients_version_shows_if_it_has_session_options() {
        let known = |words: &str| version(words.as_bytes()) >= Some(SESSION_OPTIONS_SINCE);
        assert!(known("OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19 27 Jan 2026\r\n"));
        assert!(known("OpenSSH_10.0p2, LibreSSL 4.1.0") && known("OpenSSH_8.7p1, OpenSSL"));
        assert!(!known("OpenSSH_8.0p1, OpenSSL 1.1.1k") && !known("OpenSSH_for_Windows"));
        assert!(!known("Dropbear v2024.86") && !known(""));
        let shell = RemoteShell { program: "ssh".into(), args: Vec::new() };
        let words = ["-F", "/dev/null"].map(str::to_owned);
        assert_eq!(
            query_settings(&shell, &words, "box").supports_session_options,
            supports_session_options(&shell)
        );
    }

    #[test]
    fn a_clients_own_default_is_no_choice() {
        if !cpu_has_aes() {
            return;
        }
        let own = "ciphers aes256-ctr,aes256-gcm@openssh.com";
        assert_eq!(told(own, own).unwrap(), "aes256-gcm@openssh.com,aes256-ctr");
        assert_eq!(told(own, "ciphers aes256-ctr"), None);
        assert_eq!(told(own, "port 22"), None);
        assert_eq!(told("port 22", own), None);
        for list in DEFAULTS {
            let told = told(&format!("ciphers {list}"), "port 22").unwrap();
            assert!(told.starts_with("aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20"));
            assert_eq!(told.len(), list.len());
        }
    }

    #[test]
    fn a_client_without_dash_g_keeps_its_ciphers() {
        let shell = |program: &str| RemoteShell { program: program.into(), args: Vec::new() };
        assert_eq!(query_settings(&shell("false"), &[], "box").ciphers, None);
        assert_eq!(query_settings(&shell("/nonexistent/ssh"), &[], "box").ciphers, None);
    }
}
