//! The progress line on a terminal, and its coordination with all other output to the terminal.

use console::Term;
use haul_model::escape_bytes;
use haul_net::Diagnostics;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

mod meter;
mod on_signal;
mod periodic;

pub(crate) use self::meter::{Counts, Meter};
pub(crate) use self::on_signal::{SignalProgress, listen as answer_signals};
pub(crate) use self::periodic::PeriodicProgress;

/// Minimum run time of a job to show the progress line. In shorter jobs it would only flicker.
pub(crate) const SHOW_AFTER: Duration = Duration::from_millis(300);

/// The assumed width of a terminal that does not report it.
const COLUMNS_UNKNOWN: usize = 80;

/// Maximum updates of the progress line per second.
const DRAWS_PER_SECOND: u8 = 10;

/// Interval for writing output and drawing the progress line.
const TICK: Duration = Duration::from_millis(100);

/// Does `work`, while a thread calls `tick` in intervals. It writes output and shows progress.
pub(crate) fn while_ticking<T>(tick: impl FnMut() + Send, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let mut tick = tick;
        let run = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                tick();
            }
        };
        // Without the thread there is no progress, and all output is written at the end.
        let _ = thread::Builder::new().name("ticks".to_owned()).spawn_scoped(scope, run);
        let done = work();
        drop(stop);
        done
    })
}

/// Standard error, with the progress line at its bottom. Clones share the line.
#[derive(Clone, Default)]
pub(crate) struct Screen {
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

/// Shows the standard error of ssh, and of agents behind it, on `screen`.
pub(crate) fn diagnostics(screen: &Screen) -> Diagnostics {
    let screen = screen.clone();
    Arc::new(move |line: &[u8]| screen.line(&remote_line(line)))
}

/// Formats a line from a remote program's standard error.
fn remote_line(line: &[u8]) -> String {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    format!("ssh: {}", escape_bytes(text))
}

impl Screen {
    /// True if a progress line can be drawn.
    pub(crate) fn is_terminal() -> bool {
        std::io::stderr().is_terminal()
    }

    /// The current width of the terminal, which may change at any time.
    pub(crate) fn columns() -> usize {
        Term::stderr().size_checked().map_or(COLUMNS_UNKNOWN, |(_, columns)| columns.into())
    }

    /// Draws the progress line, which stays until [`Screen::clear`]. Does nothing in a background
    /// process, to keep other programs' output intact.
    pub(crate) fn draw(&self, line: String) {
        if !haul_engine::is_in_foreground(std::io::stderr()) {
            return;
        }
        let mut bar = self.bar.lock();
        let bar = bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
            let style = ProgressStyle::with_template("{wide_msg}").expect("a template that parses");
            ProgressBar::with_draw_target(None, target).with_style(style)
        });
        bar.set_message(line);
    }

    /// Removes the progress line.
    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar.lock().take() {
            bar.finish_and_clear();
        }
    }

    /// Runs `write`, which may write to the terminal, with the progress line hidden.
    pub(crate) fn above<R>(&self, write: impl FnOnce() -> R) -> R {
        match &*self.bar.lock() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Writes a line to standard error. Errors are ignored, since there is no other place to report
    /// them.
    pub(crate) fn line(&self, line: &str) {
        self.above(|| {
            let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_line_cannot_move_the_cursor() {
        assert_eq!(remote_line(b"Permission denied\r\n"), "ssh: Permission denied");
        assert_eq!(remote_line(b"\x1b[1Aoops\xff"), "ssh: \\x1b[1Aoops\\xff");
    }
}
