//! The rules of the house that neither the compiler nor clippy checks.
//!
//! Each rule for sources looks at one file and knows no other, so that it can be tested
//! on text that breaks it.

mod commits;
mod docs;
mod graph;
mod layers;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use self::graph::Graph;
use crate::{Result, repo, size};

/// A file longer than this is usually two.
const LINES_MAX: usize = 800;

/// The same for files of the product.
const PRODUCT_LINES_MAX: usize = 800;

/// A function of the product that is longer does several things.
const FUNCTION_LINES_MAX: usize = 80;

/// Files of a crate that may use one another in a circle.
const CIRCLE_MAX: usize = 4;

/// Ways to begin a thread that panic where the system refuses one.
const PANICKING_SPAWNS: &[&str] = &["thread::spawn(", "scope.spawn("];

/// The only crate that may have unsafe code.
const UNSAFE_CRATE: &str = "sys";

/// Words that say that something was left for later.
const PLACEHOLDERS: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("#[", "ignore"),
];

/// Which of our crates a crate may use. The arrows point one way.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("cli", &["haul", "engine", "net", "model"]),
    ("haul", &["engine", "proto", "tree", "sftp", "store", "net", "model"]),
    (
        "engine",
        &["plan", "ledger", "proto", "delta", "net", "tree", "sftp", "store", "sys", "model"],
    ),
    ("tree", &["sftp", "store", "sys", "model"]),
    ("store", &["sys", "model"]),
    ("ledger", &["model"]),
    ("plan", &["model"]),
    ("proto", &["model"]),
    ("delta", &[]),
    ("sys", &["model"]),
    ("model", &[]),
    ("net", &["sys", "model"]),
    ("sftp", &["net", "sys", "model"]),
    ("testkit", &[]),
    ("xtask", &["testkit", "model"]),
];

/// The same for tests alone, beside the test kit, which all may use: hostile
/// clients of the program speak the protocol by themselves.
const FOR_TESTS: &[(&str, &str)] = &[("cli", "proto")];

/// Crates that know the options of the command line, or programs with options of
/// their own.
const OPTION_CRATES: &[&str] = &["crates/cli/", "crates/testkit/"];

/// Words with an option that the others may say all the same, and why.
const ALLOWED_OPTION_TEXTS: &[(&str, &str)] =
    &[("--sync promises nothing there", "a warning that names the promise that can't be kept")];

/// Words with which no doc comment opens: it names the thing.
const DOC_OPENINGS: &[&str] = &["What ", "Whether "];

/// Checks the whole repository.
pub(crate) fn run() -> Result<()> {
    let root = repo::root();
    let mut complaints = Vec::new();
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for path in sources(root)? {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path)?;
        let mut found = check_source(&text);
        found.extend(check_docs(&text));
        if is_product(&name) {
            found.extend(check_lengths(&text));
            found.extend(check_threads(&text));
            if let Some((crate_dir, file)) = name.split_once("/src/") {
                graphs.entry(crate_dir.to_owned()).or_default().add(Path::new(file), &text)?;
            }
            if !OPTION_CRATES.iter().any(|dir| name.starts_with(dir)) {
                found.extend(check_options(&text));
            }
        }
        let found = found.into_iter();
        complaints.extend(found.map(|what| format!("{name}: {what}")));
    }
    for dir in crates(root)? {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let shown = dir.strip_prefix(root).unwrap_or(&dir).display().to_string();
        let manifest = fs::read_to_string(dir.join("Cargo.toml"))?;
        complaints.extend(
            check_dependencies(&name, &manifest).into_iter().map(|what| format!("{shown}: {what}")),
        );
        for file in ["src/lib.rs", "src/main.rs"] {
            if let Ok(text) = fs::read_to_string(dir.join(file)) {
                complaints.extend(
                    check_crate_root(&name, &text).map(|what| format!("{shown}/{file}: {what}")),
                );
            }
        }
    }
    complaints.extend(check_arrows(&graphs));
    complaints.extend(size::check(root)?);
    complaints.extend(docs::check(root)?);
    complaints.extend(commits::check());
    if complaints.is_empty() {
        return Ok(());
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    Err(format!("{} things are untidy", complaints.len()).into())
}

