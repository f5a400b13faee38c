//! Tests of the codec: requests against a decoder written from the draft, replies against an
//! encoder written from it, and random bytes against both.

use super::*;
use proptest::prelude::*;

/// A simple decoder of a request's fields.
struct Naive<'a>(&'a [u8]);

impl<'a> Naive<'a> {
    fn number(&mut self, len: usize) -> u64 {
        let mut value = 0;
        for _ in 0..len {
            value = value << 8 | u64::from(self.0[0]);
            self.0 = &self.0[1..];
        }
        value
    }

    fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    fn string(&mut self) -> &'a [u8] {
        let len = self.u32() as usize;
        let string = &self.0[..len];
        self.0 = &self.0[len..];
        string
    }

    fn attrs(&mut self) -> Attrs {
        let flags = self.u32();
        assert_eq!(flags & !0xf, 0);
        Attrs {
            size: (flags & 1 != 0).then(|| self.number(8)),
            owner: (flags & 2 != 0).then(|| (self.u32(), self.u32())),
            mode: (flags & 4 != 0).then(|| self.u32()),
            times: (flags & 8 != 0).then(|| Times { accessed: self.u32(), modified: self.u32() }),
        }
    }
}

fn attrs() -> impl Strategy<Value = Attrs> {
    any::<(Option<u64>, Option<(u32, u32)>, Option<u32>, Option<(u32, u32)>)>().prop_map(
        |(size, owner, mode, times)| Attrs {
            size,
            owner,
            mode,
            times: times.map(|(accessed, modified)| Times { accessed, modified }),
        },
    )
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

/// The packet's type, number and arguments, after its length was checked.
fn packet<'a>(bytes: &'a [u8], request: &Request<'_>) -> (u8, u32, Naive<'a>) {
    let mut from = Naive(bytes);
    let follows = if let Request::Write { len, .. } = request { *len } else { 0 };
    assert_eq!(from.u32(), bytes.len() as u32 - 4 + follows);
    let kind = from.number(1) as u8;
    (kind, from.u32(), from)
}

