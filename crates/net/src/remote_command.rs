//! The command for the other machine's login shell: one line, made of constants and, if the user
//! gives it, the path of haul there. It never contains the name of a copied file.
//!
//! This module decides where haul is searched for and where it is deployed to, because the two must
//! agree.

use std::borrow::Cow;

/// Printed on standard error if the search finds no haul.
pub(crate) const MISSING_MARKER: &[u8] = b"haul-connect: no haul found on this host";

/// [`DEPLOY_DIR`], for [`concat!`].
macro_rules! deploy_dir {
    () => {
        ".local/share/haul/bin"
    };
}

/// The directory that haul is deployed to, below the home directory. It holds nothing else.
pub const DEPLOY_DIR: &str = deploy_dir!();

/// The name of a deployed haul in [`DEPLOY_DIR`].
pub const DEPLOYED_NAME: &str = "haul";

/// The beginning of a file name while haul is being deployed.
pub const STAGED_PREFIX: &str = ".haul-";

/// The first line that the shell of [`Service::Deploy`] prints. Earlier output is not ours.
pub const DEPLOY_MARKER: &str = "haul-deploy";

/// Runs the first haul found: in the deploy directory, then on the PATH, then where people and
/// package managers install programs. A deployed one comes first because the user wanted it to
/// replace the others, which may be too old.
///
/// The login shell may be any: POSIX, csh or fish. So it sees three plain words. The last is in
/// single quotes and has no single quote, `!`, backslash or line end; `sh` parses it. `-f` is
/// needed because a directory can be executable too. The `for` has no `command -v` because older
/// versions of dash accept every path with a slash.
macro_rules! search {
    ($words:literal) => {
        concat!(
            "sh -c '",
            "p=\"$HOME/",
            deploy_dir!(),
            "/haul\"; [ -f \"$p\" ] && [ -x \"$p\" ] && exec \"$p\" ",
            $words,
            "; command -v haul >/dev/null 2>&1 && exec haul ",
            $words,
            "; for p in \"$HOME/.local/bin/haul\" \"$HOME/.cargo/bin/haul\" \"$HOME/bin/haul\"",
            " /usr/local/bin/haul /opt/homebrew/bin/haul; ",
            "do [ -f \"$p\" ] && [ -x \"$p\" ] && exec \"$p\" ",
            $words,
            "; done; ",
            "echo haul-connect: no haul found on this host >&2; exit 127'",
        )
    };
}

/// The command line for deploying. In one login the shell does this:
///
/// 1. It reads a line and ignores it. A host that runs another program instead may fail on it;
///    without it both would wait for ever. 2. It prints, one per line: [`DEPLOY_MARKER`], the
///    output of `uname -sm`, the user's ID, the ID of the user's own group (`-` if the user's group
///    has another name than the user), the time in seconds since 1970, and the home directory with
///    links resolved. 3. It reads a line, the digits in the name of the staged haul, and waits for
///    the upload. If the input ends meanwhile, it removes the incomplete file. 4. It reads another
///    line, then replaces itself with the staged haul, which serves.
///
/// The command contains nothing from the other side. Its input becomes part of one path, in quotes.
/// `./` keeps that from being an option, and `cd` from using CDPATH.
const DEPLOY: &str = concat!(
    "sh -c '",
    "read -r hello; echo haul-deploy; uname -sm; id -u; ",
    "if [ \"$(id -un)\" = \"$(id -gn)\" ]; then id -g; else echo -; fi; ",
    "date +%s; cd \"$HOME\" && pwd -P || exit 1; ",
    "read -r digits || exit 0; f=\"./",
    deploy_dir!(),
    "/.haul-$digits\"; ",
    "read -r go || { rm -f \"$f\"; exit 1; }; ",
    "exec \"$f\" serve'",
);

/// A service that ssh starts on the host, and the use of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// `haul serve`, for an exchange with file contents. ssh is asked for its settings first, to
    /// choose the fastest cipher.
    Agent,
    /// `haul serve`, for an exchange without file contents. The login starts at once: ssh is not
    /// asked for its settings first, and keeps its own order of ciphers. That holds for the next two
    /// as well.
    BriefAgent,
    /// A shell that helps to deploy haul. The exchange is:
    ///
    /// 1. The shell reads one line; [`DEPLOY_MARKER`] will do. 2. It writes six lines:
    ///    [`DEPLOY_MARKER`], the output of `uname -sm`, the user's ID, the ID of the user's group if
    ///    that has the user's name (else `-`), the time in seconds since 1970, and the home
    ///    directory. 3. It reads a line with the part of a file name in [`DEPLOY_DIR`] after
    ///    [`STAGED_PREFIX`]. **That must be letters and digits alone.** If the input ends after it,
    ///    the shell removes the file. 4. It reads another line, whose content is ignored. Then it
    ///    runs the file, which serves.
    Deploy,
    /// `haul server words`. That reads a line, a JSON array with the arguments of a `haul server`
    /// command, and runs the command. The connection is not kept.
    ServerCommand,
    /// The server's SFTP subsystem. Only ssh can start it, not another program in its place. ssh is
    /// asked for its settings as for [`Self::Agent`].
    Sftp,
}

