//! Frames that are no frames, or none that may stand there.

use crate::attack::{RECEIVERS, Victim, receive_from_client, send_to};
use crate::peer::{block_seal, data, dir_end, file, job_for, named, pack, packed};
use haul_engine::JobError;
use haul_model::{Fault, FaultKind, Naming, Side, Task};
use haul_proto::{
    Abort, Arrived, Call, Called, Codec, FrameType, HEADER_LEN, Header, Message, NamedSources,
    Wrapper, encode,
};

/// Says these bytes to a receiver of this kind.
fn say(victim: Victim, bytes: Vec<u8>) -> crate::attack::Attacked {
    send_to(victim, &["a"], |_| {}, move |peer| peer.raw(&bytes))
}

/// The messages that a sender may send during a job.
const OF_SENDER: [FrameType; 8] = [
    FrameType::List,
    FrameType::Pack,
    FrameType::Data,
    FrameType::BlockSeal,
    FrameType::Offer,
    FrameType::Reuse,
    FrameType::FileEnd,
    FrameType::Abort,
];

/// The messages that a receiver may send during a job.
const OF_RECEIVER: [FrameType; 9] = [
    FrameType::Want,
    FrameType::Outcomes,
    FrameType::Done,
    FrameType::Warning,
    FrameType::Late,
    FrameType::Naming,
    FrameType::Signature,
    FrameType::Known,
    FrameType::Abort,
];

#[test]
fn a_length_beyond_its_bound_ends_the_job() {
    for kind in FrameType::ALL {
        for payload_len in [kind.payload_max() + 1, u32::MAX] {
            let header = Header { kind, payload_len }.encode().to_vec();
            for victim in RECEIVERS {
                say(victim, header.clone()).assert_refused("at most");
            }
            receive_from_client(|_| {}, move |peer| peer.raw(&header)).assert_refused("at most");
        }
    }
}

#[test]
fn an_unknown_type_ends_the_job() {
    let known = FrameType::ALL.map(FrameType::byte);
    let unknown = (0..=255u8).step_by(5).filter(|byte| !known.contains(byte));
    for type_byte in unknown {
        let header = vec![1, 0, 0, 0, type_byte, 0];
        for victim in RECEIVERS {
            say(victim, header.clone()).assert_refused("unknown type");
        }
        receive_from_client(|_| {}, move |peer| peer.raw(&header)).assert_refused("unknown type");
    }
}

#[test]
fn a_frame_of_the_other_role_ends_the_job() {
    for kind in FrameType::ALL.into_iter().filter(|kind| *kind != FrameType::Alive) {
        let whole = whole(kind);
        if !OF_SENDER.contains(&kind) && kind != FrameType::Wrapped {
            for victim in RECEIVERS {
                say(victim, whole.clone()).assert_refused("where none ");
            }
        }
        if !OF_RECEIVER.contains(&kind) {
            let attacked = receive_from_client(|_| {}, move |peer| peer.raw(&whole));
            attacked.assert_refused("where none ");
        }
    }
}

