//! A page's tables with some rows measured anew: each row takes the place of the one that has
//! its table and names. Rows carry the date of their run.

use crate::Result;

/// The column that names the other tool. Such a table has several rows with one
/// title.
const RIVAL: &str = "against";

/// Tables that begin so may get longer.
const COPIES: &str = "| copy |";

/// A row of a table: the heading above it, the table's first line, and the cells that tell
/// the row from others.
type Key<'a> = (&'a str, &'a str, Vec<&'a str>);

/// `section` with the rows of `newer`. Copies that it doesn't have come to the ends of their
/// tables; fails if a row has no place at all: then the whole page is to be measured.
pub(super) fn merged(section: &str, newer: &str) -> Result<String> {
    let known: Vec<Key<'_>> = rows(section).map(|(key, _)| key).collect();
    let (mut remeasured, mut added): (Vec<_>, Vec<_>) =
        rows(newer).partition(|(key, _)| known.contains(key));
    let mut places = rows(section).peekable();
    let mut lines: Vec<&str> = Vec::new();
    for line in section.trim().lines() {
        let Some((key, _)) = places.next_if(|(_, row)| std::ptr::eq(*row, line)) else {
            lines.push(line);
            continue;
        };
        let newer = remeasured.iter().position(|(newer, _)| *newer == key);
        lines.push(newer.map_or(line, |index| remeasured.remove(index).1));
        let of_table = |other: &Key<'_>| (other.0, other.1) == (key.0, key.1);
        let is_last = !places.peek().is_some_and(|(next, _)| of_table(next));
        if is_last && key.1.starts_with(COPIES) {
            lines.extend(added.extract_if(.., |(new, _)| of_table(new)).map(|(_, row)| row));
        }
    }
    if let Some(((_, _, names), _)) = added.first() {
        let names = names.join(", ");
        return Err(format!("the page has no place for `{names}`; write all rows first").into());
    }
    Ok(lines.join("\n") + "\n")
}

/// The rows of all tables in `text`, in their order.
fn rows(text: &str) -> impl Iterator<Item = (Key<'_>, &str)> {
    let mut heading = "";
    let mut header = None;
    text.trim().lines().filter_map(move |line| {
        if !line.starts_with('|') {
            header = None;
            if line.starts_with('#') {
                heading = line;
            }
            return None;
        }
        let Some(first) = header else {
            header = Some(line);
            return None;
        };
        if line.starts_with("|--") {
            return None;
        }
        let columns = cells(first);
        let names = cells(line)
            .into_iter()
            .enumerate()
            .filter(|(index, _)| *index == 0 || columns.get(*index) == Some(&RIVAL))
            .map(|(_, cell)| cell.trim_end_matches(" (one round)"))
            .collect();
        Some(((heading, first, names), line))
    })
}

/// The cells of a row.
pub(super) fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
### Far

| copy | haul (s) | against | its time (s) | ratio | memory (MiB) | date |
|---|--:|---|--:|--:|--:|---|
| up | 4.0 | scp -r | 5.0 | 0.80 | 6.4 | monday |
| up | 4.0 | tar (one round) | 8.0 | 0.50 | 6.4 | monday |
| down | 3.0 | scp -r | 5.0 | 0.60 | 6.4 | monday |

### Farther

| copy | haul (s) | against | its time (s) | ratio | memory (MiB) | date |
|---|--:|---|--:|--:|--:|---|
| up | 9.0 | scp -r | 9.0 | 1.00 | 6.4 | monday |

- date: monday
";

    /// A run of one workload, with the rows `rows`.
    fn newer(rows: &str) -> String {
        let header = "| copy | haul (s) | against | its time (s) | ratio | memory (MiB) | date |";
        format!("### Far\n\n{header}\n|---|--:|---|--:|--:|--:|---|\n{rows}\n- date: friday\n")
    }

    #[test]
    fn a_row_replaces_its_older_self_alone() {
        let rows = "\
| up | 1.0 | scp -r | 5.0 | 0.20 | 9.0 | friday |
| up | 1.0 | tar (one round) | 8.0 | 0.13 | 9.0 | friday |
";
        let page = merged(PAGE, &newer(rows)).expect("merged");
        let expected = PAGE
            .replace(
                "| 4.0 | scp -r | 5.0 | 0.80 | 6.4 | monday |",
                "| 1.0 | scp -r | 5.0 | 0.20 | 9.0 | friday |",
            )
            .replace(
                "| 4.0 | tar (one round) | 8.0 | 0.50 | 6.4 | monday |",
                "| 1.0 | tar (one round) | 8.0 | 0.13 | 9.0 | friday |",
            );
        assert_eq!(page, expected);
        assert_eq!(merged(&page, &newer(rows)).expect("merged"), page);
    }

    #[test]
    fn a_new_workload_comes_to_the_end_of_its_table() {
        let row = "| up | 1.0 | sftp | 5.0 | 0.20 | 9.0 | friday |";
        let page = merged(PAGE, &newer(&format!("{row}\n"))).expect("merged");
        let last = "| down | 3.0 | scp -r | 5.0 | 0.60 | 6.4 | monday |";
        assert_eq!(page, PAGE.replace(last, &format!("{last}\n{row}")));
    }

    #[test]
    fn a_row_of_a_table_that_the_page_lacks_is_a_fault() {
        let rows = newer("| up | 1.0 | scp -r | 5.0 | 0.20 | 9.0 | friday |\n");
        for other in [rows.replace("its time", "its bytes"), rows.replace("### Far", "### Near")] {
            let fault = merged(PAGE, &other).expect_err("no such table");
            assert!(fault.to_string().contains("no place for `up, scp -r`"), "{fault}");
        }
    }
}
