//! Connections that end at any byte of what is said, for every kind of job that goes on by
//! itself: it comes to what it would have come to, and tells that once.

use crate::common::*;
use crate::link::LONG;
use haul_testkit::content::Stream;
use haul_testkit::haul::Outcome;
use haul_testkit::{Snapshot, campaign, duplicate, tree};
use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A command, in a scene that has `src` and `dst`.
struct Case {
    name: &'static str,
    command: &'static str,
    flags: &'static [&'static str],
    sources: &'static [&'static str],
    dest: &'static str,
    /// Said on its standard input.
    said: &'static str,
}

const LIST: &str = "d/one\nd/new/three\nlarge\nd/linked\nlink\n";

/// Mirrors that remove at their end or before, files that wait, and names of one file; backups;
/// a list that can be read once; sources that go.
const CASES: [Case; 7] = [
    Case {
        name: "after",
        command: "sync",
        flags: &["-aHb", "--backup-dir=../kept", "--delete-after"],
        sources: &["src/"],
        dest: "dst",
        said: "",
    },
    Case {
        name: "delayed",
        command: "sync",
        flags: &["-aH", "--delay-updates", "--delete-delay"],
        sources: &["src/"],
        dest: "dst",
        said: "",
    },
    Case {
        name: "listed",
        command: "sync",
        flags: &["-arH", "--files-from=-", "--remove-source-files"],
        sources: &["src"],
        dest: "dst",
        said: LIST,
    },
    Case {
        name: "removed",
        command: "sync",
        flags: &["-aHb", "--delete-before", "--remove-source-files"],
        sources: &["src/"],
        dest: "dst",
        said: "",
    },
    Case {
        name: "lanes",
        command: "sync",
        flags: &["-aH", "--via", "tcp", "--parallel", "3", "--remove-source-files"],
        sources: &["src/"],
        dest: "dst",
        said: "",
    },
    Case {
        name: "moved",
        command: "move",
        flags: &["--no-clobber"],
        sources: &["src"],
        dest: "dst",
        said: "",
    },
    Case { name: "renamed", command: "move", flags: &[], sources: &["src"], dest: "new", said: "" },
];

/// Commands that ask a host before their job: for what a pattern stands for, for the list of
/// paths, for the kind of what is to be copied.
const ASKING: [Case; 4] = [
    Case {
        name: "pattern",
        command: "sync",
        flags: &["-aH", "--delete"],
        sources: &["src/[de]", "src/*e"],
        dest: "dst",
        said: "",
    },
    Case {
        name: "moved-pattern",
        command: "move",
        flags: &[],
        sources: &["sr*"],
        dest: "dst/",
        said: "",
    },
    Case {
        name: "fetched",
        command: "sync",
        flags: &["-aH", "--files-from=:src/d/names"],
        sources: &["src"],
        dest: "dst",
        said: "",
    },
    Case {
        name: "looked",
        command: "sync",
        flags: &["-aH"],
        sources: &["src"],
        dest: "new",
        said: "",
    },
];

/// Where a connection ends.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Its number, from 1.
    connection: usize,
    kind: Kind,
    /// Behind so many bytes.
    behind: u64,
    /// So does the next one.
    is_double: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// As seen by what is said to the host.
    In,
    /// By what is said from there.
    Out,
    /// Nothing comes from the host any more.
    Silent,
}

/// The least that a greeting has, in bytes: a host that has not greeted is not called again.
const GREETING: u64 = 64;

/// Cuts of one kind for each connection of a command.
const CUTS: u64 = 1;

/// Commands that are run at the same time: most of their time is a pause.
const AT_ONCE: usize = 24;

