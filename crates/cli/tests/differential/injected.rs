//! Faults that no exception may hide: differences beside those that are meant, of cases in
//! which some are.

use crate::case::{Case, Way};
use crate::entry::{Content, Entry, Kind, TreeState, USER};
use crate::exceptions::{Fact, is_in_tree};
use crate::facts::Facts;
use crate::lines::{Said, in_lines};
use crate::trial::{Difference, compare};
use haul_testkit::haul::Outcome;
use std::collections::{BTreeMap, BTreeSet};

fn plain(kind: Kind) -> Entry {
    Entry {
        mode: if kind == Kind::Dir { 0o755 } else { 0o644 },
        kind,
        mtime: (1_000_000_000, 0),
        atime: 1_100_000_000,
        owner: (0, 0),
        xattrs: BTreeMap::new(),
        acl: false,
        default_acl: false,
    }
}

fn file() -> Entry {
    plain(Kind::File(Content::Text("text\n".into())))
}

fn dir() -> Entry {
    plain(Kind::Dir)
}

fn case(flags: &[&str], entries: &[(&str, Entry)]) -> Case {
    let mut state = TreeState::from([(b"src".to_vec(), dir()), (b"dst".to_vec(), dir())]);
    state.extend(entries.iter().map(|(path, entry)| (path.as_bytes().to_vec(), entry.clone())));
    Case {
        seed: 0,
        is_root: true,
        way: Way::Local,
        state,
        flags: flags.iter().map(|&flag| flag.into()).collect(),
        sources: vec![b"src/".to_vec()],
        dest: b"dst".to_vec(),
    }
}

/// The kinds of what haul has.
fn kinds(of: &[(&str, &str)]) -> Facts {
    let one = |&(path, kind): &(&str, &str)| {
        (path.as_bytes().to_vec(), BTreeMap::from([("kind", kind.to_owned())]))
    };
    of.iter().map(one).collect()
}

type Fault<'d> = (&'d str, &'d str, Option<&'d str>, Option<&'d str>);

fn is_meant(case: &Case, errors: &str, all: &Facts, fault: Fault<'_>) -> bool {
    let (path, name, theirs, ours) = fault;
    is_in_tree(&Fact { case, path: path.as_bytes(), name, theirs, ours, errors, all })
}

/// Lines that the exceptions leave of those that the programs have told.
fn left(case: &Case, theirs: &[&str], ours: &[&str], errors: &str) -> (Vec<String>, Vec<String>) {
    let said = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
    let mut rsync = Said { lines: said(theirs), errors: String::new() };
    let mut haul = Said { lines: said(ours), errors: errors.to_owned() };
    in_lines(case, &mut rsync, &mut haul);
    (rsync.lines, haul.lines)
}

#[test]
fn an_access_list_may_only_name_whom_the_map_says() {
    let listed = Entry { acl: true, ..file() };
    let entries = [("src/a", listed.clone()), ("dst/a", listed), ("src/b", file())];
    let mapped = case(&["-aA", "--numeric-ids", "--chown=daemon:bin"], &entries);
    let list =
        |user: &str| format!("system.posix_acl_access=\\x02\\x00\\x04\\x00{user}\\x04\\x00 ");
    let theirs = list(&crate::rights::shown(USER));
    let xattrs = |case: &Case, ours: &str| {
        is_meant(case, "", &Facts::new(), ("dst/a", "xattrs", Some(&theirs), Some(ours)))
    };
    assert!(xattrs(&mapped, &list(&crate::rights::shown(1))));
    assert!(!xattrs(&mapped, &list(&crate::rights::shown(2))));
    assert!(!xattrs(&mapped, &list(&crate::rights::shown(1)).replace("x04", "x06")));
    assert!(!xattrs(&mapped, ""));
    let unmapped = case(&["-aA", "--numeric-ids", "--groupmap=*:4"], &entries);
    assert!(!xattrs(&unmapped, &list(&crate::rights::shown(1))));
    // Nor is anything else told of it, or the same of a file without a list.
    let (_, haul) = left(&mapped, &[], &[".f.......a. a"], "");
    assert_eq!(haul, [""; 0]);
    let (_, haul) = left(&mapped, &[], &[".f.......a. b", ".f....o..a. a"], "");
    assert_eq!(haul, [".f.......a. b", ".f....o.... a"]);
    let (rsync, _) = left(&mapped, &[".f.......a. a"], &[], "");
    assert_eq!(rsync, [".f.......a. a"]);
}

