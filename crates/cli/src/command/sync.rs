//! `haul sync`: makes a tree like another, with the words of rsync.

mod fetching;
mod figures;
mod listing;

use self::figures::Figures;
use super::copy::carry_out_in_parts;
use crate::args::{Copy, Sync, When};
use crate::error::{CommandError, ExitCode};
use crate::report::Report;
use haul::Questions;
use haul::{Location, Machine};
use haul_engine::Summary;
use haul_model::{Kind, Led, Mirror, Part, Place, Relative, Task, links, words};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Makes the destination like the sources, and says what came of it.
pub(super) fn run(sync: &Sync) -> ExitCode {
    let Sync { copy, mirror, when, removes_sources, list, list_there, stats, readable } = sync;
    if let Some(columns) = list {
        return listing::run(copy.clone(), list_there.as_ref(), *mirror, *columns);
    }
    let complete = |mut copy: Copy, questions: &mut Questions<'_>| {
        fetching::complete(&mut copy, list_there.as_ref(), questions)?;
        let relative = mirror.walking.relative;
        let makes_dir = match alone(&copy, relative) {
            Some(one) => becomes_dir(&copy, mirror.walking.led, &one, questions)?,
            None => true,
        };
        if relative == Relative::No {
            take_what_is_in(&mut copy.sources);
        }
        if makes_dir && !copy.dest.path.ends_with(b"/") {
            copy.dest.path.push(b'/');
        }
        Ok(copy)
    };
    let is_partial =
        |summary: &Summary, report: &dyn Report| summary.failed > 0 || report.has_failed();
    let task = Task::Sync(copy.policy, *mirror);
    let (dry_run, unhashed) = (copy.policy.dry_run, !copy.policy.wants_hashes());
    let figures = |end| Figures { end, stats: *stats, dry_run, readable: *readable, unhashed };
    let part = |part, delete| Task::Sync(copy.policy, Mirror { part, delete, ..*mirror });
    let mut parts = match (mirror.delete, when) {
        (None, _) | (_, When::During) => vec![task],
        (delete, When::Before) => {
            vec![part(Part::RemovesFirst, delete), part(Part::AllElse, delete)]
        }
        (delete, When::After) => vec![part(Part::AllElse, delete), part(Part::RemovesLast, delete)],
    };
    if *removes_sources {
        parts.push(part(Part::RemovesSources, None));
    }
    carry_out_in_parts(copy, task, &parts, refuse, complete, is_partial, figures)
}

/// A source that ends with a slash is what is in it.
fn take_what_is_in(sources: &mut [Location]) {
    for source in sources.iter_mut().filter(|source| source.path.ends_with(b"/")) {
        source.path.push(b'.');
    }
}

/// The one source, if it may become the destination itself: no other does, and nothing is
/// on the way to it.
fn alone(copy: &Copy, relative: Relative) -> Option<Location> {
    let [source] = &*copy.sources else { return None };
    if copy.list.is_none() && relative == Relative::No {
        return Some(source.clone());
    }
    let place = match copy.list.as_deref() {
        Some([path]) => Place::of(path, Some(&source.path), relative),
        Some(_) => return None,
        None => Place::of(&source.path, None, relative),
    };
    match place.ok()? {
        Place { start, names, slash: false, dot: false, .. } if names.len() == 1 => {
            Some(source.beside(words::join(&start, names[0].as_bytes())))
        }
        _ => None,
    }
}

/// True if the destination is a directory for what `source` is, whether it is there or
/// not: it is the new name of a single file only.
///
/// # Errors
/// When the host with the source can't be asked what that is.
fn becomes_dir(
    copy: &Copy,
    led: Led,
    source: &Location,
    questions: &mut Questions<'_>,
) -> Result<bool, CommandError> {
    let Location { machine, path, .. } = source;
    if path.ends_with(b"/") || words::split(path).name.is_none() {
        return Ok(true);
    }
    let here = |path: &[u8]| {
        let target = || fs::read_link(OsStr::from_bytes(path)).ok();
        let is_led = |target: PathBuf| leads_on(led, target.as_os_str().as_bytes());
        match copy.follow || target().is_some_and(is_led) {
            true => fs::metadata(OsStr::from_bytes(path)),
            false => fs::symlink_metadata(OsStr::from_bytes(path)),
        }
    };
    if *machine == Machine::Here {
        return Ok(here(path).is_ok_and(|metadata| metadata.is_dir()));
    }
    let dest = &copy.dest;
    if source.is_pattern() {
        return Ok(true);
    }
    // What is there tells by itself, and spares the question.
    if dest.machine != Machine::Here || here(&dest.path).is_ok() {
        return Ok(false);
    }
    let asked = questions.ask(machine, |there| {
        let kind = there.stat(path, copy.follow)?.kind;
        match &kind {
            Kind::Symlink { target } if leads_on(led, target) => Ok(there.stat(path, true)?.kind),
            _ => Ok(kind),
        }
    });
    // Why it can't be looked at the job says.
    Ok(asked? == Ok(Kind::Dir))
}

/// True if a source that is a link with this `target` may stand for what it leads to.
fn leads_on(led: Led, target: &[u8]) -> bool {
    led.to_dirs || led.out && links::leads_out(target, 0)
}

/// Refuses sources that are not on one machine.
fn refuse(copy: &Copy) -> Result<(), CommandError> {
    let machines: Vec<_> = copy.sources.iter().map(|source| &source.machine).collect();
    if machines.windows(2).any(|two| two[0] != two[1]) {
        return Err(CommandError::usage("all sources must be on one machine")
            .with_hint("run one command for each machine"));
    }
    if copy.list.is_some() && copy.sources.len() != 1 {
        let message = "--files-from needs one directory, but the pattern matches several";
        return Err(CommandError::usage(message));
    }
    Ok(())
}