/// A frame of this type that could stand somewhere.
fn whole(kind: FrameType) -> Vec<u8> {
    use haul_proto::{
        FileEnd, Hello, Join, Known, LaneOver, Late, Measure, Measured, Offer, Prove, Proven,
        Removal, Reply, Request, Reuse, Role, Signature, Taken, Warning, frame_bytes,
    };
    let role = Role::Sender(NamedSources {
        recursive: true,
        follow: true,
        ..NamedSources::at(vec![b"/".to_vec()])
    });
    let fault = Fault::new(Side::Source, FaultKind::Io, "x");
    encode(&match kind {
        FrameType::Hello | FrameType::Welcome => {
            let hello = Hello::ours(haul_proto::Caps::NONE, 60, "again");
            return frame_bytes(kind, &hello.encode());
        }
        FrameType::Alive => return frame_bytes(kind, &[]),
        FrameType::Wrapped => return wrapped(&data(1, 0, &[0; 1000])),
        FrameType::Pack => return pack([packed(1, b"x")], b"x"),
        FrameType::Data => return data(1, 0, b"x"),
        FrameType::Job => Message::Job(job_for(Task::default(), role)),
        FrameType::Removed => Message::Removed(vec![Removal::End]),
        FrameType::Prove => Message::Prove(vec![Prove { index: 1, parked: None }]),
        FrameType::Proven => Message::Proven(vec![Proven { index: 1, result: Ok(()) }]),
        FrameType::Extras => Message::Extras(Vec::new()),
        FrameType::Request => Message::Request(Request::Hash { path: b"/etc/passwd".to_vec() }),
        FrameType::Reply => Message::Reply(Reply::End),
        FrameType::List => Message::List(vec![dir_end(0)]),
        FrameType::Want => Message::Want(Vec::new()),
        FrameType::BlockSeal => block_seal(1, 0, b"x"),
        FrameType::FileEnd => {
            Message::FileEnd(FileEnd { index: 1, result: Err(fault), by_blocks: false })
        }
        FrameType::Outcomes => Message::Outcomes(Vec::new()),
        FrameType::Done => Message::Done(haul_engine::Summary::default()),
        FrameType::Warning => Message::Warning(Warning { path: Vec::new(), message: "x".into() }),
        FrameType::Late => Message::Late(Late { path: Vec::new(), fault }),
        FrameType::Naming => named(Naming::Given),
        FrameType::Signature => Message::Signature(Signature::Sums { index: 1, sums: Vec::new() }),
        FrameType::Reuse => Message::Reuse(Reuse { index: 1, at: 0, from: None, len: 1 }),
        FrameType::Offer => Message::Offer(Offer { index: 1, at: 0, chunks: Vec::new() }),
        FrameType::Known => Message::Known(Known { index: 1, at: 0, chunks: Vec::new() }),
        FrameType::Abort => Message::Abort(Abort::Cancelled),
        FrameType::Direct => Message::Direct(Err("x".into())),
        FrameType::Join => Message::Join(Join { lane: 1, secret: None }),
        FrameType::Taken => Message::Taken(Taken { lane: 1, frames: 0, is_over: true }),
        FrameType::LaneOver => Message::LaneOver(LaneOver { lane: 1 }),
        FrameType::Call => Message::Call(Call { is_required: true, connections: 1 }),
        FrameType::Called => Message::Called(Called::Connected(1)),
        FrameType::Arrived => {
            Message::Arrived(Arrived { bytes: 1, index: None, blocks: 0, size: None })
        }
        FrameType::Measure => Message::Measure(Measure::Machine { millis: 1 }),
        FrameType::Measured => Message::Measured(Measured::DirectPort(Err("x".into()))),
        FrameType::Filler => Message::Filler(1),
        FrameType::Rest => Message::Rest,
    })
}

#[test]
fn a_payload_that_cannot_be_read_ends_the_job() {
    for kind in OF_SENDER {
        for garbage in [&b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..], b"\x80"] {
            let frame = haul_proto::frame_bytes(kind, garbage);
            for victim in RECEIVERS {
                say(victim, frame.clone()).assert_refused("the peer sent a");
            }
        }
    }
    for kind in OF_RECEIVER {
        let frame = haul_proto::frame_bytes(kind, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
        receive_from_client(|_| {}, move |peer| peer.raw(&frame)).assert_refused("the peer sent a");
    }
}

/// `frame`, compressed.
fn wrapped(frame: &[u8]) -> Vec<u8> {
    let wrapped = Wrapper::default().wrap(Codec::Zstd, 1, frame, &[]).expect("it shrinks");
    [&wrapped.head[..], &wrapped.content].concat()
}

#[test]
fn compressed_frames_that_are_none_end_the_job() {
    let list = encode(&Message::List((0..200).map(|_| file(0, "a", 1)).collect()));
    let good = wrapped(&list);
    let changed = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[HEADER_LEN + at] = byte;
        frame
    };
    let shorter = haul_proto::frame_bytes(FrameType::Wrapped, &good[HEADER_LEN..good.len() - 1]);
    let none = haul_proto::frame_bytes(FrameType::Wrapped, &good[HEADER_LEN..][..5]);
    let nested = haul_proto::frame_bytes(
        FrameType::Wrapped,
        &[&[FrameType::Wrapped.byte()][..], &good[HEADER_LEN + 1..]].concat(),
    );
    for (frame, words) in [
        (changed(0, FrameType::Abort.byte()), "never compressed"),
        (nested, "never compressed"),
        (changed(1, 0x7f), "unknown codec"),
        // Another codec than it was.
        (changed(1, Codec::Lz4.byte()), "can't be decompressed"),
        (changed(2, good[HEADER_LEN + 2] ^ 1), "can't be decompressed"),
        (changed(5, 1), "at most"),
        (shorter, "can't be decompressed"),
        (none, "without its description"),
        // What is inside is judged as if it had come by itself.
        (wrapped(&data(1, 0, &[0; 1000])), "the peer"),
    ] {
        for victim in RECEIVERS {
            say(victim, frame.clone()).assert_refused(words);
        }
        let attacked = receive_from_client(|_| {}, move |peer| peer.raw(&frame));
        attacked.assert_refused("where none ");
    }
}

