//! The rules for documents: short paragraphs, links that lead somewhere, and a budget of words.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::Result;

/// The longest paragraph, in lines as they are written.
const PARAGRAPH_LINES_MAX: usize = 6;

/// The longest paragraph in characters: six lines of 100 columns.
const PARAGRAPH_CHARS_MAX: usize = 600;

/// The documents outside docs/.
const ROOT_DOCS: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Budgets of single documents.
const PROTOCOL_WORDS_MAX: usize = 7_300;
const DECISION_WORDS_MAX: usize = 700;
const CHANGELOG_LINES_MAX: usize = 150;
const README_BYTES_MAX: usize = 4_608;

/// The budget of all that is in docs/, without the protocol, the decisions, and the figures that
/// `cargo xtask bench` writes.
const WORDS_MAX: usize = 19_200;

/// A document, as the rules see it.
#[derive(Default)]
struct Page {
    /// The texts of paragraphs and list items, in source form, with the first line's number.
    paragraphs: Vec<(usize, String)>,
    links: Vec<(usize, String)>,
    anchors: Vec<String>,
}

/// Checks all documents of the repository.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    let mut names: Vec<PathBuf> = ROOT_DOCS.iter().map(PathBuf::from).collect();
    find(root, Path::new("docs"), &mut names)?;
    for name in names {
        let text = fs::read_to_string(root.join(&name))
            .map_err(|error| format!("{}: {error}", name.display()))?;
        texts.insert(name, text);
    }
    let pages: BTreeMap<_, _> =
        texts.iter().map(|(name, text)| (name.clone(), Page::of(text))).collect();
    let mut found = check_budgets(&texts);
    found.extend(check_summary(&pages));
    for (name, page) in &pages {
        let mut faults = Vec::new();
        if name.starts_with("docs") || name == Path::new("README.md") {
            faults.extend(page.check_paragraphs());
        }
        faults.extend(page.check_links(name, &pages, |path| root.join(path).exists()));
        found.extend(faults.into_iter().map(|fault| format!("{}:{fault}", name.display())));
    }
    Ok(found)
}

/// Adds the documents below `dir`, relative to `root`.
fn find(root: &Path, dir: &Path, names: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(dir))? {
        let entry = entry?;
        let name = dir.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            find(root, &name, names)?;
        } else if name.extension().is_some_and(|ext| ext == "md") {
            names.push(name);
        }
    }
    Ok(())
}

/// The book has all pages: mdBook leaves out what its summary doesn't link to.
fn check_summary(pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let summary = Path::new("docs/SUMMARY.md");
    let Some(contents) = pages.get(summary) else { return Vec::new() };
    let linked: Vec<PathBuf> =
        contents.links.iter().map(|(_, link)| resolved(&Path::new("docs").join(link))).collect();
    let is_unlinked = |name: &&PathBuf| name.starts_with("docs") && !linked.contains(name);
    let unlinked = pages.keys().filter(|name| *name != summary).filter(is_unlinked);
    unlinked
        .map(|name| format!("{}: docs/SUMMARY.md does not link to it", name.display()))
        .collect()
}

