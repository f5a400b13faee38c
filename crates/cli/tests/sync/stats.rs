//! The figures of `--stats`, beside those of rsync.

use crate::common::*;
use crate::oracle::Pair;
use haul_testkit::duplicate;
use haul_testkit::haul::Outcome;
use std::fs;
use std::process::Command;

/// The lines that are the same, in their order.
const SAME: [&str; 6] = [
    "Number of files: ",
    "Number of created files: ",
    "Number of deleted files: ",
    "Number of regular files transferred: ",
    "Total file size: ",
    "Total transferred file size: ",
];

fn figures(run: &Outcome) -> Vec<String> {
    let lines = run.out();
    let lines = lines.lines().filter(|line| SAME.iter().any(|label| line.starts_with(label)));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_figures_are_those_of_rsync() {
    everywhere_by_pipe(|scene| {
        Pair::usual(scene);
        scene.file("src/large", vec![b'a'; 3_000_000]);
        scene.file("dst/large", vec![b'b'; 10]);
        scene.file("dst/link", "no link");
        scene.symlink("nowhere", "dst/x/link");
        let _ = fs::remove_dir_all(scene.path("theirs"));
        scene.mkdir("theirs");
        for tree in ["src", "dst"] {
            duplicate(scene.path(tree), scene.path("theirs").join(tree)).expect("a copy");
        }
        for (flags, dest) in [
            (&["-an", "--delete"][..], "dst"),
            (&["-an"], "new"),
            (&["-a"], "new"),
            (&["-rt", "--delete", "--exclude=large"], "dst"),
            (&["-a", "--delete"], "dst"),
            (&["-a", "--delete", "--delete-after"], "dst"),
        ] {
            let flags = [flags, &["--stats"]].concat();
            let rsync = scene.program("rsync").cwd(scene.path("theirs")).args(&flags);
            let theirs = rsync.args(["src/", dest]).run().expect_ok();
            let ours = scene.transfer("sync", &scene.route(), &flags, &["src/"], dest).run();
            let ours = ours.expect_ok();
            assert_eq!(figures(&ours), figures(&theirs), "{flags:?}\n{ours}\n{theirs}");
            assert_eq!(figures(&ours).len(), SAME.len(), "{ours}");
        }
    });
}

#[test]
fn special_files_and_further_names_count_as_with_rsync() {
    each_way_by_pipe(|scene| {
        scene.file("src/a", "aa");
        fs::hard_link(scene.path("src/a"), scene.path("src/b")).expect("linked");
        run(Command::new("mkfifo").arg(scene.path("src/fifo")));
        duplicate(scene.path("src"), scene.mkdir("theirs").join("src")).expect("a copy");
        for (flags, dest) in [("-aH", "all"), ("-rl", "some"), ("-aH", "all")] {
            let flags = [flags, "--stats"];
            let rsync = scene.program("rsync").cwd(scene.path("theirs")).args(flags);
            let theirs = rsync.args(["src/", dest]).run().expect_ok();
            let ours = scene.transfer("sync", &scene.route(), &flags, &["src/"], dest).run();
            let ours = ours.expect_ok();
            assert_eq!(figures(&ours), figures(&theirs), "{flags:?}\n{ours}\n{theirs}");
        }
    });
}
