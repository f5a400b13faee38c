//! Agents that send something else than the client asked for: kinds that its job
//! does not cover, more than it named, or less.

use crate::attack::{Attacked, run_client};
use crate::peer::{dir, dir_end, entry, file, link, pack, packed};
use crate::place::Place;
use haul_engine::{Job, Placement};
use haul_model::{
    Action, Fault, FaultKind, FilterItem, Kind, Mirror, Pattern, Policy, Rule, Side, Task,
};
use haul_proto::{ListItem, NamedDest, NamedSources, Role};

/// Lists `items` to a client that asked for `sources`.
fn list_to(sources: &[&str], recursive: bool, follow: bool, items: Vec<ListItem>) -> Attacked {
    send_to(sources, recursive, follow, items, None)
}

/// The same, and sends the file of the number `sent`.
fn send_to(
    sources: &[&str],
    recursive: bool,
    follow: bool,
    items: Vec<ListItem>,
    sent: Option<u64>,
) -> Attacked {
    let rules = Job {
        sources: NamedSources { recursive, follow, ..NamedSources::default() },
        ..Job::default()
    };
    send_by(rules, sources, items, sent)
}

/// The same to a client that has these rules.
fn send_by(rules: Job, sources: &[&str], items: Vec<ListItem>, sent: Option<u64>) -> Attacked {
    let place = Place::new();
    let job = Job {
        sources: NamedSources {
            paths: sources.iter().map(|source| source.as_bytes().to_vec()).collect(),
            ..rules.sources
        },
        dest: NamedDest {
            path: place.dest("").into_os_string().into_encoded_bytes(),
            into_dir: true,
            ..rules.dest
        },
        ..rules
    };
    run_client(place, job, Placement::download, move |peer| {
        assert!(matches!(peer.answer().role, Role::Sender(_)));
        peer.list(items);
        if let Some(index) = sent {
            peer.await_wants([index]);
            peer.raw(&pack([packed(index, b"text")], b"text"));
        }
    })
}

fn fault() -> ListItem {
    let fault = Fault::new(Side::Source, FaultKind::NotFound, "nothing is there");
    ListItem::Fault { dir: 0, name: b"a".to_vec(), fault }
}

#[test]
fn without_r_no_directory_is_taken() {
    for source in ["a", "a/", "there/a", "~/a"] {
        for items in [
            vec![dir(0, "a"), dir_end(1), dir_end(0)],
            vec![dir(0, "a"), file(1, "x", 4), dir_end(1), dir_end(0)],
            vec![dir(0, "a"), link(1, "x", "/etc"), dir_end(1), dir_end(0)],
        ] {
            let attacked = list_to(&[source], false, false, items);
            attacked.assert_refused("it listed a directory where none was requested");
            assert!(!attacked.place.has("a"), "{source}");
        }
    }
}

#[test]
fn without_r_a_directory_without_a_name_is_none_either() {
    for source in [".", "a/.", "/", "~", "a/.."] {
        let mut whole = dir(0, "a");
        if let ListItem::Entry { entry, .. } = &mut whole {
            entry.name = None;
        }
        let items = vec![whole, file(1, "x", 4), dir_end(1), dir_end(0)];
        let attacked = list_to(&[source], false, false, items.clone());
        attacked.assert_refused("it listed a directory where none was requested");
        assert!(!attacked.place.has("x"), "{source}");
        let attacked = send_to(&[source], true, false, items, Some(2));
        assert_eq!(attacked.assert_done().copied, 1, "{source}");
    }
}