/// No crate has a circle of many files, and no arrow of the engine leads up. The graphs are by the
/// directory of the crate.
fn check_arrows(graphs: &BTreeMap<String, Graph>) -> Vec<String> {
    let mut found: Vec<_> = graphs.get(layers::ENGINE).map(layers::check).unwrap_or_default();
    for (name, graph) in graphs {
        for circle in graph.circles().into_iter().filter(|circle| circle.len() > CIRCLE_MAX) {
            let files = circle.into_iter().collect::<Vec<_>>().join(", ");
            found.push(format!("{name}: a circle of more than {CIRCLE_MAX} files: {files}"));
        }
    }
    found
}

/// Every source file says what it owns, is short enough, and leaves nothing for
/// later.
fn check_source(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let generated = text.lines().take(3).any(|line| line.contains("@generated"));
    if !generated && !text.starts_with("//!") {
        found.push("does not begin with `//!`".to_owned());
    }
    let lines = text.lines().count();
    if !generated && lines > LINES_MAX {
        found.push(format!("{lines} lines; {LINES_MAX} are the most"));
    }
    for (index, line) in text.lines().enumerate() {
        for placeholder in PLACEHOLDERS.iter().filter(|placeholder| line.contains(**placeholder)) {
            found.push(format!("line {}: `{placeholder}`", index + 1));
        }
    }
    found
}

/// True for sources of the product, and not of its tests alone.
pub(crate) fn is_product(name: &str) -> bool {
    name.starts_with("crates/")
        && name.contains("/src/")
        && !name.starts_with("crates/testkit/")
        && !name.ends_with("tests.rs")
}

/// A file of the product, and each function in it, fits into a head.
fn check_lengths(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() > PRODUCT_LINES_MAX {
        found.push(format!("{} lines; {PRODUCT_LINES_MAX} are the most", lines.len()));
    }
    for (at, line) in lines.iter().enumerate() {
        let Some((before, after)) = line.split_once("fn ") else { continue };
        let indent = before.len() - before.trim_start().len();
        let is_head =
            before.split_whitespace().all(|word| word.starts_with("pub") || word == "const");
        if !is_head || before.ends_with(|last: char| !last.is_whitespace()) {
            continue;
        }
        // One that a trait asks for has no body.
        let head_ends = lines[at..].iter().find(|line| line.ends_with(['{', '}', ';']));
        if head_ends.is_some_and(|line| line.ends_with(';')) {
            continue;
        }
        let is_end = |line: &&str| line.len() == indent + 1 && line.ends_with('}');
        let Some(len) = lines[at..].iter().position(is_end) else { continue };
        if len >= FUNCTION_LINES_MAX {
            let name = after.split(['(', '<']).next().unwrap_or(after);
            found.push(format!("line {}: `{name}` has {} lines", at + 1, len + 1));
        }
    }
    found
}

/// A thread of the product that can't be had is an error, and no panic.
fn check_threads(text: &str) -> Vec<String> {
    text.lines()
        .take_while(|line| !line.starts_with("mod tests {"))
        .flat_map(|line| PANICKING_SPAWNS.iter().filter(move |bare| line.contains(**bare)))
        .map(|bare| {
            format!("`{bare}` panics where there is no thread: see crates/engine/src/threads.rs")
        })
        .collect()
}

/// A doc comment names the thing that it is about.
fn check_docs(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_within = false;
    for (at, line) in text.lines().enumerate() {
        let doc = ["///", "//!"].iter().find_map(|start| line.trim_start().strip_prefix(start));
        let words = doc.unwrap_or_default().trim_start();
        if !is_within && DOC_OPENINGS.iter().any(|opening| words.starts_with(opening)) {
            found.push(format!("line {}: the comment does not name the thing: `{words}`", at + 1));
        }
        is_within = doc.is_some();
    }
    found
}

