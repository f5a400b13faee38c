//! A stream of frames, read as either side of a connection reads one: no bytes
//! panic a decoder, and what was understood reads the same once it is written
//! again.

#![no_main]

use haul_proto::{
    DATA_HEAD_MAX, FrameType, HEADER_LEN, Header, PackBuilder, Unwrapper, data_head, decode,
    decode_data, decode_data_start, decode_pack, encode,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| {
    let mut rest = stream;
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
        let Ok(header) = Header::decode(*header) else { return };
        let len = header.payload_len as usize;
        assert!(header.payload_len <= header.kind.payload_max());
        if after.len() < len {
            return;
        }
        let (payload, next) = after.split_at(len);
        match header.kind {
            FrameType::Data => data(payload),
            FrameType::Pack => pack(payload),
            FrameType::Wrapped => wrapped(payload),
            kind => message(kind, payload),
        }
        rest = next;
    }
});

fn message(kind: FrameType, payload: &[u8]) {
    let Ok(message) = decode(kind, payload) else { return };
    let frame = encode(&message);
    let again = decode(kind, payload_of(kind, &frame)).expect("it was written by us");
    assert_eq!(again, message);
}

fn wrapped(payload: &[u8]) {
    let mut unwrapper = Unwrapper::default();
    let Ok((header, plain)) = unwrapper.unwrap(payload) else { return };
    assert_eq!(header.payload_len as usize, plain.len());
    assert!(header.payload_len <= header.kind.payload_max());
    match header.kind {
        FrameType::Data => data(plain),
        FrameType::Pack => pack(plain),
        kind => message(kind, plain),
    }
}

fn data(payload: &[u8]) {
    let start = &payload[..payload.len().min(DATA_HEAD_MAX)];
    let found = decode_data(payload);
    assert_eq!(decode_data_start(start, payload.len()).ok(), found.as_ref().ok().cloned());
    let Ok(view) = found else { return };
    let content = &payload[view.content.clone()];
    let mut frame = data_head(view.index, view.offset, content.len());
    frame.extend_from_slice(content);
    let payload = payload_of(FrameType::Data, &frame);
    let again = decode_data(payload).expect("it was written by us");
    assert_eq!((again.index, again.offset), (view.index, view.offset));
    assert_eq!(&payload[again.content], content);
}

fn pack(payload: &[u8]) {
    let Ok(view) = decode_pack(payload) else { return };
    let mut builder = PackBuilder::default();
    let mut contents = Vec::new();
    for (item, range) in &view.items {
        builder.push(item.clone());
        contents.extend_from_slice(&payload[range.clone()]);
    }
    let mut frame = builder.head();
    frame.extend_from_slice(&contents);
    let payload = payload_of(FrameType::Pack, &frame);
    let again = decode_pack(payload).expect("it was written by us");
    assert!(view.items.iter().map(|(item, _)| item).eq(again.items.iter().map(|(item, _)| item)));
    let pieces = again.items.iter().flat_map(|(_, range)| &payload[range.clone()]);
    assert!(pieces.eq(&contents));
}

/// The payload of a whole frame that we wrote.
fn payload_of(kind: FrameType, frame: &[u8]) -> &[u8] {
    let (header, payload) = frame.split_first_chunk().expect("longer than a header");
    let header = Header::decode(*header).expect("within its bound");
    assert_eq!((header.kind, header.payload_len as usize), (kind, payload.len()));
    payload
}
