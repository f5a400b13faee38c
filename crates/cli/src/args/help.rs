//! Usage of commands, and the notes and examples at the end of their help.

pub(super) const COPY_USAGE: &str = "haul copy [OPTIONS] SOURCE... DEST";
pub(super) const MOVE_USAGE: &str = "haul move [OPTIONS] SOURCE... DEST";
pub(super) const SYNC_USAGE: &str = "haul sync [OPTIONS] SOURCE... DEST";
pub(super) const CHECK_USAGE: &str = "haul check [OPTIONS] SOURCE... DEST";

/// The notes and examples of a command, from its file in `help/`.
macro_rules! notes {
    ($command:literal) => {
        include_str!(concat!("help/", $command, ".txt")).trim_ascii_end()
    };
}
pub(super) use notes;
