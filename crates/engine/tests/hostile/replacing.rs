//! Files and links that are replaced at a server that can't do that in one step, and
//! that refuses or goes away in between: whatever happens, the old content is there
//! or the new one, and the next job leaves nothing else.

use crate::place::Place;
use crate::sftp::{Way, run};
use haul_model::Policy;
use haul_testkit::{Fault, Oddities, tree};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Requests that a job may take for what is replaced here.
const REQUESTS_MAX: usize = 60;

/// The beginning of the content at `path`, or the target of the link there.
fn what(path: &Path) -> Vec<u8> {
    match fs::read_link(path) {
        Ok(target) => target.into_os_string().into_encoded_bytes(),
        Err(_) => fs::read(path).unwrap_or_default(),
    }
}

/// An entry that is replaced: its name, and its content before and afterwards.
type Replaced = (&'static str, Vec<u8>, Vec<u8>);

/// A file that goes through a stream, a small one, and a link, each with an old one
/// in its place.
fn place() -> (Place, [Replaced; 3]) {
    let place = Place::new();
    for dir in [place.outside("journals"), place.source("tree"), place.dest("tree")] {
        fs::create_dir(dir).expect("made");
    }
    tree::random_file(place.source("tree/large"), 700 << 10, 2).expect("made");
    fs::write(place.source("tree/small"), "new small").expect("written");
    symlink("new link", place.source("tree/link")).expect("linked");
    fs::write(place.dest("tree/large"), "old large").expect("written");
    fs::write(place.dest("tree/small"), "old and small").expect("written");
    symlink("old link", place.dest("tree/link")).expect("linked");
    let both = |name| {
        let at = |path: &Path| what(&path.join(name));
        (name, at(&place.dest("tree")), at(&place.source("tree")))
    };
    let both = ["large", "small", "link"].map(both);
    (place, both)
}

/// The contents of the directory that is written to, under whatever names.
fn contents(place: &Place) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(place.dest("tree")).expect("read").flatten();
    let content = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), what(&entry.path()))
    };
    entries.map(content).collect()
}

#[test]
fn nothing_is_lost_where_a_file_cannot_be_replaced_in_one_step() {
    let bare = Oddities { extensions: Vec::new(), ..Oddities::default() };
    for fault in [Fault::Deny, Fault::Die] {
        for at in 0..REQUESTS_MAX {
            let (place, files) = place();
            let odd = Oddities { fault: Some((at, fault)), ..bare.clone() };
            let ran = run(&place, Way::Up, &odd, Policy::default());
            if ran.requests <= at {
                break;
            }
            let (about, left) = (format!("{fault:?} {at}: {:?}", ran.result), contents(&place));
            for (name, old, new) in &files {
                let has_name = left.iter().any(|(of, is)| of == name && (is == old || is == new));
                let has = |content| left.iter().any(|(_, is)| is == content);
                assert!(
                    has_name || (has(old) && has(new)),
                    "{about}: {name} of {:?}",
                    left.iter().map(|(name, _)| name).collect::<Vec<_>>()
                );
                assert!(has_name || fault == Fault::Die, "{about}: {name} is nowhere");
            }
            for _ in 0..2 {
                run(&place, Way::Up, &bare, Policy::default()).result.expect("it runs");
            }
            let mut left = contents(&place);
            left.sort_unstable();
            let mut all: Vec<_> =
                files.into_iter().map(|(name, _, new)| (name.to_owned(), new)).collect();
            all.sort_unstable();
            let names: Vec<_> = left.iter().map(|(name, _)| name).collect();
            assert!(left == all, "{about}: {names:?}");
        }
    }
}