fn make_trees(scene: &Scene<'_>) {
    for name in ["d/one", "d/new/two", "d/new/three", "e/four", "e/deep/five", "same"] {
        scene.file(format!("src/{name}"), name.repeat(20));
    }
    scene.file("src/d/names", LIST);
    tree::random_file(scene.path("src/large"), 200_000, 1).expect("a file");
    for (from, to) in [("d/one", "d/linked"), ("d/one", "e/linked"), ("e/four", "e/deep/linked")] {
        fs::hard_link(scene.path(format!("src/{from}")), scene.path(format!("src/{to}")))
            .expect("a name");
    }
    scene.symlink("d/one", "src/link");
    for name in ["d/one", "e/four", "large"] {
        scene.file(format!("dst/{name}"), "old");
    }
    for at in 0..8 {
        scene.file(format!("dst/extra/{at}"), "extra");
        scene.file(format!("dst/e/extra{at}"), "extra");
    }
    duplicate(scene.path("src/same"), scene.path("dst/same")).expect("a copy");
}

/// A run in a scene of its own, whose connections are made by `lines`.
fn run_with(origin: &Scene<'_>, name: &str, case: &Case, lines: &str) -> (Outcome, Facts) {
    let mut scene = origin.another(name);
    for tree in ["src", "dst"] {
        duplicate(origin.path(tree), scene.path(tree)).expect("a copy");
    }
    let lines = format!(
        "shift\nexport SSH_CONNECTION='127.0.0.1 1 127.0.0.1 2'\ncd {}\necho >> calls\n\
         n=$(wc -l < calls)\n{lines}\nexec sh -c \"$*\"",
        scene.path("").display()
    );
    scene.reach_by(script(&scene.path("pipe"), &lines));
    let flags = [case.flags, &["--json", "--retries", "3", "--timeout", "2"]].concat();
    let job = scene.transfer(case.command, &scene.route(), &flags, case.sources, case.dest);
    let outcome = job.stdin(case.said).env_remove("HAUL_RETRIES").limit(LONG * 2).run();
    let facts = Facts::of(&scene, &outcome);
    fs::remove_dir_all(scene.path("")).expect("removed");
    (outcome, facts)
}

/// The end of a command.
struct Facts {
    trees: [Option<Snapshot>; 4],
    /// Its lines, without those of the connection.
    told: BTreeSet<String>,
    count: usize,
    /// Bytes that were said on each connection, to the host and from it.
    said: Vec<[u64; 2]>,
}

impl Facts {
    fn of(scene: &Scene<'_>, outcome: &Outcome) -> Facts {
        let look = |name| scene.exists(name).then(|| scene.snapshot(name));
        assert_no_strays(&scene.path(""));
        let out = outcome.out();
        let lines = out.lines().filter_map(|line| told(line, scene.way == Way::Upload));
        let lines: Vec<String> = lines.collect();
        let len = |path: String| fs::metadata(scene.path(path)).map(|it| it.len()).ok();
        let both = |n| Some([len(format!("said.{n}.in"))?, len(format!("said.{n}.out"))?]);
        Facts {
            trees: ["src", "dst", "kept", "new"].map(look),
            count: lines.len(),
            told: lines.into_iter().collect(),
            said: (1..).map_while(both).collect(),
        }
    }

    /// The differences from what should have come about.
    fn differences(&self, other: &Facts, rules: haul_testkit::Compare) -> Vec<String> {
        let mut found = Vec::new();
        for (ours, theirs) in self.trees.iter().zip(&other.trees) {
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => {
                    let differences = ours.differences(theirs, rules);
                    found.extend(differences.iter().map(|one| format!("{one:?}")));
                }
                (None, None) => {}
                (ours, theirs) => found.push(format!("{} {}", ours.is_some(), theirs.is_some())),
            }
        }
        found.extend(self.told.difference(&other.told).map(|line| format!("missing: {line}")));
        found.extend(other.told.difference(&self.told).map(|line| format!("told: {line}")));
        if self.count != other.count {
            found.push(format!("{} lines are {}", self.count, other.count));
        }
        found
    }
}