proptest! {
    #[test]
    fn requests_decode_to_their_arguments(
        (id, number, len) in any::<(u32, u64, u32)>(),
        (one, two) in (bytes(), bytes()),
        attrs in attrs(),
    ) {
        let len = len / 2;
        let (path, handle) = (&*one, &*one);
        let to = &*two;
        let requests = [
            Request::Open { path, flags: OpenFlags::CreateNew, attrs },
            Request::Close { handle },
            Request::Read { handle, offset: number, len },
            Request::Write { handle, offset: number, len },
            Request::Setstat { path, attrs },
            Request::Rename { from: path, to },
            Request::Symlink { target: path, link: to },
            Request::PosixRename { from: path, to },
            Request::HardLink { from: path, to },
            Request::Fsync { handle },
            Request::Lsetstat { path, attrs },
            Request::Limits,
        ];
        for request in requests {
            // Earlier bytes in the buffer stay.
            let mut out = b"xx".to_vec();
            request.encode(id, &mut out);
            let (kind, got_id, mut from) = packet(&out[2..], &request);
            prop_assert_eq!(got_id, id);
            let expected_kind = match request {
                Request::Open { .. } => 3,
                Request::Close { .. } => 4,
                Request::Read { .. } => 5,
                Request::Write { .. } => 6,
                Request::Setstat { .. } => 9,
                Request::Rename { .. } => 18,
                Request::Symlink { .. } => 20,
                _ => 200,
            };
            prop_assert_eq!(kind, expected_kind);
            if kind == 200 {
                prop_assert_eq!(from.string(), request.extension().unwrap().name().as_bytes());
            }
            match request {
                Request::Open { .. } => {
                    prop_assert_eq!(from.string(), path);
                    prop_assert_eq!(from.u32(), 0x2a);
                    prop_assert_eq!(from.attrs(), attrs);
                }
                Request::Close { .. } | Request::Fsync { .. } => {
                    prop_assert_eq!(from.string(), handle);
                }
                Request::Read { .. } | Request::Write { .. } => {
                    prop_assert_eq!(from.string(), handle);
                    prop_assert_eq!((from.number(8), from.u32()), (number, len));
                }
                Request::Setstat { .. } | Request::Lsetstat { .. } => {
                    prop_assert_eq!(from.string(), path);
                    prop_assert_eq!(from.attrs(), attrs);
                }
                Request::Limits => {}
                _ => prop_assert_eq!((from.string(), from.string()), (path, to)),
            }
            prop_assert!(from.0.is_empty());
        }
    }

    #[test]
    fn replies_read_as_they_were_written(
        entries in prop::collection::vec((bytes(), bytes(), attrs()), 0..20),
        handle in bytes(),
        (code, words) in (0u32..12, bytes()),
        numbers in any::<[u64; 11]>(),
    ) {
        use wire::Put;
        let mut out = Vec::new();
        out.put_u32(entries.len() as u32);
        for (name, shown, attrs) in &entries {
            out.put_string(name);
            out.put_string(shown);
            attrs.encode(&mut out);
        }
        let read = Expected::Names.decode(ReplyKind::Name, &out, "x").unwrap();
        let Answer::Names(names) = read else { panic!("{read:?}") };
        let expected: Vec<_> =
            entries.iter().map(|(name, _, attrs)| RawEntry { name, attrs: *attrs }).collect();
        prop_assert_eq!(names.iter().collect::<Vec<_>>(), expected);
        prop_assert_eq!((names.len(), names.is_empty()), (entries.len(), entries.is_empty()));
        for cut in 0..out.len() {
            prop_assert!(Expected::Names.decode(ReplyKind::Name, &out[..cut], "x").is_err());
        }

        out.clear();
        out.put_string(&handle);
        let read = Expected::Handle.decode(ReplyKind::Handle, &out, "x").unwrap();
        prop_assert_eq!(read, Answer::Handle(handle.into()));

        out.clear();
        out.put_u32(code);
        let bare = Expected::Done.decode(ReplyKind::Status, &out, "x").unwrap();
        out.put_string(&words);
        out.put_string(b"en");
        let read = Expected::Done.decode(ReplyKind::Status, &out, "x").unwrap();
        let (Answer::Status(bare), Answer::Status(read)) = (bare, read) else { panic!() };
        prop_assert_eq!(bare.code, read.code);
        prop_assert_eq!((&*bare.message, &*read.message), (&b""[..], &words[..]));
        prop_assert_eq!(read.code == StatusCode::Ok, code == 0);

        out.clear();
        numbers.iter().for_each(|number| out.put_u64(*number));
        let Ok(Answer::FsStats(stats)) = Expected::FsStats.decode(ReplyKind::Extended, &out, "x")
        else { panic!() };
        prop_assert_eq!(
            (stats.block_len, stats.blocks, stats.blocks_available, stats.files_available),
            (numbers[1], numbers[2], numbers[4], numbers[7])
        );
        prop_assert_eq!((stats.read_only, stats.name_len_max), (numbers[9] & 1 != 0, numbers[10]));
        let limits = Expected::Limits.decode(ReplyKind::Extended, &out, "x").unwrap();
        let [packet_len, read_len, write_len, open_handles, ..] = numbers;
        let expected = Limits { packet_len, read_len, write_len, open_handles };
        prop_assert_eq!(limits, Answer::Limits(expected));
    }

    #[test]
    fn no_bytes_panic_a_decoder(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for expected in EXPECTED {
            for kind in [ReplyKind::Status, ReplyKind::Name, ReplyKind::Attrs] {
                let _ = expected.decode(kind, &bytes, "x");
            }
        }
        let _ = decode_version(&bytes);
        if let Some(header) = bytes.first_chunk() {
            let _ = Header::decode(*header);
        }
    }
}

const EXPECTED: [Expected; 9] = [
    Expected::Done,
    Expected::Handle,
    Expected::Data { len_max: 10 },
    Expected::Names,
    Expected::Path,
    Expected::Target,
    Expected::Attrs,
    Expected::FsStats,
    Expected::Limits,
];

fn header(len: u32, kind: u8) -> [u8; 9] {
    let [a, b, c, d] = len.to_be_bytes();
    [a, b, c, d, kind, 0, 0, 0, 7]
}

#[test]
fn a_header_within_bounds_is_read_and_others_are_refused() {
    let read = Header::decode(header(PACKET_LEN_MAX, 103)).unwrap();
    let payload_len = PACKET_LEN_MAX - 5;
    assert_eq!(read, Header { kind: ReplyKind::Data, id: 7, payload_len });
    let len = PACKET_LEN_MAX + 1;
    let too_long = PacketError::TooLong { len, max: PACKET_LEN_MAX };
    assert_eq!(Header::decode(header(len, 103)), Err(too_long));
    assert!(Header::decode(header(5, 101)).is_ok());
    assert_eq!(Header::decode(header(4, 101)), Err(PacketError::Truncated));
    assert_eq!(Header::decode(header(5, 106)), Err(PacketError::UnknownType(106)));
}

