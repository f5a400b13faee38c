//! Tests of the codec: what is written reads back, and no bytes panic it.

use super::*;
use crate::{
    ACCOUNT_NAME_MAX, Abort, Account, Amount, Arrived, BlockSeal, Call, Called, DirectOffer,
    DirectWish, Extra, FileEnd, FileSeal, Flow, Hashing, How, JobRequest, Join, Known, LaneOver,
    Late, ListItem, Listed, Machine, Marked, Measure, Measured, Named, NamedDest, NamedSources,
    Object, Offer, OfferedChunk, OutcomeItem, ProcessorRates, Prove, Proven, Removal, Reply,
    Request, Reuse, Rival, Role, SOURCES_MAX, Signature, Startups, Taken, Want, Warning,
};
use haul_model::{
    AccountMap, Acl, AclEntry, AclWho, Action, Altered, Attributes, Backup, Bases, BlockRanges,
    Changes, Compression, ContentHash, Delete, Device, Entry, Extended, Fault, FaultKind, Filter,
    FilterItem, FollowedLinks, Kept, Kind, Mirror, Missing, ModeChanges, Moving, Name, Naming,
    Outcome, Pattern, Policy, Relative, Remove, Rule, RuleFiles, Side, Sides, Skip, Special, Start,
    Style, Summary, Systems, Task, Timestamp, Updating, Walking, Xattr,
};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Name> {
    prop::collection::vec(any::<u8>(), 1..40).prop_filter_map("a name", |b| Name::new(&b).ok())
}

fn time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0u32..1_000_000_000).prop_map(|(secs, nanos)| Timestamp { secs, nanos })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        any::<u64>().prop_map(|size| Kind::File { size }),
        Just(Kind::Dir),
        Just(Kind::Special),
        prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(|target| Kind::Symlink { target: target.into() }),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let marks = (any::<u64>(), prop::option::of(time()), any::<bool>());
    let base = (prop::option::of(name()), kind(), 0u32..0o10000, time(), marks, special());
    (base, attributes()).prop_map(
        |((name, kind, mode, mtime, (inode, ctime, has_holes), special), attributes)| {
            let attributes = Attributes { mode, mtime, ..attributes };
            let special = special.filter(|_| kind == Kind::Special);
            let links = if kind == Kind::Dir { 0 } else { inode / 3 * (inode % 3 / 2) };
            let kind_is_dir = kind == Kind::Dir;
            let entry = Entry::new(name, kind, attributes);
            // The numbers also as 0, which is none.
            let is_implied_dir = kind_is_dir && has_holes;
            let is_repeated = kind_is_dir && inode % 2 == 1;
            let inode = inode / 2 * (inode % 2);
            Entry { inode, links, special, is_implied_dir, is_repeated, ctime, has_holes, ..entry }
        },
    )
}

fn special() -> impl Strategy<Value = Option<Special>> {
    let device = (any::<u32>(), any::<u32>()).prop_map(|(major, minor)| Device { major, minor });
    let special = prop_oneof![
        Just(Special::Fifo),
        Just(Special::Socket),
        device.clone().prop_map(Special::Block),
        device.prop_map(Special::Char),
    ];
    prop::option::of(special)
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let owner = prop::option::of((0..u32::MAX, 0..u32::MAX));
    let bytes = || prop::collection::vec(1_u8.., 1..30);
    let xattrs = prop::collection::btree_map(bytes(), bytes(), 0..3);
    (owner, prop::option::of(time()), xattrs, prop::option::of(0u32..0o1000)).prop_map(
        |(owner, atime, xattrs, acl)| {
            let xattr = |(name, value): (Vec<u8>, Vec<u8>)| Xattr {
                name: name.into(),
                value: value.into(),
            };
            let acl = acl.map(|mode| {
                let mut acl = Acl::of_mode(mode);
                acl.0.push(AclEntry { who: AclWho::User(mode), rights: 5 });
                acl.0.push(AclEntry { who: AclWho::Mask, rights: 7 });
                acl
            });
            let xattrs = xattrs.into_iter().map(xattr).collect();
            let extended = Extended { xattrs, acl, default_acl: None };
            Attributes {
                user: owner.map(|(user, _)| user),
                group: owner.map(|(_, group)| group),
                atime,
                extended: (!extended.is_empty()).then(|| Box::new(extended)),
                ..Attributes::new(0, Timestamp { secs: 0, nanos: 0 })
            }
        },
    )
}

fn fault() -> impl Strategy<Value = Fault> {
    ".{0,30}".prop_map(|message| Fault::new(Side::Source, FaultKind::Io, message))
}

