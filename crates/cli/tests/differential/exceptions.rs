//! Where haul differs from rsync on purpose. Each exception has its reason in
//! docs/reference/rsync-options.md and quotes it: a reason that the page lacks is none.

use crate::case::Case;
use crate::codes;
use crate::entry::{Entry, Kind, USER, is_in};
use crate::facts::Facts;
use crate::faking;
use crate::lines;
use crate::naming::{above_of, names_of, names_with_base, of_bases};
use crate::relations::{
    backed_up, is_anew_at, is_below_lent, is_bounded_in_the_way, is_extra, is_in_base,
    is_in_new_closed, is_linked, is_linked_there, is_little_newer, is_of_rules, is_right_in,
    is_swapped, not_backed_up, tells, told, without_suffix,
};
use crate::rights;
use haul_model::escape_bytes;

/// A fact about what is at a path, which rsync has as `theirs`, and haul as `ours`. Where only
/// one has anything at all, it is the fact "kind".
pub(crate) struct Fact<'f> {
    pub(crate) case: &'f Case,
    pub(crate) path: &'f [u8],
    pub(crate) name: &'f str,
    pub(crate) theirs: Option<&'f str>,
    pub(crate) ours: Option<&'f str>,
    /// The errors that haul has told.
    pub(crate) errors: &'f str,
    /// All that haul has.
    pub(crate) all: &'f Facts,
}