/// The options of the command line, and the hints that name them, are the program's.
fn check_options(text: &str) -> Vec<String> {
    let names_option = |line: &str| {
        let after = line.split("--").skip(1);
        let mut options = after.filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
        !line.trim_start().starts_with("//") && options.next().is_some()
    };
    text.lines()
        .enumerate()
        .take_while(|(_, line)| *line != "mod tests {")
        .filter(|(_, line)| names_option(line))
        .filter(|(_, line)| !ALLOWED_OPTION_TEXTS.iter().any(|(words, _)| line.contains(words)))
        .map(|(at, _)| format!("line {}: names an option: see crates/cli/src/hint.rs", at + 1))
        .collect()
}

/// Unsafe code lives in one crate.
fn check_crate_root(name: &str, text: &str) -> Option<String> {
    let forbids = text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
    (name != UNSAFE_CRATE && !forbids).then(|| "has no `#![forbid(unsafe_code)]`".to_owned())
}

/// A crate uses only those of our crates that it may. For its tests, the test
/// kit may be used by all; see [`FOR_TESTS`].
fn check_dependencies(name: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(from, _)| *from == name) else {
        return vec![format!("no rule says which crates `{name}` may use")];
    };
    let mut found = Vec::new();
    for (to, for_tests) in uses(manifest) {
        let is_allowed = allowed.contains(&&to[..])
            || (for_tests && (to == "testkit" || FOR_TESTS.contains(&(name, &to))));
        if !is_allowed {
            found.push(format!("`{name}` must not use `{to}`"));
        }
    }
    found
}

/// Our crates that a manifest names as dependencies (`haul-NAME`), and whether
/// for tests alone. The subset of TOML that manifests are written in.
fn uses(manifest: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        let mut key = line.split(['=', '.', ' ']).next().unwrap_or_default();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            // `[dependencies.haul-x]` is a section and a dependency in one.
            key = section.rsplit('.').next().unwrap_or_default();
        }
        let Some(to) = key.trim_matches('"').strip_prefix("haul-") else { continue };
        if section.contains("dependencies") {
            found.push((to.to_owned(), section.contains("dev-dependencies")));
        }
    }
    found
}

/// Every directory that is a crate of the workspace.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let mut dirs = vec![root.join("xtask")];
    for entry in fs::read_dir(root.join("crates"))? {
        let path = entry?.path();
        if path.join("Cargo.toml").exists() {
            dirs.push(path);
        }
    }
    dirs.sort_unstable();
    Ok(dirs)
}

