//! Cuts of the power at random moments.

use super::*;
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::power::Loss;

/// Series of cuts for each kind of loss, in the short form of the campaign.
const SERIES: u64 = 10;

/// Cuts in a row before the copy may get to its end, at most.
const CUTS_MAX: u64 = 4;

fn series() -> u64 {
    campaign::rounds(SERIES)
}

/// How long a sync takes here: about as long as writing a block, so that blocks
/// are recorded while a checkpoint is under way.
const SYNC_TAKES: Duration = Duration::from_millis(4);

/// Operations of a whole copy.
fn steps_of_a_copy() -> Option<u64> {
    let (disk, mount) = disk_with_old(Names::Posix)?;
    disk.slow_syncs(SYNC_TAKES);
    let before = disk.steps();
    finish(mount.path(), "without any cut");
    Some(disk.steps() - before)
}

/// Cuts copies at random moments, and checks each time that the journal claims
/// nothing that was lost, and that the old file is there until the new one has
/// its name. Gives how many blocks the last copies found.
fn cut_until_done(loss: Loss) -> u64 {
    let Some(steps) = steps_of_a_copy() else { return u64::MAX };
    let mut continued = 0;
    for seed in 0..series() {
        let names = if seed % 2 == 0 { Names::Posix } else { Names::Journaled };
        let mut random = Stream::new(campaign::seed(seed ^ 0x0c07));
        let Some((disk, mut mount)) = disk_with_old(names) else { return u64::MAX };
        disk.slow_syncs(SYNC_TAKES);
        let mut published = false;
        for cut in 0..=random.below(CUTS_MAX) {
            let after = random.below(steps);
            let hint = format!("{loss:?} {names:?} seed {seed} cut {cut} after {after} of {steps}");
            disk.cut_after(after);
            published |= !matches!(copy(mount.path(), QUICK, &mut |_| {}), Copied::Staged(_));
            disk.cut();
            drop(mount);
            disk.lose(loss, random.next_u64());
            mount = disk.mount().expect("it was mounted before");
            if published {
                // The name may show a new file whose content was never synced,
                // as with any program that does not sync, and the journal may
                // have outlived the stage.
                continue;
            }
            claims::check(mount.path(), &hint);
            assert_eq!(fs::read(mount.join("big")).expect("read"), OLD, "{hint}");
        }
        continued += finish(mount.path(), &format!("{loss:?} {names:?} seed {seed}"));
    }
    continued
}

#[test]
fn when_all_that_was_not_synced_is_lost_no_block_is_claimed_that_is() {
    assert!(cut_until_done(Loss::Everything) > 0, "nothing was ever continued");
}

#[test]
fn when_a_part_of_it_is_lost_no_block_is_claimed_that_is() {
    assert!(cut_until_done(Loss::Some) > 0, "nothing was ever continued");
}

#[test]
fn when_writes_are_torn_no_block_is_claimed_that_is_lost() {
    assert!(cut_until_done(Loss::Torn) > 0, "nothing was ever continued");
}

/// Begins a copy whose process dies when all blocks are on record: the disk
/// takes nothing more from it, and has all that it took.
fn die_at_the_end(disk: &Disk, mount: &Powered, pace: Pace) {
    let copied = copy(mount.path(), pace, &mut |recorded| {
        if recorded == BLOCKS {
            disk.cut();
        }
    });
    assert!(matches!(copied, Copied::Staged(_)), "{copied:?}");
    disk.reconnect();
    disk.sync_all();
}

/// The blocks that the next copy finds.
fn found(mount: &Powered) -> u64 {
    let dir = Arc::new(Dir::open(mount.path()).expect("opened"));
    let (_, blocks) = Stage::resume_at(dir, &big(), &source(), NEVER).expect("opened");
    blocks.len() as u64
}

#[test]
fn a_record_counts_without_a_commit_until_the_file_system_is_mounted_again() {
    let Some((disk, mount)) = disk_with_old(Names::Posix) else { return };
    die_at_the_end(&disk, &mount, NEVER);
    assert_eq!(claims::records(mount.path()) as u64, BLOCKS);
    assert_eq!(found(&mount), BLOCKS, "the process died, and nothing else did");

    let Some((disk, mount)) = disk_with_old(Names::Posix) else { return };
    die_at_the_end(&disk, &mount, NEVER);
    drop(mount);
    // Every byte is there, and nobody ever said that it would be.
    let mount = disk.mount().expect("it was mounted before");
    assert_eq!(claims::records(mount.path()) as u64, BLOCKS);
    assert_eq!(found(&mount), 0, "another mount is another boot");
    finish(mount.path(), "");
}

#[test]
fn what_was_committed_outlives_the_loss_of_all_the_rest() {
    for names in [Names::Posix, Names::Journaled] {
        let Some((disk, mount)) = disk_with_old(names) else { return };
        let copied = copy(mount.path(), QUICK, &mut |recorded| match recorded {
            // A checkpoint covers what was on record when it began.
            1 => wait_until(|| !claims::committed(mount.path()).is_empty()),
            BLOCKS => disk.cut(),
            _ => {}
        });
        assert!(matches!(copied, Copied::Staged(_)), "{copied:?}");
        drop(mount);
        disk.lose(Loss::Everything, 0);
        let mount = disk.mount().expect("it was mounted before");
        let claimed = claims::check(mount.path(), "");
        assert!(claimed > 0, "{names:?}: nothing is left of the first checkpoint");
        assert_eq!(finish(mount.path(), ""), claimed);
    }
}

#[test]
fn a_journal_that_was_given_up_does_not_come_back() {
    for seed in 0..series().div_ceil(2) {
        let Some((disk, mount)) = disk_with_old(Names::Posix) else { return };
        let copied = copy(mount.path(), QUICK, &mut |recorded| {
            if recorded == BLOCKS {
                wait_until(|| claims::committed(mount.path()).len() as u64 >= BLOCKS - 1);
                disk.cut();
            }
        });
        assert!(matches!(copied, Copied::Staged(_)), "{copied:?}");
        disk.reconnect();
        disk.sync_all();
        drop(mount);
        // The stage is damaged where the next copy looks: it begins anew, in the
        // files of the old one.
        let mount = disk.mount().expect("it was mounted before");
        let part = claims::left(mount.path(), ".part").expect("a stage");
        fs::write(&part, vec![0; LEN as usize]).expect("written");
        disk.sync_all();
        let mut random = Stream::new(campaign::seed(seed));
        let steps = disk.steps();
        let enough = steps + random.below(60);
        let copied = copy(mount.path(), NEVER, &mut |_| {
            if disk.steps() >= enough {
                disk.cut();
            }
        });
        let published = !matches!(copied, Copied::Staged(_));
        disk.cut();
        drop(mount);
        disk.lose(Loss::ALL[1 + (seed % 2) as usize], seed);
        let mount = disk.mount().expect("it was mounted before");
        if !published {
            claims::check(mount.path(), &format!("seed {seed}"));
        }
        finish(mount.path(), &format!("seed {seed}"));
    }
}
