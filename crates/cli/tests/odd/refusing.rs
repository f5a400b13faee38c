//! Each call of the kernel's is refused in turn, once at some place of a copy and from
//! there on: the copy takes another way or says what is wrong. No name ever shows
//! anything but the old content or the new one, and the same command makes all right.

use super::*;
use haul_testkit::haul::Outcome;
use haul_testkit::{Snapshot, TempDir, campaign, holds_within, snapshot};
use std::path::{Path, PathBuf};

/// The errors that a call may have.
const ERRNOS: [Errno; 13] = [
    Errno::IO,
    Errno::INVAL,
    Errno::NOSYS,
    Errno::OPNOTSUPP,
    Errno::PERM,
    Errno::ACCESS,
    Errno::XDEV,
    Errno::MLINK,
    Errno::DQUOT,
    Errno::NOSPC,
    Errno::STALE,
    Errno::NOENT,
    Errno::INTR,
];

/// For a call that is refused from some point on.
const FOR_GOOD: u64 = u64::MAX;

/// How long a copy of these files may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How long an agent may take to leave behind its client.
const LEAVE_MAX: Duration = Duration::from_secs(10);

/// The files that the copy replaces.
const OLD: [&str; 3] = ["a", "b/d", "b/middle"];

fn make_source(source: &Path) {
    fs::create_dir_all(source.join("b")).expect("made");
    for (name, len) in [("a", 100), ("b/c", 0), ("b/d", 3000), ("b/middle", 1_300_000)] {
        tree::random_file(source.join(name), len, 3).expect("a file");
    }
    std::os::unix::fs::symlink("a", source.join("link")).expect("a link");
    fs::create_dir(source.join("empty")).expect("made");
}

fn make_old(dest: &Path) {
    fs::create_dir_all(dest.join("b")).expect("made");
    for name in OLD {
        fs::write(dest.join(name), "old").expect("written");
        nasty::set_mtime(dest.join(name), 5, 5).expect("set");
    }
}

fn is_private(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next().is_some_and(|name| name.starts_with(b".haul-"))
}

/// The problem with a destination, behind what is odd, after a run that ended with
/// `code`.
fn wrong(source: &Path, dest: &Path, code: Option<i32>) -> Option<String> {
    let whole = code == Some(0);
    let read = |root: &Path, path: &[u8]| fs::read(root.join(os(path))).expect("read");
    let [wanted, found] = [source, dest].map(|path| snapshot(path).expect("a tree"));
    let named = |tree: &Snapshot| {
        let entries = tree.entries().map(|(path, _)| path.to_vec());
        entries.filter(|path| !is_private(path)).collect::<Vec<_>>()
    };
    for (path, _) in found.files().filter(|(path, _)| !is_private(path)) {
        let there = read(dest, path);
        let is_old = there == b"old" && OLD.iter().any(|old| old.as_bytes() == path);
        if there != read(source, path) && (whole || !is_old) {
            return Some(format!("{} is neither old nor new", path.escape_ascii()));
        }
    }
    (whole && named(&wanted) != named(&found)).then(|| "something is missing".into())
}

/// Where the odd file system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Source,
    Dest,
}

/// A copy from or to an odd file system.
struct Case<'s> {
    scene: &'s Scene<'s>,
    flags: &'s [&'s str],
    at: At,
    mount: OddMount,
    /// The other side, where nothing is odd.
    plain: TempDir,
}

