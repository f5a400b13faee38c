//! A picture of haul at work: an upload, Ctrl-C, and the same command again. The screens are
//! those of real runs behind a pseudo-terminal (`script`), to a real sshd.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haul_testkit::{Sshd, tree};

use crate::{Result, repo};

const PICTURE: &str = "docs/session.svg";

/// The command of the picture. Without a limit to its rate it would be over at once.
const COMMAND: &str = "haul copy --bwlimit 50m disk.img nas:backup/";

const FILE_BYTES: u64 = 400 << 20;

/// Ctrl-C comes when this share has been copied, and the second run is shown at another.
const INTERRUPTED_PERCENT: u32 = 45;
const RESUMED_PERCENT: u32 = 70;

/// The terminal's width, in characters.
const COLUMNS: usize = 80;

/// The program to show.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show this program instead of building haul
    #[arg(long, value_name = "PATH")]
    haul: Option<PathBuf>,
}

/// Runs the session, and draws it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let haul = match &args.haul {
        Some(path) => path.canonicalize()?,
        None => {
            repo::run(repo::cargo().args(["build", "--release", "--package", "haul-cli"]))?;
            repo::target_dir().join("release/haul")
        }
    };
    let temp = tempfile::Builder::new().prefix("haul-session-").tempdir()?;
    let dir = temp.path();
    for name in ["bin", "here", "there", "there/bin", "there/home", "there/home/backup"] {
        fs::create_dir(dir.join(name))?;
    }
    tree::random_file(dir.join("here/disk.img"), FILE_BYTES, 1)?;
    let there = dir.join("there");
    let login = format!("cd '{}/home' && exec '{}' \"$@\"", there.display(), haul.display());
    program(&there.join("bin/haul"), &login)?;
    let paths = format!("{}/bin:/usr/bin:/bin", there.display());
    let sshd = Sshd::builder().host("nas").env("PATH", paths).start()?;
    program(&dir.join("bin/haul"), &format!("exec '{}' \"$@\"", haul.display()))?;
    let ssh = format!("PATH=/usr/bin:/bin exec ssh -F '{}' \"$@\"", sshd.ssh_config().display());
    program(&dir.join("bin/ssh"), &ssh)?;

    let first = record(dir, INTERRUPTED_PERCENT, true)?;
    let second = record(dir, RESUMED_PERCENT, false)?;
    let frames = [
        Frame { title: "an upload", shows_command: true, screen: &first.0 },
        Frame { title: "Ctrl-C", shows_command: false, screen: &first.1 },
        Frame { title: "the same command again", shows_command: true, screen: &second.0 },
        Frame { title: "", shows_command: false, screen: &second.1 },
    ];
    let picture = repo::root().join(PICTURE);
    fs::write(&picture, draw(&frames)?)?;
    println!("{}", picture.display());
    Ok(())
}

/// A part of the picture.
struct Frame<'a> {
    title: &'static str,
    /// True if its command has just been typed.
    shows_command: bool,
    screen: &'a Screen,
}

