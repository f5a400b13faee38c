//! The parts of completions that complete hosts and remote paths; clap completes only local files.
//! They call `haul __places`.

use crate::args::CompletedShell;

/// Appended to clap's scripts.
const BASH: &str = include_str!("places.bash");
const FISH: &str = include_str!("places.fish");

/// Inserted before clap's function.
const ZSH: &str = include_str!("places.zsh");

/// Adds hosts and their paths to the script that clap generated for `shell`.
pub(super) fn with_remote_completions(shell: CompletedShell, script: &str) -> String {
    match shell {
        CompletedShell::Bash => format!("{script}\n{BASH}"),
        CompletedShell::Fish => format!("{script}\n{FISH}"),
        CompletedShell::Zsh => {
            // compinit reads the first line.
            let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
            let mut lines = format!("{first}\n\n{ZSH}\n");
            for line in rest.lines() {
                let is_place = line.starts_with("'*::paths ");
                let line = match is_place {
                    true => line.replace(":_files' ", ":_haul_places' "),
                    false => line.replace(":_hosts' ", ":_haul_hosts' "),
                };
                lines.push_str(&line);
                lines.push('\n');
            }
            lines
        }
    }
}
