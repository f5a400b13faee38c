//! Words of ls, stat, b3sum and ssh in commands that look at something, or have a host
//! alone.

use super::FOR_SSH;

/// Advice in place of an option that `command` does not have.
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
        "-a" | "-A" | "--all" | "--almost-all" => {
            "names that begin with a dot are always shown: leave it out"
        }
        "-R" | "-r" | "--recursive" | "--reverse" => {
            "'haul sync -r --list-only PATH' lists a tree with all that is in it"
        }
        "-t" | "-S" | "-U" | "-X" | "-c" | "-u" | "--sort" | "--time" => {
            "names come in their order; what --json says can be put into another one"
        }
        "-1" | "--color" | "--colour" | "-G" | "-F" | "--classify" | "-C" | "-x" => {
            "each name has a line of its own, without colours and signs: leave it out"
        }
        "--si" => "'haul ls -lh' shows sizes in units of 1,024",
        "-d" | "--directory" => "'haul stat PATH' shows a directory itself",
        "-i" | "-n" | "-s" | "-g" | "-o" | "-L" | "--inode" | "--size" | "--dereference" => {
            "-l shows kind, mode, size and time; 'haul stat PATH' shows more of one entry"
        }
        _ => return None,
    })
}

fn answer_to_stat(word: &str) -> Option<&'static str> {
    Some(match word {
        "-l" | "-a" | "-x" | "-v" | "--verbose" | "--long" => {
            "all that is known is shown anyway: leave it out"
        }
        "-c" | "--format" | "--printf" | "-t" | "--terse" => "--json is for scripts",
        "-f" | "--file-system" => "'df' shows file systems, there through ssh",
        _ => return None,
    })
}

fn answer_to_hash(word: &str) -> Option<&'static str> {
    Some(match word {
        "-r" | "-R" | "--recursive" => {
            "name the files; 'haul check -r --content SOURCE DEST' compares trees by what is in the files"
        }
        "-c" | "--check" => {
            "'b3sum --check' reads what this prints; 'haul check --content SOURCE DEST' compares at once"
        }
        "--tag" => "lines are those of 'b3sum' without --tag; --json has the names of their parts",
        "-a" | "--algorithm" | "-l" | "--length" | "-b" | "--binary" | "-t" | "--text" => {
            "it is the BLAKE3 hash of all bytes, as b3sum prints it: leave it out"
        }
        _ => return None,
    })
}

fn answer_to_clean(word: &str) -> Option<&'static str> {
    Some(match word {
        "-f" | "--force" | "-i" | "-d" | "-x" => {
            "nothing is asked, and nothing is removed but what copies have left: leave it out; -n shows what that is"
        }
        "-q" | "--quiet" => {
            "one line tells what was removed: leave it out, or send it to /dev/null"
        }
        _ => return None,
    })
}

fn answer_to_deploy(word: &str) -> Option<&'static str> {
    Some(match word {
        "-f" | "--force" | "-u" | "--update" | "--upgrade" => {
            "it puts this haul there whatever is there: leave it out"
        }
        "-n" | "--dry-run" => "'haul doctor HOST' says which haul is there",
        _ => return None,
    })
}

/// Words that mean the same in each of these commands.
fn answer_to_all(command: &str, word: &str) -> Option<&'static str> {
    let has_host = matches!(command, "ls" | "stat" | "hash" | "doctor" | "deploy");
    Some(match word {
        "-v" | "--verbose" => "it says all that it does: leave it out; HAUL_LOG=debug tells more",
        "--progress" => "progress is shown on a terminal where it takes time: leave it out",
        "-o" | "-F" | "-J" | "-i" | "-4" | "-6" | "-p" | "-P" | "--port" if has_host => FOR_SSH,
        _ => return None,
    })
}