fn hash() -> impl Strategy<Value = ContentHash> {
    any::<[u8; 32]>().prop_map(ContentHash::from)
}

/// A hash, or none where the transit is trusted.
fn hashed<T: std::fmt::Debug>(hash: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(hash)
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Copied),
        Just(Outcome::Grew),
        Just(Outcome::WouldCopy),
        Just(Outcome::Skipped(Skip::NotOlder)),
        Just(Outcome::Synced(Changes::SENT.with(Changes::MISSING))),
        prop::collection::vec(any::<u8>(), 0..30)
            .prop_map(|first| Outcome::Linked { found: Changes::SIZE, first: first.into() }),
        fault().prop_map(Outcome::Failed),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let pattern = prop::collection::vec(any::<u8>(), 1..10);
    let action = prop_oneof![Just(Action::Include), Just(Action::Exclude)];
    let sides = prop_oneof![Just(Sides::Both), Just(Sides::Sender), Just(Sides::Receiver)];
    let rule = (action, pattern, sides, any::<[bool; 4]>()).prop_map(
        |(action, pattern, sides, [negated, absolute, perishable, of_xattrs])| {
            let pattern = Pattern::new(&pattern).expect("short");
            let rule = Rule { action, pattern, sides, negated, absolute, perishable, of_xattrs };
            FilterItem::Rule(rule)
        },
    );
    let start = prop_oneof![
        Just(Start::First),
        any::<u16>().prop_map(Start::Above),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|path| Start::At(path.into())),
    ];
    let files = (name(), start, any::<[bool; 5]>()).prop_map(|(name, start, bits)| {
        let [is_for_one, splits_words, clears, absolute, is_sided] = bits;
        let sides = is_sided.then_some(Sides::Sender);
        let style = Style { splits_words, clears, absolute, sides, ..Style::default() };
        FilterItem::Files(RuleFiles { name, start, is_for_one, style })
    });
    let item = prop_oneof![rule, files];
    prop::collection::vec(item, 0..6).prop_map(|items| items.try_into().expect("few"))
}

fn altered() -> impl Strategy<Value = Altered> {
    let mode = prop_oneof!["[DF]?[ugoa]{0,3}[-+=][rwxXst]{0,4}", "[DF]?[0-7]{1,4}"];
    let modes = prop::collection::vec(mode, 0..4).prop_map(|words| {
        let mut changes = ModeChanges::default();
        words.iter().for_each(|word| changes.add(word.as_bytes()).expect("words"));
        changes
    });
    let map = prop_oneof![
        Just(AccountMap::default()),
        "[a-z*?]{0,6}:[a-z0-9]{1,4}(,[0-9]{1,4}-[0-9]{1,4}:[a-z]{1,6}){0,3}"
            .prop_map(|words| AccountMap::parse(words.as_bytes()).expect("rules")),
    ];
    (modes, map.clone(), map).prop_map(|(modes, users, groups)| Altered { modes, users, groups })
}

fn list_item() -> impl Strategy<Value = ListItem> {
    prop_oneof![
        (any::<u64>(), entry()).prop_map(|(dir, entry)| ListItem::Entry { dir, entry }),
        any::<u64>().prop_map(|dir| ListItem::DirEnd { dir }),
        any::<u64>().prop_map(|dir| ListItem::Closed { dir }),
        (any::<u64>(), name()).prop_map(|(dir, name)| ListItem::Missing { dir, name }),
        any::<(u32, u32)>().prop_map(|(user, group)| ListItem::Mover { user, group }),
        (any::<u64>(), prop::collection::vec(name(), 0..5))
            .prop_map(|(dir, names)| ListItem::Subdirs { dir, names }),
        (any::<u64>(), prop::collection::vec(any::<u8>(), 0..20), fault())
            .prop_map(|(dir, name, fault)| ListItem::Fault { dir, name, fault }),
        (any::<u64>(), entry(), entry(), any::<bool>(), fault()).prop_map(
            |(dir, entry, first, is_same, fault)| {
                ListItem::Rival(Box::new(Rival { dir, entry, first, is_same, fault }))
            }
        ),
    ]
}

fn measure() -> impl Strategy<Value = Measure> {
    prop_oneof![
        any::<u32>().prop_map(|millis| Measure::Machine { millis }),
        (any::<[u8; 32]>(), any::<bool>()).prop_map(|(key, is_required)| {
            let ports = is_required.then_some((1, u16::MAX));
            Measure::DirectPort(Box::new(DirectWish { key, is_required, ports }))
        }),
        any::<(bool, u64, u32)>().prop_map(|(to_agent, bytes, millis)| Measure::Flow(Flow {
            to_agent,
            bytes,
            millis
        })),
        (prop::collection::vec(any::<u8>(), 0..30), any::<(u64, u32)>())
            .prop_map(|(path, (bytes, millis))| Measure::Disk { path, bytes, millis }),
    ]
}

