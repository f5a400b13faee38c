//! Options of ls, stat, b3sum and ssh for commands without a destination.

use super::FOR_SSH;

/// The hint for an option that `command` does not have.
pub(super) fn answer(command: &str, word: &str) -> Option<&'static str> {
    let own = match command {
        "ls" => answer_to_ls(word),
        "stat" => answer_to_stat(word),
        "hash" => answer_to_hash(word),
        "clean" => answer_to_clean(word),
        "deploy" => answer_to_deploy(word),
        _ => None,
    };
    own.or_else(|| answer_to_all(command, word))
}

fn answer_to_ls(word: &str) -> Option<&'static str> {
    Some(match word {
        "-a" | "-A" | "--all" | "--almost-all" => "leave it out: hidden names are always shown",
        "-R" | "-r" | "--recursive" | "--reverse" => "use 'haul sync -r --list-only PATH'",
        "-t" | "-S" | "-U" | "-X" | "-c" | "-u" | "--sort" | "--time" => {
            "sort the output of --json: haul lists names in order"
        }
        "-1" | "--color" | "--colour" | "-G" | "-F" | "--classify" | "-C" | "-x" => {
            "leave it out: each name has its own line, without colours"
        }
        "--si" => "use 'haul ls -lh' (units of 1,024)",
        "-d" | "--directory" => "use 'haul stat PATH'",
        "-i" | "-n" | "-s" | "-g" | "-o" | "-L" | "--inode" | "--size" | "--dereference" => {
            "use -l, or 'haul stat PATH' for one entry"
        }
        _ => return None,
    })
}

fn answer_to_stat(word: &str) -> Option<&'static str> {
    Some(match word {
        "-l" | "-a" | "-x" | "-v" | "--verbose" | "--long" => "leave it out: stat shows everything",
        "-c" | "--format" | "--printf" | "-t" | "--terse" => "use --json",
        "-f" | "--file-system" => "use 'df', on a host through ssh",
        _ => return None,
    })
}

fn answer_to_hash(word: &str) -> Option<&'static str> {
    Some(match word {
        "-r" | "-R" | "--recursive" => {
            "name the files, or compare trees with 'haul check -r --content SOURCE DEST'"
        }
        "-c" | "--check" => "use 'b3sum --check', or 'haul check --content SOURCE DEST'",
        "--tag" => "leave it out, or use --json",
        "-a" | "--algorithm" | "-l" | "--length" | "-b" | "--binary" | "-t" | "--text" => {
            "leave it out: haul prints the BLAKE3 hash of the whole file"
        }
        _ => return None,
    })
}

fn answer_to_clean(word: &str) -> Option<&'static str> {
    Some(match word {
        "-f" | "--force" | "-i" | "-d" | "-x" => {
            "leave it out: clean removes only haul's own files; -n shows them"
        }
        "-q" | "--quiet" => "leave it out, or redirect the output to /dev/null",
        _ => return None,
    })
}

fn answer_to_deploy(word: &str) -> Option<&'static str> {
    Some(match word {
        "-f" | "--force" | "-u" | "--update" | "--upgrade" => {
            "leave it out: deploy replaces any other version"
        }
        "-n" | "--dry-run" => "use 'haul doctor HOST' to see the installed version",
        _ => return None,
    })
}

/// Options that have the same meaning in each of these commands.
fn answer_to_all(command: &str, word: &str) -> Option<&'static str> {
    let has_host = matches!(command, "ls" | "stat" | "hash" | "doctor" | "deploy");
    Some(match word {
        "-v" | "--verbose" => "leave it out; HAUL_LOG=debug shows more",
        "--progress" => "leave it out: haul shows progress on a terminal",
        "-o" | "-F" | "-J" | "-i" | "-4" | "-6" | "-p" | "-P" | "--port" if has_host => FOR_SSH,
        _ => return None,
    })
}