impl<'s> Case<'s> {
    fn new(scene: &'s Scene<'s>, flags: &'s [&'s str], at: At) -> Option<Case<'s>> {
        let mount = OddMount::new(Quirks::default())?;
        let plain = TempDir::new_in(scene.path("")).expect("made");
        let case = Case { scene, flags, at, mount, plain };
        make_old(&case.behind(At::Dest));
        make_source(&case.behind(At::Source));
        Some(case)
    }

    /// The tree of a side, where nothing is odd.
    fn behind(&self, at: At) -> PathBuf {
        let root = if at == self.at { self.mount.backing() } else { self.plain.path() };
        root.join("src")
    }

    fn copy(&self) -> Outcome {
        let [mut source, mut dest] = [self.plain.path(); 2];
        *(if self.at == At::Source { &mut source } else { &mut dest }) = self.mount.path();
        let (source, dest) = (source.join("src"), dest.join(""));
        self.scene.copy(self.flags, &[source], dest.as_os_str()).limit(LIMIT).run()
    }

    fn wrong(&self, run: &Outcome) -> Option<String> {
        let said = run.err();
        if said.contains("mistake") || !(run.code == Some(0) || said.contains("haul: ")) {
            return Some(format!("{run}"));
        }
        let wrong = wrong(&self.behind(At::Source), &self.behind(At::Dest), run.code);
        wrong.map(|wrong| format!("{wrong}: {run}"))
    }

    /// Refuses `call`, and tells what is wrong then or after the same copy again.
    fn refused(
        &self,
        (call, errno): (Call, Errno),
        (answered, refused): (u64, u64),
    ) -> Option<String> {
        self.mount.refuse(call, errno, answered, refused);
        let run = self.copy();
        if let Some(wrong) = self.wrong(&run) {
            return Some(wrong);
        }
        let dest = self.behind(At::Dest);
        let left = || {
            let all = snapshot(&dest).expect("a tree");
            let left = all.entries().map(|(path, _)| path).filter(|path| is_private(path));
            left.map(|path| String::from_utf8_lossy(path).into_owned()).collect::<Vec<_>>()
        };
        // What can't be looked at or removed any more stays. And where the kernel opens
        // a file again that is there by then, its name is taken.
        let may_stay = refused == FOR_GOOD || call == Call::RemoveFile || errno == Errno::STALE;
        if !may_stay && !holds_within(LEAVE_MAX, || left().is_empty()) {
            return Some(format!("of haul's own is left {:?}: {run}", left()));
        }
        self.mount.refuse_nothing();
        let run = self.copy();
        if run.code != Some(0) {
            return Some(format!("the second fails: {run}"));
        }
        self.wrong(&run).map(|wrong| format!("the second: {wrong}"))
    }
}

/// Refuses each call, once and from some place on, each time with another errno. Over a wire
/// each of these happens to an upload or to a download, in turn: the role that meets it is the
/// same. The long form of a campaign has both.
fn refuse_each(scene: &Scene<'_>, flags: &[&str], at: At) {
    let Some(case) = Case::new(scene, flags, at) else { return };
    case.copy().expect_ok();
    let calls = Call::ALL.map(|call| case.mount.calls(call));
    let is_long = campaign::rounds(1) > 1;
    // Each row of two begins with the other way, or one would have all that is for good.
    let of_way = |turn: usize| match scene.way {
        Way::Upload => (turn + turn / 2).is_multiple_of(2),
        Way::Download => (turn + turn / 2) % 2 == 1,
        _ => true,
    };
    let mut turns = (0..).map(|turn| is_long || of_way(turn));
    // Each way has others.
    let mut errnos = ERRNOS.into_iter().cycle().skip(scene.way as usize * 5);
    for (call, all) in Call::ALL.into_iter().zip(calls).filter(|(_, all)| *all > 0) {
        let mut places = vec![0, all / 2, all - 1];
        places.dedup();
        for (place, times) in places.into_iter().flat_map(|at| [(at, 1), (at, FOR_GOOD)]) {
            let errno = errnos.next().expect("it has no end");
            let says_nothing = match (call, errno) {
                // The kernel doesn't ask for that again, on all of the mount.
                (Call::Create | Call::Open, Errno::NOSYS) => true,
                // So ends the listing of a directory that was removed meanwhile.
                (Call::List, Errno::NOENT) => true,
                // Everybody tries that again for ever.
                (_, Errno::INTR) => times == FOR_GOOD,
                _ => false,
            };
            let turn = turns.next().expect("it has no end");
            if says_nothing || !turn {
                continue;
            }
            let Some(case) = Case::new(scene, flags, at) else { return };
            let wrong = case.refused((call, errno), (place, times));
            let times = if times == 1 { "once" } else { "for good" };
            let told = format!("{:?} {call:?} {errno} {times} after {place} of {all}", scene.way);
            assert_eq!(wrong, None, "{told}");
        }
    }
}

#[test]
fn whatever_a_destination_says_no_name_shows_what_is_not_whole() {
    each_way_by_pipe(|scene| {
        refuse_each(scene, &["-r", "-q"], At::Dest);
        if scene.way == Way::Local {
            refuse_each(scene, &["-r", "-q", "--sync"], At::Dest);
        }
    });
}

#[test]
fn whatever_a_source_says_no_name_shows_what_is_not_whole() {
    each_way_by_pipe(|scene| refuse_each(scene, &["-r", "-q"], At::Source));
}
