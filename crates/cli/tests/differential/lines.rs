//! Where the lines of `-i` differ on purpose. Each has its reason in
//! docs/reference/rsync-options.md.

use crate::case::Case;
use crate::codes;
use crate::entry::{Entry, Kind, is_in};
use crate::linked;
use crate::naming::{names_of, names_with_base};
use crate::relations::{
    is_bounded_in_the_way, is_extra, is_in_base, is_in_new_closed, is_little_newer, is_of_rules,
    is_swapped, not_backed_up, told,
};
use crate::rights;
use haul_model::escape_bytes;
use std::collections::BTreeSet;

pub(crate) type Change = fn(&Case, &mut Said, &mut Said);

/// A program's output: its lines, and its errors.
pub(crate) struct Said {
    pub(crate) lines: Vec<String>,
    pub(crate) errors: String,
}

/// Where lines differ on purpose, with the words of docs/reference/rsync-options.md that say so.
pub(crate) const IN_LINES: &[(&str, Change)] = &[
    ("created anew and reported as new", told_as_new),
    ("rsync reports the removal of directories that stay", |case, rsync, haul| {
        if case.has('n') && (case.has_rules() || case.has('b')) {
            let told = &haul.lines;
            let is_of_dir = |line: &str| line.starts_with('*') && line.ends_with('/');
            rsync.lines.retain(|line| !is_of_dir(line) || told.contains(line));
        }
    }),
    ("and of entries behind a link that a directory replaces", |case, rsync, haul| {
        if case.has('n') {
            let links = taken(case, |entry| matches!(entry.kind, Kind::Link(_)));
            let ours = &haul.lines;
            let is_behind = |line: &String| {
                line.starts_with('*') && links.iter().any(|link| line[12..].starts_with(link))
            };
            rsync.lines.retain(|line| ours.contains(line) || !is_behind(line));
        }
    }),
    ("or before it was read for rules", |case, rsync, haul| {
        if case.has('U') {
            both(rsync, haul, |lines| {
                lines.retain(|line| {
                    !(line.starts_with(".f......u..") && is_of_rules(line.as_bytes()))
                });
            });
        }
    }),
    ("Entries in it are never extra", |case, rsync, _| {
        if case.has_word("--backup-dir=kept") && case.deletes() {
            rsync.lines.retain(|line| !line.starts_with("*deleting   kept/"));
        }
    }),
    ("rsync gives a created directory the first one's attributes", |case, rsync, haul| {
        let bases = case.flags.iter().filter(|flag| flag.contains("-dest="));
        if bases.count() > 1 && case.has('X') {
            both(rsync, haul, |lines| without(lines, &[10], |line| line.starts_with("cd")));
            rsync.lines.retain(|line| !line.starts_with("cd......... "));
        }
    }),
    ("rsync reports another time", |case, rsync, haul| {
        if (case.has_word("--copy-dest") || case.has_word("--link-dest")) && !case.has('t') {
            let told = &haul.lines;
            rsync.lines.retain(|line| !line.starts_with("cf..T...... ") || told.contains(line));
            // With `-ii` that it is the same.
            haul.lines.retain(|line| !line.starts_with("cf          "));
        }
    }),
    ("With `-O` or `-b`, rsync reports another time of a directory", |case, rsync, haul| {
        let is_beside = case.has('b') && !case.has_word("--backup-dir");
        if has_bases(case) && (case.has('O') || is_beside) {
            both(rsync, haul, |lines| {
                for line in lines.iter_mut().filter(|line| line.starts_with("cd..")) {
                    line.replace_range(4..5, ".");
                }
                lines.retain(|line| !["cd.........", "cd         "].contains(&&line[..11]));
            });
        }
    }),
    ("With `--mkpath`, a created DEST is reported", |case, rsync, haul| {
        let is_there = case.state.contains_key(case.dest.strip_suffix(b"/").unwrap_or(&case.dest));
        if case.has_word("--mkpath") && !is_there {
            both(rsync, haul, |lines| lines.retain(|line| !line.ends_with(" ./")));
        }
    }),
    ("in a dry run with `--existing` as without `-n`", |case, _, haul| {
        let is_there = case.state.contains_key(case.dest.strip_suffix(b"/").unwrap_or(&case.dest));
        if case.has('n') && case.has_word("--existing") && !is_there {
            haul.lines.retain(|line| !line.ends_with(" ./"));
        }
    }),
    ("An entry that fails is reported as an error only", |case, rsync, haul| {
        let (told, errors) = (&haul.lines, &haul.errors);
        // A source may have the name of DEST there.
        let dest = format!("{}: ", escape_bytes(&case.dest));
        let is_renamed = |name: &str| {
            let mut names =
                case.sources.iter().flat_map(|source| crate::relations::told(case, source));
            case.sources.len() == 1 && names.any(|own| own == name) && errors.contains(&dest)
        };
        rsync.lines.retain(|line| {
            let fails = |name: &str| {
                !name.is_empty() && (errors.contains(&format!("/{name}: ")) || is_renamed(name))
            };
            told.contains(line) || !names_in(line).any(|name| fails(name.trim_end_matches('/')))
        });
    }),
    ("entries below a name that is no directory in DEST are skipped", |case, rsync, haul| {
        if case.has_word("--ignore-existing") {
            let dirs = taken(case, |_| true);
            let ours = &haul.lines;
            let is_below = |line: &String| {
                names_in(line).any(|name| {
                    dirs.iter().any(|dir| name.len() > dir.len() && name.starts_with(dir))
                })
            };
            rsync.lines.retain(|line| ours.contains(line) || !is_below(line));
        }
    }),
    ("and then removes nothing more", |case, rsync, haul| {
        if case.has_word("--ignore-existing") && codes::is_taken(rsync) {
            let theirs = &rsync.lines;
            haul.lines.retain(|line| !line.starts_with('*') || theirs.contains(line));
        }
    }),
    ("rsync fails below a directory that its owner may not write", |case, rsync, haul| {
        if !case.is_root && rsync.errors.contains("backup mkdir") {
            let closed = case.state.iter().filter(|(path, entry)| {
                entry.kind == Kind::Dir && entry.mode & 0o200 == 0 && !is_in(path, b"src")
            });
            let dirs: Vec<_> = closed.flat_map(|(path, _)| told(case, path)).collect();
            let theirs = &rsync.lines;
            let is_below =
                |name: &str| dirs.iter().any(|dir| is_in(name.as_bytes(), dir.as_bytes()));
            haul.lines.retain(|line| theirs.contains(line) || !names_in(line).any(is_below));
        }
    }),
    ("entries of a replaced directory that is not writable", |case, rsync, haul| {
        let is_closed = |(path, entry): &(&Vec<u8>, &Entry)| {
            entry.kind == Kind::Dir && entry.mode & 0o200 == 0 && is_swapped(case, path)
        };
        let closed = case.state.iter().filter(is_closed).flat_map(|(path, _)| told(case, path));
        let closed: BTreeSet<_> = closed.collect();
        let dirs: Vec<_> = closed.iter().map(|name| format!("*deleting   {name}/")).collect();
        let goes =
            |line: &String| is_of(line, &closed) || dirs.iter().any(|dir| line.starts_with(dir));
        let theirs = &rsync.lines;
        haul.lines.retain(|line| case.is_root || theirs.contains(line) || !goes(line));
    }),
    ("even where it removes backups of this run", |case, rsync, haul| {
        let is_late = case.has_word("--delete-delay") || case.has_word("--delete-after");
        let is_unprotected = case.has_word("--delete-excluded") || case.has_rules();
        let is_delayed = is_late && is_unprotected;
        let names: BTreeSet<_> = case.state.keys().flat_map(|path| told(case, path)).collect();
        let is_backup = |name: &str| {
            let of = name.strip_suffix(".old").or_else(|| name.strip_suffix('~'));
            of.is_some_and(|of| names.contains(of))
        };
        let theirs = &rsync.lines;
        haul.lines.retain(|line| {
            let is_lost = line.starts_with('*') && names_in(line).any(is_backup);
            theirs.contains(line) || !(is_delayed && case.has('b') && is_lost)
        });
    }),
    ("rsync treats a file that is one second newer as not newer", |case, rsync, haul| {
        let newer = case.state.keys().filter(|path| is_little_newer(case, path));
        let names: BTreeSet<_> = newer.flat_map(|path| told(case, path)).collect();
        both(rsync, haul, |lines| {
            lines.retain(|line| !names_in(line).any(|name| names.contains(name)));
        });
    }),
    ("A missing backup directory is created at once", |case, rsync, haul| {
        if case.has_word("--backup-dir=kept") {
            both(rsync, haul, |lines| lines.retain(|line| !line.ends_with(" ./")));
        }
    }),
    ("`--compare-dest` removes nothing from DEST", |case, rsync, haul| {
        if case.has_word("--compare-dest") {
            let there = case.state.keys().filter(|path| !is_in(path, b"src"));
            let there = there.filter(|path| is_in_base(case, path));
            let names: BTreeSet<_> = there.flat_map(|path| told(case, path)).collect();
            both(rsync, haul, |lines| {
                lines.retain(|line| !names_in(line).any(|name| names.contains(name)));
            });
        }
    }),
    ("other entries may go where a file replaces a directory", |case, rsync, haul| {
        let max = case.flags.iter().find_map(|flag| flag.strip_prefix("--max-delete="));
        let max = max.map_or(0, |max| max.parse().expect("it is a number"));
        let count = haul.lines.iter().filter(|line| line.starts_with('*')).count();
        if is_bounded_in_the_way(case, &haul.errors) && count <= max {
            let extras = case.state.keys().filter(|path| is_extra(case, path));
            let names: BTreeSet<_> = extras.flat_map(|path| told(case, path)).collect();
            both(rsync, haul, |lines| {
                let is_extra = |line: &str| {
                    names_in(line).any(|name| names.contains(name.trim_end_matches('/')))
                };
                lines.retain(|line| !line.starts_with('*') || !is_extra(line));
            });
        }
    }),
    ("rsync counts a directory that stays", |case, rsync, haul| {
        // In a dry run, which takes it for gone, something else stays for it.
        let is_bounded = case.has_word("--max-delete") && rsync.errors.contains("(code 25)");
        if case.has('n') && is_bounded {
            let theirs = &rsync.lines;
            haul.lines.retain(|line| !line.starts_with('*') || theirs.contains(line));
        }
    }),
    ("an entry that can't be backed up fails", |case, rsync, haul| {
        // With it stay the directories that it is in.
        let stays: BTreeSet<_> =
            not_backed_up(case, &haul.errors).iter().flat_map(|path| told(case, path)).collect();
        let is_of_it = |name: &str| {
            let name = name.trim_end_matches('/');
            stays.contains(name) || stays.iter().any(|of| of.starts_with(&format!("{name}/")))
        };
        both(rsync, haul, |lines| {
            lines.retain(|line| !line.starts_with('*') || !names_in(line).any(is_of_it));
        });
        // rsync tells that it goes, and then that it stays.
        let (told, errors) = (&haul.lines, &haul.errors);
        let is_too_long = |name: &str| {
            const WHY: &str = "can't remove it: with its backup suffix, the name is longer";
            let (_, last) = name.rsplit_once('/').unwrap_or(("", name));
            let suffix = if case.has_word("--suffix=.old") { ".old" } else { "~" };
            last.len() + suffix.len() > 255 && errors.contains(&format!("/{name}: {WHY}"))
        };
        rsync.lines.retain(|line| {
            let is_of_it = line.starts_with('*') && names_in(line).any(is_too_long);
            told.contains(line) || !is_of_it
        });
    }),
    ("reports entries of a replaced directory twice", |case, rsync, haul| {
        if case.has('H') && case.has('n') {
            both(rsync, haul, |lines| {
                let mut told = BTreeSet::new();
                lines.retain(|line| !line.starts_with('*') || told.insert(line.clone()));
            });
        }
    }),
    ("rsync creates all names of a file or none", |case, rsync, haul| {
        if case.has('H') && case.has_word("--compare-dest") {
            let own = case.state.keys().filter(|path| is_in(path, b"src"));
            let linked = own.filter(|path| !names_with_base(case, path).is_empty());
            let linked: BTreeSet<_> = linked.flat_map(|path| told(case, path)).collect();
            both(rsync, haul, |lines| {
                lines.retain(|line| !names_in(line).any(|name| linked.contains(name)));
            });
        }
    }),
    ("`--chown` and maps also change the names in access lists", |case, rsync, haul| {
        let is_mapped = case.has_word("--numeric-ids") && rights::other_user(case).is_some();
        if case.has('A') && is_mapped {
            let theirs = rsync.lines.clone();
            let listed = told_of(case, |_, entry| entry.acl || entry.default_acl);
            let is_ours = |line: &String| {
                line.get(9..10) == Some("a") && !theirs.contains(line) && is_of(line, &listed)
            };
            without(&mut haul.lines, &[9], is_ours);
        }
    }),
    ("rsync compares the source's list and sets it", |case, rsync, haul| {
        if case.has('A') && case.has_word("--chmod") {
            let others = told_of(case, |path, entry| {
                let is_other = is_in(path, b"src") && rights::gets_other_mode(case, entry);
                entry.acl || entry.default_acl || is_other
            });
            let all = rsync.lines.iter().chain(&haul.lines);
            let listed = all.filter(|line| line.get(9..10) == Some("a") && is_of(line, &others));
            let names: BTreeSet<_> = listed.map(|line| line[12..].to_owned()).collect();
            let is_listed = |line: &String| line.get(12..).is_some_and(|name| names.contains(name));
            both(rsync, haul, |lines| without(lines, &[5, 9], is_listed));
        }
    }),
    ("A differing mode is reported (`p`) whether or not the list differs", |case, rsync, haul| {
        if case.has('A') {
            both(rsync, haul, |lines| {
                for line in lines.iter_mut().filter(|line| line.get(9..10) == Some("a")) {
                    line.replace_range(5..6, ".");
                }
            });
        }
    }),
    ("before `-c` read it", |case, rsync, haul| {
        if case.has('U') && case.has('c') {
            both(rsync, haul, |lines| {
                for line in lines.iter_mut().filter(|line| line.get(8..9) == Some("u")) {
                    line.replace_range(8..9, ".");
                }
                lines.retain(|line| !line.starts_with(".f........."));
            });
        }
    }),
    ("the next name is sent; rsync fails for both", linked::first_has_failed),
    ("a name whose file in DEST is newer is kept", linked::newer_there),
    (
        "each name of a file with several names in DEST is updated on its own",
        linked::in_destination,
    ),
    ("the first name listed is the one sent", linked::in_sources),
    (
        "rsync removes an entry of another kind in the place of a file with several names",
        linked::swapped_there,
    ),
    ("A new directory that its owner may not write does not fail", |case, rsync, haul| {
        let fails = !case.is_root && rsync.errors.contains("failed: Permission denied (13)");
        let own = case.state.keys().filter(|path| fails && is_in_new_closed(case, path));
        let names: BTreeSet<_> = own.flat_map(|path| told(case, path)).collect();
        let theirs = &rsync.lines;
        haul.lines.retain(|line| theirs.contains(line) || !is_of(line, &names));
    }),
    ("for names of one file below a name that is no directory", |case, rsync, haul| {
        if case.has('H') && case.has('n') && codes::is_taken(rsync) {
            let dirs = taken(case, |_| true);
            let is_below = |path: &[u8]| {
                told(case, path).iter().any(|name| dirs.iter().any(|dir| name.starts_with(dir)))
            };
            let own = case.state.keys().filter(|path| is_in(path, b"src"));
            let lost = own.filter(|path| names_of(case, path).iter().any(|name| is_below(name)));
            let lost: BTreeSet<_> = lost.flat_map(|path| told(case, path)).collect();
            let theirs = &rsync.lines;
            haul.lines.retain(|line| theirs.contains(line) || !is_of(line, &lost));
        }
    }),
    ("A file with set-ID bits and a new owner", |case, rsync, haul| {
        // rsync looks again at it, and finds other bits.
        let lent = lent(case);
        both(rsync, haul, |lines| {
            for line in
                lines.iter_mut().filter(|line| lent.contains(&line[12..]) && !line.starts_with('*'))
            {
                if &line[3..11] != "++++++++" && &line[3..11] != "        " {
                    line.replace_range(5..8, "...");
                }
                if [".f         ", "cS         "].contains(&&line[..11]) {
                    line.replace_range(2..11, ".........");
                }
            }
            let is_nothing = |line: &str| [".f.........", "cS........."].contains(&&line[..11]);
            lines.retain(|line| !lent.contains(&line[12..]) || !is_nothing(line));
        });
    }),
];