/// The words of a text: signs of tables and lists are none.
fn words_of(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

fn check_budgets(texts: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut complain = |name: &Path, have: usize, max: usize, unit: &str| {
        if have > max {
            found.push(format!("{}: {have} {unit}; {max} are the most", name.display()));
        }
    };
    let mut total = 0;
    for (name, text) in texts {
        let words = words_of(text);
        match name.to_str().unwrap_or_default() {
            "README.md" => complain(name, text.len(), README_BYTES_MAX, "bytes"),
            "CHANGELOG.md" => complain(name, text.lines().count(), CHANGELOG_LINES_MAX, "lines"),
            "docs/protocol.md" => complain(name, words, PROTOCOL_WORDS_MAX, "words"),
            page if page.starts_with("docs/decisions/") => {
                complain(name, words, DECISION_WORDS_MAX, "words");
            }
            "docs/benchmarks.md" => {}
            page if page.starts_with("docs/") => total += words,
            _ => {}
        }
    }
    complain(
        Path::new("docs, without protocol, decisions and benchmarks"),
        total,
        WORDS_MAX,
        "words",
    );
    found
}

impl Page {
    fn of(text: &str) -> Page {
        let mut page = Page::default();
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        // The source of the current paragraph, and the text of the current heading.
        let mut paragraph: Option<Range<usize>> = None;
        let mut heading: Option<String> = None;
        let mut is_exempt = false;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            if let Event::Html(html) | Event::InlineHtml(html) = &event {
                page.anchors.extend(html.split("id=\"").skip(1).filter_map(before_quote));
            }
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((line(range.start), dest_url.into_string()));
                }
                Event::Start(Tag::Emphasis | Tag::Strong) => {}
                Event::End(TagEnd::Link | TagEnd::Image | TagEnd::Emphasis | TagEnd::Strong) => {
                    continue;
                }
                // The start or the end of a block ends a paragraph.
                Event::Start(_) | Event::End(_) | Event::Rule | Event::Html(_) => {
                    if let Some(range) = paragraph.take() {
                        page.paragraphs.push((line(range.start), text[range].to_owned()));
                    }
                    match event {
                        Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                        Event::End(TagEnd::Heading(_)) => {
                            page.add_heading(&heading.take().unwrap_or_default());
                        }
                        Event::Start(Tag::CodeBlock(_) | Tag::Table(_)) => is_exempt = true,
                        Event::End(TagEnd::CodeBlock | TagEnd::Table) => is_exempt = false,
                        _ => {}
                    }
                    continue;
                }
                Event::Text(ref words) | Event::Code(ref words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(words);
                    }
                }
                _ => {}
            }
            if heading.is_none() && !is_exempt {
                let start = paragraph.map_or(range.start, |old| old.start);
                paragraph = Some(start..range.end);
            }
        }
        page
    }

    /// Adds the anchor that mdBook and GitHub give to a heading.
    fn add_heading(&mut self, heading: &str) {
        let kept = heading.trim().chars().filter_map(|c| match c {
            c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
            c if c.is_whitespace() => Some('-'),
            _ => None,
        });
        let first = kept.collect::<String>().to_lowercase();
        let numbered = (1..).map(|number| format!("{first}-{number}"));
        let mut names = std::iter::once(first.clone()).chain(numbered);
        self.anchors.extend(names.find(|name| !self.anchors.contains(name)));
    }

    fn check_paragraphs(&self) -> impl Iterator<Item = String> {
        self.paragraphs.iter().filter_map(|(line, text)| {
            let (lines, chars) = (text.lines().count(), text.chars().count());
            let is_long = lines > PARAGRAPH_LINES_MAX || chars > PARAGRAPH_CHARS_MAX;
            is_long
                .then(|| format!("{line}: a long paragraph (lines: {lines}, characters: {chars})"))
        })
    }

    /// Checks the links of this page, `name`, into the repository. `exists` knows its files.
    fn check_links(
        &self,
        name: &Path,
        pages: &BTreeMap<PathBuf, Page>,
        exists: impl Fn(&Path) -> bool,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for (line, link) in &self.links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => name.to_path_buf(),
                path => resolved(&name.parent().unwrap_or(Path::new("")).join(path)),
            };
            if !exists(&target) {
                found.push(format!("{line}: the link `{link}` leads to no file"));
            } else if let Some(page) = pages.get(&target)
                && !anchor.is_empty()
                && !page.anchors.iter().any(|known| known == anchor)
            {
                found.push(format!("{line}: the link `{link}` leads to no heading"));
            }
        }
        found
    }
}

/// The path without `.` and `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            part => plain.push(part),
        }
    }
    plain
}

