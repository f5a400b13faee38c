//! Sizes for people.

/// Binary units, each 1,024 times the one before.
const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Formats a number of bytes with a unit: `1023 B`, `19.9 MiB`.
pub fn format_size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // A value that would be rounded to 1024.0 gets the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1.0 MiB"),
            (20_866_662, "19.9 MiB"),
            (1 << 30, "1.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }
}