/// Makes lines the same that are meant to differ, and takes out those of which nothing is
/// promised.
pub(crate) fn in_lines(case: &Case, rsync: &mut Said, haul: &mut Said) {
    for (_, change) in IN_LINES {
        change(case, rsync, haul);
    }
}

/// Has such lines tell nothing at those places, and leaves out those that tell nothing then.
fn without(lines: &mut Vec<String>, places: &[usize], is_it: impl Fn(&String) -> bool) {
    lines.retain_mut(|line| {
        let is_of_old = line.get(2..11).is_some_and(|told| told.contains('.'));
        if !is_of_old || !is_it(line) {
            return true;
        }
        for place in places {
            line.replace_range(*place..*place + 1, ".");
        }
        line.get(2..11) != Some(".........") || !line.starts_with('.')
    });
}

/// Names, as they are told, of the entries of which `is_it` says so, and of their other names.
fn told_of(case: &Case, is_it: impl Fn(&[u8], &Entry) -> bool) -> BTreeSet<String> {
    let file = |entry: &Entry| entry.first().and_then(|first| case.state.get(first)).cloned();
    let all = case.state.iter().map(|(path, entry)| (path, file(entry).unwrap_or(entry.clone())));
    all.filter(|(path, entry)| is_it(path, entry)).flat_map(|(path, _)| told(case, path)).collect()
}

