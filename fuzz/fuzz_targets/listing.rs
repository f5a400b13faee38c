//! The payload of a listing: whatever decodes has names that lead nowhere else,
//! times that the system takes as times, and a cost that counts its memory.

#![no_main]

use haul_model::{EXTENDED_LEN_MAX, Kind, MAX_NAME_LEN};
use haul_proto::{ACCOUNT_NAME_MAX, FrameType, ListItem, Message, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    if payload.len() > FrameType::List.payload_max() as usize {
        return;
    }
    let Ok(Message::List(items)) = decode(FrameType::List, payload) else { return };
    assert!(items.len() <= payload.len());
    for item in &items {
        match item {
            ListItem::Entry { entry, .. } => {
                assert!(entry.attributes.mtime.nanos < 1_000_000_000);
                assert!(entry.id.is_none());
                let name = entry.name.as_ref().map_or(&b"x"[..], |name| name.as_bytes());
                assert!((1..=MAX_NAME_LEN).contains(&name.len()));
                assert!(!name.contains(&b'/') && !name.contains(&0));
                assert!(name != b"." && name != b"..");
                let target = match &entry.kind {
                    Kind::Symlink { target } => target.len(),
                    _ => 0,
                };
                let extended = entry.attributes.extended.as_ref().map_or(0, |all| all.len());
                assert!(extended <= EXTENDED_LEN_MAX);
                assert!(item.cost() >= (target + extended) as u64);
            }
            ListItem::Fault { name, fault, .. } => {
                assert!(item.cost() >= (name.len() + fault.message.len()) as u64);
            }
            ListItem::Rival(rival) => {
                assert!(rival.entry.id.is_none() && rival.first.id.is_none());
                assert!(item.cost() >= rival.fault.message.len() as u64);
            }
            ListItem::Subdirs { names, .. } => {
                let is_bad = |name: &[u8]| name.is_empty() || name.contains(&b'/') || name == b"..";
                assert!(!names.iter().any(|name| is_bad(name.as_bytes())));
            }
            ListItem::Account(account) => assert!(account.name.len() <= ACCOUNT_NAME_MAX),
            ListItem::DirEnd { .. }
            | ListItem::Closed { .. }
            | ListItem::Missing { .. }
            | ListItem::Mover { .. } => {}
        }
    }
});
