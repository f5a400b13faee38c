//! An SFTP server that says given bytes, and a conversation with any server.

use haul_net::Connection;
use haul_sftp::codec::HEADER_LEN;
use haul_sftp::{
    Attrs, Client, Existing, Get, Gets, OpenFlags, Options, Put, Puts, Session, Times,
};
use haul_testkit::content;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A server that says its bytes packet by packet, each when something has been
/// asked for it: nobody can answer what was not asked yet.
pub struct Answering {
    bytes: io::Cursor<Vec<u8>>,
    /// Where the packet that is being said ends.
    packet_end: usize,
    said: usize,
    asked: Arc<Asked>,
}

#[derive(Default)]
struct Asked {
    state: Mutex<RequestState>,
    changed: Condvar,
}

#[derive(Default)]
struct RequestState {
    requests: usize,
    /// Bytes still to come of the request that is being written.
    rest: usize,
    len: Vec<u8>,
    closed: bool,
}

impl Answering {
    /// A server that greets as `stream` begins.
    pub fn with(stream: &[u8]) -> Self {
        let bytes = io::Cursor::new(stream.to_vec());
        Self { bytes, packet_end: 0, said: 0, asked: Arc::default() }
    }

    /// A connection to it.
    pub fn connection(self) -> Connection {
        let asked = Arc::clone(&self.asked);
        Connection::from_parts(self, Asking(asked))
    }
}

impl Read for Answering {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let at = self.bytes.position() as usize;
        if at == self.bytes.get_ref().len() {
            return Ok(0);
        }
        if at == self.packet_end {
            let state = self.asked.lock();
            let wait = |state: &mut RequestState| state.requests <= self.said && !state.closed;
            let state = self.asked.changed.wait_while(state, wait);
            if state.unwrap_or_else(PoisonError::into_inner).closed {
                return Ok(0);
            }
            self.said += 1;
            let rest = &self.bytes.get_ref()[at..];
            let len = rest.first_chunk().map_or(0, |len| u32::from_be_bytes(*len) as usize);
            // Nobody takes less than a header for a packet.
            let len = len.saturating_add(4).max(HEADER_LEN);
            self.packet_end = at + rest.len().min(len);
        }
        let len = buf.len().min(self.packet_end - at);
        self.bytes.read(&mut buf[..len])
    }
}

struct Asking(Arc<Asked>);

impl Asked {
    fn lock(&self) -> MutexGuard<'_, RequestState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Asking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        let mut left = bytes;
        while !left.is_empty() {
            if state.rest == 0 {
                state.len.push(left[0]);
                left = &left[1..];
                if let Ok(len) = <[u8; 4]>::try_from(&state.len[..]) {
                    state.rest = u32::from_be_bytes(len) as usize;
                    state.len.clear();
                }
                continue;
            }
            let part = left.len().min(state.rest);
            left = &left[part..];
            state.rest -= part;
            state.requests += usize::from(state.rest == 0);
        }
        self.0.changed.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

/// Does a bit of everything below `dir`, whatever comes of it.
pub fn converse(connection: Connection, dir: &[u8]) {
    let Ok(session) = Session::start(connection, Options::default()) else { return };
    let path = |name: &str| [dir, b"/", name.as_bytes()].concat();
    let client = session.client();
    let _ = files(client, &path);
    let mut puts = Puts::new(client);
    for key in 0..3 {
        puts.push(Put {
            key,
            stage: path(&format!("stage-{key}")),
            path: path(&format!("put-{key}")),
            content: content::bytes(1000 * key as usize, key),
            attrs: Attrs {
                mode: Some(0o644),
                times: Some(Times { accessed: 1, modified: 2 }),
                ..Attrs::default()
            },
            existing: match key {
                1 => Existing::Keep,
                _ => Existing::Replace { backup: path("aside") },
            },
            sync: false,
            verify: key == 2,
            needs_attributes: key == 0,
        });
    }
    while puts.next_done().is_some() {}
    let mut gets = Gets::new(client);
    for key in 0..3 {
        gets.push(Get { key, path: path(&format!("put-{key}")), len: 1500 });
    }
    while let Some((_, got)) = gets.next_done() {
        assert!(got.map_or(0, |got| got.content.len()) <= 1500);
    }
    let _ = client.list(dir);
}

fn files(client: &Client, path: &impl Fn(&str) -> Vec<u8>) -> Result<(), haul_sftp::SftpError> {
    let file = client.open(&path("file"), OpenFlags::CreateNew, Some(0o600))?;
    let mut writer = file.writer();
    writer.write_at(&content::bytes(2000, 1), 0)?;
    writer.drain()?;
    file.set_attrs(Attrs::with_mode(0o600))?;
    file.close()?;
    let file = client.open(&path("file"), OpenFlags::Read, None)?;
    let mut buf = vec![0; 3000];
    assert!(file.read_at(&mut buf, 0)? <= buf.len());
    let mut reader = file.reader(0..2500, 1000);
    let mut read = 0;
    while let Some(chunk) = reader.next_piece()? {
        assert_eq!(chunk.offset, read);
        read += chunk.len() as u64;
    }
    client.make_dir(&path("dir"), 0o700)?;
    client.make_symlink(b"file", &path("link"))?;
    client.read_link(&path("link"))?;
    client.real_path(&path("link"))?;
    client.lstat(&path("link"))?;
    let _ = client.fs_stats(&path("dir"));
    Ok(())
}