impl Service {
    /// True if a haul that is installed on the host serves.
    pub(crate) fn is_haul(self) -> bool {
        matches!(self, Self::Agent | Self::BriefAgent | Self::ServerCommand)
    }
}

/// The remote command for `service`: the name of a subsystem, or a command line. It runs the haul at
/// `path`, which [`check_path`] has accepted, or else the first that the search finds.
pub(crate) fn remote_command(path: Option<&str>, service: Service) -> Cow<'static, str> {
    let (search, words) = match service {
        Service::Agent | Service::BriefAgent => (search!("serve"), "serve"),
        Service::ServerCommand => (search!("server words"), "server words"),
        Service::Deploy => return Cow::Borrowed(DEPLOY),
        Service::Sftp => return Cow::Borrowed("sftp"),
    };
    let Some(path) = path else { return Cow::Borrowed(search) };
    Cow::Owned(match path.strip_prefix("~/") {
        // A quoted tilde would not be expanded.
        Some(below_home) => format!("~/{} {words}", quoted(below_home)),
        None => format!("{} {words}", quoted(path)),
    })
}

/// Why `path` can't be the remote haul.
pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        Err("it is empty")
    } else if path.ends_with('/') {
        Err("it names a directory")
    } else if path.starts_with('-') {
        Err("it starts with '-'")
    } else if path.chars().any(char::is_control) {
        Err("it contains a control character")
    } else {
        Ok(())
    }
}