#[test]
fn content_is_at_most_as_long_as_requested_and_fills_its_packet() {
    let header = |payload_len| Header { kind: ReplyKind::Data, id: 1, payload_len };
    let prefix = |len: u32| len.to_be_bytes();
    assert_eq!(data_len(&header(104), prefix(100), 100), Ok(100));
    assert_eq!(data_len(&header(103), prefix(99), 100), Ok(99));
    let too_long = PacketError::TooLong { len: 101, max: 100 };
    assert_eq!(data_len(&header(105), prefix(101), 100), Err(too_long));
    assert_eq!(data_len(&header(103), prefix(100), 100), Err(PacketError::Truncated));
    assert_eq!(data_len(&header(105), prefix(100), 100), Err(PacketError::Truncated));
    assert_eq!(data_len(&header(4), prefix(0), 100), Err(PacketError::EmptyData));
}

#[test]
fn only_the_expected_kind_is_accepted_as_an_answer() {
    let kinds = [101, 102, 103, 104, 105, 201].map(|kind| Header::decode(header(5, kind)).unwrap());
    for expected in EXPECTED {
        let taken = kinds.iter().filter(|header| expected.check(header, "x").is_ok()).count();
        // A status, and one kind of result if there is any.
        assert_eq!(taken, if expected == Expected::Done { 1 } else { 2 }, "{expected:?}");
    }
    let ok = [0; 4];
    for expected in &EXPECTED[1..] {
        let read = expected.decode(ReplyKind::Status, &ok, "x");
        assert_eq!(read, Err(PacketError::EmptySuccess("x")));
    }
}

#[test]
fn claims_that_a_packet_cannot_hold_are_refused() {
    use wire::Put;
    let mut many = Vec::new();
    many.put_u32(u32::MAX);
    assert_eq!(Expected::Names.decode(ReplyKind::Name, &many, "x"), Err(PacketError::Truncated));
    assert_eq!(
        Expected::Path.decode(ReplyKind::Name, &many, "x"),
        Err(PacketError::NameCount(u32::MAX))
    );
    for (len, is_kept) in [(TARGET_LEN_MAX, true), (TARGET_LEN_MAX + 1, false)] {
        let mut target = Vec::new();
        target.put_u32(1);
        target.put_string(&vec![b'x'; len]);
        let answer = Expected::Target.decode(ReplyKind::Name, &target, "x").unwrap();
        assert_eq!(answer != Answer::LongTarget, is_kept);
    }
    let mut attrs = Vec::new();
    attrs.put_u32(0x8000_0000);
    attrs.put_u32(u32::MAX);
    assert_eq!(Expected::Attrs.decode(ReplyKind::Attrs, &attrs, "x"), Err(PacketError::Truncated));
    let unknown = 0x10u32.to_be_bytes();
    let refused = Expected::Attrs.decode(ReplyKind::Attrs, &unknown, "x");
    assert_eq!(refused, Err(PacketError::UnknownAttrs(0x10)));
    for (len, is_good) in [(HANDLE_LEN_MAX, true), (HANDLE_LEN_MAX + 1, false)] {
        let mut handle = Vec::new();
        handle.put_string(&vec![7; len]);
        let read = Expected::Handle.decode(ReplyKind::Handle, &handle, "x");
        assert_eq!(read.is_ok(), is_good);
    }
}

#[test]
fn extended_attributes_are_skipped() {
    use wire::Put;
    let mut bytes = Vec::new();
    bytes.put_u32(0x8000_0004);
    bytes.put_u32(0o100_644);
    bytes.put_u32(1);
    bytes.put_string(b"name@example.com");
    bytes.put_string(b"value");
    let read = Expected::Attrs.decode(ReplyKind::Attrs, &bytes, "x").unwrap();
    let Answer::Attrs(attrs) = read else { panic!("{read:?}") };
    assert_eq!(attrs, Attrs::with_mode(0o100_644));
    assert_eq!(attrs.file_type(), Some(FileType::File));
}

#[test]
fn extensions_count_in_the_supported_version_only() {
    use wire::Put;
    let mut bytes = Vec::new();
    for (name, version) in [
        ("posix-rename@openssh.com", "1"),
        ("statvfs@openssh.com", "2"),
        ("fsync@openssh.com", "2"),
        ("something@example.com", "1"),
    ] {
        bytes.put_string(name.as_bytes());
        bytes.put_string(version.as_bytes());
    }
    let extensions = decode_version(&bytes).unwrap();
    for (extension, ..) in Extension::ALL {
        let announced = matches!(extension, Extension::PosixRename | Extension::Statvfs);
        assert_eq!(extensions.has(extension), announced, "{extension:?}");
    }
    assert_eq!(decode_version(&bytes[..bytes.len() - 1]), Err(PacketError::Truncated));
}
