//! The size of the product: lines of code in each crate, without blank lines, comments and
//! tests. The total has a bound, which is lowered when the code shrinks.

use crate::{Result, tidy};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Lines of code that the product has at most. Lower it whenever the code has become shorter.
pub(crate) const LINES_MAX: usize = 75_263;

pub(crate) fn run(root: &Path) -> Result<()> {
    let sizes = sizes(root)?;
    for (name, lines) in &sizes {
        println!("| `{name}` | {lines:>6} |");
    }
    println!("| all | {:>6} |", sizes.values().sum::<usize>());
    Ok(())
}

/// A complaint if the product has grown beyond its bound.
pub(crate) fn check(root: &Path) -> Result<Option<String>> {
    let lines: usize = sizes(root)?.values().sum();
    Ok((lines > LINES_MAX).then(|| {
        format!("the product has {lines} lines of code, and {LINES_MAX} are the most: see xtask/src/size.rs")
    }))
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
    fn blank_lines_comments_and_tests_are_no_code() {
        let text = "//! A.\n\n/// B.\nfn b() {\n    // c\n    d();\n}\n\n#[cfg(test)]\nmod tests {\n    e\n}\n";
        assert_eq!(lines_of(text), 3);
    }
}
