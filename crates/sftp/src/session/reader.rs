//! The thread that reads replies and passes them to the callers.

use super::shared::{State, Waiting};
use super::signs::Signs;
use crate::codec::{Answer, Expected, HEADER_LEN, Header, PacketError, ReplyKind, data_len};
use crate::error::SessionError;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// Passes on replies until the stream ends or the server breaks the protocol. Then ends the
/// session. Waits for nothing but the server.
pub(super) fn run(shared: &State, reader: BufReader<impl Read>) {
    let signs = Arc::clone(shared.signs());
    let mut reader = Counted { reader, signs };
    let mut payload = Vec::new();
    loop {
        if let Err(error) = take_reply(shared, &mut reader, &mut payload) {
            shared.end(error);
            return;
        }
    }
}

fn take_reply(
    shared: &State,
    reader: &mut impl Read,
    payload: &mut Vec<u8>,
) -> Result<(), SessionError> {
    let mut header = [0; HEADER_LEN];
    reader.read_exact(&mut header)?;
    let header = Header::decode(header)?;
    let waiting = shared.take(header.id).ok_or(PacketError::ForeignId(header.id))?;
    let answer = read_answer(shared, reader, &header, &waiting, payload);
    let end = answer.as_ref().err().cloned();
    waiting.deliver(answer);
    end.map_or(Ok(()), Err)
}

fn read_answer(
    shared: &State,
    reader: &mut impl Read,
    header: &Header,
    waiting: &Waiting,
    payload: &mut Vec<u8>,
) -> Result<Answer, SessionError> {
    waiting.expected.check(header, waiting.operation)?;
    if let (Expected::Data { len_max }, ReplyKind::Data) = (waiting.expected, header.kind) {
        let mut prefix = [0; 4];
        if header.payload_len < prefix.len() as u32 {
            return Err(PacketError::Cut.into());
        }
        reader.read_exact(&mut prefix)?;
        let len = data_len(header, prefix, len_max)?;
        let mut buffer = shared.buffer(len);
        reader.read_exact(&mut buffer[..len])?;
        return Ok(Answer::Data { buffer, len });
    }
    payload.resize(header.payload_len as usize, 0);
    reader.read_exact(payload)?;
    Ok(waiting.expected.decode(header.kind, payload, waiting.operation)?)
}

/// A stream that counts its reads, to reveal silence.
struct Counted<R> {
    reader: R,
    signs: Arc<Signs>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buf)?;
        self.signs.count();
        Ok(len)
    }
}