/// A difference that is meant.
struct Exception {
    /// The words of docs/reference/rsync-options.md that say so.
    reason: &'static str,
    covers: fn(&Fact<'_>) -> bool,
}

/// True if it is meant to be that this fact is another one in haul's tree than in rsync's.
pub(crate) fn is_in_tree(fact: &Fact<'_>) -> bool {
    IN_TREE.iter().any(|exception| (exception.covers)(fact))
}

const IN_TREE: &[Exception] = &[
    Exception {
        reason: "`--compare-dest` removes nothing from DEST",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let removed = |path: &[u8]| case.state.contains_key(path) && is_in_base(case, path);
            let mut entries = case.state.keys().filter(|other| is_right_in(other, path));
            let of = [without_suffix(path), backed_up(case, path).as_deref()]
                .map(|of| of.is_some_and(removed));
            let is_kept = fact.is_ours_alone() && (removed(path) || of.contains(&true));
            let has_lost = fact.name == "mtime" && entries.any(|other| removed(other));
            // What is sent then is linked to further names of it, and leaves a backup.
            let is_backup = || {
                let of = path.strip_prefix(b"kept/").map(|of| [fact.dest(), b"/", of].concat());
                let is_of = |of: &[u8]| removed(of) || without_suffix(of).is_some_and(removed);
                fact.is_ours_alone() && of.is_some_and(|of| is_of(&of))
            };
            let is_linked = || fact.name == "names" && case.state.keys().any(|path| removed(path));
            let is_of_base = || {
                let mut bases = of_bases(path).into_iter().filter_map(|base| fact.all.get(&base));
                fact.ours.is_some()
                    && bases.any(|base| base.get(fact.name).map(|fact| &**fact) == fact.theirs)
            };
            let is_so = is_kept || has_lost || is_backup() || is_linked() || is_of_base();
            case.has_word("--compare-dest") && is_so
        },
    },
    Exception {
        reason: "A link, device or FIFO that differs in anything is created anew",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let backed_up = backed_up(case, path);
            // It, or what it is the backup of.
            let it = [Some(*path), without_suffix(path), backed_up.as_deref()];
            let it = || it.into_iter().flatten();
            let is_anew = it().any(|path| is_anew_at(case, path));
            let mut entries = case.state.keys().filter(|other| is_right_in(other, path));
            let is_other_name = is_anew && it().any(|path| is_linked_there(case, path));
            let is_as_before = it().any(|path| fact.is_as_at(path));
            match fact.name {
                "mtime" | "owner" | "mode" if is_other_name && is_as_before => true,
                "mtime" => {
                    let is_now = fact.ours == Some("now");
                    let is_touched = is_anew || entries.any(|other| is_anew_at(case, other));
                    let mut own = case.state.keys().filter(|other| is_in(other, b"src"));
                    let mut is_of_source =
                        || own.any(|other| tells(case, other, path) && fact.is_that_of(other));
                    is_touched && (is_now || fact.has_same_seconds()) || is_anew && is_of_source()
                }
                // It is no other name any more.
                "names" => is_anew,
                // It has nothing of what stood there that is not kept.
                "mode" => is_anew && !case.has('p'),
                "owner" => is_anew && !(case.has('o') && case.has('g')),
                // It has what its directory has everything begin with.
                "xattrs" => is_anew && case.state.values().any(|entry| entry.default_acl),
                // That leaves a backup.
                "kind" => {
                    let is_special = |kind: &str| !kind.starts_with("file") && kind != "directory";
                    let is_kept = path.split(|byte| *byte == b'/').any(|name| name == b"kept");
                    let is_dir = fact.ours == Some("directory") && is_kept;
                    let is_backup = is_dir || fact.ours.is_some_and(is_special);
                    fact.backs_up() && fact.theirs.is_none() && is_backup
                }
                _ => false,
            }
        },
    },
    Exception {
        reason: "A link that points to the file or directory that it would replace fails",
        covers: |fact| {
            let told = format!("{}: the link points to the file or", escape_bytes(fact.path));
            fact.errors.contains(&told)
        },
    },
    Exception {
        reason: "keeps its list's group entry",
        covers: |fact| {
            let is_sticky = |(path, entry): (&Vec<u8>, &Entry)| {
                let gets_it = entry.mode & 0o1000 != 0 || fact.case.has_word("--chmod=+t");
                (entry.acl || entry.default_acl) && gets_it && tells(fact.case, path, fact.path)
            };
            // The line of the group, and its rights.
            const GROUP: &str = r"\x04\x00\x0";
            let without = |xattrs: Option<&str>| {
                let xattrs = xattrs.unwrap_or_default();
                let at = xattrs.find(GROUP).map(|at| at + GROUP.len());
                at.map(|at| [&xattrs[..at], &xattrs[at + 1..]].concat())
            };
            let differs_by_it = without(fact.ours)
                .is_some_and(|ours| without(fact.theirs).is_some_and(|theirs| theirs == ours));
            fact.name == "xattrs"
                && fact.case.has('A')
                && fact.case.state.iter().any(is_sticky)
                && differs_by_it
        },
    },
    Exception {
        reason: "Entries in it are never extra",
        covers: |fact| {
            let is_there = fact.case.has_word("--backup-dir=kept") && fact.case.deletes();
            let kept = [fact.dest(), b"/kept"].concat();
            let twice = [&kept[..], b"/kept"].concat();
            // It was there before, or is the backup of what was.
            let was_there = |path: &[u8]| {
                let plain = without_suffix(path).unwrap_or(path);
                let of =
                    [Some(path.to_vec()), backed_up(fact.case, path), backed_up(fact.case, plain)];
                of.into_iter().flatten().any(|of| fact.case.state.contains_key(&of))
            };
            let is_ours = fact.is_ours_alone() && is_in(fact.path, &kept) && was_there(fact.path);
            let is_theirs = fact.ours.is_none() && is_in(fact.path, &twice);
            // What went there from that is another name of what did not.
            let is_name = fact.name == "names" && {
                let [kept, twice] = [&kept, &twice].map(|dir| format!("{}/", escape_bytes(dir)));
                let back = |name: &str| match name.strip_prefix(&twice) {
                    Some(name) => kept.clone() + name.strip_suffix(".old").unwrap_or(name),
                    None => name.to_owned(),
                };
                let theirs = fact.theirs.unwrap_or_default();
                let mut theirs: Vec<_> = theirs.split(" = ").map(back).collect();
                theirs.sort_unstable();
                fact.ours == Some(&theirs.join(" = "))
            };
            is_there && (fact.name == "kind" && (is_ours || is_theirs) || is_name)
        },
    },
    Exception {
        reason: "Such copies belong to the user who runs haul",
        covers: |fact| {
            let is_copy =
                fact.backs_up() && !fact.case.is_root && !fact.case.state.contains_key(fact.path);
            let own = format!("{USER}:");
            match fact.name {
                "owner" => is_copy && fact.ours.is_some_and(|ours| ours.starts_with(&own)),
                "names" => is_copy && fact.ours.is_none(),
                "mode" => {
                    is_copy && fact.modes().is_some_and(|(theirs, ours)| theirs & 0o1777 == ours)
                }
                _ => false,
            }
        },
    },
    Exception {
        reason: "stay, also with `-c`",
        covers: |fact| fact.name == "mtime" && fact.case.has('c') && fact.has_same_seconds(),
    },
    Exception {
        reason: "an entry that replaces another kind of entry has the mode of a new one",
        covers: |fact| {
            fact.name == "mode" && !fact.case.has('p') && is_swapped(fact.case, fact.path)
        },
    },
    Exception {
        reason: "its set-group-ID bit is set last",
        covers: |fact| {
            let user = |owner: Option<&str>| {
                owner.and_then(|owner| Some(owner.split_once(':')?.0.to_owned()))
            };
            fact.name == "owner"
                && !fact.case.has('g')
                && user(fact.theirs) == user(fact.ours)
                && is_below_lent(fact.case, fact.path)
        },
    },
    Exception {
        reason: "DEST is created before haul knows",
        covers: |fact| {
            fact.is_ours_alone() && fact.ours == Some("directory") && fact.path == fact.dest()
        },
    },
    Exception {
        reason: "A missing backup directory is created at once",
        covers: |fact| {
            let dir = fact.case.has_word("--backup-dir") && fact.path.ends_with(b"kept");
            let is_made = fact.is_ours_alone() && fact.ours == Some("directory") && dir;
            let is_there = fact.case.has_word("--backup-dir=kept") && fact.path == fact.dest();
            is_made || is_there && fact.name == "mtime"
        },
    },
    Exception {
        reason: "rsync fails below a directory that its owner may not write",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let beside = path.strip_prefix(b"kept").map(|rest| [fact.dest(), rest].concat());
            let of: Vec<_> = [Some(path.to_vec()), backed_up(case, path), beside]
                .into_iter()
                .flatten()
                .collect();
            let is_closed = |(dir, entry): (&Vec<u8>, &Entry)| {
                let is_closed = entry.kind == Kind::Dir && entry.mode & 0o200 == 0;
                is_closed && of.iter().any(|of| is_in(of, dir))
            };
            !case.is_root
                && case.has_word("--backup-dir")
                && matches!(fact.name, "kind" | "mtime")
                && case.state.iter().any(is_closed)
        },
    },
    Exception {
        reason: "Its directories get owner and access list of the originals",
        covers: |fact| {
            let mut above = fact.path.split(|byte| *byte == b'/');
            let [theirs, ours] = [fact.theirs, fact.ours].map(Option::unwrap_or_default);
            // As written down.
            let is_made = [theirs, ours].iter().all(|kind| kind.starts_with("directory"));
            fact.case.has_word("--backup-dir")
                && (matches!(fact.name, "owner" | "mode" | "xattrs") || is_made)
                && above.any(|name| name == b"kept")
        },
    },
    Exception {
        reason: "an entry that becomes another name of its file is backed up",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let mut entries = case.state.keys().filter(|other| is_right_in(other, path));
            let of = without_suffix(path);
            let is_backup = fact.is_ours_alone() && of.is_some_and(|of| is_linked(case, of));
            let is_now = fact.name == "mtime" && fact.ours == Some("now");
            let is_touched = is_now && entries.any(|other| is_linked(case, other));
            case.has('H') && fact.backs_up() && (is_backup || is_touched)
        },
    },
    Exception {
        reason: "the first name listed is the one sent",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let mut entries = case.state.keys().filter(|other| is_right_in(other, path));
            let is_sent = is_linked(case, path) || entries.any(|other| is_linked(case, other));
            let is_touched = fact.ours == Some("now") || fact.has_same_seconds();
            let is_now = fact.name == "mtime" && is_touched;
            let has_its_mode = fact.name == "mode" && !case.has('p') && is_linked(case, path);
            // So it begins with the list of that name's directory, or has none of the old file.
            let lists = case.state.values().any(|entry| entry.default_acl || entry.acl);
            let is_listed = !case.has('A') && lists || !case.has('X');
            let has_its_list = fact.name == "xattrs" && is_listed && is_linked(case, path);
            let keeps_owner = case.has('o') && case.has('g');
            let has_its_owner = fact.name == "owner" && !keeps_owner && is_linked(case, path);
            let is_really = fact.name == "really" && is_linked(case, path);
            let has_its_own = has_its_mode || has_its_owner || has_its_list || is_really;
            case.has('H') && (is_now && is_sent || has_its_own)
        },
    },
    Exception {
        reason: "a name whose file in DEST is newer is kept",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let mut entries = case.state.keys().filter(|other| is_right_in(other, path));
            let is_now = fact.name == "mtime" && fact.theirs == Some("now");
            let is_touched = is_now && entries.any(|other| is_linked(case, other));
            let backed_up = backed_up(case, path);
            let mut of = [without_suffix(path), backed_up.as_deref()].into_iter().flatten();
            let is_backup = fact.ours.is_none() && of.any(|of| is_linked(case, of));
            case.has('H') && case.has('u') && (is_linked(case, path) || is_touched || is_backup)
        },
    },
    Exception {
        reason: "rsync removes an entry of another kind in the place of a file with several names",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let is_gone = fact.is_ours_alone() && is_swapped(case, path) && is_linked(case, path);
            case.has('H') && case.has_word("--existing") && is_gone
        },
    },
    Exception {
        reason: "rsync uses another name in DEST that looks unchanged",
        covers: |fact| {
            let are_files = [fact.theirs, fact.ours]
                .map(|kind| kind.is_some_and(|kind| kind.starts_with("file of")));
            let is_content = fact.name == "kind" && are_files == [true, true];
            // What had other names in DEST loses them then; those of the source stay together.
            let has_lost = fact.name == "names" && {
                let theirs: Vec<_> = fact.theirs.unwrap_or_default().split(" = ").collect();
                let mut ours = fact.ours.into_iter().flat_map(|ours| ours.split(" = "));
                let is_alone = fact.ours.is_none() && names_of(fact.case, fact.path).is_empty();
                let is_there = is_linked_there(fact.case, fact.path) || fact.ours.is_some();
                is_there
                    && (is_alone || fact.ours.is_some())
                    && ours.all(|name| theirs.contains(&name))
            };
            let is_it = is_content && is_linked(fact.case, fact.path) || has_lost;
            fact.case.has('H') && is_it
        },
    },
    Exception {
        reason: "real access lists and privileged attributes are neither read nor changed",
        covers: |fact| {
            let there = fact.case.state.get(fact.path);
            faking::is_of_dest(fact.case)
                && matches!(fact.name, "really" | "xattrs")
                && there.is_some_and(|there| there.acl)
        },
    },
    Exception {
        reason: "A DEST with a slash at its end stays missing if everything is excluded",
        covers: |fact| {
            let is_theirs = fact.name == "kind" && fact.ours.is_none();
            is_theirs && fact.case.dest.ends_with(b"/") && fact.path == fact.dest()
        },
    },
    Exception {
        reason: "and then removes nothing more",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let mut entries = case.state.keys().filter(|other| is_right_in(other, path));
            let is_gone = match fact.name {
                "kind" if fact.ours.is_none() => is_extra(case, path),
                // Its backup.
                "kind" => {
                    let of = without_suffix(path).map(<[u8]>::to_vec);
                    let mut of = of.into_iter().chain(backed_up(case, path));
                    fact.is_ours_alone() && fact.backs_up() && of.any(|of| is_extra(case, &of))
                }
                "mtime" => entries.any(|other| is_extra(case, other)),
                _ => false,
            };
            is_gone && case.deletes() && case.has_word("--ignore-existing") && {
                case.state.keys().any(|other| is_swapped(case, other))
            }
        },
    },
    Exception {
        reason: "gives the existing entry the directory's time",
        covers: |fact| {
            let is_of_dir = matches!(fact.name, "mtime" | "mode");
            let is_left = is_of_dir && fact.case.has_word("--ignore-existing");
            is_left && fact.is_as_before() && is_swapped(fact.case, fact.path)
        },
    },
    Exception {
        reason: "the file is unreadable but its attributes could be set, rsync silently omits them",
        covers: |fact| {
            let there = fact.case.state.get(fact.path);
            let is_closed = there.is_some_and(|there| there.mode & 0o400 == 0);
            let is_theirs_bare = fact.name == "xattrs" && fact.theirs.is_none();
            !fact.case.is_root && fact.case.has('X') && is_closed && is_theirs_bare
        },
    },
    Exception {
        reason: "or before it was read for rules",
        covers: |fact| fact.name == "atime" && is_of_rules(fact.path),
    },
    Exception {
        reason: "a replaced file keeps its mode even if it is unreadable",
        covers: |fact| {
            let there = fact.case.state.get(fact.path);
            let is_anothers = there.is_some_and(|there| there.owner.0 != USER);
            let right = if is_anothers { 0o004 } else { 0o400 };
            let is_closed = fact.modes().is_some_and(|(_, ours)| ours & right == 0);
            !fact.case.is_root && !fact.case.has('p') && is_closed
        },
    },
    Exception {
        reason: "without `-p`, a replaced file keeps its set-ID bits if its owner stays",
        covers: |fact| {
            let is_lent = fact.modes().is_some_and(|(theirs, ours)| theirs & 0o1777 == ours);
            !fact.case.has('p') && is_lent
        },
    },
    Exception {
        reason: "before `-c` read it",
        covers: |fact| fact.name == "atime" && fact.case.has('c'),
    },
    Exception {
        reason: "uses the source's mode for the first and the base's for the second",
        covers: |fact| {
            fact.name == "mode" && !fact.case.has('p') && is_in_base(fact.case, fact.path)
        },
    },
    Exception {
        reason: "rsync makes what it removes writable",
        covers: |fact| {
            let is_opened = fact.modes().is_some_and(|(theirs, ours)| theirs == ours | 0o200);
            !fact.case.is_root && is_opened
        },
    },
    Exception {
        reason: "each name of a file with several names in DEST is updated on its own",
        covers: |fact| {
            fact.name != "kind" && !fact.case.has('H') && is_linked_there(fact.case, fact.path)
        },
    },
    Exception {
        reason: "its parent directory was written to",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let dirs = case
                .state
                .iter()
                .filter(|(other, entry)| is_right_in(other, path) && entry.kind == Kind::Dir);
            let mut stay = dirs.filter(|(other, _)| is_swapped(case, other));
            let is_touched = fact.name == "mtime" && stay.next().is_some();
            // It was read from a base.
            let is_read = || {
                let rest = path.iter().position(|byte| *byte == b'/').map(|at| &path[at..]);
                let there = rest.map(|rest| [fact.dest(), rest].concat());
                fact.name == "atime" && there.is_some_and(|there| is_swapped(case, &there))
            };
            let is_now = fact.ours == Some("now");
            is_touched && fact.has_same_seconds() || is_now && (is_touched || is_read())
        },
    },
    Exception {
        reason: "an entry replaced by a hard link to a base is backed up",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let of = [without_suffix(path), backed_up(case, path).as_deref(), Some(*path)]
                .map(|of| of.is_some_and(|of| is_in_base(case, of)));
            case.has_word("--link-dest")
                && fact.backs_up()
                && fact.is_ours_alone()
                && of.contains(&true)
        },
    },
    Exception {
        reason: "rsync drops the recorded access list",
        covers: |fact| {
            const LIST: &str = "user.rsync.%aacl=";
            let has = |xattrs: Option<&str>| xattrs.unwrap_or_default().contains(LIST);
            let is_kept = fact.name == "xattrs" && has(fact.ours) && !has(fact.theirs);
            faking::is_of_dest(fact.case) && fact.case.has('X') && is_kept
        },
    },
    Exception {
        reason: "with unreadable attributes fails, even an unchanged one",
        covers: |fact| {
            let is_told = |path: &str| {
                fact.errors.contains(&format!("{path}: can't read the metadata of the destination"))
            };
            // It is no other name then of the file of which it is one in the source.
            let names = fact.theirs.filter(|_| fact.name == "names").unwrap_or_default();
            let failed = is_told(&escape_bytes(fact.path)) || names.split(" = ").any(is_told);
            !fact.case.is_root && fact.case.has('X') && failed
        },
    },
    Exception {
        reason: "an entry named like a backup that another kind of entry replaces",
        covers: |fact| {
            let of = without_suffix(fact.path);
            let makes_way = |of: &[u8]| {
                let file = fact.case.state.get(of).filter(|_| without_suffix(of).is_some());
                let kind = file.and_then(faking::kind_of);
                file.is_some() && (is_swapped(fact.case, of) || kind.is_some())
            };
            fact.is_ours_alone() && fact.backs_up() && of.is_some_and(makes_way)
        },
    },
    Exception {
        reason: "is backed up also without root",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let is_device = |of: &[u8]| {
                let record = case.state.get(of).and_then(|entry| entry.xattrs.get(faking::STAT));
                record.is_some_and(|record| record.starts_with("60") || record.starts_with("20"))
            };
            let of = [without_suffix(path), backed_up(case, path).as_deref()]
                .map(|of| of.is_some_and(is_device));
            let is_backup = fact.is_ours_alone() && of.contains(&true);
            !case.is_root && faking::is_of_dest(case) && fact.backs_up() && is_backup
        },
    },
    Exception {
        reason: "An entry whose attributes can't be set",
        covers: |fact| {
            // No FIFO, device or link has attributes of users.
            const WHY: &str = "can't set the extended attribute user.";
            let failed = |path: &[u8]| {
                let told = format!("{}: ", escape_bytes(path));
                fact.errors.lines().any(|line| line.contains(&told) && line.contains(WHY))
            };
            let mut entries = fact.case.state.keys().flat_map(|other| told(fact.case, other));
            let is_touched = fact.name == "mtime" && fact.errors.contains(WHY) && {
                let names = told(fact.case, fact.path);
                entries.any(|one| {
                    let above = one.rsplit_once('/').map_or("", |(dir, _)| dir);
                    names.iter().any(|name| name == above) && failed(one.as_bytes())
                })
            };
            failed(fact.path) || is_touched
        },
    },
    Exception {
        reason: "other entries may go where a file replaces a directory",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let of = [without_suffix(path).map(<[u8]>::to_vec), backed_up(case, path)];
            let mut is_of = of.into_iter().flatten().chain([path.to_vec()]);
            let is_alone = fact.theirs.is_none() || fact.ours.is_none();
            let mut entries = case.state.keys().filter(|other| is_right_in(other, path));
            let is_of_them = match fact.name {
                "kind" if is_alone => is_of.any(|of| is_extra(case, &of)),
                "kind" => is_swapped(case, path),
                // rsync gives it what the file was to have.
                "mode" | "owner" => is_swapped(case, path) && fact.is_as_before(),
                "mtime" => entries.any(|other| is_extra(case, other)),
                _ => false,
            };
            is_of_them && is_bounded_in_the_way(case, fact.errors)
        },
    },
    Exception {
        reason: "a new sticky directory has the usual rights",
        covers: |fact| {
            let is_sticky = fact.modes().is_some_and(|(theirs, _)| theirs & 0o1000 != 0);
            is_sticky && fact.case.has('X') && !fact.case.has('p')
        },
    },
    Exception {
        reason: "an entry that can't be backed up fails",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            // The file, its backup, or a directory above one of these.
            let is_of_it = |stays: &Vec<u8>| {
                let of = [without_suffix(path).map(<[u8]>::to_vec), backed_up(case, path)];
                let beside = path.strip_prefix(b"kept").map(|rest| [fact.dest(), rest].concat());
                is_in(stays, path)
                    || of.into_iter().flatten().chain(beside).any(|of| is_in(stays, &of))
            };
            let is_of_entry =
                matches!(fact.name, "kind" | "mtime" | "xattrs") || fact.is_as_before();
            is_of_entry && fact.backs_up() && not_backed_up(case, fact.errors).iter().any(is_of_it)
        },
    },
    Exception {
        reason: "rsync creates all names of a file or none",
        covers: |fact| {
            let Fact { case, path, all, .. } = fact;
            let kind = |path: &[u8]| all.get(path).map(|facts| &*facts["kind"]);
            let names = names_with_base(case, path);
            let mut same =
                names.iter().filter(|name| tells(case, name, path)).map(|name| kind(name));
            let is_there = match (fact.name, fact.theirs, fact.ours) {
                ("names", ..) => !names.is_empty(),
                ("xattrs" | "mode" | "owner", ..) => names.iter().any(|name| fact.is_that_of(name)),
                // It is that file, or what a base has instead of it.
                ("kind", None, ours) => same.any(|kind| kind == ours),
                ("kind", _, None) => {
                    let mut bases = of_bases(path).into_iter();
                    let has =
                        bases.any(|base| same.clone().any(|of| of.is_some() && of == kind(&base)));
                    has && !names.is_empty()
                }
                // Something that is in it is such a name.
                ("mtime", ..) => {
                    let in_it = |other: &&Vec<u8>| {
                        above_of(case, other).iter().any(|above| told(case, path).contains(above))
                    };
                    let mut below = case.state.keys().filter(in_it);
                    !names.is_empty() || below.any(|name| !names_with_base(case, name).is_empty())
                }
                _ => false,
            };
            case.has('H') && case.has_word("--compare-dest") && is_there
        },
    },
    Exception {
        reason: "`--chown` and maps also change the names in access lists",
        covers: |fact| {
            let [theirs, ours] = [fact.theirs, fact.ours].map(Option::unwrap_or_default);
            let becomes = rights::other_user(fact.case).map(rights::shown);
            let by_numbers = fact.case.has('A') && fact.case.has_word("--numeric-ids");
            let is_it = |other: &String| theirs.replace(&rights::shown(USER), other) == ours;
            fact.name == "xattrs" && by_numbers && becomes.as_ref().is_some_and(is_it)
        },
    },
    Exception {
        reason: "A new directory that its owner may not write does not fail",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let mut own = case.state.keys().filter(|other| is_in(other, b"src"));
            let is_it = |other: &Vec<u8>| is_in_new_closed(case, other) && tells(case, other, path);
            fact.is_ours_alone() && !case.is_root && own.any(is_it)
        },
    },
    Exception {
        reason: "entries of a replaced directory that is not writable",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            // The directory, what is in it, or a name of what takes its place.
            let has_name = |dir: &[u8]| {
                let names = fact.ours.filter(|_| fact.name == "names").unwrap_or_default();
                names.split(" = ").any(|name| name == escape_bytes(dir))
            };
            let is_closed = |(dir, entry): (&Vec<u8>, &Entry)| {
                let is_closed = entry.kind == Kind::Dir && entry.mode & 0o200 == 0;
                is_closed && is_swapped(case, dir) && (is_in(path, dir) || has_name(dir))
            };
            !case.is_root && case.state.iter().any(is_closed)
        },
    },
    Exception {
        reason: "even where it removes backups of this run",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let is_unprotected = case.has_word("--delete-excluded") || case.has_rules();
            let is_delayed = case.has_word("--delete-delay") && is_unprotected;
            let of = without_suffix(path).is_some_and(|of| case.state.contains_key(of));
            let is_lost = fact.name == "kind" && fact.ours.is_none();
            is_delayed && case.has('b') && is_lost && of
        },
    },
    Exception {
        reason: "and fails if it can't link to it",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let names = names_of(case, path);
            let is_another = |(other, there): (&Vec<u8>, &Entry)| {
                let there = there.first().and_then(|first| case.state.get(first)).unwrap_or(there);
                !is_in(other, b"src")
                    && there.owner.0 != USER
                    && names.iter().any(|name| tells(case, name, other))
            };
            let is_of_user = |owner: &str| owner.starts_with(&format!("{USER}:"));
            // It is what the source is, and the user's.
            let is_sent = match (fact.name, fact.ours) {
                ("names", Some(ours)) => fact.theirs.is_none_or(|theirs| theirs.len() < ours.len()),
                ("owner", Some(ours)) => is_of_user(ours),
                (_, Some(_)) => names.iter().any(|name| fact.is_that_of(name)),
                (_, None) => false,
            };
            !case.is_root && case.has('H') && is_sent && case.state.iter().any(is_another)
        },
    },
    Exception {
        reason: "the next name is sent; rsync fails for both",
        covers: |fact| {
            let Fact { case, path, .. } = fact;
            let failed = |other: &[u8]| {
                let told = format!("{}: can't set the file's attributes", escape_bytes(other));
                fact.errors.contains(&told)
            };
            let is_another = |(other, there): (&Vec<u8>, &Entry)| {
                let is_first = names_of(case, path).iter().any(|name| tells(case, name, other));
                is_first && there.owner.0 != USER && failed(other)
            };
            let is_sent = names_of(case, path).iter().any(|name| fact.is_that_of(name));
            let may_be = is_sent && case.has('H') && !case.is_root && !failed(path);
            may_be && case.state.iter().filter(|(other, _)| !is_in(other, b"src")).any(is_another)
        },
    },
    Exception {
        reason: "rsync gives a new file a time before 1970",
        covers: |fact| {
            let is_wrong = fact.theirs.is_some_and(|time| time.starts_with('-'));
            let is_now = fact.name == "mtime" && is_wrong && fact.ours == Some("now");
            is_now && fact.case.has('U') && fact.case.has('X') && !fact.case.has('t')
        },
    },
    Exception {
        reason: "a file that represents a link keeps its creation time",
        covers: |fact| {
            let kind = fact.all.get(fact.path).map(|facts| &*facts["kind"]);
            let is_link = kind.is_some_and(|kind| kind.contains(" that stands for 120000 "));
            fact.name == "mtime" && fact.case.has('J') && is_link && fact.ours == Some("now")
        },
    },
    Exception {
        reason: "rsync sets the source's mode",
        covers: |fact| {
            let source = |(other, entry): (&Vec<u8>, &Entry)| {
                let mode = fact.theirs == Some(&format!("{:04o}", entry.mode));
                is_in(other, b"src") && tells(fact.case, other, fact.path) && mode
            };
            let is_kept = fact.is_as_before() && fact.case.has('X') && !fact.case.has('p');
            fact.name == "mode" && is_kept && fact.case.state.iter().any(source)
        },
    },
    Exception {
        reason: "rsync treats a file that is one second newer as not newer",
        covers: |fact| {
            let of = without_suffix(fact.path).map(<[u8]>::to_vec);
            let of = of.into_iter().chain(backed_up(fact.case, fact.path));
            let mut of = of.chain([fact.path.to_vec()]);
            of.any(|of| is_little_newer(fact.case, &of))
        },
    },
];

