//! The cost of safety: hashing, verifying, resuming, checkpoints, durability,
//! and what is lost where the kernel can't do the work alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use haul_testkit::{FileSystem, tree};

use super::question::{
    COMPARISON, Ground, Question, Row, Table, Way, disk, forget_cached, fresh, seconds, source,
    timed,
};
use super::report::{median, verdict};
use crate::Result;

/// The heading above what users pay for, or gain by, safety.
const SAFETY: &str = "Safety";

pub(crate) const QUESTIONS: &[Question] = &[
    Question { name: "hashing", text: SAFETY, ask: hashing },
    Question { name: "default", text: SAFETY, ask: default },
    Question { name: "verify", text: SAFETY, ask: verify },
    Question { name: "resume-check", text: SAFETY, ask: resume_check },
    Question { name: "checkpoints", text: "Checkpoints, by interval", ask: checkpoints },
    Question { name: "durable", text: SAFETY, ask: durable },
    Question { name: "in-kernel", text: "Copying inside the kernel", ask: in_kernel },
];

/// One against another, in turn: ours first.
fn duel<'w>(ground: &Ground, name: &str, ours: Way<'w>, other: Way<'w>) -> Result<[Vec<f64>; 2]> {
    let seconds = ground.in_turn(name, &mut [ours, other])?;
    seconds.try_into().map_err(|_| "two ways have two results".into())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

fn hashing(ground: &Ground) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    table.notes.push("\"Hashed\": by the thread that copies, on tmpfs.");
    for mib in [16, 64, 256, 1024].map(|mib| ground.mib(mib)) {
        let from = &source(ground.memory, mib)?;
        let to = &ground.memory.join("to");
        let way = |word: &'static str| -> Way<'_> {
            Box::new(move || {
                fresh(to)?;
                ground.part(&[word, text(from), text(to)])
            })
        };
        let [on, off] = duel(ground, "hashing", way("hashed"), way("plain"))?;
        table.compare(format!("{mib} MiB, hashed"), &on, ("not hashed", &off), None);
        fresh(to)?;
    }
    table.show_last(1);
    Ok(table)
}

fn default(ground: &Ground) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    let mib = ground.mib(1024);
    let ext4 = disk(FileSystem::Ext4, 6)?;
    for (dir, on) in [(ground.memory, "tmpfs"), (ext4.path(), "ext4")] {
        let from = source(dir, mib)?;
        let to = dir.join("to");
        let haul = || {
            fresh(&to)?;
            ground.haul(&["copy", "-q", text(&from), text(&to)])
        };
        let cp = || {
            fresh(&to)?;
            timed(Command::new("cp").args([&from, &to]))
        };
        let [haul, cp] = duel(ground, "default", Box::new(haul), Box::new(cp))?;
        table.compare(format!("{mib} MiB on {on}, haul copy"), &haul, ("cp", &cp), Some(1.15));
        fresh(&to)?;
    }
    Ok(table)
}

fn verify(ground: &Ground) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    table.notes.push("\"By hand\": cp, sync, and b3sum of both files without the page cache.");
    let ext4 = disk(FileSystem::Ext4, 6)?;
    let mib = ground.mib(1024);
    let from = source(ext4.path(), mib)?;
    let to = ext4.path().join("to");
    let haul = || {
        fresh(&to)?;
        warm(&from)?;
        ground.haul(&["copy", "-q", "-V", text(&from), text(&to)])
    };
    let by_hand = || {
        fresh(&to)?;
        warm(&from)?;
        let copied = timed(Command::new("cp").args([&from, &to]))?;
        let synced = timed(&mut Command::new("sync"))?;
        forget_cached()?;
        Ok(copied + synced + timed(Command::new("b3sum").args([&from, &to]))?)
    };
    let [haul, by_hand] = duel(ground, "verify", Box::new(haul), Box::new(by_hand))?;
    let title = format!("{mib} MiB on ext4, haul copy -V");
    table.compare(title, &haul, ("by hand", &by_hand), Some(0.75));
    Ok(table)
}

/// Reads a file, so that it is in the page cache.
fn warm(path: &Path) -> Result<()> {
    timed(Command::new("cat").arg(path)).map(|_| ())
}

fn resume_check(ground: &Ground) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    table.notes.push("The partial file is 90 % of 4 GiB.");
    for (mib, bound) in [(48, None), (192, None), (384, None), (768, None), (3688, Some(0.01))] {
        let mib = ground.mib(mib) / 4 * 4;
        let dir = &ground.memory.join("left");
        fresh(dir)?;
        fs::create_dir(dir)?;
        let mib_text = &mib.to_string();
        ground.part(&["left", text(dir), mib_text])?;
        let way = |word: &'static str| -> Way<'_> {
            Box::new(move || ground.part(&[word, text(dir), mib_text]))
        };
        let [check, rehash] = duel(ground, "resume-check", way("check"), way("rehash"))?;
        let bound = bound.filter(|_| ground.shrink == 1);
        table.compare(
            format!("{mib} MiB in a partial file, check before resuming"),
            &check,
            ("reading all of it", &rehash),
            bound,
        );
        fresh(dir)?;
    }
    table.show_last(1);
    Ok(table)
}