#[test]
fn of_linked_files_only_those_of_a_base_may_be_missing() {
    let name = |first: &str| plain(Kind::Name(first.into()));
    let entries = [
        ("src/a", file()),
        ("src/b", name("src/a")),
        ("src/c", file()),
        ("src/d", name("src/c")),
        ("prev", dir()),
        ("prev/a", file()),
        ("older", dir()),
        ("older/b", file()),
    ];
    let case = case(&["-aH", "--compare-dest=../prev"], &entries);
    let all = kinds(&[
        ("src/a", "file: text"),
        ("src/b", "file: text"),
        ("src/c", "file: text"),
        ("src/d", "file: text"),
        ("prev/a", "file: text"),
        ("older/b", "file: else"),
    ]);
    let kind = |path, theirs, ours| is_meant(&case, "", &all, (path, "kind", theirs, ours));
    assert!(kind("dst/b", None, Some("file: text")));
    assert!(kind("dst/a", Some("file: text"), None));
    // Another content, one that no base has, and a file without a base.
    assert!(!kind("dst/b", None, Some("file: else")));
    assert!(!kind("dst/b", Some("file: text"), None));
    assert!(!kind("dst/b", Some("file: text"), Some("file: else")));
    assert!(!kind("dst/c", None, Some("file: text")));
    assert!(!kind("dst/d", Some("file: text"), None));
}

#[test]
fn a_name_in_the_place_of_something_else_is_compared_if_both_report_it() {
    let name = |first: &str| plain(Kind::Name(first.into()));
    let entries = [
        ("src/a", file()),
        ("src/a -> b", name("src/a")),
        ("dst/a", file()),
        ("dst/a -> b", plain(Kind::Fifo)),
    ];
    let case = case(&["-aiH", "--existing"], &entries);
    let ours = ["hf+++++++++ a -> b => a"];
    let (rsync, haul) = left(&case, &["hf.s....... a -> b => a"], &ours, "");
    assert_eq!(rsync, ["?f.++++++++ a -> b"]);
    assert_eq!(rsync, haul);
    // rsync has removed it and created nothing.
    assert_eq!(left(&case, &[], &ours, "").1, [""; 0]);
}

#[test]
fn a_bound_lets_go_only_what_is_extra() {
    let entries = [
        ("src/d", file()),
        ("src/a", file()),
        ("dst/d", dir()),
        ("dst/d/x", file()),
        ("dst/a", file()),
        ("dst/extra", file()),
    ];
    let case = case(&["-a", "--delete", "--max-delete=1"], &entries);
    let errors = "haul: dst/d: can't make way: some entries of the directory there stay\n";
    let all = Facts::new();
    let kind = |path, theirs, ours| is_meant(&case, errors, &all, (path, "kind", theirs, ours));
    assert!(kind("dst/extra", Some("file: text"), None));
    assert!(kind("dst/d/x", None, Some("file: text")));
    assert!(!kind("dst/a", Some("file: text"), None));
    assert!(!kind("dst/a", Some("file: text"), Some("file: else")));
    assert!(!kind("dst/extra", Some("file: text"), Some("file: else")));
    assert!(is_meant(&case, errors, &all, ("dst", "mtime", Some("1.0"), Some("now"))));
    assert!(!is_meant(&case, errors, &all, ("src", "mtime", Some("1.0"), Some("now"))));
    let (rsync, haul) = left(&case, &["*deleting   a"], &["*deleting   extra"], errors);
    assert_eq!((rsync.len(), haul.len()), (1, 0));
    // No more than may be.
    let both = ["*deleting   d/x", "*deleting   extra"];
    assert_eq!(left(&case, &[], &both, errors).1, both);
}