fn measured() -> impl Strategy<Value = Measured> {
    let amount = || any::<(u64, u64)>().prop_map(|(bytes, nanos)| Amount { bytes, nanos });
    let machine = (any::<[u64; 3]>(), any::<(u32, Option<u32>, u32)>(), any::<bool>()).prop_map(
        |([blake3, aes_256_gcm, chacha20_poly1305], (begin, rate, full), is_told)| Machine {
            program: is_told.then(|| b"/haul".to_vec()),
            rates: ProcessorRates { blake3, aes_256_gcm, chacha20_poly1305 },
            congestion: is_told.then(|| "bbr".to_owned()),
            startups: is_told.then_some(Startups { begin, rate, full }),
        },
    );
    prop_oneof![
        machine.prop_map(|machine| Measured::Machine(Box::new(machine))),
        (any::<[u8; 32]>(), any::<([u8; 4], u16)>()).prop_map(|(key, address)| {
            Measured::DirectPort(Ok(DirectOffer { address: address.into(), key }))
        }),
        Just(Measured::DirectPort(Err("no".to_owned()))),
        amount().prop_map(Measured::Flow),
        (amount(), amount()).prop_map(|(written, read)| Measured::Disk { written, read }),
        fault().prop_map(Measured::Fault),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..30);
    prop_oneof![
        prop::collection::vec(list_item(), 0..20).prop_map(Message::List),
        prop::collection::vec(
            (
                any::<u64>(),
                any::<bool>(),
                prop::collection::btree_set(any::<u64>(), 0..6),
                prop::option::of((any::<u64>(), any::<u64>()))
            )
                .prop_map(|(index, is_whole, bounds, into)| Want {
                    index,
                    how: match index % 2 {
                        0 => How::WHOLE_HASH.only_if(is_whole),
                        _ => How::WHOLE_HASH.only_if(is_whole).with(How::DELTA),
                    },
                    blocks: Vec::from_iter(bounds).try_into().expect("in order"),
                    into: into.map(|(machine, number)| Object { machine, number }),
                }),
            0..20
        )
        .prop_map(Message::Want),
        prop::collection::vec(
            (any::<u64>(), outcome()).prop_map(|(index, outcome)| OutcomeItem { index, outcome }),
            0..20
        )
        .prop_map(Message::Outcomes),
        (any::<u64>(), any::<u64>(), time(), hashed(hash())).prop_map(
            |(index, size, mtime, hash)| {
                Message::FileEnd(FileEnd {
                    index,
                    result: Ok(FileSeal { size, mtime, hash, grew: index % 2 == 0 }),
                    by_blocks: size % 2 == 0,
                })
            }
        ),
        (any::<u64>(), fault(), any::<bool>()).prop_map(|(index, fault, by_blocks)| {
            Message::FileEnd(FileEnd { index, result: Err(fault), by_blocks })
        }),
        any::<(u8, u64, bool)>().prop_map(|(lane, frames, is_over)| {
            Message::Taken(Taken { lane, frames, is_over })
        }),
        any::<u8>().prop_map(|lane| Message::LaneOver(LaneOver { lane })),
        (any::<u8>(), any::<Option<[u8; 16]>>())
            .prop_map(|(lane, secret)| Message::Join(Join { lane, secret })),
        any::<(bool, u8)>().prop_map(|(is_required, connections)| {
            Message::Call(Call { is_required, connections })
        }),
        prop_oneof![
            any::<[u8; 32]>().prop_map(Called::Key),
            any::<u8>().prop_map(Called::Connected),
            Just(Called::Failed("no".to_owned())),
            Just(Called::Lost("cut".to_owned())),
        ]
        .prop_map(Message::Called),
        any::<(u64, Option<u64>, u8, Option<u64>)>().prop_map(|(bytes, index, blocks, size)| {
            Message::Arrived(Arrived { bytes, index, blocks, size })
        }),
        measure().prop_map(Message::Measure),
        measured().prop_map(Message::Measured),
        (any::<[u8; 32]>(), any::<([u8; 16], u16)>(), any::<bool>()).prop_map(
            |(key, (ip, port), is_there)| {
                let offer = DirectOffer { address: (ip, port).into(), key };
                Message::Direct(if is_there { Ok(offer) } else { Err("no".to_owned()) })
            }
        ),
        (any::<(u64, u64, u32)>(), hashed(any::<[u8; 32]>())).prop_map(
            |((index, block, len), hash)| {
                Message::BlockSeal(BlockSeal { index, block, len, hash: hash.map(Into::into) })
            }
        ),
        any::<[u64; 2]>().prop_map(|[copied, bytes]| Message::Done(Summary {
            copied,
            bytes,
            ..Summary::default()
        })),
        (bytes(), any::<bool>())
            .prop_map(|(path, follow)| Message::Request(Request::Stat { path, follow })),
        bytes().prop_map(|path| Message::Request(Request::Hash { path })),
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(size, done, read)| {
            Message::Reply(Reply::Hashing(Hashing { size, done, read }))
        }),
        (bytes(), any::<[u8; 16]>())
            .prop_map(|(path, origin)| Message::Request(Request::Made { path, origin })),
        any::<bool>().prop_map(|made| Message::Reply(Reply::Made(made))),
        (bytes(), proptest::option::of(name()), any::<bool>()).prop_map(|(path, marker, both)| {
            Message::Request(Request::Marker { path, marker, both })
        }),
        Just(Message::Request(Request::RemoveMarker)),
        bytes().prop_map(|path| Message::Request(Request::Restore { path })),
        prop_oneof![Just(Marked::Shown), Just(Marked::Hidden), name().prop_map(Marked::Made)]
            .prop_map(|marked| Message::Reply(Reply::Marker(marked))),
        entry().prop_map(|entry| Message::Reply(Reply::Entry(entry))),
        (name(), fault(), entry()).prop_map(|(name, fault, entry)| Message::Reply(Reply::Entries(
            vec![Listed::Fault { name, fault }, Listed::Entry(entry)]
        ))),
        (any::<u64>(), proptest::option::of(name()))
            .prop_map(|(index, parked)| Message::Prove(vec![Prove { index, parked }])),
        (any::<u64>(), proptest::option::of(fault())).prop_map(|(index, fault)| {
            let result = fault.map_or(Ok(()), Err);
            Message::Proven(vec![Proven { index, result }])
        }),
        (bytes(), entry())
            .prop_map(|(path, entry)| Message::Extras(vec![Extra { path, kind: entry.kind }])),
        (task(), filter(), altered(), any::<u64>(), compression(), role()).prop_map(
            |(task, filter, altered, rate, compression, role)| {
                let direct = direct_of(rate);
                let rate = std::num::NonZeroU64::new(rate / 2);
                let token = rate.map(|rate| [rate.get() as u8; 16]);
                let joins = token.filter(|token| token[0] & 1 == 0);
                Message::Job(JobRequest {
                    task,
                    filter,
                    altered,
                    rate,
                    compression,
                    token,
                    direct,
                    joins,
                    chunks: rate.is_some(),
                    role,
                })
            }
        ),
        (bytes(), entry(), fault(), any::<bool>()).prop_map(|(path, entry, fault, gone)| {
            let result = if gone { Ok(()) } else { Err(fault) };
            Message::Removed(vec![Removal::Source { path, kind: entry.kind, result }, Removal::End])
        }),
        (any::<u64>(), 1..256u32).prop_map(|(index, bits)| Message::Outcomes(vec![OutcomeItem {
            index,
            outcome: Outcome::Differs(bits.try_into().expect("known bits")),
        }])),
        (bytes(), ".{0,30}")
            .prop_map(|(path, message)| Message::Warning(Warning { path, message })),
        (bytes(), fault()).prop_map(|(path, fault)| Message::Late(Late { path, fault })),
        (prop_oneof![Just(Naming::Own), Just(Naming::Given)], any::<u64>())
            .prop_map(|(naming, dirs_created)| Message::Naming(Named { naming, dirs_created })),
        (any::<[u64; 2]>(), any::<u32>(), any::<u8>(), any::<[u8; 32]>()).prop_map(
            |([index, old_size], block_len, strong_len, key)| Message::Signature(
                Signature::Begin { index, old_size, block_len, strong_len, key }
            )
        ),
        (any::<u64>(), bytes())
            .prop_map(|(index, sums)| Message::Signature(Signature::Sums { index, sums })),
        (any::<[u64; 2]>(), any::<Option<u64>>(), any::<u32>())
            .prop_map(|([index, at], from, len)| Message::Reuse(Reuse { index, at, from, len })),
        (any::<[u64; 2]>(), prop::collection::vec((any::<u32>(), any::<[u8; 32]>()), 0..20))
            .prop_map(|([index, at], chunks)| {
                let chunks = chunks.into_iter().map(|(len, hash)| OfferedChunk { len, hash });
                Message::Offer(Offer { index, at, chunks: chunks.collect() })
            }),
        (any::<[u64; 2]>(), prop::collection::vec(any::<(u16, u16)>(), 0..20))
            .prop_map(|([index, at], chunks)| Message::Known(Known { index, at, chunks })),
        (bytes(), fault())
            .prop_map(|(path, fault)| Message::Abort(Abort::Destination { path, fault })),
    ]
}

