//! A page's tables with some rows measured anew: each row takes the place of
//! the one that has its table and names, and a line tells when and how.

use crate::Result;

/// The column that names the other tool. Such a table has several rows with one
/// title.
const RIVAL: &str = "against";

/// Tables that begin so may get longer.
const WORKLOADS: &str = "| workload |";

/// Before the first line about rows that were measured anew.
const ANEW: &str = "Measured anew since:";

/// A row of a table: the table's first line, and the cells that tell the row
/// from others.
type Key<'a> = (&'a str, Vec<&'a str>);

/// `section` with the rows of `newer`, and a line that names them with `how`. Workloads that
/// it doesn't have come to the ends of their tables; fails if a row has no place at all: then
/// the whole page is to be measured.
pub(super) fn merged(section: &str, newer: &str, how: &str) -> Result<String> {
    let known: Vec<Key<'_>> = rows(section).map(|(key, _)| key).collect();
    let (mut again, mut added): (Vec<_>, Vec<_>) =
        rows(newer).partition(|(key, _)| known.contains(key));
    let mut titles: Vec<&str> = Vec::new();
    for ((_, names), _) in again.iter().chain(&added) {
        titles.extend(names.first().filter(|title| !titles.contains(title)));
    }
    let mut places = rows(section).peekable();
    let mut lines: Vec<&str> = Vec::new();
    for line in section.trim().lines() {
        let Some((key, _)) = places.next_if(|(_, row)| std::ptr::eq(*row, line)) else {
            lines.push(line);
            continue;
        };
        let newer = again.iter().position(|(newer, _)| *newer == key);
        lines.push(newer.map_or(line, |index| again.remove(index).1));
        let is_last = places.peek().is_none_or(|((header, _), _)| *header != key.0);
        if is_last && key.0.starts_with(WORKLOADS) {
            lines.extend(
                added.extract_if(.., |((header, _), _)| *header == key.0).map(|(_, row)| row),
            );
        }
    }
    if let Some(((_, names), _)) = added.first() {
        let names = names.join(", ");
        return Err(format!("the page has no place for `{names}`; write all rows first").into());
    }
    let mut out = lines.join("\n");
    if !out.contains(ANEW) {
        out.push_str(&format!("\n\n{ANEW}\n"));
    }
    let told = format!("- {how}: {}", titles.join("; "));
    if !out.lines().any(|line| line == told) {
        out.push_str(&format!("\n{told}"));
    }
    out.push('\n');
    Ok(out)
}

/// The rows of all tables in `text`, in their order.
fn rows(text: &str) -> impl Iterator<Item = (Key<'_>, &str)> {
    let mut header = None;
    text.trim().lines().filter_map(move |line| {
        if !line.starts_with('|') {
            header = None;
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
        Some(((first, names), line))
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
Medians of 5 rounds.

| workload | haul | against | its time | ratio | bound | |
|---|--:|---|--:|--:|--:|---|
| up | 4.0 s | scp -r | 5.0 s | 0.80 | 0.70 | **over** |
| up | 4.0 s | tar (one round) | 8.0 s | 0.50 | 0.70 | ok |
| down | 3.0 s | scp -r | 5.0 s | 0.60 | 0.70 | ok |

| workload | this side | its agent | bound | |
|---|--:|--:|--:|---|
| up | 6.4 MiB | 7.4 MiB | 64.0 MiB | ok |

Measured with `all` on:

- date: 2026-11-23
";

    const NEWER: &str = "\
| workload | haul | against | its time | ratio | bound | |
|---|--:|---|--:|--:|--:|---|
| up | 1.0 s | scp -r | 5.0 s | 0.20 | 0.70 | ok |
| up | 1.0 s | tar (one round) | 8.0 s | 0.13 | 0.70 | ok |

| workload | this side | its agent | bound | |
|---|--:|--:|--:|---|
| up | 9.0 MiB | 7.4 MiB | 64.0 MiB | ok |
";

    #[test]
    fn a_row_takes_the_place_of_its_older_self_alone() {
        let page = merged(PAGE, NEWER, "today, `up`").expect("merged");
        let expected = PAGE
            .replace(
                "| 4.0 s | scp -r | 5.0 s | 0.80 | 0.70 | **over** |",
                "| 1.0 s | scp -r | 5.0 s | 0.20 | 0.70 | ok |",
            )
            .replace(
                "| 4.0 s | tar (one round) | 8.0 s | 0.50 |",
                "| 1.0 s | tar (one round) | 8.0 s | 0.13 |",
            )
            .replace("6.4 MiB", "9.0 MiB");
        assert_eq!(page, format!("{expected}\nMeasured anew since:\n\n- today, `up`: up\n"));
    }

    #[test]
    fn later_runs_add_their_lines() {
        let once = merged(PAGE, NEWER, "today, `up`").expect("merged");
        let twice = merged(&once, NEWER, "tomorrow, `up`").expect("merged");
        assert_eq!(twice, format!("{once}- tomorrow, `up`: up\n"));
        assert_eq!(merged(&twice, NEWER, "tomorrow, `up`").expect("merged"), twice);
    }

    #[test]
    fn a_new_workload_comes_to_the_end_of_its_table() {
        let row = "| up | 1.0 s | sftp | 5.0 s | 0.20 | 0.70 | ok |";
        let header = "| workload | haul | against | its time | ratio | bound | |";
        let newer = format!("{header}\n|---|--:|---|--:|--:|--:|---|\n{row}\n");
        let page = merged(PAGE, &newer, "today, `up`").expect("merged");
        let last = "| down | 3.0 s | scp -r | 5.0 s | 0.60 | 0.70 | ok |";
        let expected = PAGE.replace(last, &format!("{last}\n{row}"));
        assert_eq!(page, format!("{expected}\nMeasured anew since:\n\n- today, `up`: up\n"));
    }

    #[test]
    fn a_row_of_a_table_that_the_page_lacks_is_a_fault() {
        let other = NEWER.replace("its time | ratio", "its bytes | ratio");
        let fault = merged(PAGE, &other, "today").expect_err("no such table");
        assert!(fault.to_string().contains("no place for `up, scp -r`"), "{fault}");
    }
}
