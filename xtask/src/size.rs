//! The size of the product: lines of code in each crate, without blank lines, comments and
//! tests. The total has a bound, which is lowered when the code shrinks.

use crate::{Result, tidy};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The map of the code, with a table of sizes.
const MAP: &str = "ARCHITECTURE.md";

/// Lines of code that the product has at most. Lower it whenever the code has become shorter.
pub(crate) const LINES_MAX: usize = 69_813;

pub(crate) fn run(root: &Path) -> Result<()> {
    let sizes = sizes(root)?;
    for (name, lines) in &sizes {
        println!("| `{name}` | {lines:>6} |");
    }
    println!("| all | {:>6} |", sizes.values().sum::<usize>());
    Ok(())
}

/// Complaints if the product has grown beyond its bound, or the table in the map of the code is
/// out of date.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let sizes = sizes(root)?;
    let lines: usize = sizes.values().sum();
    let is_too_long = lines > LINES_MAX;
    let mut found = check_table(&fs::read_to_string(root.join(MAP))?, &sizes);
    found.extend(is_too_long.then(|| {
        format!("the product has {lines} lines of code, and {LINES_MAX} are the most: see xtask/src/size.rs")
    }));
    Ok(found)
}

/// Complaints about crates whose row in the table differs from their size by more than a
/// twentieth, or that have no row.
fn check_table(map: &str, sizes: &BTreeMap<String, usize>) -> Vec<String> {
    let stated = |name: &str| {
        let row = map.lines().find_map(|line| line.strip_prefix(&format!("| `{name}` | ")))?;
        row.split(' ').next()?.replace(',', "").parse::<usize>().ok()
    };
    let is_wrong = |name: &str, lines: usize| {
        stated(name).is_none_or(|stated| stated.abs_diff(lines) * 20 > lines)
    };
    let wrong = sizes.iter().filter(|(name, lines)| is_wrong(name, **lines));
    wrong.map(|(name, lines)| format!("{MAP}: `{name}` has {lines} lines of code")).collect()
}

/// The lines of code of each crate.
fn sizes(root: &Path) -> Result<BTreeMap<String, usize>> {
    let mut sizes = BTreeMap::new();
    for path in tidy::sources(root)? {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let within = name.strip_prefix("crates/").and_then(|name| name.split_once('/'));
        let Some((package, _)) = within.filter(|_| tidy::is_product(&name)) else { continue };
        *sizes.entry(package.to_owned()).or_default() += lines_of(&fs::read_to_string(&path)?);
    }
    Ok(sizes)
}

/// Lines of code in a file, up to its tests.
fn lines_of(text: &str) -> usize {
    text.lines()
        .map(str::trim)
        .take_while(|line| *line != "mod tests {")
        .filter(|line| !line.is_empty() && !line.starts_with("//") && *line != "#[cfg(test)]")
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_table_is_nearly_right() {
        let sizes = BTreeMap::from([("net".to_owned(), 1000), ("plan".to_owned(), 400)]);
        let of =
            |net: &str, plan: &str| check_table(&format!("| `net` | {net} | x |\n{plan}"), &sizes);
        assert!(of("1,050", "| `plan` | 380 | x |").is_empty());
        assert_eq!(of("1,051", "| `plan` | 379 | x |").len(), 2);
        assert_eq!(of("1,000", "").len(), 1);
    }

    #[test]
    fn blank_lines_comments_and_tests_are_no_code() {
        let text = "//! A.\n\n/// B.\nfn b() {\n    // c\n    d();\n}\n\n#[cfg(test)]\nmod tests {\n    e\n}\n";
        assert_eq!(lines_of(text), 3);
    }
}