fn compression() -> impl Strategy<Value = Compression> {
    let some = &[Compression::Auto, Compression::None, Compression::Lz4];
    prop_oneof![proptest::sample::select(&some[..]), any::<u8>().prop_map(Compression::Zstd)]
}

fn task() -> impl Strategy<Value = Task> {
    let moving = || prop_oneof![Just(Moving::Whole), Just(Moving::Lossy)];
    let rule = prop_oneof![Just(Remove::Same), Just(Remove::SameContent)];
    prop_oneof![
        (any::<bool>(), proptest::option::of(moving())).prop_map(|(sync, moving)| {
            Task::Copy(Policy {
                sync,
                verify: !sync,
                strict_source: sync,
                trusts_transit: sync,
                moving,
                keeps: if sync { Kept::ALL } else { Kept::default() },
                numeric_ids: sync,
                ..Policy::default()
            })
        }),
        any::<bool>().prop_map(|content| {
            let keeps = if content { Kept::ALL } else { Kept::default() };
            Task::Check { content, keeps }
        }),
        (any::<bool>(), proptest::option::of(any::<u64>())).prop_map(|(links, max)| {
            let delete = Some(Delete { ignore_errors: !links });
            let window = max.and_then(|max| max.try_into().ok());
            let bases = links.then_some(Bases::Link);
            let walking = Walking {
                only_dirs: links,
                prunes_empty: !links,
                systems: if links { Systems::OfSources } else { Systems::OfSourcesAlone },
                missing: if links { Missing::Ignored } else { Missing::Removed },
                relative: if links { Relative::Yes } else { Relative::WithoutImplied },
                followed_links: FollowedLinks { to_dirs: links, out: !links },
            };
            let mirror = Mirror {
                links,
                safe_links: !links,
                keeps_dir_links: links,
                delete,
                delete_max: max,
                window,
                size_min: max,
                walking,
                delta: links,
                block_len: window,
                bases,
                preallocates: links,
                delays_updates: links,
                fuzzy: !links,
                renames: links,
                fakes_sources: !links,
                fakes_dest: links,
                foreign_links: !links,
                writes_sparse: links,
                keeps_atimes: !links,
                updating: if links { Updating::Appends } else { Updating::InPlace },
                ..Mirror::default()
            };
            Task::Sync(Policy::default(), mirror)
        }),
        (rule, moving()).prop_map(|(rule, moving)| Task::Remove { rule, moving }),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..30);
    let origin = proptest::option::of(any::<[u8; 16]>());
    prop_oneof![
        (prop::collection::vec(bytes(), 0..9), any::<bool>()).prop_map(|(paths, follow)| {
            let base = paths.first().cloned().filter(|_| follow);
            Role::Sender(NamedSources { paths, base, recursive: !follow, follow })
        }),
        (bytes(), any::<bool>(), origin, prop::collection::vec(bytes(), 0..=Bases::MAX)).prop_map(
            |(path, into_dir, origin, bases)| {
                let dir = bases.first().cloned();
                let naming = origin.map(|_| if into_dir { Naming::Own } else { Naming::Given });
                let staging = dir.clone().filter(|_| !into_dir);
                let backup = into_dir.then(|| Backup { dir, suffix: b"~".to_vec() });
                let asked = into_dir.then(|| {
                    Box::new(NamedSources {
                        paths: bases.clone(),
                        base: staging.clone(),
                        recursive: !into_dir,
                        follow: into_dir,
                    })
                });
                let dest = NamedDest { path, into_dir, origin, naming, bases, backup, staging };
                Role::Receiver { dest, asked }
            }
        ),
    ]
}

