//! `haul sync` beside the real rsync on trees and with flags drawn by lot. The seeds of the
//! suite are always the same; `cargo xtask differential` goes on with others. What differs
//! is told with a case that is as small as can be, and the commands that make it.

#[path = "../common/mod.rs"]
mod common;

mod case;
mod codes;
mod drawing;
mod entry;
mod exceptions;
mod facts;
mod faking;
mod injected;
mod lines;
mod linked;
mod lot;
mod making;
mod naming;
mod relations;
mod rights;
mod shrinking;
mod trial;

use case::Case;
use haul_testkit::{campaign, fixture};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use trial::{Bench, Difference, Trial};

/// The seeds of the suite are 1 to this one.
const SEEDS: u64 = 300;

/// Threads, each with a case of its own. Most of a case is waiting for processes.
const THREADS: usize = 2;

#[test]
fn both_make_the_same_of_whatever_they_are_given() {
    if !common::is_root() {
        return fixture::missing("root, who makes devices and other owners' files");
    }
    let bench = Bench::new();
    let first = campaign::given_seed().unwrap_or(1);
    let end = campaign::seconds().map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let next = AtomicU64::new(first);
    let should_continue = |seed: u64| match (end, campaign::given_seed()) {
        (Some(end), _) => seed == first || Instant::now() < end,
        (None, Some(_)) => seed == first,
        (None, None) => seed <= SEEDS,
    };
    let failed = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (bench, next, failed) = (&bench, &next, &failed);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !should_continue(seed) {
                        return;
                    }
                    if let Some(report) = report(bench, &format!("trial-{thread}"), seed) {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!("{report}");
                    }
                }
            });
        }
    });
    let tried = next.load(Ordering::Relaxed) - first - THREADS as u64;
    let failed = failed.load(Ordering::Relaxed);
    println!("{tried} cases from seed {first} on, {failed} of them differ");
    assert_eq!(failed, 0, "haul and rsync differ");
}

/// The report on the case of `seed` if the programs differ.
fn report(bench: &Bench, name: &str, seed: u64) -> Option<String> {
    let case = Case::draw(seed, true);
    let whole = bench.try_out(name, &case);
    if whole.found.is_empty() {
        return None;
    }
    let small = shrinking::shrink(bench, name, case, &whole.found);
    let trial = bench.try_out(name, &small);
    Some(told(&small, &whole, &trial))
}

fn told(case: &Case, whole: &Trial, trial: &Trial) -> String {
    let mut text = format!("\n==== seed {}, {:?}", case.seed, case.way);
    let _ = writeln!(text, ", {}", if case.is_root { "as root" } else { "as a user" });
    // One that does not differ each time is told as it was seen.
    let found = if trial.found.is_empty() { &whole.found } else { &trial.found };
    for difference in found {
        let lines = match difference {
            Difference::Code { rsync, haul } => {
                &vec![format!("code: rsync {rsync:?}, haul {haul:?}")]
            }
            Difference::Hang => &vec!["haul does not end".into()],
            Difference::Tree(lines) | Difference::Lines(lines) => lines,
        };
        for line in lines.iter().take(12) {
            let _ = writeln!(text, "  {line}");
        }
    }
    let words: Vec<_> =
        case.words().iter().map(|word| making::quoted(word.as_encoded_bytes())).collect();
    let user =
        if case.is_root { "" } else { "setpriv --reuid=65534 --regid=65534 --clear-groups " };
    let _ = writeln!(
        text,
        "-- twice, in an empty directory:\n{}",
        making::script(&case.state).trim_end()
    );
    let _ = writeln!(text, "-- then:\n{user}rsync {0}\n{user}haul sync {0}", words.join(" "));
    for (name, outcome) in [("rsync", &trial.rsync), ("haul", &trial.haul)] {
        let _ = writeln!(text, "-- {name}: {:?}\n{}{}", outcome.code, outcome.out(), outcome.err());
    }
    let _ = write!(
        text,
        "-- the same again: cargo xtask differential --seconds 0 --seed {}",
        case.seed
    );
    text
}
