//! Splits a command whose sources are on several machines into jobs: one for each run of sources on
//! the same machine.

use crate::Job;
use crate::origin::origin;
use haul_model::words;
use std::fmt;

/// A path and its machine. `H` is the caller's type of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPath<H> {
    /// The machine; `None` is this one.
    pub host: Option<H>,
    /// The path there, raw.
    pub path: Vec<u8>,
}

/// The machines of the two roles of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route<H> {
    /// Both on this machine.
    Local,
    /// The destination is on the host.
    Upload(H),
    /// The sources are on the host.
    Download(H),
    /// The sources are on the first, the destination is on the second.
    Between(H, H),
}

/// One job, and its route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedJob<H> {
    /// The job.
    pub job: Job,
    /// Its route.
    pub route: Route<H>,
}

/// The jobs that copy `sources` to `dest`, in order. All other settings are those of `like`.
pub fn routed_jobs<H>(sources: &[HostPath<H>], dest: &HostPath<H>, like: &Job) -> Vec<RoutedJob<H>>
where
    H: Clone + PartialEq + fmt::Display,
{
    let origin = origin_of(sources, &dest.path, false);
    let runs = sources.chunk_by(|one, next| one.host == next.host);
    let routed_job = |run: &[HostPath<H>]| {
        let route = match (&run[0].host, &dest.host) {
            (None, None) => Route::Local,
            (None, Some(there)) => Route::Upload(there.clone()),
            (Some(there), None) => Route::Download(there.clone()),
            (Some(from), Some(to)) => Route::Between(from.clone(), to.clone()),
        };
        let mut job = like.clone();
        job.sources.paths = run.iter().map(|source| source.path.clone()).collect();
        job.dest.path = dest.path.clone();
        (job.dest.into_dir, job.dest.origin) = (sources.len() > 1, origin);
        RoutedJob { job, route }
    };
    runs.map(routed_job).collect()
}

/// The number that identifies the destination of a single source in later runs; see
/// [`NamedDest`](haul_proto::NamedDest). `None` for several sources, or for a source without a name.
pub(crate) fn origin_of<H: fmt::Display>(
    sources: &[HostPath<H>],
    dest: &[u8],
    is_move: bool,
) -> Option<[u8; 16]> {
    let [HostPath { host, path }] = sources else { return None };
    words::split(path).name?;
    origin(host.as_ref().map(H::to_string).as_deref(), path, dest, is_move)
}