fn split(frame: &[u8]) -> (Header, &[u8]) {
    let (header, payload) = frame.split_first_chunk().expect("longer than a header");
    let header = Header::decode(*header).expect("a good header");
    assert_eq!(header.payload_len as usize, payload.len());
    (header, payload)
}

fn direct_of(number: u64) -> Option<Box<DirectWish>> {
    let [first, last, bits, _] = [0, 16, 32, 48].map(|shift| (number >> shift) as u16);
    let (key, ports) = ([first as u8; 32], (bits & 1 == 0).then_some((first, last)));
    (bits & 2 == 0).then(|| Box::new(DirectWish { key, is_required: bits & 4 == 0, ports }))
}

proptest! {
    #[test]
    fn a_message_reads_as_it_was_written(message in message()) {
        let frame = encode(&message);
        let (header, payload) = split(&frame);
        prop_assert_eq!(decode(header.kind, payload).expect("our own frame"), message);
    }

    #[test]
    fn no_cut_of_a_message_reads_as_one(message in message(), cut in any::<prop::sample::Index>()) {
        let frame = encode(&message);
        let (header, payload) = split(&frame);
        let cut = cut.index(payload.len().max(1));
        if cut < payload.len() {
            prop_assert!(decode(header.kind, &payload[..cut]).is_err());
        }
    }

    #[test]
    fn no_bytes_panic_a_decoder(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for kind in FrameType::ALL {
            let _ = decode(kind, &bytes);
        }
        let _ = decode_data(&bytes);
        let _ = decode_pack(&bytes);
        let _ = crate::Hello::decode(&bytes);
    }

    #[test]
    fn a_piece_is_found_where_it_was_put(index: u64, offset in 0..i64::MAX as u64 / 2, content in prop::collection::vec(any::<u8>(), 1..99)) {
        let mut frame = data_head(index, offset, content.len());
        frame.extend_from_slice(&content);
        let (_, payload) = split(&frame);
        let view = decode_data(payload).expect("our own frame");
        prop_assert_eq!((view.index, view.offset), (index, offset));
        prop_assert_eq!(&payload[view.content.clone()], &content[..]);
        let start = &payload[..payload.len().min(DATA_HEAD_MAX)];
        prop_assert_eq!(decode_data_start(start, payload.len()).expect("our own frame"), view);
    }

    #[test]
    fn a_pack_gives_back_its_files(files in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..99), 0..20), mtime in time(), fault in fault()) {
        let mut pack = PackBuilder::default();
        let mut contents = Vec::new();
        for (index, file) in files.iter().enumerate() {
            contents.extend_from_slice(file);
            pack.push(PackItem::File { index: index as u64, len: file.len() as u32, mtime, hash: (index % 3 > 0).then(|| ContentHash::of(file)), grew: index % 2 == 0 });
        }
        pack.push(PackItem::Fault { index: 99, fault });
        let mut frame = pack.head();
        frame.extend_from_slice(&contents);
        let (_, payload) = split(&frame);
        let view = decode_pack(payload).expect("our own frame");
        prop_assert_eq!(view.items.len(), files.len() + 1);
        for (file, (_, range)) in files.iter().zip(&view.items) {
            prop_assert_eq!(&payload[range.clone()], &file[..]);
        }
        prop_assert!(decode_pack(&payload[..payload.len() - 1]).is_err() || contents.is_empty());
    }
}

