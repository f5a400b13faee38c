//! Splits the locations of a copy to several destinations into sources and destinations.

use crate::error::CommandError;
use haul::{Location, Machine};

/// The sources, the first destination, and all of them.
type Split = (Vec<Location>, Location, Vec<Location>);

/// Splits the locations. Those before the first location on a host are sources, the rest are
/// destinations.
///
/// # Errors
/// If there are no sources or no destinations, or two destinations are equal.
pub(super) fn split(mut locations: Vec<Location>, last: Location) -> Result<Split, CommandError> {
    locations.push(last);
    let is_there = |location: &Location| location.machine != Machine::Local;
    let Some(first) = locations.iter().position(is_there) else {
        let error = "--to-all needs a destination on a host";
        return Err(CommandError::usage(error)
            .with_hint("name a host:path: it and all that follow are the destinations"));
    };
    if first == 0 {
        let error = format!("--to-all: {}: sources must be local", locations[0]);
        return Err(CommandError::usage(error)
            .with_hint("name the local sources first: haul copy SOURCE... DEST... --to-all"));
    }
    let dests = locations.split_off(first);
    for (at, dest) in dests.iter().enumerate() {
        let is_it = |other: &&Location| other.machine == dest.machine && other.path == dest.path;
        if dests[..at].iter().any(|other| is_it(&other)) {
            return Err(CommandError::usage(format!("{dest}: the destination is given twice")));
        }
    }
    Ok((locations, dests[0].clone(), dests))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn shown(words: &[&str]) -> String {
        let parse = |words: &&str| Location::parse(OsStr::new(words)).expect("a place");
        let mut locations: Vec<Location> = words.iter().map(parse).collect();
        let last = locations.pop().expect("there are some");
        let all = |locations: &[Location]| {
            locations.iter().map(Location::to_string).collect::<Vec<_>>().join(" ")
        };
        match split(locations, last) {
            Ok((sources, _, dests)) => format!("{} -> {}", all(&sources), all(&dests)),
            Err(error) => format!("refused: {error}"),
        }
    }

    #[test]
    fn destinations_begin_with_the_first_host() {
        let lines = [
            shown(&["a", "b", "h1:x", "h2:y"]),
            shown(&["a", "h1:x", "/mnt/y", "h2:z"]),
            shown(&["a", "h1:x", "h1:y"]),
            shown(&["a", "b", "c"]),
            shown(&["h1:a", "h2:b"]),
            shown(&["a", "h1:x", "h2:x", "h1:x"]),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        a b -> h1:x h2:y
        a -> h1:x /mnt/y h2:z
        a -> h1:x h1:y
        refused: --to-all needs a destination on a host
        refused: --to-all: h1:a: sources must be local
        refused: h1:x: the destination is given twice
        ");
    }
}
