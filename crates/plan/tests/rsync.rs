//! The plan decides what rsync does, in each case of `rsync.txt`. `cargo xtask decisions` records
//! that table; the chore's source says how it is written.

use haul_model::{
    Attributes, Changes, Conflict, Entry, Kept, Kind, Meta, MetaKind, Mirror, OnExisting, Outcome,
    Policy, Sameness, Special, Timestamp, Updating,
};
use haul_plan::{Action, Existing, Plan, decide};

const TABLE: &str = include_str!("rsync.txt");

#[test]
fn each_decision_is_that_of_rsync() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split(" | ").collect();
        let [options, source, existing, told] = fields[..] else { panic!("{line}") };
        let decided = itemized(options, source, existing);
        count += 1;
        if decided != told {
            wrong.push(format!("{line}: decided {decided}"));
        }
    }
    assert!(count >= 4000, "only {count} cases are in the table");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The decision, as rsync itemizes it.
fn itemized(options: &str, source: &str, existing: &str) -> String {
    let plan = plan_of(options);
    let (mut entry, there) = (entry_of(source), meta_of(existing));
    let keeps = plan.keeps;
    let is_excluded = match entry.special {
        Some(_) => !keeps.has(Kept::SPECIALS),
        None => matches!(entry.kind, Kind::Symlink { .. }) && plan.excludes(&entry.kind),
    };
    if is_excluded {
        return "-".to_owned();
    }
    let mtime = entry.attributes.mtime;
    if let Some((meta, _)) = &there
        && let Some(time) = plan.in_window(mtime, meta.attributes.mtime)
    {
        entry.attributes.mtime = time;
    }
    let existing_there = there.as_ref().map(|(meta, target)| Existing {
        meta,
        target: target.as_deref(),
        is_source: false,
        is_link_target: false,
    });
    let (action, found) = decide(&plan, &entry, mtime, existing_there);
    let letter = match entry.kind {
        Kind::File { .. } => 'f',
        Kind::Symlink { .. } => 'L',
        _ => 'S',
    };
    let (action, found) = match action {
        // Both sides have read it: the last word is the content.
        Action::Compare if source.split(' ').next_back() == existing.split(' ').next_back() => {
            (Action::Leave, found)
        }
        Action::Compare => {
            let changes = Changes::CONTENT.with(Changes::SENT);
            (Action::Copy(OnExisting::Replace), found.with(changes))
        }
        Action::ReplaceEmptyDir if existing == "full" => return "refused".to_owned(),
        Action::ReplaceEmptyDir => (Action::Copy(OnExisting::Replace), found),
        decided => (decided, found),
    };
    match action {
        Action::Settled(Outcome::Skipped(_)) => "-".to_owned(),
        Action::Leave if found.is_empty() => "-".to_owned(),
        Action::Leave => format!(".{letter}{}", letters(found, "t", false)),
        _ => {
            let is_new = found.has_any(Changes::MISSING.with(Changes::KIND));
            // A link or FIFO is made anew, which rsync calls a change of attributes.
            let made = match letter {
                'f' => '>',
                _ if is_new || found.has(Changes::TARGET) => 'c',
                _ => '.',
            };
            let has_time = keeps.has(Kept::TIMES);
            let time = if has_time { "t" } else { "T" };
            let gets_time = !has_time || letter == 'L' && !keeps.has(Kept::LINK_TIMES);
            match is_new {
                true => format!("{made}{letter}+++++++++"),
                false => format!("{made}{letter}{}", letters(found, time, gets_time)),
            }
        }
    }
}

/// The letters of rsync for what differs. What is brought has a time of its own where that of
/// the source is not kept: `gets_time`.
fn letters(found: Changes, time: &str, gets_time: bool) -> String {
    let letter = |is_so: bool, letter: &str| if is_so { letter.to_owned() } else { ".".to_owned() };
    [
        letter(found.has_any(Changes::CONTENT.with(Changes::TARGET)), "c"),
        letter(found.has(Changes::SIZE), "s"),
        letter(found.has(Changes::TIME) || gets_time, time),
        letter(found.has(Changes::MODE), "p"),
        ".....".to_owned(),
    ]
    .concat()
}

