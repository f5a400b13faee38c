//! How long a peer is waited for.

use std::time::Duration;

/// How long a peer may be silent, unless the user says otherwise, in seconds.
pub const SILENCE_SECONDS: u32 = 15;

/// How long a login may take, with the host's program coming to its greeting:
/// somebody may have to look for a password, or for a second factor.
const LOGIN_MAX: Duration = Duration::from_secs(600);

/// How long a peer is waited for. Only time counts in which this side waits to
/// hear something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// A peer from which nothing has come for so long is gone; `None` waits for
    /// ever.
    pub silence_max: Option<Duration>,
    /// The same until the peer has greeted, which is after the login.
    pub login_max: Option<Duration>,
}

impl Patience {
    /// Waits for `seconds`, and for a login at least as long as it may need; with
    /// 0, for ever.
    pub fn of_seconds(seconds: u32) -> Self {
        let silence_max = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        Self { silence_max, login_max: silence_max.map(|silence| silence.max(LOGIN_MAX)) }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::of_seconds(SILENCE_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_has_at_least_the_time_that_silence_has() {
        let seconds = |patience: Patience| {
            [patience.silence_max, patience.login_max].map(|max| max.map(|max| max.as_secs()))
        };
        assert_eq!(seconds(Patience::default()), [Some(15), Some(600)]);
        assert_eq!(seconds(Patience::of_seconds(2)), [Some(2), Some(600)]);
        assert_eq!(seconds(Patience::of_seconds(3600)), [Some(3600), Some(3600)]);
        assert_eq!(seconds(Patience::of_seconds(0)), [None, None]);
    }
}