#[test]
fn compressed_contents_are_taken() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a"],
            |_| {},
            |peer| {
                peer.list(vec![file(0, "a", 1000), dir_end(0)]);
                peer.await_wants([1]);
                peer.raw(&wrapped(&pack([packed(1, &[b'7'; 1000])], &[b'7'; 1000])));
            },
        );
        attacked.assert_done();
        assert_eq!(attacked.place.read("a"), "7".repeat(1000));
    }
}

#[test]
fn a_payload_with_something_behind_its_end_ends_the_job() {
    let mut frame = encode(&Message::List(vec![file(0, "a", 1)]));
    frame.push(0);
    frame[0] += 1;
    for victim in RECEIVERS {
        say(victim, frame.clone()).assert_refused("frame of inconsistent length");
    }
}

#[test]
fn a_claimed_count_of_items_is_not_believed() {
    // 2^32 - 1 items, and not one of them.
    for kind in [FrameType::List, FrameType::Pack] {
        let count = [0xff, 0xff, 0xff, 0xff, 0x0f];
        let mut payload = Vec::new();
        if kind == FrameType::Pack {
            payload.extend_from_slice(&(count.len() as u32).to_le_bytes());
        }
        payload.extend_from_slice(&count);
        for victim in RECEIVERS {
            say(victim, haul_proto::frame_bytes(kind, &payload)).assert_refused("can't be read");
        }
    }
}

#[test]
fn a_connection_that_ends_in_a_frame_is_lost() {
    for bytes in [&b""[..], b"\x10\x00", b"\x10\x00\x00\x00\x10", b"\x10\x00\x00\x00\x10abc"] {
        for victim in RECEIVERS {
            let attacked = send_to(
                victim,
                &["a"],
                |_| {},
                move |peer| {
                    peer.raw(bytes);
                    peer.leave();
                },
            );
            attacked.assert_lost();
        }
        let attacked = receive_from_client(
            |_| {},
            move |peer| {
                peer.raw(bytes);
                peer.leave();
            },
        );
        attacked.assert_lost();
    }
}

#[test]
fn a_connection_that_ends_in_a_content_leaves_no_half_file() {
    for victim in RECEIVERS {
        let attacked = send_to(
            victim,
            &["a", "b"],
            |place| std::fs::write(place.dest("b"), "old").expect("written"),
            |peer| {
                peer.list(vec![file(0, "a", 3 << 20), file(0, "b", 3 << 20)]);
                peer.await_wants([1, 2]);
                let content = vec![7; 1 << 20];
                peer.raw(&data(1, 0, &content));
                peer.raw(&data(2, 0, &content));
                let piece = data(1, 1 << 20, &content);
                peer.raw(&piece[..piece.len() / 2]);
                peer.leave();
            },
        );
        attacked.assert_lost();
        assert!(!attacked.place.has("a"));
        assert_eq!(attacked.place.read("b"), "old");
    }
}

#[test]
fn a_reason_to_give_up_is_reported_without_control_bytes() {
    let text = || "red \x1b[31m bell \x07 \u{9b}31m line\nend".to_owned();
    let fault = Fault::new(Side::Destination, FaultKind::NoSpace, text());
    let aborts = [
        Abort::Usage(text()),
        Abort::Protocol(text()),
        Abort::Destination { path: text().into_bytes(), fault },
    ];
    for abort in aborts {
        for victim in RECEIVERS {
            let abort = abort.clone();
            let attacked =
                send_to(victim, &["a"], |_| {}, move |peer| peer.tell(&Message::Abort(abort)));
            let error = attacked.result.as_ref().expect_err("the peer gave up").to_string();
            assert!(!error.contains(char::is_control), "{error:?}");
            assert!(error.contains("red") && error.contains("end"), "{error:?}");
            attacked.place.check();
        }
    }
}

#[test]
fn a_peer_that_gives_up_ends_the_job() {
    let attacked = send_to(
        Victim::Client,
        &["a"],
        |_| {},
        |peer| peer.tell(&Message::Abort(Abort::Cancelled)),
    );
    assert!(matches!(attacked.result, Err(JobError::Interrupted)), "{:?}", attacked.result);
    attacked.place.check();
}
