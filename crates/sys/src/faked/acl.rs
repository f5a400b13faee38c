//! rsync's form of a stored access control list.

use haul_model::{Acl, AclEntry, AclWho};
use std::io;

/// The rights of a line that is missing, or that the mode holds.
const NO_LINE: u32 = 0x80;
/// A bit beside the rights in a line that names a user.
const NAMES_USER: u32 = 1 << 31;
/// Little-endian numbers of 32 bits. First the rights of the owner, the group, the mask and all
/// others. Then two for each line: the ID and the rights.
const HEAD_LEN: usize = 16;
const LINE_LEN: usize = 8;

/// Encodes a list in rsync's form. With `is_access`, the mode holds the rights that are left out.
pub(super) fn bytes_of(acl: &Acl, is_access: bool) -> Vec<u8> {
    let rights = |who| {
        let line = acl.0.iter().find(|line| line.who == who);
        line.map_or(NO_LINE, |line| line.rights.into())
    };
    let of_mode = |who| if is_access { NO_LINE } else { rights(who) };
    // The mode holds the mask: group rights equal to it are left out.
    let of_group = match rights(AclWho::OwnGroup) {
        same if is_access && same == rights(AclWho::Mask) => NO_LINE,
        rights => rights,
    };
    let head = [of_mode(AclWho::Owner), of_group, rights(AclWho::Mask), of_mode(AclWho::Other)];
    let mut lines = acl.0.to_vec();
    lines.sort_unstable_by_key(|line| line.who);
    let named = lines.iter().filter_map(|line| match line.who {
        AclWho::User(id) => Some([id, u32::from(line.rights) | NAMES_USER]),
        AclWho::Group(id) => Some([id, line.rights.into()]),
        _ => None,
    });
    let numbers = head.into_iter().chain(named.flatten());
    numbers.flat_map(u32::to_le_bytes).collect()
}

/// Decodes rsync's form of the list of an entry with this `mode`. With `is_access`, the mode takes
/// precedence, as if both were set: for the owner, for all others, and for the mask.
pub(super) fn acl_of(bytes: &[u8], mode: u32, is_access: bool) -> io::Result<Acl> {
    let damaged = || {
        let message = "the access control list that rsync stored is damaged";
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    let (head, lines) = bytes.split_at_checked(HEAD_LEN).ok_or_else(damaged)?;
    let (lines, rest) = lines.as_chunks::<LINE_LEN>();
    let number = |at: &[u8]| u32::from_le_bytes([at[0], at[1], at[2], at[3]]);
    let rights = |at: usize, shift: u32| match number(&head[4 * at..]) {
        NO_LINE => (mode >> shift & 7) as u8,
        rights => (rights & 7) as u8,
    };
    let mut acl = vec![
        AclEntry { who: AclWho::Owner, rights: rights(0, 6) },
        AclEntry { who: AclWho::OwnGroup, rights: rights(1, 3) },
        AclEntry { who: AclWho::Other, rights: rights(3, 0) },
    ];
    if number(&head[8..]) != NO_LINE || !lines.is_empty() {
        acl.push(AclEntry { who: AclWho::Mask, rights: rights(2, 3) });
    }
    for line in lines {
        let (id, access) = (number(line), number(&line[4..]));
        let who = if access & NAMES_USER != 0 { AclWho::User(id) } else { AclWho::Group(id) };
        acl.push(AclEntry { who, rights: (access & 7) as u8 });
    }
    acl.sort_by_key(|line| line.who);
    let mut acl = Acl(acl);
    if is_access {
        acl.set_mode(mode);
    }
    if rest.is_empty() && acl.is_valid() { Ok(acl) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_is_encoded_as_rsync_does() {
        // As rsync 3.5 writes it for a file of mode 0664 with `setfacl -m u:77:rw,g:88:r`.
        let bytes = [
            [0x80, 4, 6, 0x80].map(u32::to_le_bytes).concat(),
            [77, NAMES_USER | 6, 88, 4].map(u32::to_le_bytes).concat(),
        ]
        .concat();
        let acl = acl_of(&bytes, 0o664, true).expect("a list");
        assert_eq!((acl.mode(), acl.0.len()), (0o664, 6));
        assert_eq!(bytes_of(&acl, true), bytes);
        let of_part = |len| acl_of(&bytes[..len], 0o664, true);
        assert!(of_part(15).is_err() && of_part(20).is_err());
    }

    #[test]
    fn the_mode_takes_precedence_over_the_list() {
        let bytes = [7_u32, 7, 7, 7, 77, NAMES_USER | 6].map(u32::to_le_bytes).concat();
        let rights = |is_access| {
            let acl = acl_of(&bytes, 0o641, is_access).expect("a list");
            acl.0.iter().map(|line| line.rights).collect::<Vec<_>>()
        };
        // The owner, the user, the group, the mask, and all others.
        assert_eq!(rights(true), [6, 6, 7, 4, 1]);
        // The default list of a directory is independent of its mode.
        assert_eq!(rights(false), [7, 6, 7, 7, 7]);
    }

    #[test]
    fn any_bytes_decode_to_a_valid_list_or_an_error() {
        for byte in [0, 1, 7, 0x4d, 0x80, 0xff] {
            for len in 0..=5 * HEAD_LEN {
                let bytes = vec![byte; len];
                if let Ok(acl) = acl_of(&bytes, 0o640, byte > 4) {
                    assert!(acl.is_valid(), "{byte} {len}");
                }
            }
        }
    }
}