fn before_quote(text: &str) -> Option<String> {
    text.split_once('"').map(|(id, _)| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_paragraphs(text: &str) -> Vec<String> {
        Page::of(text).check_paragraphs().collect()
    }

    #[test]
    fn paragraphs_over_six_lines_or_600_characters_are_found() {
        let line = "word *and* `code` [link](x.md)\n";
        assert!(long_paragraphs(&line.repeat(PARAGRAPH_LINES_MAX)).is_empty());
        let found = long_paragraphs(&format!("# A\n\nB.\n\n{}", line.repeat(7)));
        assert!(found[0].starts_with("5: a long paragraph (lines: 7, "), "{found:?}");
        let most = "\u{e9}".repeat(PARAGRAPH_CHARS_MAX);
        assert!(long_paragraphs(&format!("{most}\n\n{most}\n")).is_empty());
        assert_eq!(
            long_paragraphs(&format!("a{most}\n")),
            ["1: a long paragraph (lines: 1, characters: 601)"]
        );
        assert_eq!(long_paragraphs(&format!("> a{most}\n")).len(), 1);
    }

    #[test]
    fn each_list_item_counts_by_itself() {
        let item = "word ".repeat(80);
        let list = format!("- {item}\n- {item}\n  - {item}\n\n1. {item}\n");
        assert!(long_paragraphs(&list).is_empty());
        let found = long_paragraphs(&format!("{list}2. {item}{item}\n   - {item}\n"));
        assert_eq!(found, ["6: a long paragraph (lines: 1, characters: 799)"]);
    }

    #[test]
    fn code_tables_headings_and_comments_are_no_paragraphs() {
        let long = "word ".repeat(200);
        let code = format!("```\n{long}\n```\n");
        let table = format!("| a | b |\n|---|---|\n| {long} | [x](#x) |\n");
        let text = format!(
            "# {long}\n\n{code}\n{table}\n<!-- {long} -->\n\n- a\n\n  ```\n  {long}\n  ```\n"
        );
        assert!(long_paragraphs(&text).is_empty());
    }

    fn link_faults(text: &str) -> Vec<String> {
        let other = "# Set `-x`, up\n\n## Twice\n\n## Twice\n\n<a id=\"named\"></a>\n";
        let name = Path::new("docs/how-to/page.md");
        let pages = BTreeMap::from([
            (name.to_path_buf(), Page::of(text)),
            (PathBuf::from("docs/other.md"), Page::of(other)),
        ]);
        let exists = |path: &Path| pages.contains_key(path) || path == Path::new("LICENSE");
        pages[name].check_links(name, &pages, exists)
    }

    #[test]
    fn links_lead_to_files_and_anchors_to_headings() {
        for good in [
            "../other.md",
            "../other.md#set--x-up",
            "../other.md#twice",
            "../other.md#twice-1",
            "../other.md#named",
            "../../LICENSE",
            "#here",
            "https://example.org/#x",
            "mailto:x@example.org",
        ] {
            let found = link_faults(&format!("# Here\n\n- [a]({good})\n"));
            assert!(found.is_empty(), "{found:?}");
        }
        let fault = |link: &str| link_faults(&format!("# Here\n\n![a]({link})\n"));
        assert_eq!(fault("other.md"), ["3: the link `other.md` leads to no file"]);
        for bad in ["../other.md#twice-2", "../other.md#here", "#there"] {
            assert_eq!(fault(bad), [format!("3: the link `{bad}` leads to no heading")]);
        }
        let by_name = "[a][b]\n\n| [c](#c) |\n|---|\n\n[b]: ../none.md\n`[no](link.md)`\n";
        assert_eq!(link_faults(by_name).len(), 2);
    }

    #[test]
    fn the_summary_links_to_all_pages() {
        let page = |name: &str, text| (PathBuf::from(name), Page::of(text));
        let pages = BTreeMap::from([
            page("README.md", ""),
            page("docs/SUMMARY.md", "- [A](./how-to/a.md)\n"),
            page("docs/how-to/a.md", ""),
            page("docs/b.md", ""),
        ]);
        assert_eq!(check_summary(&pages), ["docs/b.md: docs/SUMMARY.md does not link to it"]);
    }

    #[test]
    fn budgets_are_kept() {
        let words = |count| "word ".repeat(count);
        let faults = |name: &str, text: String| {
            check_budgets(&BTreeMap::from([(PathBuf::from(name), text)])).len()
        };
        for (name, max) in [
            ("docs/protocol.md", PROTOCOL_WORDS_MAX),
            ("docs/decisions/one.md", DECISION_WORDS_MAX),
            ("docs/how-to/page.md", WORDS_MAX),
        ] {
            assert_eq!((faults(name, words(max)), faults(name, words(max + 1))), (0, 1), "{name}");
        }
        let lines = |count| "line\n".repeat(count);
        assert_eq!(faults("CHANGELOG.md", lines(CHANGELOG_LINES_MAX)), 0);
        assert_eq!(faults("CHANGELOG.md", lines(CHANGELOG_LINES_MAX + 1)), 1);
        assert_eq!(faults("README.md", "x".repeat(README_BYTES_MAX)), 0);
        assert_eq!(faults("README.md", "x".repeat(README_BYTES_MAX + 1)), 1);
    }
}