/// Names, with a slash behind, of the entries of the destination of which `is_one` says so and
/// that make way for something of another kind.
fn taken(case: &Case, is_one: impl Fn(&Entry) -> bool) -> Vec<String> {
    let there = case.state.iter().filter(|(path, entry)| !is_in(path, b"src") && is_one(entry));
    let taken = there.filter(|(path, _)| is_swapped(case, path));
    taken.flat_map(|(path, _)| told(case, path)).map(|name| name + "/").collect()
}

/// True if a line tells of one of these names.
fn is_of(line: &str, names: &BTreeSet<String>) -> bool {
    names_in(line).any(|name| {
        let name = name.trim_end_matches('/');
        names.contains(if name == "." { "" } else { name })
    })
}

pub(crate) fn both(rsync: &mut Said, haul: &mut Said, change: impl Fn(&mut Vec<String>)) {
    change(&mut rsync.lines);
    change(&mut haul.lines);
}

fn has_bases(case: &Case) -> bool {
    case.flags.iter().any(|flag| flag.contains("-dest="))
}

/// Names that a line may tell of: one may have an arrow in it, like that behind a name.
pub(crate) fn names_in(line: &str) -> impl Iterator<Item = &str> {
    let named = line.get(12..).unwrap_or_default();
    let arrows = named.match_indices(" -> ").chain(named.match_indices(" => "));
    let ends: Vec<_> = arrows.map(|(at, _)| at).chain([named.len()]).collect();
    ends.into_iter().map(|end| &named[..end])
}

