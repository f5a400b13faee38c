//! The cost of safety: hashing, verifying, resuming, checkpoints, durability,
//! and what is lost where the kernel can't do the work alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use haul_testkit::{FileSystem, tree};

use super::question::{
    BenchContext, COMPARISON, Question, Row, Table, Variant, clear, disk, drop_page_cache, seconds,
    source, timed,
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
fn compare_two<'w>(
    context: &BenchContext,
    name: &str,
    ours: Variant<'w>,
    other: Variant<'w>,
) -> Result<[Vec<f64>; 2]> {
    let seconds = context.interleave(name, &mut [ours, other])?;
    seconds.try_into().map_err(|_| "two ways have two results".into())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

fn hashing(context: &BenchContext) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    table.notes.push("\"Hashed\": by the thread that copies, on tmpfs.");
    for mib in [16, 64, 256, 1024].map(|mib| context.mib(mib)) {
        let from = &source(context.memory, mib)?;
        let to = &context.memory.join("to");
        let variant = |word: &'static str| -> Variant<'_> {
            Box::new(move || {
                clear(to)?;
                context.part(&[word, text(from), text(to)])
            })
        };
        let [on, off] = compare_two(context, "hashing", variant("hashed"), variant("plain"))?;
        table.compare(format!("{mib} MiB, hashed"), &on, ("not hashed", &off), None);
        clear(to)?;
    }
    table.hide_all_but_last(1);
    Ok(table)
}

fn default(context: &BenchContext) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    let mib = context.mib(1024);
    let ext4 = disk(FileSystem::Ext4, 6)?;
    for (dir, on) in [(context.memory, "tmpfs"), (ext4.path(), "ext4")] {
        let from = source(dir, mib)?;
        let to = dir.join("to");
        let haul = || {
            clear(&to)?;
            context.haul(&["copy", "-q", text(&from), text(&to)])
        };
        let cp = || {
            clear(&to)?;
            timed(Command::new("cp").args([&from, &to]))
        };
        let [haul, cp] = compare_two(context, "default", Box::new(haul), Box::new(cp))?;
        table.compare(format!("{mib} MiB on {on}, haul copy"), &haul, ("cp", &cp), Some(1.15));
        clear(&to)?;
    }
    Ok(table)
}

fn verify(context: &BenchContext) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    table.notes.push("\"By hand\": cp, sync, and b3sum of both files without the page cache.");
    let ext4 = disk(FileSystem::Ext4, 6)?;
    let mib = context.mib(1024);
    let from = source(ext4.path(), mib)?;
    let to = ext4.path().join("to");
    let haul = || {
        clear(&to)?;
        warm(&from)?;
        context.haul(&["copy", "-q", "-V", text(&from), text(&to)])
    };
    let by_hand = || {
        clear(&to)?;
        warm(&from)?;
        let copied = timed(Command::new("cp").args([&from, &to]))?;
        let synced = timed(&mut Command::new("sync"))?;
        drop_page_cache()?;
        Ok(copied + synced + timed(Command::new("b3sum").args([&from, &to]))?)
    };
    let [haul, by_hand] = compare_two(context, "verify", Box::new(haul), Box::new(by_hand))?;
    let title = format!("{mib} MiB on ext4, haul copy -V");
    table.compare(title, &haul, ("by hand", &by_hand), Some(0.75));
    Ok(table)
}

/// Reads a file, so that it is in the page cache.
fn warm(path: &Path) -> Result<()> {
    timed(Command::new("cat").arg(path)).map(|_| ())
}

fn resume_check(context: &BenchContext) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    table.notes.push("The partial file is 90 % of 4 GiB.");
    for (mib, bound) in [(48, None), (192, None), (384, None), (768, None), (3688, Some(0.01))] {
        let mib = context.mib(mib) / 4 * 4;
        let dir = &context.memory.join("left");
        clear(dir)?;
        fs::create_dir(dir)?;
        let mib_text = &mib.to_string();
        context.part(&["left", text(dir), mib_text])?;
        let variant = |word: &'static str| -> Variant<'_> {
            Box::new(move || context.part(&[word, text(dir), mib_text]))
        };
        let [check, rehash] =
            compare_two(context, "resume-check", variant("check"), variant("rehash"))?;
        let bound = bound.filter(|_| context.shrink == 1);
        table.compare(
            format!("{mib} MiB in a partial file, check before resuming"),
            &check,
            ("reading all of it", &rehash),
            bound,
        );
        clear(dir)?;
    }
    table.hide_all_but_last(1);
    Ok(table)
}

