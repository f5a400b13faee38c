//! The developer's log. It is off, unless `HAUL_LOG` is a level.

use tracing::level_filters::LevelFilter;

/// The variable with the level: `error`, `warn`, `info`, `debug` or `trace`.
const VARIABLE: &str = "HAUL_LOG";

/// Starts the log on standard error if the variable is set. Otherwise no subscriber is created.
pub(crate) fn start() {
    let Some(level) = std::env::var(VARIABLE).ok().and_then(|word| level(&word)) else { return };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}

/// Parses a level. An unknown word turns the log off: it must not prevent a copy.
fn level(word: &str) -> Option<LevelFilter> {
    let level = word.parse().ok().filter(|level| *level != LevelFilter::OFF);
    // The parser accepts an empty word as "error".
    level.filter(|_| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_level_turns_the_log_on() {
        assert_eq!(level("debug"), Some(LevelFilter::DEBUG));
        assert_eq!(level("off"), None);
        assert_eq!(level(""), None);
        assert_eq!(level("loud"), None);
    }
}
