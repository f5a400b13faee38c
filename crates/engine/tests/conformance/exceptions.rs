//! Cases in which a link can't do as the others do, each with its reason; in all else it
//! has to be the same.

use crate::bench::Place;
use crate::link::Link;
use haul_engine::{Outcome, Skip, Summary};
use haul_model::{Changes, Fault, Side};
use haul_testkit::Compare;
use std::collections::BTreeMap;

const SECOND_NS: i128 = 1_000_000_000;

/// How a copy is compared that came over this link.
pub(crate) fn rules(link: Link, rules: Compare) -> Compare {
    match link {
        // The protocol has 32 bits of seconds for a time.
        Link::SftpUpload(_) => rules.keeping_mtimes_as(|mtime_ns| {
            mtime_ns.div_euclid(SECOND_NS).clamp(0, u32::MAX.into()) * SECOND_NS
        }),
        // The same, and a time that does not fit is told as another one. Where
        // the holes are is not told at all.
        Link::SftpDownload(_) => {
            let told =
                |mtime_ns: i128| i128::from(mtime_ns.div_euclid(SECOND_NS) as u32) * SECOND_NS;
            rules.keeping_mtimes_as(told).ignoring_holes()
        }
        _ => rules,
    }
}

/// How a copy is compared that was made on such a file system.
pub(crate) fn rules_at(place: Place, rules: Compare) -> Compare {
    match place {
        // It tells neither where holes are nor makes any.
        Place::BindFs => rules.ignoring_holes(),
        Place::Xfs | Place::Overlay => rules,
    }
}

/// `warnings` as far as they have to be those of all links.
pub(crate) fn warnings(link: Link, warnings: &[String]) -> Vec<String> {
    // The protocol has 32 bits of seconds for a time.
    let is_own = |warning: &&String| {
        matches!(link, Link::SftpUpload(_)) && warning.contains("can't store its mtime")
    };
    warnings.iter().filter(|warning| !is_own(warning)).cloned().collect()
}

/// A summary as far as it has to be that of all links: how much is moved for a hole is each
/// link's own affair, and so is the time of a directory that was furnished before.
pub(crate) fn figures(summary: Summary) -> Summary {
    Summary { bytes_transferred: 0, updated: 0, ..summary }
}

/// `outcomes` as far as they have to be those of all links.
pub(crate) fn comparable(
    link: Link,
    outcomes: &BTreeMap<String, Outcome>,
) -> BTreeMap<String, Outcome> {
    let far = match link {
        Link::SftpUpload(_) => Some(Side::Destination),
        Link::SftpDownload(_) => Some(Side::Source),
        _ => None,
    };
    let as_told = |outcome: &Outcome| match outcome {
        // What failed at a server is told in the words of the protocol.
        Outcome::Failed(fault) if Some(fault.side) == far => {
            Outcome::Failed(Fault::new(fault.side, fault.kind, ""))
        }
        // Each destination was furnished at another moment.
        Outcome::Synced(found) if *found == Changes::TIME => Outcome::Skipped(Skip::Unchanged),
        outcome => outcome.clone(),
    };
    outcomes.iter().map(|(path, outcome)| (path.clone(), as_told(outcome))).collect()
}
