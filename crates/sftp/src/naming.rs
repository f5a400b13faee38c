//! Renames a complete file from its private name to its final one. All files and links are replaced
//! this way.
//!
//! 1. A server that can replace in one step does so ([`Extension::PosixRename`], or a server whose
//!    every rename replaces). 2. Otherwise the existing file is renamed aside, the new one is
//!    renamed into place, and then the old one is removed. If the second rename is refused, the old
//!    file is renamed back. So both files are complete at each moment, under one name or another.
//!
//! The steps are defined here without I/O. A single caller runs them for one file, and
//! [`crate::Puts`] for many at a time.

use crate::Client;
use crate::client::check_path;
use crate::codec::{Answer, Attrs, Extension, FileType, Request, StatusCode};
use crate::error::{Cause, OnlyStaged, SftpError};
use crate::session::{Batch, Payload};
use haul_model::escape_bytes;

/// How to treat an existing file or link of the final name. A directory always stays.
#[derive(Debug, Clone)]
pub enum Existing {
    /// It stays: the result is [`Cause::Taken`].
    Keep,
    /// It is replaced.
    Replace {
        /// The path for renaming it aside, in the same directory, if the server can't replace in
        /// one step. An existing entry at this path is a leftover of an interrupted replacement. It
        /// is removed if it is in the way.
        aside: Vec<u8>,
    },
}

impl Existing {
    pub(crate) fn check(&self) -> Result<(), Cause> {
        match self {
            Self::Keep => Ok(()),
            Self::Replace { aside } => check_path(aside),
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// True if an existing file is replaced in one step.
    fn goes_over(&self, client: &Client) -> bool {
        !self.is_kept() && client.has(Extension::PosixRename)
    }
}

/// The paths of one file.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    /// The path of the complete file.
    pub(crate) stage: &'a [u8],
    /// The final path.
    pub(crate) path: &'a [u8],
    pub(crate) existing: &'a Existing,
}

impl<'a> Names<'a> {
    fn aside(&self) -> &'a [u8] {
        match self.existing {
            Existing::Keep => &[],
            Existing::Replace { aside } => aside,
        }
    }
}

/// The renaming of one file.
pub(crate) struct Renaming {
    step: Step,
    /// The server's reason for refusing the first rename.
    refused: Option<Cause>,
    /// A leftover of an earlier replacement was removed.
    is_cleared: bool,
}

/// The next request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Looks up whether the final name is free.
    LookFirst,
    Rename,
    /// Looks up the existing entry, after the server has refused the rename.
    Look,
    /// Renames the existing file aside.
    Aside,
    /// Removes a leftover at that path.
    Clear,
    RenameAgain,
    /// Renames the existing file back.
    Back,
    RemoveOld,
}