/// `text` as one word of a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};

    /// Runs `command` as sshd does, with `shell` as the login shell.
    fn login(shell: &str, home: &Path, command: &str) -> Output {
        Command::new(shell)
            .args(["-c", command])
            .env_clear()
            .env("HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap()
    }

    /// Writes a program to `path` that prints its path and its arguments. Another process writes
    /// it: a child of another test could inherit a descriptor that is open for writing here, and
    /// the program would be "busy".
    fn install(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let write = r#"printf '#!/bin/sh\necho "$0|$*"\n' >"$1" && chmod 755 "$1""#;
        let status = Command::new("sh").args(["-c", write, "sh"]).arg(path).status();
        assert!(status.unwrap().success());
    }

    fn shells() -> impl Iterator<Item = &'static str> {
        ["/bin/sh", "/bin/bash", "/bin/dash", "/bin/csh", "/usr/bin/fish", "/bin/zsh"]
            .into_iter()
            .filter(|shell| Path::new(shell).exists())
    }

    #[test]
    fn the_search_finds_haul_below_the_home_directory() {
        let deployed = &*format!("{DEPLOY_DIR}/{DEPLOYED_NAME}");
        for place in [deployed, ".local/bin/haul", ".cargo/bin/haul", "bin/haul"] {
            let home = tempfile::tempdir().unwrap();
            let haul = home.path().join(place);
            install(&haul);
            for shell in shells() {
                let output = login(shell, home.path(), &remote_command(None, Service::Agent));
                assert_eq!(
                    String::from_utf8_lossy(&output.stdout),
                    format!("{}|serve\n", haul.display()),
                    "{shell}"
                );
                assert!(output.status.success() && output.stderr.is_empty(), "{shell}");
            }
        }
    }

    #[test]
    fn haul_on_the_path_comes_before_the_usual_places_and_a_deployed_one_before_it() {
        let home = tempfile::tempdir().unwrap();
        install(&home.path().join(".local/bin/haul"));
        let on_path = home.path().join("elsewhere/haul");
        let deployed = home.path().join(DEPLOY_DIR).join(DEPLOYED_NAME);
        for first in [&on_path, &deployed] {
            install(first);
            let output = Command::new("sh")
                .args(["-c", &remote_command(None, Service::Agent)])
                .env("HOME", home.path())
                .env("PATH", format!("{}:/usr/bin:/bin", on_path.parent().unwrap().display()))
                .output()
                .unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                format!("{}|serve\n", first.display())
            );
        }
    }

    /// Runs [`DEPLOY`] as sshd does, with `lines` as its input.
    fn deploy(shell: &str, home: &Path, lines: &str) -> Output {
        let mut child = Command::new(shell)
            .args(["-c", DEPLOY])
            .env_clear()
            .env("HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = format!("{DEPLOY_MARKER}\n{lines}");
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    #[test]
    fn deploying_reports_the_machine_and_starts_the_staged_haul() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().join("it's a home");
        let staged = home.join(DEPLOY_DIR).join(".haul-0123456789abcdef");
        install(&staged);
        for shell in shells() {
            let output = deploy(shell, &home, "0123456789abcdef\n\n");
            let said = String::from_utf8(output.stdout).unwrap();
            let lines: Vec<&str> = said.lines().collect();
            assert_eq!(lines[0], DEPLOY_MARKER, "{shell}");
            assert_eq!(lines[1].split(' ').count(), 2, "{shell}: {said}");
            assert!(lines[2].parse::<u32>().is_ok() && lines[4].parse::<u64>().is_ok(), "{said}");
            assert!(lines[3] == "-" || lines[3].parse::<u32>().is_ok(), "{shell}: {said}");
            assert_eq!(Path::new(lines[5]), home.canonicalize().unwrap());
            assert_eq!(lines[6], format!("./{DEPLOY_DIR}/.haul-0123456789abcdef|serve"));
            assert!(output.status.success() && output.stderr.is_empty(), "{shell}");
            assert!(staged.exists());
        }
    }

    #[test]
    fn the_staged_haul_is_removed_if_the_input_ends() {
        for shell in shells() {
            let home = tempfile::tempdir().unwrap();
            let bin = home.path().join(DEPLOY_DIR);
            install(&bin.join(".haul-0123456789abcdef"));
            install(&bin.join(DEPLOYED_NAME));
            assert!(deploy(shell, home.path(), "").status.success());
            assert_eq!(fs::read_dir(&bin).unwrap().count(), 2, "{shell}");
            deploy(shell, home.path(), "0123456789abcdef\n");
            assert!(!bin.join(".haul-0123456789abcdef").exists(), "{shell}");
            assert!(bin.join(DEPLOYED_NAME).exists(), "{shell}");
        }
    }

    #[test]
    fn a_missing_haul_is_reported_by_marker_and_status() {
        let home = tempfile::tempdir().unwrap();
        // Directories, and files that can't be run, do not count.
        fs::create_dir_all(home.path().join("bin/haul")).unwrap();
        fs::create_dir_all(home.path().join(".local/bin")).unwrap();
        fs::write(home.path().join(".local/bin/haul"), "").unwrap();
        for shell in shells() {
            let output = login(shell, home.path(), &remote_command(None, Service::Agent));
            assert_eq!(output.status.code(), Some(127), "{shell}");
            assert_eq!(output.stderr.trim_ascii_end(), MISSING_MARKER, "{shell}");
            assert!(output.stdout.is_empty(), "{shell}");
        }
    }

    #[test]
    fn a_path_of_haul_is_quoted_as_one_word() {
        let home = tempfile::tempdir().unwrap();
        for name in ["haul", "my haul", "it's", "$(touch x)", "a;b", "`id`", "~", "\"", "*"] {
            let haul = home.path().join("there").join(name);
            install(&haul);
            let absolute = haul.to_str().unwrap().to_owned();
            for path in [absolute.clone(), format!("~/there/{name}")] {
                check_path(&path).unwrap();
                for shell in shells() {
                    let output =
                        login(shell, home.path(), &remote_command(Some(&path), Service::Agent));
                    assert_eq!(
                        String::from_utf8_lossy(&output.stdout),
                        format!("{absolute}|serve\n"),
                        "{shell} {path}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_command_line_is_plain_enough_for_any_shell() {
        for line in [search!("serve"), search!("server words"), DEPLOY] {
            let inner = line.strip_prefix("sh -c '").unwrap().strip_suffix('\'').unwrap();
            assert!(!inner.contains(['\'', '!', '\\', '\n']));
        }
        assert!(search!("serve").contains(std::str::from_utf8(MISSING_MARKER).unwrap()));
        assert!(search!("serve").contains(&format!("{DEPLOY_DIR}/{DEPLOYED_NAME}\"")));
        assert!(DEPLOY.contains(DEPLOY_MARKER));
        assert!(DEPLOY.contains(&format!("{DEPLOY_DIR}/{STAGED_PREFIX}$digits")));
    }

    #[test]
    fn paths_that_no_shell_line_can_carry_are_refused() {
        for bad in ["", "a\nb", "a\0b", "-x", "/opt/", "\u{9b}"] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
    }
}