fn checkpoints(ground: &Ground) -> Result<Table> {
    /// How long the copies last, in seconds: of each interval, and of the
    /// default, which the bound is about.
    const LASTS: [f64; 2] = [5.0, 30.0];
    const COST_MAX: f64 = 0.05;
    let mut table = Table::new(&["checkpoint every", "file", "time", "cost", "bound", ""]);
    table.notes.push("A file is copied to ext4 and flushed to disk, without checkpoints and with them. The default is a checkpoint every 64 MiB, at least 5 s apart; in the other rows only the size counts.");
    let ext4 = disk(FileSystem::Ext4, 30)?;
    let dir = ext4.path().join("to");
    let from = source(ground.memory, ground.mib(512))?;
    let run = |pace: &str, mib: u64| -> Result<f64> {
        fresh(&dir)?;
        fs::create_dir(&dir)?;
        let took = ground.part(&["staged", text(&from), text(&dir), pace, &mib.to_string()])?;
        Ok(took + timed(&mut Command::new("sync"))?)
    };
    let probe_mib = ground.mib(2048);
    let mib_per_s = probe_mib as f64 / run("never", probe_mib)?;
    for (lasts, paces) in LASTS.into_iter().zip([&["4", "16", "64", "256"][..], &["default"]]) {
        let mib = ((mib_per_s * lasts) as u64 / ground.shrink).clamp(16, 24 << 10) / 4 * 4;
        let mut ways: Vec<Way<'_>> = vec![Box::new(|| run("never", mib))];
        for pace in paces {
            ways.push(Box::new(|| run(pace, mib)));
        }
        let results = ground.in_turn("checkpoints", &mut ways)?;
        let (never, with) = results.split_first().ok_or("nothing was measured")?;
        let mut row = |cells| table.rows.push(Row { cells, is_detail: true });
        row(vec![
            "never".to_owned(),
            format!("{mib} MiB"),
            seconds(never),
            "-".to_owned(),
            "-".to_owned(),
            String::new(),
        ]);
        for (pace, with) in paces.iter().zip(with) {
            let costs = with.iter().zip(never).map(|(with, never)| with / never - 1.0).collect();
            let cost = median(costs);
            let default = *pace == "default";
            let holds = !default || cost <= COST_MAX || ground.shrink > 1;
            table.over += usize::from(!holds);
            row(vec![
                if default { "by default".to_owned() } else { format!("{pace} MiB") },
                format!("{mib} MiB"),
                seconds(with),
                format!("{:+.1} %", cost * 100.0),
                if default { format!("{:.0} %", COST_MAX * 100.0) } else { "-".to_owned() },
                if default { verdict(holds).to_owned() } else { String::new() },
            ]);
        }
    }
    Ok(table)
}

fn durable(ground: &Ground) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    let files = 10_000 / ground.shrink;
    let ext4 = disk(FileSystem::Ext4, 4)?;
    let from = ground.memory.join("files");
    tree::many(&from, files, 64 << 10, 20, 5)?;
    let to = ext4.path().join("to");
    let haul = |flag: &'static str| -> Way<'_> {
        Box::new(|| {
            fresh(&to)?;
            ground.haul(&["copy", "-q", "-r", flag, text(&from), text(&to)])
        })
    };
    let each = || {
        fresh(&to)?;
        fs::create_dir(&to)?;
        ground.part(&["synced", text(&from), text(&to)])
    };
    let mut ways = [haul("--sync"), Box::new(each), haul("--force")];
    let results = ground.in_turn("durable", &mut ways)?;
    let title = format!("{files} files of 64 KiB on ext4, haul copy -r --sync");
    let bound = (ground.shrink == 1).then_some(0.25);
    table.compare(title.as_str(), &results[0], ("one fsync each", &results[1]), bound);
    table.compare(title, &results[0], ("without --sync", &results[2]), None);
    fresh(&from)?;
    Ok(table)
}

fn in_kernel(ground: &Ground) -> Result<Table> {
    let mut table = Table::new(&["file system", "how", "from the start", "from 1 MiB on"]);
    table.notes.push("A file in the page cache; on ext4 no content can be shared. Where it can be, copy_file_range shares it, too.");
    let mib = ground.mib(256);
    for kind in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let mount = disk(kind, 3)?;
        let from = &source(mount.path(), mib)?;
        let to = &mount.path().join("to");
        let moved = |how: &'static str, at: &'static str| -> Way<'_> {
            Box::new(move || {
                fresh(to)?;
                ground.part(&[how, text(from), text(to), at])
            })
        };
        let mut ways =
            vec![moved("range", "0"), moved("range", "1"), moved("hand", "0"), moved("hand", "1")];
        if kind != FileSystem::Ext4 {
            ways.push(Box::new(move || {
                fresh(to)?;
                ground.part(&["clone", text(from), text(to)])
            }));
        }
        let results = ground.in_turn("in-kernel", &mut ways)?;
        let name = format!("{kind:?}, {mib} MiB");
        let row = |how: &str, start: &[f64], later: String| {
            let cells = vec![name.clone(), how.to_owned(), seconds(start), later];
            Row { cells, is_detail: true }
        };
        if let Some(clone) = results.get(4) {
            table.rows.push(row("reflink", clone, "-".to_owned()));
        }
        table.rows.push(row("copy_file_range", &results[0], seconds(&results[1])));
        table.rows.push(row("read and write", &results[2], seconds(&results[3])));
    }
    Ok(table)
}
