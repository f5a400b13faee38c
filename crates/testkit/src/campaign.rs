//! Campaigns: tests that kill, cut or change something at moments drawn by lot.
//! The suite runs a short form of them with fixed seeds, so that it does the same
//! each time; `cargo xtask soak` runs them for as long as it is told, with seeds
//! of its own.

use std::env;

use crate::content::Stream;

/// The environment variable with the seed of a whole run, a number.
pub const SEED: &str = "HAUL_TEST_SEED";

/// The environment variable with the number by which the rounds of the short form
/// are multiplied.
pub const TIMES: &str = "HAUL_TEST_TIMES";

/// The environment variable with the time for which a campaign without rounds goes on, in
/// seconds.
pub const SECONDS: &str = "HAUL_TEST_SECONDS";

/// The seed of the whole run, if there is one.
///
/// # Panics
/// If the environment has something other than a number.
pub fn given_seed() -> Option<u64> {
    number(SEED)
}

/// Seconds for which a campaign without rounds goes on; if none are given, it runs its short
/// form.
///
/// # Panics
/// If the environment has something other than a number.
pub fn seconds() -> Option<u64> {
    number(SECONDS)
}

/// Rounds of a campaign whose short form has `short` of them.
///
/// # Panics
/// If the environment has something other than a number.
pub fn rounds(short: u64) -> u64 {
    number(TIMES).map_or(short, |times| short.saturating_mul(times.max(1)))
}

/// The seed of a campaign whose short form has the seed `own`.
///
/// # Panics
/// If the environment has something other than a number.
pub fn seed(own: u64) -> u64 {
    number(SEED).map_or(own, |seed| mixed(seed, own))
}

/// Of each run and each of its campaigns another number.
fn mixed(seed: u64, own: u64) -> u64 {
    Stream::new(seed).next_u64() ^ own
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_gives_each_campaign_another_one() {
        let mut all: Vec<u64> =
            (0..50).flat_map(|seed| (0..50).map(move |own| mixed(seed, own))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 50 * 50);
        assert_eq!(mixed(7, 3), mixed(7, 3));
    }

    #[test]
    fn without_a_word_the_short_form_runs() {
        if env::var_os(SEED).is_none() && env::var_os(TIMES).is_none() {
            assert_eq!((rounds(8), seed(41)), (8, 41));
        }
    }
}
