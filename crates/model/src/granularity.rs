//! The unit in which a file system stores times.

use crate::Timestamp;

const NANOS_PER_SEC: i128 = 1_000_000_000;

/// A unit of time that a file system stores. Finer parts are cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Granularity {
    nanos: u64,
}

impl Granularity {
    /// The full resolution of a [`Timestamp`].
    pub const FINEST: Self = Self { nanos: 1 };

    /// Whole seconds: ext4 with small inodes, SFTP, HFS+.
    pub const SECOND: Self = Self { nanos: 1_000_000_000 };

    /// Even seconds: FAT.
    pub const TWO_SECONDS: Self = Self { nanos: 2_000_000_000 };

    /// The units in use, finest first. NTFS and SMB have 100 ns. UDF, and programs that use older
    /// calls, have 1 us. exFAT has 10 ms, and FAT 2 s.
    pub const ALL: [Self; 7] = [
        Self::FINEST,
        Self { nanos: 100 },
        Self { nanos: 1_000 },
        Self { nanos: 1_000_000 },
        Self { nanos: 10_000_000 },
        Self::SECOND,
        Self::TWO_SECONDS,
    ];

    /// `time` as it is stored.
    pub fn kept(self, time: Timestamp) -> Timestamp {
        let unit = i128::from(self.nanos);
        let all = i128::from(time.secs) * NANOS_PER_SEC + i128::from(time.nanos);
        let kept = all.div_euclid(unit) * unit;
        Timestamp {
            // Only the very first seconds can leave the range.
            secs: i64::try_from(kept.div_euclid(NANOS_PER_SEC)).unwrap_or(i64::MIN),
            nanos: kept.rem_euclid(NANOS_PER_SEC) as u32,
        }
    }

    /// The finest unit with which `time` is stored as `found`. `None` if `found` is another time.
    pub fn between(time: Timestamp, found: Timestamp) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.kept(time) == found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64, nanos: u32) -> Timestamp {
        Timestamp { secs, nanos }
    }

    #[test]
    fn a_time_is_cut_off_downwards_on_both_sides_of_1970() {
        let time = at(1_000_000_001, 987_654_321);
        let kept = Granularity::ALL.map(|unit| unit.kept(time));
        let expected = [
            time,
            at(1_000_000_001, 987_654_300),
            at(1_000_000_001, 987_654_000),
            at(1_000_000_001, 987_000_000),
            at(1_000_000_001, 980_000_000),
            at(1_000_000_001, 0),
            at(1_000_000_000, 0),
        ];
        assert_eq!(kept, expected);
        assert_eq!(Granularity::SECOND.kept(at(-1, 5)), at(-1, 0));
        assert_eq!(Granularity::ALL[6].kept(at(-1, 5)), at(-2, 0));
        assert_eq!(Granularity::ALL[6].kept(at(i64::MIN, 5)), at(i64::MIN, 0));
    }

    #[test]
    fn the_finest_unit_that_explains_a_time_is_found() {
        let time = at(1_000_000_001, 987_654_321);
        for unit in Granularity::ALL {
            assert_eq!(Granularity::between(time, unit.kept(time)), Some(unit));
        }
        assert_eq!(Granularity::between(time, at(1_000_000_001, 987_654_322)), None);
        assert_eq!(Granularity::between(time, at(1_000_000_002, 0)), None);
        assert_eq!(Granularity::between(at(6, 0), at(6, 0)), Some(Granularity::FINEST));
    }
}