#[test]
fn what_was_to_be_left_out_is_not_taken() {
    let rules = || {
        let pattern = Pattern::new(b"x").expect("a pattern");
        let only_dirs = Pattern::new(b"/d/").expect("a pattern");
        let rules = [pattern, only_dirs].map(|pattern| Rule::new(Action::Exclude, pattern));
        let filter = rules.map(FilterItem::Rule).to_vec().try_into().expect("few");
        Job {
            sources: NamedSources { recursive: true, ..NamedSources::default() },
            filter,
            ..Job::default()
        }
    };
    for items in [
        vec![file(0, "x", 4)],
        vec![dir(0, "a"), file(1, "x", 4)],
        vec![dir(0, "a"), dir(1, "x")],
        vec![dir(0, "d")],
    ] {
        let attacked = send_by(rules(), &["a", "x", "d"], items, None);
        attacked.assert_refused("it listed an excluded entry");
    }
    // Nothing has to be told of them, whatever they are...
    send_by(rules(), &["a", "x", "d"], vec![dir(0, "a"), dir_end(1), dir_end(0)], None)
        .assert_done();
    let of_file = vec![dir(0, "a"), dir_end(1), file(0, "d", 4), dir_end(0)];
    let attacked = send_by(rules(), &["a", "x", "d"], of_file, Some(2));
    assert_eq!(attacked.assert_done().copied, 1);
    // ...but of the others.
    let attacked = send_by(rules(), &["a", "b", "x", "d"], vec![dir_end(0)], None);
    attacked.assert_refused("the listing too early");
    // What could have been left out, and was not, stands for no other.
    let attacked = send_by(rules(), &["a", "d"], vec![file(0, "d", 4), dir_end(0)], None);
    attacked.assert_refused("the listing too early");
}

#[test]
fn where_links_are_followed_none_is_taken() {
    for items in [
        vec![link(0, "a", "/etc"), dir_end(0)],
        vec![dir(0, "a"), link(1, "x", "/etc"), dir_end(1), dir_end(0)],
        vec![dir(0, "a"), dir(1, "b"), link(2, "x", "/etc"), dir_end(2), dir_end(1), dir_end(0)],
    ] {
        list_to(&["a"], true, true, items).assert_refused("where links are followed");
    }
    let items = vec![link(0, "a", "/etc"), dir_end(0)];
    let attacked = list_to(&["a"], false, true, items.clone());
    attacked.assert_refused("where links are followed");
    // A file may have a record that makes it a link.
    let mirror = Mirror { fakes_sources: true, ..Mirror::default() };
    let task = Task::Sync(Policy::default(), mirror);
    let sources = NamedSources { follow: true, ..NamedSources::default() };
    send_by(Job { sources, task, ..Job::default() }, &["a"], items, None).assert_done();
}

#[test]
fn a_name_with_a_slash_is_no_link() {
    for recursive in [false, true] {
        let items = vec![link(0, "a", "/etc"), dir_end(0)];
        let attacked = list_to(&["there/a/"], recursive, false, items.clone());
        attacked.assert_refused("a name that was not requested");
        assert_eq!(list_to(&["there/a"], recursive, false, items).assert_done().copied, 1);
    }
}

#[test]
fn what_was_asked_for_is_all_accounted_for() {
    for (sources, items) in [
        (&["a"][..], vec![dir_end(0)]),
        (&["a", "b"], vec![file(0, "a", 4), dir_end(0)]),
        (&["a", "b"], vec![fault(), dir_end(0)]),
        (&["x/a", "y/a"], vec![file(0, "a", 4), dir_end(0)]),
    ] {
        list_to(sources, false, false, items).assert_refused("the listing too early");
    }
    for (sources, items) in [
        (&["a"][..], vec![file(0, "a", 4), fault()]),
        (&["a"], vec![fault(), file(0, "a", 4)]),
        (&["a"], vec![fault(), fault()]),
    ] {
        list_to(sources, false, false, items).assert_refused("more than was requested");
    }
}

#[test]
fn one_file_can_be_nothing_else_but_a_file_a_link_or_nothing() {
    let special = entry(0, "a", Kind::Special);
    for (item, sent, copied) in [
        (file(0, "a", 4), Some(1), 1),
        (link(0, "a", "b"), None, 1),
        (fault(), None, 0),
        (special, None, 0),
    ] {
        let attacked = send_to(&["there/a"], false, false, vec![item, dir_end(0)], sent);
        assert_eq!(attacked.assert_done().copied, copied);
    }
}
