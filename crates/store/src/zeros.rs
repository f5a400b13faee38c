//! Runs of zeros in content, which can be holes.

use std::iter;

/// The alignment and length of parts in which zeros are searched: the allocation unit of most file
/// systems.
const PART_LEN: u64 = 4 << 10;

/// Splits `bytes`, which are at `offset` in a file, into runs of parts with only zeros, and runs of
/// others. The flag is true for zeros.
pub(crate) fn runs(bytes: &[u8], offset: u64) -> impl Iterator<Item = (&[u8], bool)> {
    let (mut rest, mut at) = (bytes, offset);
    iter::from_fn(move || {
        let (mut len, mut are_zeros) = (0, None);
        while len < rest.len() {
            let room = (PART_LEN - (at + len as u64) % PART_LEN) as usize;
            let part = &rest[len..rest.len().min(len + room)];
            let is_zeros = part == &[0; PART_LEN as usize][..part.len()];
            if *are_zeros.get_or_insert(is_zeros) != is_zeros {
                break;
            }
            len += part.len();
        }
        let (run, behind) = rest.split_at(len);
        (rest, at) = (behind, at + len as u64);
        Some((run, are_zeros?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// No test takes longer.
    const WITHIN: Duration = Duration::from_secs(15);

    #[test]
    fn runs_are_cut_where_parts_of_the_file_begin() {
        haul_testkit::ends_within(WITHIN, || {
            let mut bytes = vec![0; 5 * 4096];
            // Of a part that has more than zeros all is kept.
            bytes[4096 + 1] = 1;
            bytes[4 * 4096] = 1;
            let lens = |offset: u64, bytes: &[u8]| -> Vec<(usize, bool)> {
                let runs: Vec<_> = runs(bytes, offset).collect();
                assert_eq!(
                    runs.iter().flat_map(|(run, _)| *run).copied().collect::<Vec<u8>>(),
                    bytes
                );
                runs.iter().map(|(run, is_zeros)| (run.len(), *is_zeros)).collect()
            };
            let cut = [(4096, true), (4096, false), (2 * 4096, true), (4096, false)];
            assert_eq!(lens(0, &bytes), cut);
            assert_eq!(lens(7 * 4096, &bytes), cut);
            assert_eq!(lens(4095, &bytes[..4097]), [(4097, true)]);
            assert_eq!(lens(4095, &bytes[..4098]), [(4097, true), (1, false)]);
            assert_eq!(lens(0, &[]), []);
            assert_eq!(lens(4000, &[0; 500]), [(500, true)]);
            assert_eq!(lens(4000, &[1; 500]), [(500, false)]);
        });
    }
}