fn a_dir() -> Entry {
    Entry::new(None, Kind::Dir, Attributes::new(0o755, Timestamp { secs: 0, nanos: 0 }))
}

#[test]
fn an_entry_with_fields_that_are_not_known_does_not_decode() {
    let frame = encode(&Message::Reply(Reply::Entry(a_dir())));
    // The variant, no name, the kind, and the mask.
    assert_eq!(frame[HEADER_LEN..HEADER_LEN + 4], [0, 0, 1, 0x03]);
    for (mask, more, is_known) in [
        (0x03, vec![], true),
        (0x13, vec![], true),
        (0x07, vec![5], true),
        (0x0b, vec![0, 0], true),
        // Something is missing, or is there and not told of.
        (0x07, vec![], false),
        (0x03, vec![5], false),
        // Each entry has a mode and a time.
        (0x01, vec![], false),
        (0x02, vec![], false),
        (0x23, vec![], false),
        (0x7f, vec![0; 4], false),
    ] {
        let mut payload = [&frame[HEADER_LEN..], &more[..]].concat();
        payload[3] = mask;
        assert_eq!(decode(FrameType::Reply, &payload).is_ok(), is_known, "{mask:x} {more:?}");
    }
}

#[test]
fn a_wish_for_what_is_not_known_does_not_decode() {
    let want = Want { index: 1, how: How::PLAIN, blocks: BlockRanges::from(5), into: None };
    let frame = encode(&Message::Want(vec![want]));
    assert_eq!(frame[HEADER_LEN..], [1, 1, 0, 1, 5, 0]);
    for (payload, is_known) in [
        (vec![1, 1, 0, 1, 5, 0], true),
        (vec![1, 1, 1, 0, 0], true),
        (vec![1, 1, 0, 2, 5, 6, 0], true),
        (vec![1, 1, 0, 1, 5, 1, 7, 8], true),
        (vec![1, 1, 0, 1, 5, 1, 7], false),
        (vec![1, 1, 2, 1, 5, 0], false),
        (vec![1, 1, 0, 2, 5, 5, 0], false),
        (vec![1, 1, 0, 2, 6, 5, 0], false),
        ([&[1, 1, 0, 129, 1][..], &Vec::from_iter(0..127), &[127, 128, 1, 0]].concat(), false),
    ] {
        assert_eq!(decode(FrameType::Want, &payload).is_ok(), is_known, "{payload:?}");
    }
}