impl Fact<'_> {
    /// True if only haul has anything there.
    fn is_ours_alone(&self) -> bool {
        self.name == "kind" && self.theirs.is_none()
    }

    /// True if haul has what is so at `other`, which is a source.
    fn is_that_of(&self, other: &[u8]) -> bool {
        let there = self.all.get(other).and_then(|facts| facts.get(self.name));
        there.is_some() && there.map(|fact| &**fact) == self.ours
    }

    /// True if both are times of one second.
    fn has_same_seconds(&self) -> bool {
        let seconds = |time: Option<&str>| Some(time?.split_once('.')?.0.to_owned());
        seconds(self.theirs).is_some() && seconds(self.theirs) == seconds(self.ours)
    }

    /// True if it has the time, or the owner, that it had before.
    fn is_as_before(&self) -> bool {
        self.is_as_at(self.path)
    }

    /// True if it has what was at that path before.
    fn is_as_at(&self, path: &[u8]) -> bool {
        let state = &self.case.state;
        let entry = state.get(path).map(|entry| match entry.first() {
            Some(first) => state.get(first).unwrap_or(entry),
            None => entry,
        });
        let before = entry.and_then(|entry| match self.name {
            "owner" => Some(format!("{}:{}", entry.owner.0, entry.owner.1)),
            "mode" => Some(format!("{:04o}", entry.mode)),
            "mtime" => Some(format!("{}.{:09}", entry.mtime.0, entry.mtime.1)),
            _ => None,
        });
        before.is_some() && before.as_deref() == self.ours
    }

    fn backs_up(&self) -> bool {
        self.case.has('b') || self.case.has_word("--backup-dir")
    }

    fn dest(&self) -> &[u8] {
        self.case.dest()
    }

    /// Both modes, if it is one.
    fn modes(&self) -> Option<(u32, u32)> {
        let mode = |text: Option<&str>| u32::from_str_radix(text?, 8).ok();
        if self.name == "mode" { mode(self.theirs).zip(mode(self.ours)) } else { None }
    }
}

#[test]
fn each_exception_has_its_reason_in_the_documentation() {
    let page = include_str!("../../../../docs/reference/rsync-options.md");
    let in_tree = IN_TREE.iter().map(|exception| exception.reason);
    let others = lines::IN_LINES.iter().map(|(reason, _)| *reason);
    let reasons = in_tree.chain(others).chain(codes::IN_CODES.iter().map(|(reason, _)| *reason));
    for reason in reasons {
        assert!(page.contains(reason), "docs/reference/rsync-options.md does not say: {reason}");
    }
}
