//! The progress line on a terminal, and the screen that it shares with
//! everything else that is shown there.

use console::Term;
use haul_model::escape_bytes;
use haul_net::Diagnostics;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::{Mutex, MutexGuard};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

mod asked;
mod meter;
mod paced;

pub(crate) use self::asked::{Answers, listen as answer_signals};
pub(crate) use self::meter::{Counts, Meter};
pub(crate) use self::paced::Paced;

/// Jobs shorter than this show no progress line: it would only flicker.
pub(crate) const SHOW_AFTER: Duration = Duration::from_millis(300);

/// The width of a terminal that does not tell its own.
const COLUMNS_UNKNOWN: usize = 80;

/// How often the progress line is drawn at most, per second.
const DRAWS_PER_SECOND: u8 = 10;

/// Standard error, and the progress line at its bottom while there is one.
/// Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Screen {
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

/// Shows on `screen` the lines that ssh, or an agent through it, writes to its standard error.
pub(crate) fn diagnostics(screen: &Screen) -> Diagnostics {
    let screen = screen.clone();
    Arc::new(move |line: &[u8]| screen.line(&remote_line(line)))
}

/// A line of the standard error of a remote program.
fn remote_line(line: &[u8]) -> String {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    format!("ssh: {}", escape_bytes(text))
}

impl Screen {
    /// True if a progress line can be drawn at all.
    pub(crate) fn is_terminal() -> bool {
        std::io::stderr().is_terminal()
    }

    /// The columns that a line may have now: the terminal may get another size any time.
    pub(crate) fn columns() -> usize {
        Term::stderr().size_checked().map_or(COLUMNS_UNKNOWN, |(_, columns)| columns.into())
    }

    /// Draws the progress line, from its first call on until [`Screen::clear`]; not over what
    /// others do on the terminal while this process is in the background.
    pub(crate) fn draw(&self, line: String) {
        if !haul_engine::is_in_foreground(std::io::stderr()) {
            return;
        }
        let mut bar = self.bar();
        let bar = bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
            let style = ProgressStyle::with_template("{wide_msg}").expect("a template that parses");
            ProgressBar::with_draw_target(None, target).with_style(style)
        });
        bar.set_message(line);
    }

    /// Takes the progress line off the screen.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
    }

    /// Runs `write`, which may write to the terminal, with the progress line
    /// out of its way.
    pub(crate) fn above<R>(&self, write: impl FnOnce() -> R) -> R {
        match &*self.bar() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Writes a line to standard error. One that can't be written is lost:
    /// there is no other place to say so.
    pub(crate) fn line(&self, line: &str) {
        self.above(|| {
            let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
        });
    }

    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_line_can_not_move_the_cursor() {
        assert_eq!(remote_line(b"Permission denied\r\n"), "ssh: Permission denied");
        assert_eq!(remote_line(b"\x1b[1Aoops\xff"), "ssh: \\x1b[1Aoops\\xff");
    }
}