fn program(path: &Path, line: &str) -> Result<()> {
    fs::write(path, format!("#!/bin/sh\n{line}\n"))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Runs [`COMMAND`] in `dir`. Gives its screen when `percent` are copied, where it gets a
/// Ctrl-C if that is wanted, and its last screen.
fn record(dir: &Path, percent: u32, interrupt: bool) -> Result<(Screen, Screen)> {
    let path = std::env::var("PATH")?;
    let mut script = Command::new("script")
        .args(["--quiet", "--flush", "--command"])
        .arg(format!("stty cols {COLUMNS}; exec {COMMAND}"))
        .arg("/dev/null")
        .current_dir(dir.join("here"))
        .env("PATH", format!("{}:{path}", dir.join("bin").display()))
        .env("XDG_CONFIG_HOME", dir.join("none"))
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut keyboard = script.stdin.take().ok_or("no keyboard")?;
    let mut terminal = script.stdout.take().ok_or("no terminal")?;
    let mut screen = Screen::default();
    let mut at_percent = None;
    let mut buffer = [0; 4096];
    loop {
        let len = terminal.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        screen.print(&String::from_utf8_lossy(&buffer[..len]))?;
        if at_percent.is_none() && screen.percent().is_some_and(|now| now >= percent) {
            at_percent = Some(screen.clone());
            if interrupt {
                keyboard.write_all(b"\x03")?;
            }
        }
    }
    script.wait()?;
    Ok((at_percent.ok_or("no progress was shown")?, screen))
}

/// The lines of a terminal.
#[derive(Debug, Clone, Default)]
struct Screen {
    lines: Vec<String>,
    /// The column that is written next.
    column: usize,
    /// A control sequence that has not ended yet.
    escape: Option<String>,
}

impl Screen {
    /// Adds output. Fails at control sequences that haul is not known to send.
    fn print(&mut self, text: &str) -> Result<()> {
        for c in text.chars() {
            if self.lines.is_empty() {
                self.lines.push(String::new());
            }
            let line = self.lines.last_mut().expect("one was just pushed");
            if let Some(escape) = &mut self.escape {
                escape.push(c);
                if c.is_ascii_alphabetic() {
                    match &*self.escape.take().unwrap_or_default() {
                        "[2K" => line.clear(),
                        "[K" => line.truncate(self.column),
                        style if style.ends_with('m') => {}
                        other => return Err(format!("an unknown control sequence: {other}").into()),
                    }
                }
                continue;
            }
            match c {
                '\x1b' => self.escape = Some(String::new()),
                '\r' => self.column = 0,
                '\n' => self.lines.push(String::new()),
                c => {
                    if self.column == COLUMNS {
                        self.lines.push(String::new());
                        self.column = 0;
                    }
                    let line = self.lines.last_mut().expect("one was just pushed");
                    let mut chars: Vec<char> = line.chars().collect();
                    chars.resize(chars.len().max(self.column + 1), ' ');
                    chars[self.column] = c;
                    *line = chars.into_iter().collect();
                    self.column += 1;
                }
            }
        }
        Ok(())
    }

    /// The share in the line of progress, which is the last one.
    fn percent(&self) -> Option<u32> {
        self.lines.last()?.trim_start().split_once('%')?.0.parse().ok()
    }
}

fn draw(frames: &[Frame]) -> Result<String> {
    // In pixels of the picture at its natural size.
    const MARGIN: usize = 16;
    const LINE: usize = 20;
    const GAP: usize = 14;
    /// Of a wide font of 13 pixels.
    const CHAR_TENTHS: usize = 80;
    let width = COLUMNS * CHAR_TENTHS / 10 + 2 * MARGIN;
    let mut body = String::new();
    let mut y = MARGIN;
    for (at, Frame { title, shows_command, screen }) in frames.iter().enumerate() {
        if at > 0 {
            writeln!(body, "<path d=\"M0 {y}H{width}\" stroke=\"#3d444d\"/>")?;
            y += GAP;
        }
        let (right, base) = (width - MARGIN, y + 13);
        writeln!(body, "<text class=\"title\" x=\"{right}\" y=\"{base}\">{title}</text>")?;
        let command = shows_command.then(|| format!("$ {COMMAND}"));
        let lines = command.into_iter().chain(screen.lines.iter().cloned());
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let class = if line.starts_with("$ ") { " class=\"command\"" } else { "" };
            let line = line.trim_end().replace('&', "&amp;").replace('<', "&lt;");
            writeln!(body, "<text{class} x=\"{MARGIN}\" y=\"{}\">{line}</text>", y + 13)?;
            y += LINE;
        }
        y += GAP;
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" \
         viewBox=\"0 0 {width} {y}\" role=\"img\" aria-labelledby=\"name\">\n\
         <title id=\"name\">haul copies a file, is interrupted, and resumes</title>\n\
         <style>\n\
         text {{ font: 13px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', \
         monospace; fill: #e6edf3; white-space: pre }}\n\
         .command {{ font-weight: 600; fill: #7ee787 }}\n\
         .title {{ text-anchor: end; fill: #9198a1 }}\n\
         </style>\n\
         <rect width=\"{width}\" height=\"{y}\" rx=\"8\" fill=\"#0d1117\"/>\n{body}</svg>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_shows_what_a_terminal_would() {
        let mut screen = Screen::default();
        screen.print("first\r\n\r\x1b[2K12%  disk & <img>\r\x1b[2K 45%  x").expect("printed");
        assert_eq!(screen.lines, ["first", " 45%  x"]);
        assert_eq!(screen.percent(), Some(45));
        screen.print("\x1b[1m^C\x1b").expect("printed");
        screen.print("[0m\r\nab\rc\n").expect("printed");
        assert_eq!(screen.lines, ["first", " 45%  x^C", "cb", ""]);
        assert_eq!(screen.percent(), None);
        screen.print(&format!("\r{}", "x".repeat(COLUMNS + 1))).expect("printed");
        assert_eq!(screen.lines[4], "x");
        assert!(screen.print("\x1b[2J").is_err());
    }

    #[test]
    fn the_picture_has_all_screens() {
        let mut screen = Screen::default();
        screen.print("a < b & c\n").expect("printed");
        let frame = |title, shows_command| Frame { title, shows_command, screen: &screen };
        let picture = draw(&[frame("one", true), frame("two", false)]).expect("drawn");
        assert_eq!(picture.matches(">a &lt; b &amp; c</text>").count(), 2);
        assert_eq!(picture.matches(COMMAND).count(), 1);
        assert!(picture.contains(">two</text>"));
    }
}
