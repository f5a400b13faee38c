//! The command that the other machine's login shell is given: one line, made
//! of nothing but constants and, if the user names it, the path of haul there.
//! No name of a file that is copied is ever part of it.

use std::borrow::Cow;

/// What the search prints on standard error when there is no haul.
pub(crate) const MISSING_MARKER: &[u8] = b"haul-connect: no haul found on this host";

/// Looks for haul on the PATH, then where people and package managers install
/// programs, and becomes the first that it finds.
///
/// The login shell may be any: POSIX, csh or fish. So it sees three plain
/// words, of which the last stands in single quotes and holds no single quote,
/// `!`, backslash or line end; `sh` reads the rest. `-f` is there because a
/// directory can be executable too. The `for` has no `command -v` because older
/// versions of dash affirm every path with a slash in it.
const SEARCH: &str = concat!(
    "sh -c '",
    "command -v haul >/dev/null 2>&1 && exec haul serve; ",
    "for p in \"$HOME/.local/bin/haul\" \"$HOME/.cargo/bin/haul\" \"$HOME/bin/haul\"",
    " /usr/local/bin/haul /opt/homebrew/bin/haul; ",
    "do [ -f \"$p\" ] && [ -x \"$p\" ] && exec \"$p\" serve; done; ",
    "echo haul-connect: no haul found on this host >&2; exit 127'",
);

/// The command that starts the agent: the haul at `path`, which
/// [`check_path`] has passed, or the first that is found.
pub(crate) fn remote_command(path: Option<&str>) -> Cow<'static, str> {
    let Some(path) = path else {
        return Cow::Borrowed(SEARCH);
    };
    Cow::Owned(match path.strip_prefix("~/") {
        // Quoted, the tilde would stay a tilde.
        Some(below_home) => format!("~/{} serve", quoted(below_home)),
        None => format!("{} serve", quoted(path)),
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
        Err("it holds a control character")
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
    use std::path::Path;
    use std::process::{Command, Output};

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

    /// Puts a program at `path` that tells its path and its arguments. It is
    /// written by another process: a descriptor that is open for writing here
    /// could be inherited by a child of another test, and the program would be
    /// "busy".
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
        for place in [".local/bin/haul", ".cargo/bin/haul", "bin/haul"] {
            let home = tempfile::tempdir().unwrap();
            let haul = home.path().join(place);
            install(&haul);
            for shell in shells() {
                let output = login(shell, home.path(), &remote_command(None));
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
    fn haul_on_the_path_comes_first() {
        let home = tempfile::tempdir().unwrap();
        install(&home.path().join(".local/bin/haul"));
        let on_path = home.path().join("elsewhere/haul");
        install(&on_path);
        let output = Command::new("sh")
            .args(["-c", &remote_command(None)])
            .env("HOME", home.path())
            .env("PATH", format!("{}:/usr/bin:/bin", on_path.parent().unwrap().display()))
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("{}|serve\n", on_path.display())
        );
    }

    #[test]
    fn a_missing_haul_is_told_by_marker_and_status() {
        let home = tempfile::tempdir().unwrap();
        // Neither a directory of that name nor a file that can't be run counts.
        fs::create_dir_all(home.path().join("bin/haul")).unwrap();
        fs::create_dir_all(home.path().join(".local/bin")).unwrap();
        fs::write(home.path().join(".local/bin/haul"), "").unwrap();
        for shell in shells() {
            let output = login(shell, home.path(), &remote_command(None));
            assert_eq!(output.status.code(), Some(127), "{shell}");
            assert_eq!(output.stderr.trim_ascii_end(), MISSING_MARKER, "{shell}");
            assert!(output.stdout.is_empty(), "{shell}");
        }
    }

    #[test]
    fn a_named_haul_is_one_word_whatever_it_holds() {
        let home = tempfile::tempdir().unwrap();
        for name in ["haul", "my haul", "it's", "$(touch x)", "a;b", "`id`", "~", "\"", "*"] {
            let haul = home.path().join("there").join(name);
            install(&haul);
            let absolute = haul.to_str().unwrap().to_owned();
            for path in [absolute.clone(), format!("~/there/{name}")] {
                check_path(&path).unwrap();
                for shell in shells() {
                    let output = login(shell, home.path(), &remote_command(Some(&path)));
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
    fn the_search_is_plain_enough_for_any_login_shell() {
        let inner = SEARCH.strip_prefix("sh -c '").unwrap().strip_suffix('\'').unwrap();
        assert!(!inner.contains(['\'', '!', '\\', '\n']));
        assert!(SEARCH.contains(std::str::from_utf8(MISSING_MARKER).unwrap()));
    }

    #[test]
    fn paths_that_no_shell_line_can_carry_are_refused() {
        for bad in ["", "a\nb", "a\0b", "-x", "/opt/", "\u{9b}"] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
    }
}