/// The result of the renaming. An error comes with the failed operation.
pub(crate) type Named = Result<(), (&'static str, Cause)>;

impl Renaming {
    /// Starts a renaming. `is_free` is true if a lookup has found the name free.
    pub(crate) fn new(existing: &Existing, is_free: bool) -> Self {
        let looks = existing.is_kept() && !is_free;
        let step = if looks { Step::LookFirst } else { Step::Rename };
        Self { step, refused: None, is_cleared: false }
    }

    /// The next request.
    pub(crate) fn request<'a>(&self, names: &Names<'a>, client: &Client) -> Request<'a> {
        let Names { stage, path, existing } = *names;
        let aside = names.aside();
        match self.step {
            Step::LookFirst | Step::Look => Request::Lstat { path },
            Step::Rename if existing.goes_over(client) => {
                Request::PosixRename { from: stage, to: path }
            }
            Step::Rename | Step::RenameAgain => Request::Rename { from: stage, to: path },
            Step::Aside => Request::Rename { from: path, to: aside },
            Step::Clear | Step::RemoveOld => Request::Remove { path: aside },
            Step::Back => Request::Rename { from: aside, to: path },
        }
    }

    /// Processes the answer to that request. Returns the result once it is known.
    pub(crate) fn take(
        &mut self,
        answer: Result<Answer, Cause>,
        names: &Names<'_>,
        client: &Client,
    ) -> Option<Named> {
        let next = match (self.step, answer) {
            (Step::LookFirst, Ok(Answer::Attrs(_))) => return Some(Err(("write", Cause::Taken))),
            // If the lookup finds no entry, or fails, the rename decides.
            (Step::LookFirst, Ok(_) | Err(Cause::Status(_))) => Step::Rename,
            (Step::Rename, Ok(_)) | (Step::RemoveOld, _) => return Some(Ok(())),
            (Step::Rename, Err(Cause::Status(status)))
                if !names.existing.goes_over(client) && may_be_taken(status.code) =>
            {
                self.refused = Some(Cause::Status(status));
                Step::Look
            }
            (Step::Look, Ok(Answer::Attrs(found))) => match self.judge(&found, names.existing) {
                Ok(next) => next,
                Err(cause) => return Some(Err(cause)),
            },
            // No entry has the name, so the rename was refused for another reason.
            (Step::Look, Ok(_) | Err(Cause::Status(_))) => return Some(self.refusal()),
            (Step::Aside, Ok(_)) | (Step::Clear, Ok(_) | Err(Cause::Status(_))) => {
                if self.step == Step::Clear { Step::Aside } else { Step::RenameAgain }
            }
            // Another process has removed it.
            (Step::Aside, Err(Cause::Status(status))) if status.code == StatusCode::NoSuchFile => {
                Step::RenameAgain
            }
            (Step::Aside, Err(Cause::Status(status)))
                if !self.is_cleared && may_be_taken(status.code) =>
            {
                self.is_cleared = true;
                Step::Clear
            }
            (Step::Aside, Err(cause @ Cause::Status(_))) => {
                return Some(Err(("move aside the old", cause)));
            }
            (Step::RenameAgain, Ok(_)) => Step::RemoveOld,
            (Step::RenameAgain, Err(cause @ Cause::Status(_))) => {
                self.refused = Some(cause);
                Step::Back
            }
            (Step::Back, Ok(_)) => return Some(self.refusal()),
            (Step::Back, Err(Cause::Status(_))) => {
                return Some(self.refusal().map_err(|refusal| only_staged(refusal, names)));
            }
            // The session has ended, and it is unknown which requests were handled.
            (Step::Aside | Step::RenameAgain | Step::Back, Err(cause)) => {
                return Some(Err(only_staged(("rename", cause), names)));
            }
            (_, Err(cause)) => return Some(Err(("rename", cause))),
        };
        self.step = next;
        None
    }

    /// Decides how to treat the existing entry.
    fn judge(&mut self, found: &Attrs, existing: &Existing) -> Result<Step, (&'static str, Cause)> {
        if existing.is_kept() {
            return Err(("write", Cause::Taken));
        }
        match (found.file_type(), self.refused.take()) {
            (Some(FileType::Dir), Some(refused)) => Err(("rename", refused)),
            _ => Ok(Step::Aside),
        }
    }

    fn refusal(&mut self) -> Named {
        self.refused.take().map_or(Ok(()), |refused| Err(("rename", refused)))
    }

    /// Requests that the existing file is renamed back, unless the new one has its name by then.
    /// Then requests that the stage is removed.
    pub(crate) fn give_up(&self, names: &Names<'_>, batch: &mut Batch) {
        if matches!(self.step, Step::Aside | Step::RenameAgain | Step::Back) {
            let back = Request::Rename { from: names.aside(), to: names.path };
            batch.send(&back, Payload::NONE);
        }
        batch.send(&Request::Remove { path: names.stage }, Payload::NONE);
    }
}

impl Client {
    /// Renames the complete file or link `stage` to `path`, and waits for the result.
    ///
    /// # Errors
    /// [`Cause::Taken`], see [`Existing::Keep`]. [`Cause::OnlyStaged`] if the existing file is
    /// aside and the stage must stay. After other errors the existing file has its name, and the
    /// stage can be removed.
    pub fn name_file(
        &self,
        stage: &[u8],
        path: &[u8],
        existing: &Existing,
    ) -> Result<(), SftpError> {
        let failed = |(operation, cause)| SftpError::of(operation, path, cause);
        let checked = check_path(stage).and(check_path(path)).and(existing.check());
        checked.map_err(|cause| failed(("rename", cause)))?;
        let names = Names { stage, path, existing };
        let mut naming = Renaming::new(existing, false);
        loop {
            let answer = self.ask(naming.request(&names, self), path);
            let answer = answer.map_err(|error| error.cause);
            if let Some(named) = naming.take(answer, &names, self) {
                return named.map_err(failed);
            }
        }
    }
}

/// The error if neither file has its final name.
fn only_staged(
    (operation, cause): (&'static str, Cause),
    names: &Names<'_>,
) -> (&'static str, Cause) {
    let (stage, aside) = (escape_bytes(names.stage), escape_bytes(names.aside()));
    (operation, Cause::OnlyStaged(Box::new(OnlyStaged { stage, aside, cause })))
}

/// True if this status of a rename may mean that the name exists. Version 3 has no status of its
/// own for that.
fn may_be_taken(code: StatusCode) -> bool {
    matches!(code, StatusCode::Failure | StatusCode::Other(_))
}
