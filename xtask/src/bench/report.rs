//! The tables: medians, ratios and memory, on the page for users and with our own bounds for
//! developers.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::Args;
use super::machine;
use super::measure::Measured;
use super::merge::merged;
use super::question::{Question, Row, Table};
use super::tool::Tool;
use super::workload::{Direction, Mode, NO_BOUND, Transport, Workload};
use crate::Result;

/// The marks around the part of the page that a kind of run writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(super) begin: &'static str,
    pub(super) end: &'static str,
}

/// Around what is measured on this machine alone.
pub(crate) const LOOPBACK: Marks = Marks {
    begin: "<!-- bench: begin, written by `cargo xtask bench --write` -->",
    end: "<!-- bench: end -->",
};

/// Around what is measured in the lab.
#[cfg(target_os = "linux")]
pub(crate) const LAB: Marks = Marks {
    begin: "<!-- lab: begin, written by `cargo xtask bench --lab --write` -->",
    end: "<!-- lab: end -->",
};

/// The heading above the facts about the machine.
const MACHINE: &str = "Machine and versions";

const NEW_PAGE: &str = "# Benchmarks\n";

/// The columns of comparisons with other tools. The page has those before the bound.
const COPIES: &[&str] =
    &["copy", "haul (s)", "against", "its time (s)", "ratio", "memory (MiB)", "bound", ""];

/// The same for what goes over a link.
const TRAFFIC: &[&str] =
    &["copy", "haul (MiB)", "against", "its bytes (MiB)", "ratio", "bound", ""];

/// The first of the columns that the page leaves out: our own bounds are for those who change
/// haul.
const BOUND: &str = "bound";

/// Columns of figures, which are aligned at the right, begin with one of these.
const FIGURES: &[&str] = &["haul", "its", "ratio", "memory", "time", "cost"];

/// Everything that a run showed.
pub(crate) struct Report {
    facts: Vec<(&'static str, String)>,
    command: String,
    rounds: u32,
    quick: bool,
    in_lab: bool,
    /// Each with its heading.
    tables: Vec<(&'static str, Table)>,
}

/// Where a report is read, which decides about its columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// On the terminal of a developer: with the bounds.
    Developer,
    /// On the page: without bounds, with the date of each row.
    User,
}

impl Report {
    pub(crate) fn new(haul: &Path, space: &str, network: &str, args: &Args) -> Report {
        Report {
            facts: machine::facts(haul, space, network),
            command: args.command(),
            rounds: args.rounds(),
            quick: args.quick,
            in_lab: args.in_lab(),
            tables: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, workload: &Workload, measured: Measured) {
        let Some(((_, haul), rivals)) = measured.seconds.split_first() else { return };
        let peak_max = workload.peak_rss_bytes_max();
        let peak = measured.client_rss_bytes.max(measured.agent_rss_bytes).unwrap_or(0);
        let sides = [measured.client_rss_bytes, measured.agent_rss_bytes].into_iter().flatten();
        let memory =
            sides.map(|bytes| format!("{:.1}", in_mib(bytes))).collect::<Vec<_>>().join("+");
        let rows = rivals.iter().zip(workload.against).map(|((tool, rival), (_, bound))| {
            let ratio = median(haul.iter().zip(rival).map(|(haul, rival)| haul / rival).collect());
            let bounds = match *bound {
                NO_BOUND => mib(peak_max),
                bound => format!("{bound:.2}, {}", mib(peak_max)),
            };
            let row = vec![
                workload.title.to_owned(),
                format!("{:.3}", median(haul.clone())),
                rival_name(workload, *tool),
                format!("{:.3}", median(rival.clone())),
                format!("{ratio:.2}"),
                memory.clone(),
                bounds,
            ];
            // How long a login takes by itself is no user's question.
            (row, ratio <= *bound && peak <= peak_max, *tool == Tool::Login)
        });
        self.add_rows(topic(workload, self.in_lab), COPIES, rows.collect());
        if let Some(bound) = workload.sent_max() {
            self.add_sent(workload.title, &measured.sent_bytes, bound);
        }
    }

    fn add_sent(&mut self, title: &'static str, sent: &[(Tool, Vec<f64>)], bound: f64) {
        let Some(((_, haul), rivals)) = sent.split_first() else { return };
        let rows = rivals.iter().map(|(tool, rival)| {
            let ratio = median(haul.iter().zip(rival).map(|(haul, rival)| haul / rival).collect());
            let row = vec![
                title.to_owned(),
                format!("{:.1}", in_mib(median(haul.clone()) as u64)),
                tool.name().to_owned(),
                format!("{:.1}", in_mib(median(rival.clone()) as u64)),
                format!("{ratio:.2}"),
                format!("{bound:.2}"),
            ];
            (row, ratio <= bound, false)
        });
        self.add_rows("Bytes over the link", TRAFFIC, rows.collect());
    }

    /// Adds rows to the table below `heading`: each with true if it keeps its bounds, and true
    /// if it is left out of the page.
    fn add_rows(
        &mut self,
        heading: &'static str,
        columns: &'static [&'static str],
        rows: Vec<(Vec<String>, bool, bool)>,
    ) {
        let mut table = Table::new(columns);
        for (mut cells, is_within_bound, is_detail) in rows {
            cells.push(verdict(is_within_bound).to_owned());
            table.rows.push(Row { cells, is_detail });
            table.over += usize::from(!is_within_bound);
        }
        self.add_table(heading, table);
    }

