//! Trees of unusual shapes cost bounded memory, on both sides.

use super::{LIMIT, Scarce, WAYS};
use crate::common::*;
use haul_testkit::{Haul, Mount};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;

/// Memory of a haul that talks to another, or to none, at most, in bytes.
const MEMORY_MAX: u64 = 64 << 20;

/// The same where it goes through SFTP.
const SFTP_MEMORY_MAX: u64 = 96 << 20;

/// Memory of a side that keeps a million files of several names in mind, at most, in bytes.
const LINKED_MEMORY_MAX: u64 = 200 << 20;

/// Files of two names each, of which there are a million in the bound.
const LINKED: u64 = 360_000;

/// Those of them in the directories that [`FURTHER`] leaves over.
const LINKED_FIRST: u64 = 100_000;

/// The directories of all others.
const FURTHER: &str = "/*/[1-3]??";

/// Links whose targets are nearly as long as a path may be: 80 MB of them.
fn long_links(root: &Path) {
    let target = "x/".repeat(2_000);
    for number in 0..20_000 {
        symlink(&target, root.join(number.to_string())).expect("a symbolic link");
    }
}

fn many_directories(root: &Path) {
    for number in 0..200 {
        let dir = root.join(number.to_string());
        fs::create_dir(&dir).expect("a directory");
        for number in 0..199 {
            fs::create_dir(dir.join(number.to_string())).expect("a directory");
        }
    }
}

/// As deep as a path can say, and on each level more than the way down.
fn wide_and_deep(root: &Path) {
    let mut dir = root.to_owned();
    for _ in 0..1_500 {
        fs::write(dir.join("a"), "a").expect("a file");
        for name in ["c", "d"] {
            fs::create_dir(dir.join(name)).expect("a directory");
        }
        dir.push("d");
    }
}

/// Copies the tree in all ways at the same time, but with haul at both ends only in the one
/// direction: each has both roles, in processes of their own.
fn check(direction: Way, make: impl FnOnce(&Path)) {
    // In memory: what a disk makes of so many entries is not the question.
    let Some(mount) = Mount::tmpfs(2 << 30) else { return };
    let scarce = Scarce::below(mount.path(), make);
    thread::scope(|scope| {
        let is_run = |way, by_sftp| by_sftp || [Way::Local, direction].contains(&way);
        for (way, by_sftp, _) in WAYS.into_iter().filter(|(way, by_sftp, _)| is_run(*way, *by_sftp))
        {
            let scarce = &scarce;
            scope.spawn(move || {
                let name = format!("{way:?}-{by_sftp}");
                let (src, to) = (scarce.dir.path().join("src"), scarce.dir.path().join(&name));
                let haul = scarce.copy((way, by_sftp), Haul::new(&scarce.haul), &src, &to);
                let run = haul.limit(LIMIT * 2).own_agents().run().expect_ok();
                let max = if by_sftp { SFTP_MEMORY_MAX } else { MEMORY_MAX };
                let peak = run.usage.peak_rss_bytes.expect("sampled");
                assert!(peak <= max, "{name}: {} MiB", peak >> 20);
                let agents = run.usage.agent_peak_rss_bytes.unwrap_or_default();
                assert!(agents <= MEMORY_MAX, "{name}: {} MiB there", agents >> 20);
                if way != Way::Local && !by_sftp {
                    assert!(agents > 0, "{name}: no agent was seen");
                }
            });
        }
    });
    scarce.leave();
}

#[test]
fn long_link_targets_cost_bounded_memory() {
    check(Way::Upload, long_links);
}

#[test]
fn many_directories_cost_bounded_memory() {
    check(Way::Download, many_directories);
}

#[test]
fn a_wide_and_deep_tree_costs_bounded_memory() {
    check(Way::Upload, wide_and_deep);
}

/// Files of two names, so that each side keeps all of them in mind.
fn many_of_two_names(root: &Path) {
    const EACH: u64 = 1_000;
    for number in 0..LINKED / EACH {
        let dirs = ["first", "second"].map(|name| root.join(name).join(format!("{number:03}")));
        dirs.iter().for_each(|dir| fs::create_dir_all(dir).expect("a directory"));
        for number in 0..EACH {
            let [first, second] =
                [&dirs[0], &dirs[1]].map(|dir| dir.join(format!("a_file_of_several_{number:06}")));
            fs::write(&first, "").expect("a file");
            fs::hard_link(first, second).expect("a hard link");
        }
    }
}

#[test]
fn a_million_files_of_several_names_would_cost_bounded_memory() {
    let Some(mount) = Mount::tmpfs(2 << 30) else { return };
    let scarce = Scarce::below(mount.path(), many_of_two_names);
    let [src, to] = ["src/", "to"].map(|name| scarce.dir.path().join(name).display().to_string());
    let there = |path: &str| format!("there:{path}");
    // The answers of the host come late: then as much of the listing waits for them at the end,
    // when all links are known, as at any time before.
    let part = scarce.dir.path().join("part.$$");
    let late = format!(
        "{1} \"$@\" | while dd of={0} bs=65536 count=1 2> {0}.log && [ -s {0} ]; do\n\
         sleep 0.05; cat {0}\ndone",
        part.display(),
        scarce.ssh.display()
    );
    let late = script(&scarce.dir.path().join("late"), &late);
    // Here is the side that is looked at.
    for (side, paths) in [("sender", [src.clone(), there(&to)]), ("receiver", [there(&src), to])] {
        // In a dry run nothing is made of them. More of each part is listed than the window
        // admits, so that what waits of the listing is the same, and the links are not.
        let [first, all] = [FURTHER, "/none"].map(|left_out| {
            let haul = Haul::new(&scarce.haul).cwd(scarce.dir.path()).args(["sync", "-q", "-rnH"]);
            let haul = haul.arg("--exclude").arg(left_out).sampled().arg("--rsh").arg(&late);
            let haul = haul.arg("--remote-haul").arg(&scarce.haul).args(&paths);
            haul.limit(LIMIT).run().expect_ok().usage.peak_rss_bytes.expect("sampled")
        });
        let (more, further) = (all.saturating_sub(first), LINKED - LINKED_FIRST);
        let of_million = first + more * (1_000_000 - LINKED_FIRST) / further;
        eprintln!("{side}: {} KiB of {LINKED_FIRST}, {} KiB of all", first >> 10, all >> 10);
        // A number, and which object it is, is the least that is kept of each.
        assert!(more >= further * 24, "{side}: {more} bytes: it keeps nothing in mind");
        assert!(of_million <= LINKED_MEMORY_MAX, "{side}: {} MiB", of_million >> 20);
    }
    scarce.leave();
}
