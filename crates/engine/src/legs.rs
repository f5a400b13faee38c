//! The jobs of a command whose sources are on several machines: one for each run of
//! sources that are on the same.

use crate::Job;
use crate::origin::origin;
use haul_model::words;
use std::fmt;

/// A path and the machine that it is on. `H` is a host in the words of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot<H> {
    /// The machine; `None` is this one.
    pub host: Option<H>,
    /// The path there, raw.
    pub path: Vec<u8>,
}

/// The machines that the two roles of a job work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route<H> {
    /// Both on this one.
    Local,
    /// The destination is there.
    Upload(H),
    /// The sources are there.
    Download(H),
    /// The sources are on the first, the destination is on the second.
    Between(H, H),
}

/// One job, and its route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg<H> {
    /// The job.
    pub job: Job,
    /// Its route.
    pub route: Route<H>,
}

/// The jobs that take `sources` to `dest`, in their order. Task, rules and directories are those of `like`.
pub fn legs<H>(sources: &[Spot<H>], dest: &Spot<H>, like: &Job) -> Vec<Leg<H>>
where
    H: Clone + PartialEq + fmt::Display,
{
    let origin = origin_of(sources, &dest.path);
    let runs = sources.chunk_by(|one, next| one.host == next.host);
    let leg = |run: &[Spot<H>]| {
        let route = match (&run[0].host, &dest.host) {
            (None, None) => Route::Local,
            (None, Some(there)) => Route::Upload(there.clone()),
            (Some(there), None) => Route::Download(there.clone()),
            (Some(from), Some(to)) => Route::Between(from.clone(), to.clone()),
        };
        let job = Job {
            sources: run.iter().map(|source| source.path.clone()).collect(),
            dest: dest.path.clone(),
            into_dir: sources.len() > 1,
            origin,
            ..like.clone()
        };
        Leg { job, route }
    };
    runs.map(leg).collect()
}

/// The number by which the destination is known again that the one source becomes; see
/// [`Job::origin`]. Several sources have none, and one without a name has none.
pub(crate) fn origin_of<H: fmt::Display>(sources: &[Spot<H>], dest: &[u8]) -> Option<[u8; 16]> {
    let [Spot { host, path }] = sources else { return None };
    words::split(path).name?;
    origin(host.as_ref().map(H::to_string).as_deref(), path, dest)
}
