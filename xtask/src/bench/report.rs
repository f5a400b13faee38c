//! The tables: medians, ratios, bounds, and the page that keeps them.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::Args;
use super::chart;
use super::machine;
use super::measure::Measured;
use super::merge::merged;
use super::question::{Question, Table};
use super::tool::Tool;
use super::workload::{NO_BOUND, Word, Workload};
use crate::Result;

/// The marks around the part of the page that a kind of run writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(super) begin: &'static str,
    end: &'static str,
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

const NEW_PAGE: &str = "# Benchmarks\n\nhaul against the tools that people use now.\n";

/// One comparison, ready to print.
struct Row {
    title: &'static str,
    haul_s: f64,
    rival: String,
    rival_s: f64,
    ratio: f64,
    bound: f64,
}

/// The traffic of one comparison.
struct Sent {
    title: &'static str,
    haul_bytes: f64,
    rival: &'static str,
    rival_bytes: f64,
    ratio: f64,
    bound: f64,
}

/// One workload's memory.
struct Memory {
    title: &'static str,
    client_bytes: Option<u64>,
    agent_bytes: Option<u64>,
    bound_bytes: u64,
}

/// Everything that a run showed.
pub(crate) struct Report {
    facts: Vec<(&'static str, String)>,
    command: String,
    rounds: u32,
    quick: bool,
    rows: Vec<Row>,
    sent: Vec<Sent>,
    memory: Vec<Memory>,
    answers: Vec<(&'static str, Table)>,
}

impl Report {
    pub(crate) fn new(haul: &Path, space: &str, network: &str, args: &Args) -> Report {
        Report {
            facts: machine::facts(haul, space, network),
            command: args.command(),
            rounds: args.rounds(),
            quick: args.quick,
            rows: Vec::new(),
            sent: Vec::new(),
            memory: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, workload: &Workload, measured: Measured) {
        let Some(((_, haul), rivals)) = measured.seconds.split_first() else { return };
        for ((tool, rival), (_, bound)) in rivals.iter().zip(workload.against) {
            let ratios = haul.iter().zip(rival).map(|(haul, rival)| haul / rival).collect();
            let mut name = match workload.word {
                _ if *tool == Tool::Login => tool.title(false).to_owned(),
                Word::Copy | Word::Fast | Word::ToAll => {
                    tool.title(workload.data.is_tree()).to_owned()
                }
                Word::Sync(options) => format!("{} {}", tool.name(), options.join(" ")),
            };
            if workload.once.contains(tool) {
                name.push_str(" (one round)");
            }
            self.rows.push(Row {
                title: workload.title,
                haul_s: median(haul.clone()),
                rival: name,
                rival_s: median(rival.clone()),
                ratio: median(ratios),
                bound: *bound,
            });
        }
        if let Some(bound) = workload.sent_max() {
            self.add_sent(workload.title, &measured.sent_bytes, bound);
        }
        self.memory.push(Memory {
            title: workload.title,
            client_bytes: measured.client_rss_bytes,
            agent_bytes: measured.agent_rss_bytes,
            bound_bytes: workload.peak_rss_bytes_max(),
        });
    }

    fn add_sent(&mut self, title: &'static str, sent: &[(Tool, Vec<f64>)], bound: f64) {
        let Some(((_, haul), rivals)) = sent.split_first() else { return };
        self.sent.extend(rivals.iter().map(|(tool, rival)| Sent {
            title,
            haul_bytes: median(haul.clone()),
            rival: tool.name(),
            rival_bytes: median(rival.clone()),
            ratio: median(haul.iter().zip(rival).map(|(haul, rival)| haul / rival).collect()),
            bound,
        }));
    }

    pub(crate) fn answer(&mut self, question: &Question, table: Table) {
        self.answers.push((question.text, table));
    }

    /// How many figures are over their bounds.
    pub(crate) fn over(&self) -> usize {
        let slow = self.rows.iter().filter(|row| row.ratio > row.bound).count();
        let large = |memory: &&Memory| memory.peak_bytes() > memory.bound_bytes;
        let unsafe_ones: usize = self.answers.iter().map(|(_, table)| table.over).sum();
        let much = self.sent.iter().filter(|sent| sent.ratio > sent.bound).count();
        slow + much + self.memory.iter().filter(large).count() + unsafe_ones
    }

    /// The tables and what they were measured on.
    pub(crate) fn to_markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a String can't fail.
        let _ = self.format(&mut out);
        out
    }

    fn format(&self, out: &mut String) -> std::fmt::Result {
        if self.quick {
            writeln!(out, "**A quick run on small workloads: the figures mean nothing.**\n")?;
        }
        writeln!(
            out,
            "Medians of {} rounds, the tools in turn, after one round that does",
            self.rounds
        )?;
        writeln!(out, "not count. The ratio is the median of the rounds' ratios.\n")?;
        if !self.rows.is_empty() {
            self.format_workloads(out)?;
        }
        for (question, table) in &self.answers {
            writeln!(out, "\n{question}\n")?;
            writeln!(out, "| {} |", table.columns.join(" | "))?;
            writeln!(out, "|{}", "---|".repeat(table.columns.len()))?;
            for row in &table.rows {
                writeln!(out, "| {} |", row.join(" | "))?;
            }
            if !table.note.is_empty() {
                writeln!(out, "\n{}", table.note)?;
            }
        }
        writeln!(out, "\nMeasured with `{}` on:\n", self.command)?;
        for (name, value) in &self.facts {
            writeln!(out, "- {name}: {value}")?;
        }
        Ok(())
    }

    fn format_workloads(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{}", chart::HEADER)?;
        writeln!(out, "|---|--:|---|--:|--:|--:|---|")?;
        for row in &self.rows {
            writeln!(
                out,
                "| {} | {:.3} s | {} | {:.3} s | {:.2} | {} | {} |",
                row.title,
                row.haul_s,
                row.rival,
                row.rival_s,
                row.ratio,
                if row.bound == NO_BOUND { "-".to_owned() } else { format!("{:.2}", row.bound) },
                if row.bound == NO_BOUND { "" } else { verdict(row.ratio <= row.bound) },
            )?;
        }
        if !self.sent.is_empty() {
            self.format_sent(out)?;
        }
        writeln!(
            out,
            "\nPeak resident memory of haul, sampled in the round that does not count.\n"
        )?;
        writeln!(out, "| workload | this side | its agent | bound | |")?;
        writeln!(out, "|---|--:|--:|--:|---|")?;
        for memory in &self.memory {
            let (client, agent) = (mib(memory.client_bytes), mib(memory.agent_bytes));
            let bound = mib(Some(memory.bound_bytes));
            let verdict = verdict(memory.peak_bytes() <= memory.bound_bytes);
            writeln!(out, "| {} | {client} | {agent} | {bound} | {verdict} |", memory.title)?;
        }
        Ok(())
    }

    fn format_sent(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\nBytes over the link, in both directions, with what the network adds.\n")?;
        writeln!(out, "| workload | haul | against | its bytes | ratio | bound | |")?;
        writeln!(out, "|---|--:|---|--:|--:|--:|---|")?;
        for sent in &self.sent {
            let Sent { title, rival, ratio, bound, .. } = sent;
            let (haul, other) =
                (mib(Some(sent.haul_bytes as u64)), mib(Some(sent.rival_bytes as u64)));
            let verdict = verdict(ratio <= bound);
            writeln!(
                out,
                "| {title} | {haul} | {rival} | {other} | {ratio:.2} | {bound:.2} | {verdict} |"
            )?;
        }
        Ok(())
    }

    /// Replaces the marked section of a page, which is made if it is missing.
    pub(crate) fn write_into(&self, page: &Path, marks: Marks) -> Result<()> {
        self.write(page, marks, |_| Ok(self.to_markdown()))
    }

    /// Replaces the rows of a page's marked section that were measured.
    pub(crate) fn merge_into(&self, page: &Path, marks: Marks) -> Result<()> {
        let date = self.facts.iter().find(|(name, _)| *name == "date");
        let date = date.map_or("date unknown", |(_, date)| date.as_str());
        let how = format!("{date}, `{}`", self.command);
        self.write(page, marks, |old| merged(old, &self.to_markdown(), &how))
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

impl Memory {
    fn peak_bytes(&self) -> u64 {
        self.client_bytes.max(self.agent_bytes).unwrap_or(0)
    }
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

pub(crate) fn verdict(holds: bool) -> &'static str {
    if holds { "ok" } else { "**over**" }
}

fn mib(bytes: Option<u64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)))
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
    use super::super::workload::WORKLOADS;
    use super::*;

    fn report() -> Report {
        let facts = vec![("kernel", "Linux".to_owned())];
        let command = "cargo xtask bench --write --rounds 3".to_owned();
        Report {
            facts,
            command,
            rounds: 3,
            quick: false,
            rows: Vec::new(),
            sent: Vec::new(),
            memory: Vec::new(),
            answers: Vec::new(),
        }
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
        assert_eq!(
            (report.rows[0].ratio, report.rows[0].haul_s, report.rows[0].rival_s),
            (1.0, 4.0, 2.0)
        );
        assert_eq!(report.over(), 0);
        assert!(report.to_markdown().contains("| 4.000 s | cp | 2.000 s | 1.00 | 1.10 | ok |"));
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
    fn what_ran_once_and_has_no_bound_says_so() {
        let only = Workload { against: &[(Tool::Cp, NO_BOUND)], once: &[Tool::Cp], ..WORKLOADS[0] };
        let mut measured = measured([8.0, 9.0, 10.0], [2.0; 3], 1 << 20);
        measured.seconds[1].1.truncate(1);
        let mut report = report();
        report.add(&only, measured);
        assert_eq!(report.over(), 0);
        let text = report.to_markdown();
        assert!(text.contains("| 9.000 s | cp (one round) | 2.000 s | 4.00 | - |  |"), "{text}");
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