#[test]
fn only_what_could_not_be_backed_up_may_stay() {
    let entries = [("dst/a", file()), ("dst/b", file()), ("dst/d", dir()), ("dst/d/c", file())];
    let case = Case { is_root: false, ..case(&["-ab", "--delete"], &entries) };
    let refused = |path: &str| {
        format!("haul: {path}: can't remove it: can't back it up: Permission denied\n")
    };
    let errors = refused("dst/a") + &refused("dst/d/c");
    let all = Facts::new();
    let kind = |path, theirs, ours| is_meant(&case, &errors, &all, (path, "kind", theirs, ours));
    assert!(kind("dst/a", None, Some("file: text")));
    assert!(kind("dst/a~", Some("file: text"), None));
    assert!(kind("dst/d", None, Some("directory")));
    assert!(!kind("dst/b", None, Some("file: text")));
    assert!(!kind("dst/b~", Some("file: text"), None));
    let told = ["*deleting   a", "*deleting   b", "*deleting   d/"];
    assert_eq!(left(&case, &told, &[], &errors).0, ["*deleting   b"]);
}

#[test]
fn only_modes_that_are_changed_may_be_configured_otherwise() {
    let entries = [
        ("src/same", file()),
        ("src/other", Entry { mode: 0o666, ..file() }),
        ("src/listed", Entry { acl: true, ..file() }),
    ];
    let case = case(&["-aA", "--chmod=go-w"], &entries);
    let theirs = [".f.......a. listed", ".f.......a. other", ".f...p...a. same"];
    let (rsync, haul) = left(&case, &theirs, &[".f.......a. same"], "");
    assert_eq!((rsync.len(), haul.len()), (1, 1));
    assert_ne!(rsync, [""; 0]);
}

#[test]
fn names_that_are_patterns_are_fetched_from_a_host() {
    let case = |way, dest: &str| {
        let mut case = case(&["-a"], &[("src/[a]", file())]);
        (case.way, case.sources, case.dest) = (way, vec![b"src/[a]".to_vec()], dest.into());
        case.avoid_what_is_known();
        case.way
    };
    assert_eq!(case(Way::Upload, "new"), Way::Upload);
    assert_eq!(case(Way::Download, "dst"), Way::Download);
    assert_eq!(case(Way::Download, "new/"), Way::Download);
    assert_eq!(case(Way::Download, "new"), Way::Local);
}

fn name(first: &str) -> Entry {
    plain(Kind::Name(first.into()))
}

#[test]
fn of_names_of_one_file_each_is_reported_with_how_it_differed() {
    let longer = plain(Kind::File(Content::Text("longer text\n".into())));
    let entries = [("src/a", file()), ("src/b", name("src/a")), ("dst/b", longer)];
    let case = case(&["-aH"], &entries);
    let theirs = [">f.s....... b", "hf+++++++++ a => b"];
    let left = |ours: &[&str]| left(&case, &theirs, ours, "");
    let (rsync, haul) = left(&["hf.s....... b => a", ">f+++++++++ a"]);
    assert_eq!(BTreeSet::from_iter(rsync), BTreeSet::from_iter(haul));
    for faulty in [
        &["hf.st...... b => a", ">f+++++++++ a"][..],
        &["hf          b => a", ">f+++++++++ a"],
        &["hf.s....... b => a", ">f.s....... a"],
        &["hf.s....... b => a"],
        &[">f+++++++++ a"],
    ] {
        let (rsync, haul) = left(faulty);
        assert_ne!(BTreeSet::from_iter(rsync), BTreeSet::from_iter(haul), "{faulty:?}");
    }
}

#[test]
fn names_of_one_file_in_the_destination_are_replaced_all_the_same() {
    let longer = plain(Kind::File(Content::Text("longer text\n".into())));
    let entries =
        [("src/a", file()), ("src/b", file()), ("dst/a", longer), ("dst/b", name("dst/a"))];
    let case = case(&["-a"], &entries);
    let theirs = [">f.s.p..... a", ">f.s....... b"];
    let left = |ours: &[&str]| left(&case, &theirs, ours, "");
    let (rsync, haul) = left(&[">f.s....... a", ">f.s.p..... b"]);
    assert_eq!(rsync, haul);
    for faulty in [
        &[">f.s....... a"][..],
        &[">f.s....... a", ".f...p..... b"],
        &[">f.s....... a", ">f..t...... b"],
    ] {
        let (rsync, haul) = left(faulty);
        assert_ne!(rsync, haul, "{faulty:?}");
    }
}

