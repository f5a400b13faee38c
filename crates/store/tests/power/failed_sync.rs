//! A sync that fails fails the file, and is told only once.

use super::*;
use haul_testkit::power::Loss;

/// Syncs of a copy with checkpoints that are tried here, from the first on.
const SYNCS: u64 = 6;

/// Copies, and gives each checkpoint the time to be done before the next block.
fn copy_slowly(disk: &Disk, mount: &Powered, fails: u64) -> Copied {
    let before = disk.syncs();
    copy(mount.path(), QUICK, &mut |recorded| {
        // Each is at least two: the data and the journal.
        let wanted = fails.min(2 * recorded);
        wait_until(|| disk.syncs() - before >= wanted);
        thread::sleep(Duration::from_millis(5));
    })
}

#[test]
fn it_fails_the_file_and_nothing_is_believed_afterwards() {
    for nth in 1..=SYNCS {
        let Some((disk, mount)) = disk_with_old(Names::Journaled) else { return };
        disk.fail_sync(nth);
        let Copied::Staged(error) = copy_slowly(&disk, &mount, nth) else {
            panic!("sync {nth} failed, and the copy did not");
        };
        assert!(error.to_string().contains("Input/output error"), "sync {nth}: {error}");
        assert_eq!(fs::read(mount.join("big")).expect("read"), OLD, "sync {nth}");
        assert_eq!(names_in(mount.path()), ["big"], "sync {nth}: something is left");
        assert_eq!(finish(mount.path(), &format!("sync {nth}")), 0);
    }
}

#[test]
fn a_process_that_dies_right_after_it_leaves_no_records() {
    for nth in 1..=2 {
        let Some((disk, mount)) = disk_with_old(Names::Journaled) else { return };
        disk.fail_sync(nth);
        let mut left = u64::MAX;
        let copied = copy(mount.path(), QUICK, &mut |recorded| {
            if recorded == 1 {
                wait_until(|| disk.syncs() >= nth && claims::records(mount.path()) == 0);
                left = claims::records(mount.path()) as u64;
            }
        });
        assert!(!matches!(copied, Copied::Whole(_)), "{copied:?}");
        assert_eq!(left, 0, "after sync {nth} the journal speaks of data that may be lost");
    }
}

#[test]
fn what_it_lost_is_not_claimed_after_a_cut_either() {
    for nth in 1..=SYNCS {
        let Some((disk, mount)) = disk_with_old(Names::Journaled) else { return };
        disk.fail_sync(nth);
        let copied = copy_slowly(&disk, &mount, nth);
        assert!(matches!(copied, Copied::Staged(_)), "sync {nth}: {copied:?}");
        disk.cut();
        drop(mount);
        disk.lose(Loss::Some, nth);
        let mount = disk.mount().expect("it was mounted before");
        claims::check(mount.path(), &format!("sync {nth}"));
        assert_eq!(fs::read(mount.join("big")).expect("read"), OLD, "sync {nth}");
        finish(mount.path(), &format!("sync {nth}"));
    }
}
