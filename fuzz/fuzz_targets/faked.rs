//! Attributes of root that a tree has written down: whatever stands there, an entry stays
//! what others of its kind are, or fails; and what is read of it is read the same once it is
//! written down again.

#![no_main]

use haul_fuzz::Faked;
use haul_model::{Attributes, EXTENDED_LEN_MAX, Extended, Kept, Name};
use haul_sys::{Stat, extended, set_attributes};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::io::{self, ErrorKind};

/// All that is written down.
const KEPT: Kept =
    Kept::MODE.with(Kept::OWNER).with(Kept::SET_ID).with(Kept::LENT).with(Kept::EXTENDED);

/// The longest target of a link, in bytes.
const TARGET_LEN_MAX: usize = 4096;

thread_local! {
    static PLACE: RefCell<Faked> = RefCell::new(Faked::new());
}

fuzz_target!(|bytes: &[u8]| {
    PLACE.with_borrow_mut(|place| {
        let Some(is_dir) = place.make(bytes) else { return };
        let dir = place.open();
        let [name, copy] = [Faked::NAME, Faked::COPY].map(|name| Name::new(name).expect("a name"));
        let file = place.held(Faked::NAME);
        let Some(stat) = or_damaged(dir.stat(&name)) else {
            return assert!(dir.stat_of(&file).is_err());
        };
        check(&stat, is_dir);
        let open = dir.stat_of(&file).expect("as by its name");
        assert_eq!((open.mode, open.uid, open.gid), (stat.mode, stat.uid, stat.gid));
        if stat.is_symlink() {
            match dir.read_link(&name) {
                Ok(target) => assert!(target.len() <= TARGET_LEN_MAX),
                Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput),
            }
        }
        let Some(found) = or_damaged(extended(&dir, &name, Kept::EXTENDED)) else { return };
        found.iter().for_each(|found| check_extended(found));
        assert_eq!(or_damaged(dir.extended_of(&file, Kept::EXTENDED)), Some(found.clone()));

        let attributes = Attributes { extended: found.clone(), ..stat.attributes() };
        let file = place.held(Faked::COPY);
        if or_damaged(set_attributes(&dir, &file, &attributes, KEPT)).is_none() {
            return;
        }
        let again = dir.stat(&copy).expect("it was written down");
        assert_eq!((again.mode, again.uid, again.gid), (stat.mode, stat.uid, stat.gid));
        let again = extended(&dir, &copy, Kept::EXTENDED).expect("it was written down");
        assert_eq!(again, found);
    });
});

/// The result, unless what is written down is said to be damaged, to be too much, or to look
/// like another thing.
fn or_damaged<T>(result: io::Result<T>) -> Option<T> {
    let error = match result {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let is_said = [ErrorKind::InvalidData, ErrorKind::FileTooLarge].contains(&error.kind());
    assert!(is_said, "{error:?}");
    None
}

/// No record makes a directory of a file, or what no system has.
fn check(stat: &Stat, is_dir: bool) {
    assert_eq!(stat.is_dir(), is_dir);
    assert!(is_dir || stat.is_file() || stat.is_symlink() || stat.special().is_some());
    assert!(stat.mode <= 0o7777 && ![stat.uid, stat.gid].contains(&u32::MAX));
}

fn check_extended(found: &Extended) {
    assert!(!found.is_empty() && found.len() <= EXTENDED_LEN_MAX);
    for acl in found.acl.iter().chain(&found.default_acl) {
        assert!(acl.is_valid(), "{acl:?}");
    }
    for pair in found.xattrs.windows(2) {
        assert!(pair[0].name < pair[1].name);
    }
    for xattr in &found.xattrs {
        let is_of_others = [&b"user.rsync.%"[..], b"user.haul.", b"system."];
        assert!(!is_of_others.iter().any(|front| xattr.name.starts_with(front)), "{xattr:?}");
    }
}