fn checkpoints(context: &BenchContext) -> Result<Table> {
    /// How long the copies last, in seconds: of each interval, and of the
    /// default, which the bound is about.
    const LASTS: [f64; 2] = [5.0, 30.0];
    const COST_MAX: f64 = 0.05;
    let mut table = Table::new(&["checkpoint every", "file", "time", "cost", "bound", ""]);
    table.notes.push("A file is copied to ext4 and flushed to disk, without checkpoints and with them. The default is a checkpoint every 64 MiB, at least 5 s apart; in the other rows only the size counts.");
    let ext4 = disk(FileSystem::Ext4, 30)?;
    let dir = ext4.path().join("to");
    let from = source(context.memory, context.mib(512))?;
    let run = |pace: &str, mib: u64| -> Result<f64> {
        clear(&dir)?;
        fs::create_dir(&dir)?;
        let took = context.part(&["staged", text(&from), text(&dir), pace, &mib.to_string()])?;
        Ok(took + timed(&mut Command::new("sync"))?)
    };
    let probe_mib = context.mib(2048);
    let mib_per_s = probe_mib as f64 / run("never", probe_mib)?;
    for (lasts, paces) in LASTS.into_iter().zip([&["4", "16", "64", "256"][..], &["default"]]) {
        let mib = ((mib_per_s * lasts) as u64 / context.shrink).clamp(16, 24 << 10) / 4 * 4;
        let mut variants: Vec<Variant<'_>> = vec![Box::new(|| run("never", mib))];
        for pace in paces {
            variants.push(Box::new(|| run(pace, mib)));
        }
        let results = context.interleave("checkpoints", &mut variants)?;
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
            let is_within_bound = !default || cost <= COST_MAX || context.shrink > 1;
            table.over += usize::from(!is_within_bound);
            row(vec![
                if default { "by default".to_owned() } else { format!("{pace} MiB") },
                format!("{mib} MiB"),
                seconds(with),
                format!("{:+.1} %", cost * 100.0),
                if default { format!("{:.0} %", COST_MAX * 100.0) } else { "-".to_owned() },
                if default { verdict(is_within_bound).to_owned() } else { String::new() },
            ]);
        }
    }
    Ok(table)
}

fn durable(context: &BenchContext) -> Result<Table> {
    let mut table = Table::new(COMPARISON);
    let files = 10_000 / context.shrink;
    let ext4 = disk(FileSystem::Ext4, 4)?;
    let from = context.memory.join("files");
    tree::many(&from, files, 64 << 10, 20, 5)?;
    let to = ext4.path().join("to");
    let haul = |flag: &'static str| -> Variant<'_> {
        Box::new(|| {
            clear(&to)?;
            context.haul(&["copy", "-q", "-r", flag, text(&from), text(&to)])
        })
    };
    let each = || {
        clear(&to)?;
        fs::create_dir(&to)?;
        context.part(&["synced", text(&from), text(&to)])
    };
    let mut variants = [haul("--sync"), Box::new(each), haul("--force")];
    let results = context.interleave("durable", &mut variants)?;
    let title = format!("{files} files of 64 KiB on ext4, haul copy -r --sync");
    let bound = (context.shrink == 1).then_some(0.25);
    table.compare(title.as_str(), &results[0], ("one fsync each", &results[1]), bound);
    table.compare(title, &results[0], ("without --sync", &results[2]), None);
    clear(&from)?;
    Ok(table)
}

fn in_kernel(context: &BenchContext) -> Result<Table> {
    let mut table = Table::new(&["file system", "how", "from the start", "from 1 MiB on"]);
    table.notes.push("A file in the page cache; on ext4 no content can be shared. Where it can be, copy_file_range shares it, too.");
    let mib = context.mib(256);
    for kind in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let mount = disk(kind, 3)?;
        let from = &source(mount.path(), mib)?;
        let to = &mount.path().join("to");
        let moved = |how: &'static str, at: &'static str| -> Variant<'_> {
            Box::new(move || {
                clear(to)?;
                context.part(&[how, text(from), text(to), at])
            })
        };
        let mut variants =
            vec![moved("range", "0"), moved("range", "1"), moved("hand", "0"), moved("hand", "1")];
        if kind != FileSystem::Ext4 {
            variants.push(Box::new(move || {
                clear(to)?;
                context.part(&["clone", text(from), text(to)])
            }));
        }
        let results = context.interleave("in-kernel", &mut variants)?;
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
