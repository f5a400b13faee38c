//! The chart of the benchmarks: a bar for haul, and one for each tool beside it,
//! drawn from the page's own table, so that no figure is typed by hand.
//!
//! Rows through SFTP are left out: the chart is for what people do every day.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::merge::cells;
use super::report::LOOPBACK;
use crate::Result;

/// The first line of the table that is drawn.
pub(super) const HEADER: &str = "| workload | haul | against | its time | ratio | bound | |";

/// Rows whose title contains this are not drawn.
const LEFT_OUT: &str = "SFTP";

// Lengths are in pixels of the picture at its natural size.
const WIDTH: usize = 840;
const COLUMNS: usize = 2;
const COLUMN_WIDTH: usize = WIDTH / COLUMNS;
/// Between a column's left edge and its bars, for the names of the tools.
const NAME_WIDTH: usize = 108;
/// The longest bar of a group; the time stands to its right.
const BAR_WIDTH: usize = 230;
const BAR_HEIGHT: usize = 14;
const BAR_STEP: usize = 20;
const TITLE_HEIGHT: usize = 24;
const GAP: usize = 16;
const FOOTER_HEIGHT: usize = 20;

const STYLE: &str = "\
text { font: 13px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.note { font-size: 12px; fill: #59636e }
.haul { fill: #0969da }
.other { fill: #afb8c1 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.note { fill: #9198a1 }
.haul { fill: #4493f8 }
.other { fill: #656c76 }
}";

const NOTE: &str = "Shorter is better. Each group has its own scale.";

/// One workload: haul's time, then that of each other tool.
#[derive(Debug, PartialEq)]
struct Group<'a> {
    title: &'a str,
    bars: Vec<Bar<'a>>,
}

#[derive(Debug, PartialEq)]
struct Bar<'a> {
    tool: &'a str,
    seconds: f64,
}

/// Draws the chart of the page at `page` into the file `chart`.
///
/// # Errors
///
/// The page can't be read or has no such table, or the file can't be written.
pub(super) fn redraw(page: &Path, chart: &Path) -> Result<()> {
    fs::write(chart, draw(&fs::read_to_string(page)?)?)?;
    Ok(())
}

fn draw(page: &str) -> Result<String> {
    let groups = groups(page)?;
    let total: usize = groups.iter().map(Group::height).sum();
    let column_height = total.div_ceil(COLUMNS);
    let mut body = String::new();
    let (mut column, mut y, mut bottom) = (0, 0, 0);
    for group in &groups {
        if y + group.height() / 2 > column_height && column + 1 < COLUMNS {
            (column, y) = (column + 1, 0);
        }
        group.draw(&mut body, column * COLUMN_WIDTH, y)?;
        y += group.height();
        bottom = bottom.max(y);
    }
    let height = bottom + FOOTER_HEIGHT;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"name\">\n\
         <title id=\"name\">How long haul and other tools take for the same copies</title>\n\
         <style>\n{STYLE}\n</style>\n{body}\
         <text class=\"note\" x=\"0\" y=\"{}\">{NOTE}</text>\n</svg>\n",
        height - 4
    ))
}

impl Group<'_> {
    fn height(&self) -> usize {
        TITLE_HEIGHT + self.bars.len() * BAR_STEP + GAP
    }

    fn draw(&self, out: &mut String, x: usize, y: usize) -> std::fmt::Result {
        let title = escaped(self.title);
        writeln!(out, "<text class=\"title\" x=\"{x}\" y=\"{}\">{title}</text>", y + 14)?;
        let longest = self.bars.iter().map(|bar| bar.seconds).fold(f64::MIN_POSITIVE, f64::max);
        for (at, bar) in self.bars.iter().enumerate() {
            let (left, top) = (x + NAME_WIDTH, y + TITLE_HEIGHT + at * BAR_STEP);
            let width = bar.seconds / longest * BAR_WIDTH as f64;
            let class = if at == 0 { "haul" } else { "other" };
            let (base, tool) = (top + 11, escaped(bar.tool));
            writeln!(out, "<text x=\"{x}\" y=\"{base}\">{tool}</text>")?;
            writeln!(
                out,
                "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{width:.1}\" \
                 height=\"{BAR_HEIGHT}\" rx=\"2\"/>",
            )?;
            let (end, seconds) = (left as f64 + width + 6.0, bar.seconds);
            writeln!(out, "<text x=\"{end:.1}\" y=\"{base}\">{seconds:.2} s</text>")?;
        }
        Ok(())
    }
}

