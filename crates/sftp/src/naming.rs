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
    /// It stays: the result is [`Cause::NameExists`].
    Keep,
    /// It is replaced.
    Replace {
        /// The path for renaming it aside, in the same directory, if the server can't replace in
        /// one step. An existing entry at this path is a leftover of an interrupted replacement. It
        /// is removed if it is in the way.
        backup: Vec<u8>,
    },
}

impl Existing {
    pub(crate) fn check(&self) -> Result<(), Cause> {
        match self {
            Self::Keep => Ok(()),
            Self::Replace { backup } => check_path(backup),
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// True if an existing file is replaced in one step.
    fn replaces_in_one_step(&self, client: &Client) -> bool {
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
    fn backup(&self) -> &'a [u8] {
        match self.existing {
            Existing::Keep => &[],
            Existing::Replace { backup } => backup,
        }
    }
}

/// The renaming of one file.
pub(crate) struct Renaming {
    step: NamingStep,
    /// The server's reason for refusing the first rename.
    refused: Option<Cause>,
    /// A leftover of an earlier replacement was removed.
    is_cleared: bool,
}

/// The next request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamingStep {
    /// Looks up whether the final name is free.
    StatFirst,
    Rename,
    /// Looks up the existing entry, after the server has refused the rename.
    Stat,
    /// Renames the existing file aside.
    MoveAside,
    /// Removes a leftover at that path.
    Clear,
    RenameAgain,
    /// Renames the existing file back.
    Restore,
    RemoveOld,
}

/// The result of the renaming. An error comes with the failed operation.
pub(crate) type RenameResult = Result<(), (&'static str, Cause)>;

impl Renaming {
    /// Starts a renaming. `is_free` is true if a lookup has found the name free.
    pub(crate) fn new(existing: &Existing, is_free: bool) -> Self {
        let looks = existing.is_kept() && !is_free;
        let step = if looks { NamingStep::StatFirst } else { NamingStep::Rename };
        Self { step, refused: None, is_cleared: false }
    }

    /// The next request.
    pub(crate) fn request<'a>(&self, names: &Names<'a>, client: &Client) -> Request<'a> {
        let Names { stage, path, existing } = *names;
        let backup = names.backup();
        match self.step {
            NamingStep::StatFirst | NamingStep::Stat => Request::Lstat { path },
            NamingStep::Rename if existing.replaces_in_one_step(client) => {
                Request::PosixRename { from: stage, to: path }
            }
            NamingStep::Rename | NamingStep::RenameAgain => {
                Request::Rename { from: stage, to: path }
            }
            NamingStep::MoveAside => Request::Rename { from: path, to: backup },
            NamingStep::Clear | NamingStep::RemoveOld => Request::Remove { path: backup },
            NamingStep::Restore => Request::Rename { from: backup, to: path },
        }
    }

    /// Processes the answer to that request. Returns the result once it is known.
    pub(crate) fn take(
        &mut self,
        answer: Result<Answer, Cause>,
        names: &Names<'_>,
        client: &Client,
    ) -> Option<RenameResult> {
        let next = match (self.step, answer) {
            (NamingStep::StatFirst, Ok(Answer::Attrs(_))) => {
                return Some(Err(("write", Cause::NameExists)));
            }
            // If the lookup finds no entry, or fails, the rename decides.
            (NamingStep::StatFirst, Ok(_) | Err(Cause::Status(_))) => NamingStep::Rename,
            (NamingStep::Rename, Ok(_)) | (NamingStep::RemoveOld, _) => return Some(Ok(())),
            (NamingStep::Rename, Err(Cause::Status(status)))
                if !names.existing.replaces_in_one_step(client) && may_mean_exists(status.code) =>
            {
                self.refused = Some(Cause::Status(status));
                NamingStep::Stat
            }
            (NamingStep::Stat, Ok(Answer::Attrs(found))) => {
                match self.judge(&found, names.existing) {
                    Ok(next) => next,
                    Err(cause) => return Some(Err(cause)),
                }
            }
            // No entry has the name, so the rename was refused for another reason.
            (NamingStep::Stat, Ok(_) | Err(Cause::Status(_))) => return Some(self.refusal()),
            (NamingStep::MoveAside, Ok(_)) | (NamingStep::Clear, Ok(_) | Err(Cause::Status(_))) => {
                if self.step == NamingStep::Clear {
                    NamingStep::MoveAside
                } else {
                    NamingStep::RenameAgain
                }
            }
            // Another process has removed it.
            (NamingStep::MoveAside, Err(Cause::Status(status)))
                if status.code == StatusCode::NoSuchFile =>
            {
                NamingStep::RenameAgain
            }
            (NamingStep::MoveAside, Err(Cause::Status(status)))
                if !self.is_cleared && may_mean_exists(status.code) =>
            {
                self.is_cleared = true;
                NamingStep::Clear
            }
            (NamingStep::MoveAside, Err(cause @ Cause::Status(_))) => {
                return Some(Err(("move aside the old", cause)));
            }
            (NamingStep::RenameAgain, Ok(_)) => NamingStep::RemoveOld,
            (NamingStep::RenameAgain, Err(cause @ Cause::Status(_))) => {
                self.refused = Some(cause);
                NamingStep::Restore
            }
            (NamingStep::Restore, Ok(_)) => return Some(self.refusal()),
            (NamingStep::Restore, Err(Cause::Status(_))) => {
                return Some(self.refusal().map_err(|refusal| only_staged(refusal, names)));
            }
            // The session has ended, and it is unknown which requests were handled.
            (NamingStep::MoveAside | NamingStep::RenameAgain | NamingStep::Restore, Err(cause)) => {
                return Some(Err(only_staged(("rename", cause), names)));
            }
            (_, Err(cause)) => return Some(Err(("rename", cause))),
        };
        self.step = next;
        None
    }

    /// Decides how to treat the existing entry.
    fn judge(
        &mut self,
        found: &Attrs,
        existing: &Existing,
    ) -> Result<NamingStep, (&'static str, Cause)> {
        if existing.is_kept() {
            return Err(("write", Cause::NameExists));
        }
        match (found.file_type(), self.refused.take()) {
            (Some(FileType::Dir), Some(refused)) => Err(("rename", refused)),
            _ => Ok(NamingStep::MoveAside),
        }
    }

    fn refusal(&mut self) -> RenameResult {
        self.refused.take().map_or(Ok(()), |refused| Err(("rename", refused)))
    }

    /// Requests that the existing file is renamed back, unless the new one has its name by then.
    /// Then requests that the stage is removed.
    pub(crate) fn abort(&self, names: &Names<'_>, batch: &mut Batch) {
        if matches!(
            self.step,
            NamingStep::MoveAside | NamingStep::RenameAgain | NamingStep::Restore
        ) {
            let back = Request::Rename { from: names.backup(), to: names.path };
            batch.send(&back, Payload::NONE);
        }
        batch.send(&Request::Remove { path: names.stage }, Payload::NONE);
    }
}

impl Client {
    /// Renames the complete file or link `stage` to `path`, and waits for the result.
    ///
    /// # Errors
    /// [`Cause::NameExists`], see [`Existing::Keep`]. [`Cause::OnlyStaged`] if the existing file is
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
    let (stage, backup) = (escape_bytes(names.stage), escape_bytes(names.backup()));
    (operation, Cause::OnlyStaged(Box::new(OnlyStaged { stage, backup, cause })))
}

/// True if this status of a rename may mean that the name exists. Version 3 has no status of its
/// own for that.
fn may_mean_exists(code: StatusCode) -> bool {
    matches!(code, StatusCode::Failure | StatusCode::Other(_))
}
