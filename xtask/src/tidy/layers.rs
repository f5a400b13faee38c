//! The arrows between the modules of the engine: each uses those of lower layers only,
//! so that there is no circle, and one role knows nothing of the other.
//!
//! A module is a file or directory beside `lib.rs`, with all that is below it. Paths
//! are parsed simply, as they stand: those that begin with `crate::`, and with enough
//! `super::` to get there.

use std::collections::HashMap;
use std::path::{Component, Path};

/// The directory of the engine's modules.
const ENGINE: &str = "crates/engine/src";

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

/// The names that `lib.rs` exports, and their modules.
pub(super) type Exports = HashMap<String, String>;

/// The exports in the text of the engine's `lib.rs`.
pub(super) fn exports(lib: &str) -> Exports {
    let mut found = Exports::new();
    for item in lib.split("pub use ").skip(1) {
        let item = item.split(';').next().unwrap_or_default();
        let Some((module, names)) = item.split_once("::") else { continue };
        for name in names.split(|c: char| !is_name_char(c)).filter(|name| !name.is_empty()) {
            found.insert(name.to_owned(), module.to_owned());
        }
    }
    found
}

/// Complaints about the source file `name`, a path from the root of the repository.
pub(super) fn check(name: &str, text: &str, exports: &Exports) -> Vec<String> {
    let Ok(path) = Path::new(name).strip_prefix(ENGINE) else { return Vec::new() };
    let is_root = path == Path::new("lib.rs");
    let Some(Component::Normal(first)) = path.components().next().filter(|_| !is_root) else {
        return Vec::new();
    };
    let first = first.to_string_lossy();
    let module = first.trim_end_matches(".rs");
    let Some(layer) = layer_of(module) else {
        return vec![format!("no layer has `{module}`: see xtask/src/tidy/layers.rs")];
    };
    let mut used: Vec<_> = used(path, text)
        .into_iter()
        .map(|name| exports.get(&name).cloned().unwrap_or(name))
        .filter(|used| used != module)
        .filter(|used| layer_of(used).is_some_and(|used| used >= layer))
        .collect();
    used.sort_unstable();
    used.dedup();
    let complaint = |used| format!("`{module}` must not use `{used}`, which is not below it");
    used.into_iter().map(complaint).collect()
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The first names of all paths from the crate's root in the file at `path`, without
/// those in comments and tests.
fn used(path: &Path, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    // `a.rs` and `a/mod.rs` are one step below the root, `a/b.rs` is two.
    let is_mod = path.ends_with("mod.rs");
    let depth = path.components().count() - usize::from(is_mod);
    let from_root = ["crate::".to_owned(), "super::".repeat(depth)];
    let starts = from_root.iter().flat_map(|start| code.match_indices(start.as_str()));
    let is_whole = |at: usize| !code[..at].ends_with(is_name_char);
    starts
        .filter(|(at, _)| is_whole(*at))
        .flat_map(|(at, start)| first_names(&code[at + start.len()..]))
        .collect()
}

/// The names that `rest` begins with, which follows a path: one, or a list in braces.
fn first_names(rest: &str) -> Vec<String> {
    let name_at =
        |rest: &str| rest.split(|c| !is_name_char(c)).next().unwrap_or_default().to_owned();
    if !rest.starts_with('{') {
        return vec![name_at(rest)];
    }
    let mut found = Vec::new();
    let mut depth = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(c, '{' | ',') {
            found.push(name_at(rest[at + 1..].trim_start()));
        }
    }
    found
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(name: &str, text: &str) -> Vec<String> {
        let exports = exports("pub use job::{Job, JobError};\npub use run::run;\n");
        check(&format!("{ENGINE}/{name}"), text, &exports)
    }

    #[test]
    fn what_is_below_may_be_used() {
        let good = "//! See crate::run.\nuse super::Scan;\nuse crate::{Job, link::Port};\n";
        assert!(complaints("sender/read.rs", good).is_empty());
        assert!(complaints("sender/read.rs", "#[cfg(test)]\nuse crate::run;\n").is_empty());
        assert!(complaints("lib.rs", "use crate::run;\n").is_empty());
        assert!(check("crates/store/src/x.rs", "use crate::run;\n", &Exports::new()).is_empty());
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
        assert_eq!(complaints("control.rs", "use super::threads::JobThreads;\n").len(), 1);
        assert_eq!(complaints("link/mod.rs", "use super::sender::Scan;\n").len(), 1);
        // Through what the crate exports, too.
        assert_eq!(complaints("sender/mod.rs", "use crate::{Job, run};\n").len(), 1);
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