/// The groups of the page's first table of workloads, in its order.
fn groups(page: &str) -> Result<Vec<Group<'_>>> {
    let (_, section) = page.split_once(LOOPBACK.begin).ok_or("the page has no marked section")?;
    let (_, table) = section.split_once(HEADER).ok_or("the page has no table of workloads")?;
    let mut groups: Vec<Group> = Vec::new();
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let [title, haul, tool, time, ..] = cells(row)[..] else {
            return Err(format!("not a row of the table: {row}").into());
        };
        if title.contains(LEFT_OUT) {
            continue;
        }
        if groups.last().is_none_or(|last| last.title != title) {
            let haul = Bar { tool: "haul", seconds: seconds(haul)? };
            groups.push(Group { title, bars: vec![haul] });
        }
        let rival = Bar { tool, seconds: seconds(time)? };
        groups.last_mut().expect("one was just pushed").bars.push(rival);
    }
    if groups.is_empty() { Err("the table has no rows to draw".into()) } else { Ok(groups) }
}

fn seconds(cell: &str) -> Result<f64> {
    let number = cell.strip_suffix(" s").and_then(|number| number.parse::<f64>().ok());
    Ok(number.filter(|n| n.is_finite()).ok_or_else(|| format!("not a time: {cell}"))?)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    const ROWS: &str = "\
| a < b, upload | 1.000 s | scp | 4.000 s | 0.25 | 0.30 | ok |
| a < b, upload | 1.000 s | tar through ssh | 2.000 s | 0.50 | 0.85 | ok |
| a < b, upload through SFTP | 9.000 s | scp | 9.500 s | 0.95 | 1.00 | ok |
| c, here to here | 3.000 s | cp -r | 1.500 s | 2.00 | 0.75 | **over** |
";

    fn page(rows: &str) -> String {
        let rule = "|---|--:|---|--:|--:|--:|---|";
        format!("# Page\n\n{}\n\n{HEADER}\n{rule}\n{rows}\n| no | row |\n", LOOPBACK.begin)
    }

    #[test]
    fn rows_of_one_workload_are_one_group() {
        let page = page(ROWS);
        let bar = |tool, seconds| Bar { tool, seconds };
        let upload = vec![bar("haul", 1.0), bar("scp", 4.0), bar("tar through ssh", 2.0)];
        let here = vec![bar("haul", 3.0), bar("cp -r", 1.5)];
        let wanted = [
            Group { title: "a < b, upload", bars: upload },
            Group { title: "c, here to here", bars: here },
        ];
        assert_eq!(groups(&page).expect("a table"), wanted);
    }

    #[test]
    fn bars_are_to_scale_and_text_is_escaped() {
        let chart = draw(&page(ROWS)).expect("a chart");
        assert!(chart.contains(">a &lt; b, upload</text>"), "{chart}");
        for (class, width) in [("haul", "57.5"), ("other", "230.0"), ("other", "115.0")] {
            let rect = chart.lines().find(|line| {
                line.contains(&format!("class=\"{class}\""))
                    && line.contains(&format!("width=\"{width}\""))
            });
            assert!(rect.is_some(), "{class} {width}\n{chart}");
        }
        assert!(chart.contains(">4.00 s</text>") && !chart.contains("9.00 s"), "{chart}");
        assert!(chart.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn a_page_that_can_not_be_drawn_is_an_error() {
        let no_time = page("| a | quick | cp | 1.000 s | 0.25 | 0.30 | ok |\n");
        for bad in ["", LOOPBACK.begin, &page(""), &page("| a | 1.000 s |\n"), &no_time] {
            assert!(draw(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_chart_that_stands_in_the_repository_is_that_of_its_page() {
        let read = |name| fs::read_to_string(repo::root().join(name)).expect("read");
        let chart = draw(&read("docs/benchmarks.md")).expect("a chart");
        assert!(chart == read("docs/benchmarks.svg"), "run `cargo xtask bench --chart`");
    }
}