#[test]
fn names_that_no_base_has_are_reported_where_a_base_has_another() {
    let entries = [
        ("src/a", file()),
        ("src/b", name("src/a")),
        ("src/c", name("src/a")),
        ("prev", dir()),
        ("prev/a", file()),
        ("dst/c", file()),
    ];
    let case = case(&["-aH", "--link-dest=../prev"], &entries);
    let theirs = ["hf+++++++++ b => a", "hf..t...... c => a"];
    let left = |ours: &[&str]| left(&case, &theirs, ours, "");
    // How the others are told depends on the one that is first.
    let (rsync, haul) = left(&[">f+++++++++ b"]);
    assert_eq!(rsync, haul);
    let (rsync, haul) = left(&["hf..t...... c => a"]);
    assert_ne!(rsync, haul);
}

fn ended(code: i32, out: &str, err: &str) -> Outcome {
    let (stdout, stderr) = (out.into(), err.into());
    Outcome {
        code: Some(code),
        signal: None,
        stdout,
        stderr,
        usage: Default::default(),
        timed_out: false,
    }
}

#[test]
fn where_the_codes_may_differ_trees_and_lines_may_not() {
    let long = "n".repeat(255);
    let extra = format!("dst/{long}");
    let case =
        case(&["-d", "-i", "--delete", "-b"], &[("src/a", file()), (&extra, plain(Kind::Fifo))]);
    let lines = format!("*deleting   {long}\n>f+++++++++ a\n");
    let rsync = ended(0, &lines, "");
    let why = "can't remove it: with its backup suffix, the name is longer than 255 bytes";
    let haul = |out| ended(23, out, &format!("haul: {extra}: {why}\n"));
    let theirs = kinds(&[("dst/a", "file: text"), (&extra, "FIFO")]);
    let found = |haul: &Outcome, ours| compare(&case, (&rsync, &theirs), (haul, &ours), Facts::new);
    let told = ">f+++++++++ a\n";
    assert_eq!(found(&haul(told), theirs.clone()), []);
    let lost = kinds(&[(&extra, "FIFO")]);
    let is_tree = |found: &[Difference]| matches!(found, [Difference::Tree(_)]);
    assert!(is_tree(&found(&haul(told), lost)));
    let gone = kinds(&[("dst/a", "file: text"), ("dst/b", "file: text"), (&extra, "FIFO")]);
    assert!(is_tree(&found(&haul(told), gone)));
    let silent = found(&haul(""), theirs.clone());
    assert!(matches!(&*silent, [Difference::Lines(_)]), "{silent:?}");
    // An error of another kind is none of those that are meant.
    let other = ended(23, told, "haul: dst/a: can't write: Input/output error\n");
    let found = found(&other, theirs.clone());
    assert!(matches!(found[0], Difference::Code { .. }), "{found:?}");
}

#[test]
fn a_command_that_is_refused_changes_nothing() {
    let case = case(&["-a", "-b", "--backup-dir=../kept"], &[("src/a", file()), ("dst/b", file())]);
    let why = "haul: ../kept/: can't create the directory: Permission denied\n";
    let before = || kinds(&[("src/a", "file: text"), ("dst/b", "file: text")]);
    let theirs =
        kinds(&[("src/a", "file: text"), ("dst/a", "file: text"), ("dst/b", "file: text")]);
    let rsync = ended(0, ">f+++++++++ a\n", "");
    let found = |haul: &Outcome, ours| compare(&case, (&rsync, &theirs), (haul, &ours), before);
    assert_eq!(found(&ended(11, "", why), before()), []);
    let written = found(&ended(11, "", why), theirs.clone());
    assert!(matches!(&*written, [Difference::Tree(_)]), "{written:?}");
    let told = found(&ended(11, ">f+++++++++ a\n", why), before());
    assert!(matches!(&*told, [Difference::Lines(_)]), "{told:?}");
}
