//! Limits of connections to this machine, as the system reports them: the number of concurrent
//! logins through sshd, and TCP's congestion control.

use crate::{ssh_files, ssh_setting};
use haul_model::is_missing;
use std::path::Path;

/// The longest name of a congestion control (`TCP_CA_NAME_MAX` of Linux).
const CONGESTION_NAME_MAX: usize = 15;

/// Most ancestors of this process that are checked.
const ANCESTORS_MAX: usize = 16;

/// Most files of sshd's configuration that are read, and most bytes of each.
const CONFIG_FILES_MAX: usize = 64;
const CONFIG_LEN_MAX: u64 = 256 << 10;

/// The path of sshd's configuration.
const SSHD_CONFIG: &str = "/etc/ssh/sshd_config";

/// The directory for relative paths in an `Include`.
const SSHD_DIR: &str = "/etc/ssh";

/// OpenSSH's default limit.
const DEFAULT: Limit = Limit { begin: 10, rate: Some(30), full: 100 };

/// sshd's setting `MaxStartups`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The number of concurrent logins from which some connections are refused.
    pub begin: u32,
    /// The percentage of connections refused from there on, if known.
    pub rate: Option<u32>,
    /// The number from which all connections are refused.
    pub full: u32,
}

/// The default congestion control of this machine's TCP connections; `None` if unknown.
pub fn congestion_control() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?;
    let name = name.trim();
    is_congestion_name(name).then(|| name.to_owned())
}

/// True if `name` is valid for a congestion control.
pub fn is_congestion_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= CONGESTION_NAME_MAX
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// The limit of concurrent logins of the sshd that started this process. sshd shows it in its
/// process title. Otherwise the system's configuration of sshd is read, if possible.
pub fn login_limit() -> Option<Limit> {
    limit_of_ancestors().or_else(|| limit_of_config(Path::new(SSHD_CONFIG)))
}

/// The limit in the title of the sshd listener among this process's ancestors.
fn limit_of_ancestors() -> Option<Limit> {
    let mut pid = "self".to_owned();
    for _ in 0..ANCESTORS_MAX {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may contain anything; state and parent follow it.
        let (_, behind) = stat.rsplit_once(')')?;
        let parent = behind.split_whitespace().nth(1)?.to_owned();
        if parent.parse::<u32>().ok()? <= 1 {
            return None;
        }
        let title = std::fs::read(format!("/proc/{parent}/cmdline")).ok()?;
        if let Some(limit) = limit_of_title(&String::from_utf8_lossy(&title)) {
            return Some(limit);
        }
        pid = parent;
    }
    None
}

/// Parses `sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups`.
fn limit_of_title(title: &str) -> Option<Limit> {
    let title = title.trim_end_matches('\0').strip_prefix("sshd")?;
    let (_, counts) = title.rsplit_once("[listener] ")?;
    let (_, range) = counts.strip_suffix(" startups")?.split_once(" of ")?;
    let (begin, full) = range.split_once('-')?;
    Some(Limit { begin: begin.parse().ok()?, rate: None, full: full.parse().ok()? })
}

/// The limit in the configuration at `path`, including the files that it includes.
fn limit_of_config(path: &Path) -> Option<Limit> {
    let mut files_left = CONFIG_FILES_MAX;
    let mut is_for_all = true;
    let found = limit_in(path, &mut files_left, &mut is_for_all)?;
    Some(found.unwrap_or(DEFAULT))
}

