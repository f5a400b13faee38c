//! The parts that the tests of connections share.

use haul_net::{Connection, Diagnostics};
use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;

/// Says nothing of what ssh says.
pub(crate) fn quiet() -> Diagnostics {
    Arc::new(|_| {})
}

/// Sends three megabytes to what sends them back, while it reads them, and ends the
/// connection.
pub(crate) fn assert_echoes(connection: Connection) {
    let Connection { mut reader, mut writer, closer } = connection;
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 31 % 253) as u8).collect();
    let received = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes)
        });
        writer.write_all(&sent).unwrap();
        drop(writer);
        reading.join().unwrap().unwrap()
    });
    assert!(received == sent);
    closer.finish().unwrap();
}
