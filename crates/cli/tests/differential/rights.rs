//! Rights that are told of sources as others: users by maps, and modes by `--chmod`.

use crate::case::Case;
use crate::entry::{Entry, Kind, USER};

/// The user that the one whom access lists name becomes, if that is another.
pub(crate) fn other_user(case: &Case) -> Option<u32> {
    let number = |name: &str| match name {
        "root" => 0,
        "daemon" => 1,
        "bin" => 2,
        name => name.parse().expect("another user is a number"),
    };
    case.flags
        .iter()
        .find_map(|flag| {
            if let Some((user, _)) = flag.strip_prefix("--chown=")?.split_once(':') {
                return (!user.is_empty()).then(|| number(user));
            }
            None
        })
        .or_else(|| {
            let maps = case.flags.iter().find_map(|flag| flag.strip_prefix("--usermap="))?;
            let mut maps = maps.split(',').filter_map(|map| map.split_once(':'));
            let is_it = |from: &str| from == "*" || from == USER.to_string();
            maps.find_map(|(from, to)| is_it(from).then(|| number(to)))
        })
}

/// The number of a user as an access list has it, and as it is shown.
pub(crate) fn shown(user: u32) -> String {
    haul_model::escape_bytes(&user.to_le_bytes())
}

/// True if a source of this mode has another one by `--chmod`.
pub(crate) fn gets_other_mode(case: &Case, entry: &Entry) -> bool {
    let Some(how) = case.flags.iter().find_map(|flag| flag.strip_prefix("--chmod=")) else {
        return false;
    };
    let (mode, is_dir) = (entry.mode, entry.kind == Kind::Dir);
    match (how, is_dir) {
        ("go-w", _) => mode & 0o022 != 0,
        ("D2755,F640", true) => mode != 0o2755,
        ("D2755,F640", false) => mode != 0o640,
        ("Fu+x,Dg-rx", true) => mode & 0o050 != 0,
        ("Fu+x,Dg-rx", false) => mode & 0o100 == 0,
        ("a-w", _) => mode & 0o222 != 0,
        ("+t", _) => mode & 0o1000 == 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Way;

    #[test]
    fn maps_are_read_as_they_are_given() {
        let becomes = |flag: &str| {
            let flags = vec!["-aA".to_owned(), flag.to_owned()];
            other_user(&Case {
                seed: 0,
                is_root: true,
                way: Way::Local,
                state: crate::entry::TreeState::new(),
                flags,
                sources: Vec::new(),
                dest: Vec::new(),
            })
        };
        assert_eq!(becomes("--chown=daemon:bin"), Some(1));
        assert_eq!(becomes("--chown=:2"), None);
        assert_eq!(becomes("--usermap=root:daemon,*:bin"), Some(2));
        assert_eq!(becomes("--usermap=0-1:7,12000-13000:8"), None);
        assert_eq!(becomes("--groupmap=root:3,*:4"), None);
    }
}
