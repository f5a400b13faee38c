//! Reads standard error of ssh and of the remote command. A thread passes each line to the program
//! at once, and keeps the last ones for the diagnosis.

use crate::ConnectError;
use crate::diagnosis::{ends_connection, is_repeated};
use crate::remote_command::MISSING_MARKER;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Called with each line that ssh or the remote command prints on standard error, without its line
/// end. Lines that the error about the connection repeats are left out. The bytes come from
/// outside: **escape them before showing them**. Runs on a thread of its own.
pub type Diagnostics = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The longest line, in bytes. The rest of a longer one is dropped.
const LINE_BYTES_MAX: usize = 4096;

/// Lines kept for the diagnosis: enough for ssh's banner about a changed host key.
const LINES_KEPT_MAX: usize = 20;

/// The last output.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail {
    /// The last lines, oldest first.
    pub(crate) lines: VecDeque<Vec<u8>>,
    /// The search for haul has reported that there is none.
    pub(crate) haul_missing: bool,
}

/// The lines so far.
#[derive(Default)]
struct Lines {
    tail: StderrTail,
    /// Lines about the end of the connection. They wait until the error is known, as that may
    /// repeat them.
    withheld: Vec<Vec<u8>>,
    /// No error will follow: further lines are shown at once.
    over: bool,
}

/// The lines so far, and the function that shows them.
struct StderrState {
    lines: Mutex<Lines>,
    show: Diagnostics,
}

impl StderrState {
    /// Records a line. Shows it, unless the error about the connection may repeat it. The marker is
    /// not for the user.
    fn take(&self, line: &[u8]) {
        let mut lines = self.lines.lock();
        if line == MISSING_MARKER {
            lines.tail.haul_missing = true;
            return;
        }
        if lines.tail.lines.len() == LINES_KEPT_MAX {
            lines.tail.lines.pop_front();
        }
        lines.tail.lines.push_back(line.to_vec());
        if !lines.over && lines.withheld.len() < LINES_KEPT_MAX && ends_connection(line) {
            lines.withheld.push(line.to_vec());
            return;
        }
        drop(lines);
        (self.show)(line);
    }
}

/// The thread that reads. Dropping this shows the withheld lines.
pub(crate) struct StderrReader {
    state: Arc<StderrState>,
    /// Disconnected when the thread has read the end of the stream.
    open: Receiver<()>,
}

impl StderrReader {
    pub(crate) fn start(
        stream: impl Read + Send + 'static,
        diagnostics: Diagnostics,
    ) -> io::Result<Self> {
        let state = Arc::new(StderrState { lines: Mutex::default(), show: diagnostics });
        let (closed, open) = mpsc::channel();
        let hears = Arc::clone(&state);
        thread::Builder::new().name("ssh stderr".into()).spawn(move || {
            for_each_line(stream, |line| hears.take(line));
            drop(closed);
        })?;
        Ok(Self { state, open })
    }

    /// Drops withheld lines that `error` repeats. The user sees the error.
    pub(crate) fn drop_repeated(&self, error: &ConnectError) {
        let told = error.to_string();
        self.state.lines.lock().withheld.retain(|line| !is_repeated(line, &told));
    }

    /// Waits up to `timeout` until the stream has ended. Returns whether it has.
    pub(crate) fn wait_closed(&self, timeout: Duration) -> bool {
        self.open.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
    }

    /// The last lines so far.
    pub(crate) fn tail(&self) -> StderrTail {
        self.state.lines.lock().tail.clone()
    }
}

impl Drop for StderrReader {
    fn drop(&mut self) {
        let mut lines = self.state.lines.lock();
        lines.over = true;
        let withheld = std::mem::take(&mut lines.withheld);
        drop(lines);
        withheld.iter().for_each(|line| (self.state.show)(line));
    }
}

/// Calls `each` with every non-empty line of `stream`, cut at [`LINE_BYTES_MAX`], until the stream
/// ends or fails.
fn for_each_line(mut stream: impl Read, mut each: impl FnMut(&[u8])) {
    let mut emit = |line: &mut Vec<u8>| {
        // ssh ends its own lines with CR LF.
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        if !text.is_empty() {
            each(text);
        }
        line.clear();
    };
    let mut line = Vec::new();
    let mut buffer = [0; LINE_BYTES_MAX];
    loop {
        let filled = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(filled) => filled,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for &byte in &buffer[..filled] {
            if byte == b'\n' {
                emit(&mut line);
            } else if line.len() < LINE_BYTES_MAX {
                line.push(byte);
            }
        }
    }
    emit(&mut line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for_each_line(bytes, |line| lines.push(line.to_vec()));
        lines
    }

    #[test]
    fn lines_are_cut_at_their_bound_and_the_last_needs_no_end() {
        assert_eq!(lines(b""), [b""; 0]);
        assert_eq!(lines(b"a\r\n\n\r\nb\nc"), [b"a", b"b", b"c"]);
        for len in [LINE_BYTES_MAX - 1, LINE_BYTES_MAX, LINE_BYTES_MAX + 1, 3 * LINE_BYTES_MAX] {
            let mut bytes = vec![b'x'; len];
            bytes.extend_from_slice(b"\nnext\n");
            let lines = lines(&bytes);
            assert_eq!(lines[0].len(), len.min(LINE_BYTES_MAX));
            assert_eq!(lines[1..], [b"next"]);
        }
    }

    #[test]
    fn the_last_lines_are_kept_and_the_marker_is_not_shown() {
        let mut bytes = Vec::new();
        for n in 0..100 {
            bytes.extend_from_slice(format!("line {n}\n").as_bytes());
        }
        bytes.extend_from_slice(MISSING_MARKER);
        bytes.push(b'\n');
        let shown = Arc::new(Mutex::new(0));
        let count = Arc::clone(&shown);
        let reader = StderrReader::start(
            io::Cursor::new(bytes),
            Arc::new(move |line: &[u8]| {
                assert_ne!(line, MISSING_MARKER);
                *count.lock() += 1;
            }),
        )
        .unwrap();
        assert!(reader.wait_closed(Duration::from_secs(10)));
        let tail = reader.tail();
        assert!(tail.haul_missing);
        assert_eq!(tail.lines.len(), LINES_KEPT_MAX);
        assert_eq!(tail.lines[LINES_KEPT_MAX - 1], b"line 99");
        assert_eq!(*shown.lock(), 100);
    }
}
