//! Timeouts for a peer.

use std::time::Duration;

/// Default timeout for a silent peer, in seconds.
pub const SILENCE_SECONDS: u32 = 15;

/// Time for a login, up to the greeting of the host's program. The user may have to find a password
/// or a second factor.
const LOGIN_MAX: Duration = Duration::from_secs(600);

/// Timeouts for a peer. Only the time counts in which this side waits for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// A peer that sends nothing for so long is considered lost. `None` waits for ever.
    pub silence_max: Option<Duration>,
    /// The same until the peer has greeted, which includes the login.
    pub login_max: Option<Duration>,
}

impl Timeouts {
    /// Waits `seconds`, but at least ten minutes for a login. 0 waits for ever.
    pub fn from_seconds(seconds: u32) -> Self {
        let silence_max = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        Self { silence_max, login_max: silence_max.map(|silence| silence.max(LOGIN_MAX)) }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self::from_seconds(SILENCE_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_timeout_is_at_least_the_silence_timeout() {
        let seconds = |timeout: Timeouts| {
            [timeout.silence_max, timeout.login_max].map(|max| max.map(|max| max.as_secs()))
        };
        assert_eq!(seconds(Timeouts::default()), [Some(15), Some(600)]);
        assert_eq!(seconds(Timeouts::from_seconds(2)), [Some(2), Some(600)]);
        assert_eq!(seconds(Timeouts::from_seconds(3600)), [Some(3600), Some(3600)]);
        assert_eq!(seconds(Timeouts::from_seconds(0)), [None, None]);
    }
}