#[test]
fn a_name_that_leads_elsewhere_does_not_decode() {
    for bad in [&b".."[..], b".", b"", b"a/b", b"/etc", b"a\0b"] {
        // The same bytes that a good name of that length encodes to, with the
        // bad one in its place.
        let entry = Entry {
            name: Some(Name::new(&vec![b'x'; bad.len().max(1)]).expect("plain")),
            ..a_dir()
        };
        let frame = encode(&Message::List(vec![ListItem::Entry { dir: 0, entry }]));
        let (header, payload) = split(&frame);
        let mut payload = payload.to_vec();
        let at = payload.iter().position(|b| *b == b'x').expect("the name");
        if bad.is_empty() {
            payload.remove(at);
            payload[at - 1] = 0;
        } else {
            payload[at..at + bad.len()].copy_from_slice(bad);
        }
        assert!(decode(header.kind, &payload).is_err(), "{bad:?}");
    }
}

#[test]
fn a_time_beyond_its_second_does_not_decode() {
    let end = |nanos| {
        encode(&Message::FileEnd(FileEnd {
            index: 1,
            result: Ok(FileSeal {
                size: 1,
                mtime: Timestamp { secs: 0, nanos },
                hash: Some(ContentHash::of(b"")),
                grew: false,
            }),
            by_blocks: false,
        }))
    };
    assert!(decode(FrameType::FileEnd, &end(999_999_999)[HEADER_LEN..]).is_ok());
    assert!(decode(FrameType::FileEnd, &end(1_000_000_000)[HEADER_LEN..]).is_err());
}

#[test]
fn a_difference_that_is_not_known_does_not_decode() {
    let outcome = Outcome::Differs(haul_model::Changes::CONTENT);
    let frame = encode(&Message::Outcomes(vec![OutcomeItem { index: 1, outcome }]));
    let (header, payload) = split(&frame);
    assert!(decode(header.kind, payload).is_ok());
    // The bits are the last varint: two bytes for 0x80, and three for 0x1_0000.
    let mut more = payload.to_vec();
    more.truncate(more.len() - 1);
    more.extend([0x80, 4]);
    assert!(decode(header.kind, &more).is_err());
}

#[test]
fn rest_is_a_frame_without_a_payload() {
    let frame = encode(&Message::Rest);
    assert_eq!(frame, [0, 0, 0, 0, FrameType::Rest.byte()]);
    assert_eq!(decode(FrameType::Rest, &[]).expect("it is Rest"), Message::Rest);
    assert!(decode(FrameType::Rest, b"x").is_err());
}

#[test]
fn filler_is_known_by_its_length_alone() {
    for len in [0, 1, crate::FILLER_LEN as u32] {
        let frame = encode(&Message::Filler(len));
        assert_eq!(frame.len(), HEADER_LEN + len as usize);
        let read = decode(FrameType::Filler, &frame[HEADER_LEN..]).expect("it is filler");
        assert_eq!(read, Message::Filler(len));
    }
}

#[test]
fn a_piece_has_something_in_it_and_ends_where_a_file_can() {
    let piece = |offset, len| {
        let mut frame = data_head(1, offset, len);
        frame.resize(frame.len() + len, 7);
        let payload = &frame[HEADER_LEN..];
        decode_data(payload).map(|view| view.content.len()).map_err(|error| error.to_string())
    };
    let bad = Err("the peer sent a Data frame of inconsistent length".to_owned());
    let end = i64::MAX as u64;
    for (offset, len, expected) in [
        (0, 1, Ok(1)),
        (0, 0, bad.clone()),
        (5, DATA_MAX, Ok(DATA_MAX)),
        (end - 1, 1, Ok(1)),
        (end, 1, bad.clone()),
        (u64::MAX, 1, bad.clone()),
    ] {
        assert_eq!(piece(offset, len), expected, "{len} bytes at {offset}");
    }
    let start = &data_head(1, 0, 1)[HEADER_LEN..];
    assert!(decode_data_start(start, start.len() + DATA_MAX).is_ok());
    assert!(decode_data_start(start, start.len() + DATA_MAX + 1).is_err());
}

