//! Disks that take longer for one call than a peer may be silent.

use super::*;

/// Longer than what is taken for silence, by far.
const TAKES: Duration = Duration::from_secs(9);

const TIMEOUT: [&str; 2] = ["--timeout", "4"];

/// Large enough for pieces and requests that wait for each other.
const LEN: u64 = 24 << 20;

fn takes_long(scene: &Scene<'_>, by_sftp: bool, at: &str, call: Call, answered: u64) {
    // Not read once for its hash and then from memory.
    let quirks = Quirks { uncached: at == "from", ..Quirks::default() };
    let Some(mount) = OddMount::new(quirks) else { return };
    let name = format!("{at}-{by_sftp}-{call:?}-{answered}");
    let (from, to) = (format!("{name}-from"), format!("{name}-to"));
    let (odd, plain) = if at == "from" { (&from, &to) } else { (&to, &from) };
    scene.symlink(mount.path(), odd);
    scene.mkdir(plain);
    let source = format!("{from}/large");
    tree::random_file(scene.path(&source), LEN, 3).expect("a file");
    mount.delay(call, TAKES, answered);
    let rsh = scene.sshd().rsh();
    let remote = match by_sftp {
        true => ["--rsh", &rsh, "--transport", "sftp"].map(Into::into).to_vec(),
        false => scene.remote(),
    };
    let run = scene.copy_by(&remote, &TIMEOUT, &[&source], format!("{to}/")).run();
    assert_eq!(run.code, Some(0), "{:?} {name}: {run}", scene.way);
    assert!(run.usage.wall > TAKES, "{:?} {name}: {run}", scene.way);
    let read = |path: String| fs::read(scene.path(path)).expect("read");
    assert!(read(source) == read(format!("{to}/large")), "{name} differs");
}

#[test]
fn a_disk_that_takes_long_is_no_silence_of_the_peer() {
    each_of(
        &Way::REMOTE,
        |_| {},
        |scene| {
            // An SFTP server says nothing while it waits for its own disk.
            let here = if scene.way == Way::Upload { "from" } else { "to" };
            let cases = [(false, "from"), (false, "to"), (true, here)];
            std::thread::scope(|scope| {
                for ((by_sftp, at), answered) in
                    cases.into_iter().flat_map(|case| [(case, 5), (case, 14)])
                {
                    let call = if at == "from" { Call::Read } else { Call::Write };
                    scope.spawn(move || takes_long(scene, by_sftp, at, call, answered));
                }
            });
        },
    );
}

/// Listed in more frames than a few.
const NAMES: u32 = 4000;

/// The listing of `slow` comes on the same connection as the content of `first`, and in
/// front of it.
#[test]
fn a_content_does_not_wait_for_a_listing_in_front_of_it() {
    each_of(
        &[Way::Upload],
        |_| {},
        |scene| {
            let Some(mount) = OddMount::new(Quirks::default()) else { return };
            scene.mkdir("from/slow");
            scene.symlink(mount.path(), "to");
            tree::random_file(scene.path("from/first"), 1 << 20, 3).expect("a file");
            for name in 0..NAMES {
                fs::write(scene.path(format!("from/slow/{name:04}")), "").expect("written");
            }
            fs::create_dir(mount.backing().join("slow")).expect("made");
            fs::write(mount.backing().join("first"), "old").expect("written");
            mount.delay_each(Call::Lookup, Duration::from_micros(200));
            // Each of the names in `slow` is looked for once, and none is made.
            let flags = ["-r", "--existing", "--via", "ssh", "--parallel", "1"];
            let copy = scene.transfer("sync", &scene.remote(), &flags, &["from/"], "to/");
            let copy = copy.spawn().expect("it starts");
            let has_come = copy.until(Duration::from_secs(60), || mount.calls(Call::Rename) > 0);
            let looked_up = mount.calls(Call::Lookup);
            let run = copy.wait().expect("it ends");
            assert_eq!(run.code, Some(0), "{run}");
            assert!(has_come && mount.calls(Call::Lookup) > u64::from(NAMES), "{run}");
            assert!(looked_up < u64::from(NAMES) / 3, "{looked_up}: {run}");
        },
    );
}