    /// Adds a table, or its rows to that which has its heading.
    fn add_table(&mut self, heading: &'static str, table: Table) {
        match self.tables.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, known)) => {
                known.rows.extend(table.rows);
                known.over += table.over;
                known.notes.extend(table.notes);
            }
            None => self.tables.push((heading, table)),
        }
    }

    pub(crate) fn answer(&mut self, question: &Question, table: Table) {
        self.add_table(question.text, table);
    }

    /// How many rows are over their bounds.
    pub(crate) fn over(&self) -> usize {
        self.tables.iter().map(|(_, table)| table.over).sum()
    }

    /// The tables and what they were measured on, with our own bounds.
    pub(crate) fn to_markdown(&self) -> String {
        self.format(Audience::Developer)
    }

    fn format(&self, audience: Audience) -> String {
        let mut out = String::new();
        if self.quick {
            out.push_str("**A quick run on small workloads: the figures mean nothing.**\n\n");
        }
        if audience == Audience::Developer {
            let rounds = self.rounds;
            out.push_str(&format!(
                "Medians of {rounds} rounds, after one that does not count.\n\n"
            ));
        }
        let date = self.facts.iter().find(|(name, _)| *name == "date");
        let date = date.map_or("unknown", |(_, date)| date);
        for (heading, table) in &self.tables {
            let is_shown = |row: &&Row| audience == Audience::Developer || !row.is_detail;
            let rows: Vec<_> = table.rows.iter().filter(is_shown).collect();
            if rows.is_empty() {
                continue;
            }
            let mut columns = table.columns.to_vec();
            if audience == Audience::User {
                columns.truncate(
                    columns.iter().position(|name| *name == BOUND).unwrap_or(columns.len()),
                );
            }
            let shown = columns.len();
            columns.extend((audience == Audience::User).then_some("date"));
            out.push_str(&format!("### {heading}\n\n| {} |\n|", columns.join(" | ")));
            for name in columns {
                out.push_str(if FIGURES.iter().any(|start| name.starts_with(start)) {
                    "--:|"
                } else {
                    "---|"
                });
            }
            for row in rows {
                out.push_str(&format!("\n| {} |", row.cells[..shown].join(" | ")));
                if audience == Audience::User {
                    out.push_str(&format!(" {date} |"));
                }
            }
            out.push_str("\n\n");
            if !table.notes.is_empty() {
                out.push_str(&format!("{}\n\n", table.notes.join(" ")));
            }
        }
        out.push_str(&format!("### {}\n\nMeasured with `{}` on:\n\n", MACHINE, self.command));
        for (name, value) in &self.facts {
            out.push_str(&format!("- {name}: {value}\n"));
        }
        out
    }

    /// Replaces the marked section of a page, which is made if it is missing.
    pub(crate) fn write_into(&self, page: &Path, marks: Marks) -> Result<()> {
        self.write(page, marks, |_| Ok(self.format(Audience::User)))
    }

    /// Replaces the rows of a page's marked section that were measured.
    pub(crate) fn merge_into(&self, page: &Path, marks: Marks) -> Result<()> {
        self.write(page, marks, |old| merged(old, &self.format(Audience::User)))
    }

    fn write(
        &self,
        page: &Path,
        marks: Marks,
        section: impl FnOnce(&str) -> Result<String>,
    ) -> Result<()> {
        let old = match fs::read_to_string(page) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => NEW_PAGE.to_owned(),
            Err(e) => return Err(e.into()),
        };
        if let Some(dir) = page.parent() {
            fs::create_dir_all(dir)?;
        }
        let marked = parts(&old, marks).map_or("", |(_, marked, _)| marked);
        fs::write(page, replaced(&old, &section(marked)?, marks))?;
        Ok(())
    }
}

/// The heading of a workload's table.
fn topic(workload: &Workload, in_lab: bool) -> &'static str {
    match workload.transport {
        Transport::Sftp(_) if in_lab => "Slow and long links, to hosts without haul",
        _ if in_lab => "Slow and long links",
        Transport::Sftp(_) => "Hosts without haul",
        Transport::Server | Transport::Quic | Transport::Kept => "Servers and kept connections",
        _ if workload.against.iter().all(|(tool, _)| tool.is_haul()) => "Options of haul",
        _ if workload.direction == Direction::Local => "One machine",
        _ => "Hosts with haul",
    }
}

/// The other tool of a row, with the options that matter.
fn rival_name(workload: &Workload, tool: Tool) -> String {
    let mut name = match workload.mode {
        _ if matches!(tool, Tool::Login | Tool::Daemon) => tool.title(false).to_owned(),
        Mode::Copy | Mode::Fast | Mode::ToAll => tool.title(workload.data.is_tree()).to_owned(),
        Mode::Sync(options) => format!("{} {}", tool.name(), options.join(" ")),
    };
    if workload.single_round.contains(&tool) {
        name.push_str(" (one round)");
    }
    name
}

