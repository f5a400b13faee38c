//! The arrows between the modules of the engine: each uses those of lower layers only,
//! so that there is no circle, and one role knows nothing of the other.
//!
//! A module is a file or directory beside `lib.rs`, with all that is below it.

use super::graph::Graph;
use std::collections::BTreeSet;

/// The modules, the lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["cache", "entry_counts", "in_flight", "memory_budget", "rules", "report_log"],
    &["parked", "dirs", "job", "not_kept", "marker", "monitor", "origin", "throttle", "workers"],
    &["prefetch", "watchdog"],
    &["control"],
    &["threads", "pool"],
    &["beneath", "copy", "originals", "walk"],
    &["digest", "link"],
    &["callers", "receiver", "sender"],
    &["assembly", "clean", "routed_jobs", "logins", "relocate"],
    &["request"],
    &["agent", "expand", "onto_itself", "remote", "sftp"],
    &["relay"],
    &["moving", "run"],
];

/// The crate whose modules are in layers.
pub(super) const ENGINE: &str = "crates/engine";

/// Complaints about arrows of the engine that lead up, or to the side.
pub(super) fn check(engine: &Graph) -> Vec<String> {
    let mut found = BTreeSet::new();
    for (user, used) in engine.arrows() {
        let Some((user, layer)) = place_of(&user) else {
            if !user.is_empty() {
                found.insert(format!("no layer has `{user}`: see xtask/src/tidy/layers.rs"));
            }
            continue;
        };
        let above = used.iter().filter_map(|used| place_of(used));
        let above = above.filter(|(used, place)| *used != user && *place >= layer);
        found.extend(
            above.map(|(used, _)| format!("`{user}` must not use `{used}`, which is not below it")),
        );
    }
    found.into_iter().collect()
}

/// The module beside `lib.rs` that `path` is part of, and the number of its layer.
fn place_of(path: &str) -> Option<(&str, usize)> {
    let module = path.split("::").next().unwrap_or_default();
    let layer = LAYERS.iter().position(|layer| layer.contains(&module))?;
    Some((module, layer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn complaints(name: &str, text: &str) -> Vec<String> {
        let mut engine = Graph::default();
        for (name, text) in [
            ("lib.rs", "pub use job::{Job, JobError};\npub use run::run;\n"),
            ("job.rs", "pub struct Job;\n"),
            ("run.rs", "pub fn run() {}\n"),
            ("link/mod.rs", "pub trait Port {}\n"),
            ("sender/mod.rs", "pub struct Scan;\n"),
            ("receiver/mod.rs", "pub struct Work;\n"),
            (name, text),
        ] {
            engine.add(Path::new(name), text).expect("tokens");
        }
        check(&engine)
    }

    #[test]
    fn what_is_below_may_be_used() {
        let good = "//! See crate::run.\nuse super::Scan;\nuse crate::{Job, link::Port};\n";
        assert!(complaints("sender/read.rs", good).is_empty());
        assert!(complaints("sender/read.rs", "#[cfg(test)]\nuse crate::run;\n").is_empty());
    }

    #[test]
    fn arrows_upwards_are_found_however_they_are_written() {
        for bad in [
            "use crate::receiver::Work;\n",
            "use crate::{\n    Job,\n    receiver::{Tasks, Work},\n};\n",
            "use super::super::receiver::Work;\n",
            "fn f() {\n    crate::receiver::work();\n}\n",
        ] {
            let found = complaints("sender/read.rs", bad);
            assert_eq!(found.len(), 1, "{bad}: {found:?}");
            assert!(found[0].starts_with("`sender` must not use `receiver`"), "{found:?}");
        }
        assert_eq!(complaints("link/memory.rs", "use super::super::sender::Scan;\n").len(), 1);
        // Through what the crate exports, too.
        assert_eq!(complaints("sender/walk.rs", "use crate::{Job, run};\n").len(), 1);
        assert_eq!(complaints("newcomer.rs", "").len(), 1);
    }

    #[test]
    fn no_module_is_in_two_layers() {
        let mut all: Vec<_> = LAYERS.concat();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