/// A line of a command without what differs from run to run; `None` for news of connections
/// and progress. Of an upload what the host has made or removed in the last moment may be told
/// as the next run finds it, or not.
fn told(line: &str, is_upload: bool) -> Option<String> {
    let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let kind = line["type"].as_str().expect("a type").to_owned();
    if ["start", "progress", "connection_lost", "connection_regained"].contains(&&*kind) {
        return None;
    }
    let fields = line.as_object_mut().expect("an object");
    if is_upload {
        if kind == "deleted" {
            return None;
        }
        let of_moment =
            ["copied", "linked", "updated", "dirs", "skipped", "deleted", "differed", "sent"];
        for name in of_moment.into_iter().chain(["linked_to"]) {
            fields.remove(name);
        }
    }
    if kind.ends_with("summary") {
        for name in ["seconds", "resumed", "matched"] {
            fields.remove(name);
        }
        // In a move it counts sources.
        if kind == "sync_summary" {
            fields.remove("moved");
        }
    }
    Some(line.to_string())
}

fn lines_of(Cut { connection, kind, behind, is_double }: Cut) -> String {
    let part = first_bytes(behind);
    let cut = match kind {
        Kind::In => format!("{{ {part}; kill $$; }} | sh -c \"$*\""),
        Kind::Out => format!("sh -c \"$*\" | {{ {part}; kill $$; }}"),
        Kind::Silent => format!("sh -c \"$*\" | {{ {part}; exec sleep 6; }}"),
    };
    let last = connection + usize::from(is_double);
    format!("if [ $n -ge {connection} ] && [ $n -le {last} ]; then {cut}; exit; fi")
}

/// The cuts of a command that says so much.
fn cuts_of(said: &[[u64; 2]], lot: &mut Stream) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for (connection, [to_host, from_host]) in (1..).zip(said) {
        for (kind, len) in [(Kind::In, to_host), (Kind::Out, from_host), (Kind::Silent, from_host)]
        {
            let least = GREETING.min(*len);
            if kind == Kind::Out {
                // Before anything but the greeting has come.
                cuts.push(Cut { connection, kind, behind: least + 12, is_double: false });
            }
            for _ in 0..campaign::rounds(CUTS) {
                let behind = least + lot.below(len - least + 1);
                let is_double = kind != Kind::Silent && lot.below(3) == 0;
                cuts.push(Cut { connection, kind, behind, is_double });
            }
        }
    }
    cuts
}

#[test]
fn a_connection_that_ends_at_any_byte_changes_nothing_of_what_a_job_comes_to() {
    each_of(
        &[Way::Upload, Way::Download],
        |_| {},
        |scene| {
            make_trees(scene);
            let failed = Mutex::new(Vec::new());
            let record = "tee said.$n.in | sh -c \"$*\" | tee said.$n.out; exit";
            let asking = ASKING.iter().filter(|_| scene.way == Way::Download);
            for (place, case) in (0..).zip(CASES.iter().chain(asking)) {
                let name = |what: String| format!("{:?}-{}-{what}", scene.way, case.name);
                let (run, whole) = run_with(scene, &name("whole".into()), case, record);
                assert!(run.code == Some(0), "{run}");
                let seed = campaign::seed(scene.way as u64 * 100 + place);
                let cuts = cuts_of(&whole.said, &mut Stream::new(seed));
                assert!(!cuts.is_empty(), "{}: nothing was recorded", case.name);
                let next = AtomicUsize::new(0);
                let work = || {
                    loop {
                        let nth = next.fetch_add(1, Ordering::Relaxed);
                        let Some(cut) = cuts.get(nth) else { return };
                        let name = name(nth.to_string());
                        let (run, facts) = run_with(scene, &name, case, &lines_of(*cut));
                        let rules = scene.rules().ignoring_dir_mtimes();
                        let differences = whole.differences(&facts, rules);
                        if run.code != Some(0) || !differences.is_empty() {
                            let words = format!("{}: {cut:?}: {differences:#?}\n{run}", case.name);
                            failed.lock().expect("no panic").push(words);
                        }
                    }
                };
                thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
            }
            let failed = failed.into_inner().expect("no panic");
            assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
        },
    );
}