/// The page with `section` between the marks, which are appended when missing.
fn replaced(page: &str, section: &str, marks: Marks) -> String {
    let Marks { begin, end } = marks;
    let section = format!("{begin}\n\n{}\n\n{end}", section.trim());
    match parts(page, marks) {
        Some((before, _, after)) => format!("{before}{section}{after}"),
        None => format!("{}\n\n{section}\n", page.trim_end()),
    }
}

/// The page before the marks, between them and after them.
fn parts(page: &str, Marks { begin, end }: Marks) -> Option<(&str, &str, &str)> {
    let (before, rest) = page.split_once(begin)?;
    let (marked, after) = rest.split_once(end)?;
    Some((before, marked, after))
}

pub(crate) fn verdict(is_within_bound: bool) -> &'static str {
    if is_within_bound { "ok" } else { "**over**" }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", in_mib(bytes))
}

fn in_mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::question::COMPARISON;
    use super::super::workload::WORKLOADS;
    use super::*;

    fn report() -> Report {
        let facts = vec![("kernel", "Linux".to_owned())];
        let command = "cargo xtask bench --write --rounds 3".to_owned();
        Report { facts, command, rounds: 3, quick: false, in_lab: false, tables: Vec::new() }
    }

    fn measured(haul: [f64; 3], cp: [f64; 3], rss: u64) -> Measured {
        Measured {
            seconds: vec![(Tool::Haul, haul.to_vec()), (Tool::Cp, cp.to_vec())],
            sent_bytes: Vec::new(),
            client_rss_bytes: Some(rss),
            agent_rss_bytes: None,
        }
    }

    #[test]
    fn medians_are_of_sorted_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_ratios() {
        let mut report = report();
        // The ratios are 0.5, 2 and 1: their median is not that of the times.
        report.add(&WORKLOADS[0], measured([1.0, 4.0, 9.0], [2.0, 2.0, 9.0], 1 << 20));
        assert_eq!(report.over(), 0);
        let row = "| one 1 GiB file | 4.000 | cp | 2.000 | 1.00 | 1.0 |";
        let text = report.to_markdown();
        assert!(text.contains(&format!("{row} 1.10, 64.0 MiB | ok |")), "{text}");
        let page = report.format(Audience::User);
        assert!(page.contains(&format!("{row} unknown |")), "{page}");
    }

    #[test]
    fn a_slow_run_and_a_large_one_are_over() {
        let mut slow = report();
        slow.add(&WORKLOADS[0], measured([1.2; 3], [1.0; 3], 1 << 20));
        assert_eq!(slow.over(), 1);
        assert!(slow.to_markdown().contains("**over**"));
        let mut large = report();
        large.add(
            &WORKLOADS[0],
            measured([1.0; 3], [1.0; 3], WORKLOADS[0].peak_rss_bytes_max() + 1),
        );
        assert_eq!(large.over(), 1);
    }

    #[test]
    fn what_ran_once_and_has_no_bound_reports_it() {
        let only = Workload {
            against: &[(Tool::Cp, NO_BOUND)],
            single_round: &[Tool::Cp],
            ..WORKLOADS[0]
        };
        let mut measured = measured([8.0, 9.0, 10.0], [2.0; 3], 1 << 20);
        measured.seconds[1].1.truncate(1);
        let mut report = report();
        report.add(&only, measured);
        assert_eq!(report.over(), 0);
        let text = report.to_markdown();
        assert!(
            text.contains("| 9.000 | cp (one round) | 2.000 | 4.00 | 1.0 | 64.0 MiB | ok |"),
            "{text}"
        );
    }

    #[test]
    fn bounds_and_details_are_for_developers() {
        let mut report = report();
        let mut table = Table::new(COMPARISON);
        table.compare("small", &[1.0], ("cp", &[2.0]), None);
        table.compare("large", &[1.0], ("cp", &[2.0]), Some(0.4));
        table.hide_all_but_last(1);
        report.add_table("Safety", table);
        let row = "| large | 1.000 s | cp | 2.000 s | 0.500 |";
        assert!(report.to_markdown().contains(&format!("{row} 0.40 | **over** |")));
        let page = report.format(Audience::User);
        assert!(page.contains(&format!("{row} unknown |")), "{page}");
        assert!(!page.contains("small") && !page.contains("bound"), "{page}");
    }

    #[test]
    fn a_page_keeps_what_is_around_the_section() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let page = dir.path().join("docs/page.md");
        report().write_into(&page, LOOPBACK).expect("written");
        let first = fs::read_to_string(&page).expect("read");
        assert!(first.starts_with(NEW_PAGE) && first.contains("- kernel: Linux"));
        fs::write(&page, format!("{first}\nAfter.\n")).expect("written");
        let mut other = report();
        other.facts = vec![("kernel", "Another".to_owned())];
        other.write_into(&page, LOOPBACK).expect("written");
        let second = fs::read_to_string(&page).expect("read");
        assert_eq!(second, format!("{first}\nAfter.\n").replace("Linux", "Another"));
    }
}