/// The first limit in the file at `path`. The outer `None` means that it can't be read, the inner
/// one that it has none.
fn limit_in(path: &Path, files_left: &mut usize, is_for_all: &mut bool) -> Option<Option<Limit>> {
    *files_left = files_left.checked_sub(1)?;
    let stat = std::fs::metadata(path).ok()?;
    if !stat.is_file() || stat.len() > CONFIG_LEN_MAX {
        return None;
    }
    let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
    for (key, words) in text.lines().filter_map(ssh_setting) {
        match &*key {
            // The following lines apply to some logins only, and MaxStartups is not allowed there.
            "match" => *is_for_all = false,
            "maxstartups" if *is_for_all => {
                return Some(Some(parse_limit(words.first()?)?));
            }
            "include" if *is_for_all => {
                let found =
                    words.iter().flat_map(|word| ssh_files(&Path::new(SSHD_DIR).join(word)));
                // sshd skips missing files. An unreadable one may contain the limit.
                for included in found.filter(|path| may_be_file(path)) {
                    if let Some(limit) = limit_in(&included, files_left, is_for_all)? {
                        return Some(Some(limit));
                    }
                }
            }
            _ => {}
        }
    }
    Some(None)
}

/// False if `path` is missing, or a directory.
fn may_be_file(path: &Path) -> bool {
    std::fs::metadata(path).map_or_else(|error| !is_missing(&error), |stat| !stat.is_dir())
}

/// Parses `10:30:100`, or `10`.
fn parse_limit(words: &str) -> Option<Limit> {
    let mut numbers = words.split(':').map(|number| number.parse::<u32>().ok());
    let begin = numbers.next()??;
    match (numbers.next(), numbers.next(), numbers.next()) {
        (None, None, None) => Some(Limit { begin, rate: Some(100), full: begin }),
        (Some(rate), Some(full), None) => Some(Limit { begin, rate: Some(rate?), full: full? }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_of_a_listener_shows_its_limit() {
        let limit = |begin, full| Some(Limit { begin, rate: None, full });
        let title = "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups\0\0\0";
        assert_eq!(limit_of_title(title), limit(10, 100));
        let title = "sshd: sshd -f [listener] 9 of 1-2 startups [listener] 1 of 2-10 startups";
        assert_eq!(limit_of_title(title), limit(2, 10));
        for other in [
            "",
            "sshd: ann@notty",
            "bash\0-c\0[listener] 0 of 10-100 startups",
            "sshd: x [listener] 0 of 10 startups",
            "sshd: x [listener] 0 of -1-100 startups",
            "sshd: x [listener] 0 of 10-99999999999 startups",
        ] {
            assert_eq!(limit_of_title(other), None, "{other}");
        }
    }

    #[test]
    fn the_first_setting_outside_match_applies() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sshd_config");
        let limit = |text: &str| {
            std::fs::write(&path, text).expect("written");
            limit_of_config(&path)
        };
        let of = |begin, rate, full| Some(Limit { begin, rate: Some(rate), full });
        assert_eq!(limit("Port 22\n"), of(10, 30, 100));
        assert_eq!(limit("  maxstartups=2:30:10\nMaxStartups 5\n"), of(2, 30, 10));
        assert_eq!(limit("#MaxStartups 1:2:3\nMaxStartups \"7\"\n"), of(7, 100, 7));
        assert_eq!(limit("Match User ann\nMaxStartups 3\n"), of(10, 30, 100));
        assert_eq!(limit("MaxStartups many\n"), None);
        let more = dir.path().join("more.conf");
        std::fs::write(&more, "MaxStartups 4:5:6\n").expect("written");
        let include = format!("Include {}/*.conf\nMaxStartups 1\n", dir.path().display());
        assert_eq!(limit(&include), of(4, 5, 6));
        let itself = format!("Include {}\n", path.display());
        assert_eq!(limit(&itself), None, "it ends");
        assert_eq!(limit("\"MaxStartups\" 7\n"), of(7, 100, 7));
        let missing = format!("Include {0}/none {0}/more.conf/none\n", dir.path().display());
        assert_eq!(limit(&missing), of(10, 30, 100));
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).expect("linked");
        let unreadable = format!("Include {}/loop\n", dir.path().display());
        assert_eq!(limit(&unreadable), None, "it may contain the limit");
        assert_eq!(limit_of_config(&dir.path().join("none")), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_a_congestion_control() {
        assert!(congestion_control().is_some_and(|name| name.len() > 2));
    }
}
