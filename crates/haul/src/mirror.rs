//! The completion of a mirror's request: the kind of its sources decides the kind of its
//! destination.

use crate::error::Error;
use crate::hosts::Questions;
use crate::location::{Location, Machine};
use crate::request::Request;
use haul_model::{FollowedLinks, Kind, Mirror, Place, Relative, links, words};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

impl Request {
    /// Completes the request of a mirror. The destination is a directory for the sources, unless it
    /// is the new name of a single file. `questions` may ask a host for the kind of a source.
    ///
    /// # Errors
    /// If the host can't be asked.
    pub fn complete_mirror(
        &mut self,
        mirror: &Mirror,
        questions: &mut Questions<'_>,
    ) -> Result<(), Error> {
        let relative = mirror.walking.relative;
        let makes_dir = match alone(self, relative) {
            Some(one) => becomes_dir(self, mirror.walking.followed_links, &one, questions)?,
            None => true,
        };
        if relative == Relative::No {
            use_dir_contents(&mut self.sources);
        }
        if makes_dir && !self.dest.path.ends_with(b"/") {
            self.dest.path.push(b'/');
        }
        Ok(())
    }

    /// Refuses a mirror whose sources are on several machines.
    ///
    /// # Errors
    /// If they are, or if a list belongs to more than one directory.
    pub fn refuse_to_mirror(&self) -> Result<(), Error> {
        if self.sources.windows(2).any(|two| two[0].machine != two[1].machine) {
            let what = "all sources must be on one machine".to_owned();
            return Err(Error::refused(what, "run one command for each machine"));
        }
        if self.list.is_some() && self.sources.len() != 1 {
            let what = "files-from needs one directory, but the pattern matches several";
            return Err(Error::usage(what));
        }
        Ok(())
    }
}

/// Makes a source that ends with a slash stand for the content of the directory.
pub fn use_dir_contents(sources: &mut [Location]) {
    for source in sources.iter_mut().filter(|source| source.path.ends_with(b"/")) {
        source.path.push(b'.');
    }
}

/// The only source, if it may become the destination itself. With relative paths, it must have no
/// directory above it.
fn alone(request: &Request, relative: Relative) -> Option<Location> {
    let [source] = &*request.sources else { return None };
    if request.list.is_none() && relative == Relative::No {
        return Some(source.clone());
    }
    let place = match request.list.as_deref() {
        Some([path]) => Place::of(path, Some(&source.path), relative),
        Some(_) => return None,
        None => Place::of(&source.path, None, relative),
    };
    match place.ok()? {
        Place { start, names, slash: false, dot: false, .. } if names.len() == 1 => {
            Some(source.on_same_machine(words::join(&start, names[0].as_bytes())))
        }
        _ => None,
    }
}

/// True if the destination must be a directory for `source`, whether it exists or not. Only a
/// single file may get a new name.
///
/// # Errors
/// If the host of the source can't be asked.
fn becomes_dir(
    request: &Request,
    followed_links: FollowedLinks,
    source: &Location,
    questions: &mut Questions<'_>,
) -> Result<bool, Error> {
    let Location { machine, path, .. } = source;
    if path.ends_with(b"/") || words::split(path).name.is_none() {
        return Ok(true);
    }
    let here = |path: &[u8]| {
        let target = || fs::read_link(OsStr::from_bytes(path)).ok();
        let is_led = |target: PathBuf| is_followed(followed_links, target.as_os_str().as_bytes());
        match request.follow || target().is_some_and(is_led) {
            true => fs::metadata(OsStr::from_bytes(path)),
            false => fs::symlink_metadata(OsStr::from_bytes(path)),
        }
    };
    if *machine == Machine::Local {
        return Ok(here(path).is_ok_and(|metadata| metadata.is_dir()));
    }
    let dest = &request.dest;
    if source.is_pattern() {
        return Ok(true);
    }
    // An existing destination decides by itself, without a question.
    if dest.machine != Machine::Local || here(&dest.path).is_ok() {
        return Ok(false);
    }
    let asked = questions.ask(machine, |there| {
        let kind = there.stat(path, request.follow)?.kind;
        match &kind {
            Kind::Symlink { target } if is_followed(followed_links, target) => {
                Ok(there.stat(path, true)?.kind)
            }
            _ => Ok(kind),
        }
    });
    // The job reports why the source can't be read.
    Ok(asked? == Ok(Kind::Dir))
}

/// True if a source that is a link with this `target` is replaced by what the link points to.
fn is_followed(followed_links: FollowedLinks, target: &[u8]) -> bool {
    followed_links.to_dirs || followed_links.out && links::leads_out(target, 0)
}
