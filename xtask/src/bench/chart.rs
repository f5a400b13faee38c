//! The chart of the benchmarks: the copies that people do every day, a bar for haul and one for
//! each other tool, drawn from the page's own tables, so that no figure is typed by hand.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::merge::cells;
use super::report::LOOPBACK;
use crate::Result;

/// Copies that are drawn: the name on the page, and the two lines of the label.
type Copies = &'static [(&'static str, [&'static str; 2])];

/// The comparisons that are drawn, below their headings.
const PANELS: &[(&str, Copies)] = &[
    (
        "On one machine",
        &[
            ("one 1 GiB file", ["one file", "of 1 GiB"]),
            ("10,000 files of 64 KiB", ["10,000 files", "of 64 KiB"]),
            ("100,000 files, unchanged", ["100,000 files,", "unchanged"]),
        ],
    ),
    (
        "Upload to a host",
        &[
            ("one 1 GiB file, upload", ["one file", "of 1 GiB"]),
            ("10,000 files of 64 KiB, upload", ["10,000 files", "of 64 KiB"]),
            ("100,000 files, unchanged, upload", ["100,000 files,", "unchanged"]),
        ],
    ),
    (
        "Download from a host",
        &[
            ("one 1 GiB file, download", ["one file", "of 1 GiB"]),
            ("10,000 files of 64 KiB, download", ["10,000 files", "of 64 KiB"]),
        ],
    ),
];

/// Tools beside haul that are drawn, by their first word.
const RIVAL_TOOLS: [&str; 4] = ["cp", "scp", "tar", "rsync"];

// Lengths are in pixels of the picture at its natural size.
const WIDTH: usize = 760;
const MARGIN: usize = 16;
/// The right end of the tools' names, left of the bars.
const NAMES_END: usize = 264;
const BARS_BEGIN: usize = NAMES_END + 8;
/// The longest bar of a panel. The time stands to its right.
const BAR_WIDTH: usize = 226;
const BAR_HEIGHT: usize = 15;
const BAR_STEP: usize = 21;
const HEADING_HEIGHT: usize = 32;
const GAP: usize = 12;
const FOOTER_HEIGHT: usize = 26;

const STYLE: &str = "\
text { font: 14px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
.heading { font-size: 15px; font-weight: 600 }
.name, .ratio { text-anchor: end }
.strong { font-weight: 600 }
.note { font-size: 12px; fill: #59636e }
.page { fill: #ffffff; stroke: #d1d9e0 }
.haul { fill: #0969da }
.other { fill: #afb8c1 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.note { fill: #9198a1 }
.page { fill: #0d1117; stroke: #3d444d }
.haul { fill: #4493f8 }
.other { fill: #656c76 }
}";

const NOTE: &str = "Time to finish: shorter is better. Each group has its own scale.";

/// One copy: haul's time, then each other tool.
#[derive(Debug, PartialEq)]
struct Panel<'a> {
    label: [&'static str; 2],
    haul_s: f64,
    rivals: Vec<Rival<'a>>,
}

#[derive(Debug, PartialEq)]
struct Rival<'a> {
    tool: &'a str,
    seconds: f64,
}

/// Draws the chart of the page at `page` into the file `chart`.
///
/// # Errors
///
/// The page can't be read or lacks a copy, or the file can't be written.
pub(super) fn redraw(page: &Path, chart: &Path) -> Result<()> {
    fs::write(chart, draw(&fs::read_to_string(page)?)?)?;
    Ok(())
}

fn draw(page: &str) -> Result<String> {
    let mut body = String::new();
    let mut y = 4;
    for (heading, copies) in PANELS {
        writeln!(body, "<text class=\"heading\" x=\"{MARGIN}\" y=\"{}\">{heading}</text>", y + 20)?;
        y += HEADING_HEIGHT;
        for (title, label) in *copies {
            let panel = Panel::of(page, title, *label)?;
            panel.draw(&mut body, y)?;
            y += panel.height();
        }
    }
    let height = y + FOOTER_HEIGHT;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"name\">\n\
         <title id=\"name\">How long haul and other tools take for the same copies</title>\n\
         <style>\n{STYLE}\n</style>\n\
         <rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n{body}\
         <text class=\"note\" x=\"{MARGIN}\" y=\"{}\">{NOTE}</text>\n</svg>\n",
        WIDTH - 1,
        height - 1,
        height - 12
    ))
}

impl<'a> Panel<'a> {
    /// The rows of the copy `title` in the page's first marked section.
    fn of(page: &'a str, title: &str, label: [&'static str; 2]) -> Result<Panel<'a>> {
        let (_, section) = page.split_once(LOOPBACK.begin).ok_or("the page has no marks")?;
        let section = section.split_once(LOOPBACK.end).map_or(section, |(section, _)| section);
        let mut panel = Panel { label, haul_s: 0.0, rivals: Vec::new() };
        for row in section.lines().filter(|line| line.starts_with('|')) {
            let [copy, haul, tool, time, ..] = cells(row)[..] else { continue };
            let is_charted = RIVAL_TOOLS.contains(&tool.split(' ').next().unwrap_or_default());
            if copy != title || !is_charted {
                continue;
            }
            panel.haul_s = seconds(haul)?;
            panel.rivals.push(Rival { tool, seconds: seconds(time)? });
        }
        match panel.rivals.is_empty() {
            true => Err(format!("the page has no row for `{title}`").into()),
            false => Ok(panel),
        }
    }

    fn height(&self) -> usize {
        (self.rivals.len() + 1) * BAR_STEP + GAP
    }

    fn draw(&self, out: &mut String, y: usize) -> std::fmt::Result {
        for (at, line) in self.label.iter().enumerate() {
            let base = y + at * BAR_STEP + 12;
            writeln!(out, "<text x=\"{MARGIN}\" y=\"{base}\">{line}</text>")?;
        }
        let longest = self.rivals.iter().map(|rival| rival.seconds).fold(self.haul_s, f64::max);
        let mut row = |at: usize, tool: &str, seconds: f64| {
            let (class, strong) = if at == 0 { ("haul", " strong") } else { ("other", "") };
            let (top, base) = (y + at * BAR_STEP, y + at * BAR_STEP + 12);
            let width = seconds / longest * BAR_WIDTH as f64;
            let end = BARS_BEGIN as f64 + width + 6.0;
            writeln!(
                out,
                "<text class=\"name{strong}\" x=\"{NAMES_END}\" y=\"{base}\">{}</text>\n\
                 <rect class=\"{class}\" x=\"{BARS_BEGIN}\" y=\"{top}\" width=\"{width:.1}\" \
                 height=\"{BAR_HEIGHT}\" rx=\"2\"/>\n\
                 <text class=\"time{strong}\" x=\"{end:.1}\" y=\"{base}\">{seconds:.2} s</text>",
                escaped(tool)
            )
        };
        row(0, "haul", self.haul_s)?;
        for (at, rival) in (1..).zip(&self.rivals) {
            row(at, rival.tool, rival.seconds)?;
        }
        for (at, rival) in (1..).zip(&self.rivals) {
            let (x, base) = (WIDTH - MARGIN, y + at * BAR_STEP + 12);
            let words = ratio_text(self.haul_s, rival.seconds);
            writeln!(out, "<text class=\"ratio\" x=\"{x}\" y=\"{base}\">{words}</text>")?;
        }
        Ok(())
    }
}

/// The times of haul and of another tool, compared in words.
fn ratio_text(haul_s: f64, rival_s: f64) -> String {
    format!("haul is {:.1} × as fast", rival_s / haul_s)
}

fn seconds(cell: &str) -> Result<f64> {
    let number = cell.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    Ok(number.ok_or_else(|| format!("not a time: {cell}"))?)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    /// The width of a character in a wide font (DejaVu Sans, 14 pixels), on average.
    const CHAR_WIDTH_TENTHS: usize = 85;

    fn page(rows: &str) -> String {
        let header = "| copy | haul (s) | against | its time (s) | ratio | memory (MiB) | date |";
        format!("# Page\n\n{}\n\n{header}\n|---|\n{rows}\n| no | row |\n", LOOPBACK.begin)
    }

    /// A page with a row for each panel: haul takes a quarter of the time.
    fn whole_page() -> String {
        let copies = PANELS.iter().flat_map(|(_, copies)| *copies);
        let row = |title| format!("| {title} | 1.000 | a < b | 4.000 | 0.25 | - | x |\n");
        let rows: Vec<String> = copies.map(|(title, _)| row(title)).collect();
        page(&rows.concat().replace("a < b", "scp <"))
    }

    #[test]
    fn a_panel_has_the_rows_of_its_copy() {
        let rows = "\
| b, upload | 1.000 | scp | 4.000 | 0.25 | - | x |
| b, upload | 1.000 | tar through ssh | 2.000 | 0.51 | - | x |
| b, upload | 1.000 | cat | 0.500 | 2.00 | - | x |
| b | 1.500 | cp | 3.000 | 0.50 | - | x |
";
        let rivals = vec![
            Rival { tool: "scp", seconds: 4.0 },
            Rival { tool: "tar through ssh", seconds: 2.0 },
        ];
        let wanted = Panel { label: ["b", ""], haul_s: 1.0, rivals };
        assert_eq!(Panel::of(&page(rows), "b, upload", ["b", ""]).expect("a panel"), wanted);
    }

    #[test]
    fn bars_are_to_scale_and_ratios_in_words() {
        let chart = draw(&whole_page()).expect("a chart");
        for (class, width) in [("haul", "56.5"), ("other", "226.0")] {
            let rect = chart.lines().find(|line| {
                line.contains(&format!("class=\"{class}\""))
                    && line.contains(&format!("width=\"{width}\""))
            });
            assert!(rect.is_some(), "{class} {width}\n{chart}");
        }
        assert!(chart.contains(">4.00 s</text>") && chart.contains(">scp &lt;</text>"), "{chart}");
        assert!(chart.contains(">haul is 4.0 × as fast</text>"), "{chart}");
        assert!(chart.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn labels_have_room() {
        let width = |text: &str| text.chars().count() * CHAR_WIDTH_TENTHS / 10;
        let labels = PANELS.iter().flat_map(|(_, copies)| *copies).flat_map(|(_, label)| label);
        let label = labels.map(|line| width(line)).max().expect("labels");
        assert!(MARGIN + label + width("tar through ssh") <= NAMES_END);
        let behind_bar = width("99.99 s") + width(&ratio_text(1.0, 4.0));
        assert!(BARS_BEGIN + BAR_WIDTH + 6 + behind_bar + MARGIN <= WIDTH);
    }

    #[test]
    fn a_page_that_cannot_be_drawn_is_an_error() {
        let whole = whole_page();
        assert!(draw(&whole).is_ok());
        for (good, bad) in [(LOOPBACK.begin, ""), ("1.000", "quick"), ("4.000", "0.000")] {
            assert!(draw(&whole.replace(good, bad)).is_err(), "{bad}");
        }
        assert!(draw(&whole.replacen("| one 1 GiB file |", "| other |", 1)).is_err());
    }

    #[test]
    fn the_chart_in_the_repository_is_that_of_its_page() {
        let read = |name| fs::read_to_string(repo::root().join(name)).expect("read");
        let chart = draw(&read("docs/benchmarks.md")).expect("a chart");
        assert!(chart == read("docs/benchmarks.svg"), "run `cargo xtask bench --chart`");
    }
}
