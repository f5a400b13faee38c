//! Puts AES-GCM first where this machine's processor has AES, unless the user
//! has chosen ciphers: it nearly doubles ssh's rate over its default, ChaCha20.
//!
//! Whether the user has chosen is asked of ssh itself. `ssh -G` prints the
//! settings that it would use with the user's words and configuration. A list
//! that is word for word the default of some version of OpenSSH counts as one
//! that nobody has chosen. Any other is compared with what `ssh -G` prints
//! without words and configuration: a version that isn't known here may have it
//! as its default. That takes a second run, one after the other, since two at a
//! time take as long on a machine that is busy, and both stand in front of the
//! connection. A `-c` or `-oCiphers` among the user's words shows in the first
//! and not in the second, so it counts as a choice without being looked for.
//!
//! The list that goes to ssh is its own default in another order, and never
//! `^aes...`: clients before OpenSSH 8.1 don't know that form, and a cipher that
//! this client was built without would be an error.

use crate::target::RemoteShell;
use std::process::{Command, Stdio};

/// The ciphers to put first, fastest first.
const PREFERRED: [&str; 2] = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];

/// What clients of OpenSSH have as their default: from 7.6 (2017) on, and from
/// 10.0 (2025) on (`KEX_CLIENT_ENCRYPT` in its myproposal.h).
const DEFAULTS: [&str; 2] = [
    "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,\
     aes128-gcm@openssh.com,aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com,aes256-gcm@openssh.com,\
     aes128-ctr,aes192-ctr,aes256-ctr",
];

/// The list for ssh's `Ciphers` setting, or `None` to leave it alone. `args`
/// are the arguments that ssh will be started with, up to the remote command.
///
/// Waits for a short run of ssh, or for two; a `Match exec` in the user's
/// configuration is carried out by the first.
pub(crate) fn preferred_list(shell: &RemoteShell, args: &[String], host: &str) -> Option<String> {
    if !cpu_has_aes() {
        return None;
    }
    let users = settings(&shell.program, args, host)?;
    // Every client takes an empty file; "-F none" is younger than "-G".
    let defaults = || settings(&shell.program, &["-F".into(), "/dev/null".into()], host);
    unless_chosen(ciphers(&users)?, defaults)
}

/// The list for ssh of the user's `list`, if that is what nobody has chosen;
/// `defaults` are asked for what ssh would do by itself, if it isn't known.
fn unless_chosen(list: &str, defaults: impl FnOnce() -> Option<String>) -> Option<String> {
    let is_default = DEFAULTS.contains(&list) || ciphers(&defaults()?)? == list;
    is_default.then(|| reordered(list))?
}

/// AES-GCM needs both the cipher's rounds and carry-less multiplication.
fn cpu_has_aes() -> bool {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    return std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    return false;
}

/// What ssh prints as the settings that it would use with `args` for `host`, if
/// it succeeds.
fn settings(program: &str, args: &[String], host: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).args(["-G", "--", host]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok())?
}

/// `list` with the preferred ciphers in front, if it has any.
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

    /// The list for ssh where the user's settings have `list`, and ssh's own
    /// settings are `defaults`.
    fn chosen(list: &str, defaults: &str) -> Option<String> {
        unless_chosen(list, || Some(defaults.to_owned()))
    }

    #[test]
    fn the_default_is_reordered_and_nothing_is_added() {
        let list = "chacha20-poly1305@openssh.com,aes128-ctr,\
                    aes256-gcm@openssh.com,aes128-gcm@openssh.com";
        assert_eq!(
            chosen(list, &format!("user ann\nciphers {list}\nport 22\n")).unwrap(),
            "aes128-gcm@openssh.com,aes256-gcm@openssh.com,\
             chacha20-poly1305@openssh.com,aes128-ctr"
        );
        let without = "aes128-ctr,chacha20-poly1305@openssh.com";
        assert_eq!(chosen(without, &format!("ciphers {without}\n")), None);
        let one = "aes128-ctr,aes256-gcm@openssh.com";
        assert_eq!(
            chosen(one, &format!("ciphers {one}\n")).unwrap(),
            "aes256-gcm@openssh.com,aes128-ctr"
        );
    }

    #[test]
    fn a_choice_is_left_alone() {
        let defaults = format!("user ann\nciphers {}\n", DEFAULTS[0]);
        assert_eq!(chosen("aes128-ctr,aes256-gcm@openssh.com", &defaults), None);
        assert_eq!(chosen("aes256-gcm@openssh.com", ""), None);
        assert_eq!(unless_chosen("aes256-gcm@openssh.com", || None), None);
    }

    #[test]
    fn a_default_that_is_known_costs_no_second_run() {
        for list in DEFAULTS {
            let list = unless_chosen(list, || panic!("it is asked")).unwrap();
            assert!(list.starts_with("aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20"));
        }
    }

    /// The system's ssh with a configuration of its own.
    fn real(config: &str, words: &[&str]) -> Option<String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(config.as_bytes()).unwrap();
        let mut args = vec!["-F".to_owned(), file.path().to_str().unwrap().to_owned()];
        args.extend(words.iter().map(|&word| word.to_owned()));
        let shell = RemoteShell { program: "ssh".into(), args: Vec::new() };
        preferred_list(&shell, &args, "box")
    }

    #[test]
    fn the_real_ssh_tells_whether_the_user_has_chosen() {
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

    #[test]
    fn a_client_that_does_not_know_the_question_is_left_alone() {
        let shell = |program: &str| RemoteShell { program: program.into(), args: Vec::new() };
        assert_eq!(preferred_list(&shell("false"), &[], "box"), None);
        assert_eq!(preferred_list(&shell("/nonexistent/ssh"), &[], "box"), None);
    }
}