/// Links and what is no file are made anew. Devices are written as FIFOs here.
fn told_as_new(_: &Case, rsync: &mut Said, haul: &mut Said) {
    both(rsync, haul, |lines| {
        for line in lines.iter_mut().filter(|line| !line.starts_with('*')) {
            if &line[1..2] == "D" {
                line.replace_range(1..2, "S");
            }
            if &line[..1] == "." && matches!(&line[1..2], "L" | "S") {
                line.replace_range(..1, "c");
            }
            if &line[1..3] == "Sc" {
                line.replace_range(2..3, ".");
            }
        }
    });
    // A socket that takes the place of a FIFO.
    let told = &haul.lines;
    for line in rsync.lines.iter_mut().filter(|line| line.starts_with("cS")) {
        let anew = format!("cS+++++++++{}", &line[11..]);
        if told.contains(&anew) {
            *line = anew;
        }
    }
}

/// Names, as they are told, of files in the destination with set-ID bits.
fn lent(case: &Case) -> BTreeSet<String> {
    let is_lent = |entry: &&Entry| entry.kind != Kind::Dir && entry.mode & 0o6000 != 0;
    let lent = case.state.iter().filter(|(_, entry)| is_lent(entry));
    lent.flat_map(|(path, _)| told(case, path)).collect()
}