#[test]
fn a_pack_is_full_by_its_content_or_its_description() {
    let file = |len| PackItem::File {
        index: u64::MAX,
        len,
        mtime: Timestamp { secs: i64::MIN, nanos: 999_999_999 },
        hash: Some(ContentHash::of(b"")),
        grew: true,
    };
    let fault = |message: &str| PackItem::Fault {
        index: u64::MAX,
        fault: Fault::new(Side::Destination, FaultKind::TooLarge, message),
    };
    let mut pack = PackBuilder::default();
    assert!(pack.is_empty() && pack.has_room());
    pack.push(file(crate::PACK_TARGET as u32 - 1));
    assert!(!pack.is_empty() && pack.has_room());
    pack.push(file(1));
    assert!(!pack.has_room());
    assert_eq!(pack.content_len(), crate::PACK_TARGET);
    for (item, len) in [(file(0), 80), (fault(""), 32), (fault("a message"), 41)] {
        let mut pack = PackBuilder::default();
        let mut count = 0;
        while pack.has_room() && count < PACK_HEAD_MAX {
            pack.push(item.clone());
            count += 1;
        }
        assert_eq!(count, (PACK_HEAD_MAX / 2).div_ceil(len), "{item:?}");
        // The bound holds for the longest item.
        let head_len = pack.head().len() - HEADER_LEN - 4;
        assert!(head_len <= count * len && head_len < PACK_HEAD_MAX, "{item:?}");
    }
}

#[test]
fn a_pack_whose_lengths_contradict_does_not_decode() {
    let mut pack = PackBuilder::default();
    let mtime = Timestamp { secs: 0, nanos: 0 };
    pack.push(PackItem::File { index: 1, len: 3, mtime, hash: None, grew: false });
    let head = pack.head();
    let payload = |content: &[u8]| [&head[HEADER_LEN..], content].concat();
    let view = decode_pack(&payload(b"abc")).expect("our own frame");
    assert_eq!(view.items[0].1, head.len() - HEADER_LEN..head.len() - HEADER_LEN + 3);
    assert!(decode_pack(&payload(b"ab")).is_err() && decode_pack(&payload(b"abcd")).is_err());
    assert!(decode_pack(&[0, 0, 0]).is_err());
    // The description has at most so many bytes: here those of one message.
    let described = |len: usize| {
        let message = "x".repeat(len);
        let fault = Fault::new(Side::Source, FaultKind::Io, message);
        let head =
            postcard::to_allocvec(&[PackItem::Fault { index: 1, fault }][..]).expect("bytes");
        let payload = [&(head.len() as u32).to_le_bytes()[..], &head].concat();
        (head.len(), decode_pack(&payload).is_ok())
    };
    let (head_len, _) = described(PACK_HEAD_MAX / 2);
    let len = PACK_HEAD_MAX - (head_len - PACK_HEAD_MAX / 2);
    assert_eq!(described(len), (PACK_HEAD_MAX, true));
    assert_eq!(described(len + 1), (PACK_HEAD_MAX + 1, false));
}

#[test]
fn the_names_of_accounts_and_the_sources_of_a_job_have_their_bounds() {
    let account = |len| {
        let account = Account { is_group: true, number: 1, name: vec![b'x'; len].into() };
        let frame = encode(&Message::List(vec![ListItem::Account(account)]));
        decode(FrameType::List, &frame[HEADER_LEN..])
    };
    assert!(account(ACCOUNT_NAME_MAX).is_ok() && account(ACCOUNT_NAME_MAX + 1).is_err());
    let job = |count| {
        let paths = vec![Vec::new(); count];
        let role = Role::Sender(NamedSources::at(paths));
        let request = JobRequest {
            task: Task::default(),
            filter: Filter::default(),
            altered: Altered::default(),
            rate: None,
            compression: Compression::None,
            token: None,
            direct: None,
            joins: None,
            chunks: false,
            role,
        };
        let frame = encode(&Message::Job(request));
        decode(FrameType::Job, &frame[HEADER_LEN..]).map_err(|error| error.to_string())
    };
    assert!(job(SOURCES_MAX).is_ok());
    let error = job(SOURCES_MAX + 1).expect_err("too many");
    assert!(error.starts_with("the peer sent a Job frame that can't be read"), "{error}");
}
