//! The thread that reads replies and passes them to the callers.

use super::activity::Activity;
use super::shared::{InFlight, SessionState};
use crate::codec::{Answer, Expected, HEADER_LEN, Header, PacketError, ReplyKind, data_len};
use crate::error::SessionError;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// Passes on replies until the stream ends or the server breaks the protocol. Then ends the
/// session. Waits for nothing but the server.
pub(super) fn run(shared: &SessionState, reader: BufReader<impl Read>) {
    let activity = Arc::clone(&shared.activity);
    let mut reader = Counted { reader, activity };
    let mut payload = Vec::new();
    loop {
        if let Err(error) = take_reply(shared, &mut reader, &mut payload) {
            shared.end(error);
            return;
        }
    }
}

fn take_reply(
    shared: &SessionState,
    reader: &mut impl Read,
    payload: &mut Vec<u8>,
) -> Result<(), SessionError> {
    let mut header = [0; HEADER_LEN];
    reader.read_exact(&mut header)?;
    let header = Header::decode(header)?;
    let waiting = shared.take(header.id).ok_or(PacketError::UnknownId(header.id))?;
    let answer = read_answer(shared, reader, &header, &waiting, payload);
    let end = answer.as_ref().err().cloned();
    waiting.deliver(answer);
    end.map_or(Ok(()), Err)
}

fn read_answer(
    shared: &SessionState,
    reader: &mut impl Read,
    header: &Header,
    waiting: &InFlight,
    payload: &mut Vec<u8>,
) -> Result<Answer, SessionError> {
    waiting.expected.check(header, waiting.operation)?;
    if let (Expected::Data { len_max }, ReplyKind::Data) = (waiting.expected, header.kind) {
        let mut prefix = [0; 4];
        if header.payload_len < prefix.len() as u32 {
            return Err(PacketError::Truncated.into());
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
    activity: Arc<Activity>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buf)?;
        self.activity.count();
        Ok(len)
    }
}