/// Every `.rs` file of the project.
pub(crate) fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open: Vec<_> = ["crates", "xtask", "fuzz"].map(|dir| root.join(dir)).into();
    open.retain(|dir| dir.exists());
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let built = path.file_name().is_some_and(|name| name == "target");
            if path.is_dir() && !built {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tidy_file_passes_and_each_fault_is_found() {
        assert!(check_source("//! Owns nothing.\nfn main() {}\n").is_empty());
        assert_eq!(check_source("fn main() {}\n"), ["does not begin with `//!`"]);
        assert!(check_source("// @generated\nfn main() {}\n").is_empty());
        for placeholder in PLACEHOLDERS {
            let found = check_source(&format!("//! Owns.\n\n    {placeholder}"));
            assert_eq!(found, [format!("line 3: `{placeholder}`")]);
        }
        assert!(check_source(&format!("//! Owns.\n{}", "\n".repeat(LINES_MAX - 1))).is_empty());
        assert_eq!(check_source(&format!("//! Owns.\n{}", "\n".repeat(LINES_MAX))).len(), 1);
    }

    #[test]
    fn threads_of_the_product_are_begun_with_care() {
        let bare = format!("//! X.\n{})\n", PANICKING_SPAWNS[0]);
        assert_eq!(check_threads(&bare).len(), 1);
        let tested = format!("//! X.\n#[cfg(test)]\nmod tests {{\n{})\n", PANICKING_SPAWNS[1]);
        assert!(check_threads(&tested).is_empty());
    }

    #[test]
    fn doc_comments_name_the_thing() {
        let found = check_docs("//! What is here.\n\n/// A.\nstruct A;\n    /// Whether it is.\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with("line 5: "), "{found:?}");
        let good = "//! A.\n//!\n//! What it does.\n\n/// B.\n/// What it is.\n// What?\n";
        assert!(check_docs(good).is_empty());
        assert_eq!(check_docs("#[cfg(test)]\nmod tests {\n/// What it is.\n").len(), 1);
    }

    #[test]
    fn options_are_named_by_the_program_alone() {
        let line = |words: &str| format!("//! X, see --x.\n    \"{words}\",\n");
        for bad in ["--rsh PATH", "say it with --binary"] {
            let found = check_options(&line(bad));
            assert_eq!(found.len(), 1, "{bad}");
            assert!(found[0].starts_with("line 2: "), "{found:?}");
        }
        for good in ["-- ", "a -- b", "rm -f -- x", ALLOWED_OPTION_TEXTS[0].0] {
            assert!(check_options(&line(good)).is_empty(), "{good}");
        }
        let tested = "#[cfg(test)]\nmod tests {\n\"--rsh\"\n";
        assert!(check_options(tested).is_empty());
    }

    #[test]
    fn the_product_is_what_is_built_without_its_tests() {
        assert!(is_product("crates/net/src/x.rs"));
        for other in ["crates/net/tests/x.rs", "crates/net/src/x/tests.rs", "xtask/src/x.rs"] {
            assert!(!is_product(other), "{other}");
        }
    }

    #[test]
    fn files_and_functions_of_the_product_that_are_too_long_are_found() {
        let lines = |count| "    x();\n".repeat(count);
        assert!(check_lengths(&lines(PRODUCT_LINES_MAX)).is_empty());
        assert_eq!(check_lengths(&lines(PRODUCT_LINES_MAX + 1)).len(), 1);
        for head in ["fn f() {", "pub(crate) const fn f<T>() {"] {
            let of = |count| format!("{head}\n{}}}\n", lines(count));
            assert!(check_lengths(&of(FUNCTION_LINES_MAX - 2)).is_empty(), "{head}");
            let found = check_lengths(&of(FUNCTION_LINES_MAX - 1));
            assert_eq!(found, ["line 1: `f` has 81 lines"], "{head}");
        }
        let comment = format!("/// One fn of many.\n{}}}\n", lines(FUNCTION_LINES_MAX));
        assert!(check_lengths(&comment).is_empty());
        let asked_for = format!("    fn bare(&self);\n{}    }}\n", lines(FUNCTION_LINES_MAX));
        assert!(check_lengths(&asked_for).is_empty());
    }

    #[test]
    fn unsafe_code_is_forbidden_everywhere_but_in_its_crate() {
        assert!(check_crate_root("model", "//! M.\n#![forbid(unsafe_code)]\n").is_none());
        assert!(check_crate_root("model", "//! M.\n// #![forbid(unsafe_code)]\n").is_some());
        assert!(check_crate_root("sys", "//! S.\n").is_none());
    }

    #[test]
    fn arrows_in_the_wrong_direction_are_found_however_they_are_written() {
        let good = "[package]\nname = \"haul-store\"\n[dependencies]\nhaul-sys.workspace = true\nhaul-model = { path = \"x\" }\n[dev-dependencies]\nhaul-testkit.workspace = true\n";
        assert!(check_dependencies("store", good).is_empty());
        for bad in [
            "[dependencies]\nhaul-net.workspace = true\n",
            "[dependencies]\nhaul-net = { workspace = true }\n",
            "[dependencies.haul-net]\nworkspace = true\n",
            "[target.'cfg(unix)'.dependencies]\nhaul-net.workspace = true\n",
            "[dev-dependencies]\nhaul-net.workspace = true\n",
            "[build-dependencies]\nhaul-net=\"1\"\n",
        ] {
            assert_eq!(check_dependencies("store", bad), ["`store` must not use `net`"], "{bad}");
        }
        assert_eq!(
            check_dependencies("store", "[dependencies]\nhaul-testkit.workspace = true\n").len(),
            1
        );
        assert_eq!(check_dependencies("newcomer", "").len(), 1);
    }

    #[test]
    fn the_repository_is_seen() {
        let sources = sources(repo::root()).expect("read");
        assert!(sources.iter().any(|path| path.ends_with("xtask/src/tidy.rs")));
        let crates = crates(repo::root()).expect("read");
        assert_eq!(crates.len(), ALLOWED_DEPENDENCIES.len());
    }
}