fn plan_of(options: &str) -> Plan {
    let mut policy = Policy::default();
    // Without a window haul compares nanoseconds, which rsync leaves out.
    let mut mirror = Mirror { window: Some(0), ..Mirror::default() };
    let mut keeps = Kept::NONE;
    for option in options.split(' ') {
        match option.split_once('=').unwrap_or((option, "")) {
            ("--modify-window", value) => mirror.window = value.parse().ok(),
            ("--max-size", value) => mirror.size_max = value.parse().ok(),
            ("--min-size", value) => mirror.size_min = value.parse().ok(),
            ("--size-only", _) => mirror.sameness = Sameness::Size,
            ("--ignore-existing", _) => policy.conflict = Conflict::Keep,
            ("--existing", _) => mirror.existing_only = true,
            ("--append", _) => mirror.updating = Updating::Appends,
            ("--force", _) => mirror.replaces_dirs = true,
            ("-J", _) => keeps = keeps.without(Kept::LINK_TIMES),
            (letters, _) => {
                for letter in letters.trim_start_matches('-').chars() {
                    match letter {
                        'a' => {
                            mirror.links = true;
                            let times = Kept::TIMES.with(Kept::LINK_TIMES);
                            keeps = times.with(Kept::MODE).with(Kept::SPECIALS);
                        }
                        'r' => {}
                        'l' => mirror.links = true,
                        't' => keeps = keeps.with(Kept::TIMES.with(Kept::LINK_TIMES)),
                        'p' => keeps = keeps.with(Kept::MODE),
                        'D' => keeps = keeps.with(Kept::SPECIALS),
                        'u' => mirror.skips_newer = true,
                        'c' => mirror.sameness = Sameness::Content,
                        'I' => mirror.sameness = Sameness::None,
                        _ => panic!("{letter} is no option of the table"),
                    }
                }
            }
        }
    }
    policy.keeps = keeps;
    Plan::of_mirror(&policy, &mirror)
}

fn time_of(words: &str) -> Timestamp {
    let seconds: f64 = words.parse().expect("a number");
    let nanos = (seconds.rem_euclid(1.0) * 1e9) as u32;
    Timestamp { secs: 1_600_000_000 + seconds.floor() as i64, nanos }
}

fn attributes_of(time: &str, mode: &str) -> Attributes {
    Attributes::new(u32::from_str_radix(mode, 8).expect("octal"), time_of(time))
}

fn entry_of(words: &str) -> Entry {
    let words: Vec<_> = words.split(' ').collect();
    let (kind, attributes) = match words[..] {
        ["file", size, time, mode, _] => {
            let size = size.parse().expect("a number");
            (Kind::File { size }, attributes_of(time, mode))
        }
        ["link", target, time] => {
            (Kind::Symlink { target: target.as_bytes().into() }, attributes_of(time, "777"))
        }
        ["fifo", time, mode] => (Kind::Special, attributes_of(time, mode)),
        _ => panic!("{words:?} is no source"),
    };
    let special = matches!(kind, Kind::Special).then_some(Special::Fifo);
    Entry { special, ..Entry::new(None, kind, attributes) }
}

fn meta_of(words: &str) -> Option<(Meta, Option<Vec<u8>>)> {
    if words == "-" {
        return None;
    }
    if matches!(words, "dir" | "full") {
        return Some((Meta::new(MetaKind::Dir, attributes_of("0", "755")), None));
    }
    let Entry { kind, attributes, special, .. } = entry_of(words);
    let (kind, target) = match kind {
        Kind::File { size } => (MetaKind::File { size }, None),
        Kind::Symlink { target } => (MetaKind::Symlink, Some(target.to_vec())),
        _ => (MetaKind::Special, None),
    };
    Some((Meta { special, ..Meta::new(kind, attributes) }, target))
}
