//! The private names of stages and journals: how they are created and recognised.
//!
//! ```text
//! .haul-RANDOM16                  a stage that its own process removes
//! .haul-NAME12-SOURCE12.part      a stage that can be continued
//! .haul-NAME12-SOURCE12.journal   what is there of it
//! .haul-SERIES10COUNT6.sftp       a stage that a host's SFTP server writes
//! .haul-NAME12-KEEPER12.sftp.part one of these that can be continued
//! .haul-RANDOM16.late               a directory of whole files that wait for their job's end
//! .haul-NAME12.old                an existing file while another gets its name
//! .haul-moving-RANDOM8-NAME       a source that a move has set aside to remove it
//! ```
//!
//! NAME and SOURCE are hashes of the destination's name and of the source's size and time. KEEPER
//! is a hash of both and of the id of the journals' directory. SERIES is random, and the same for
//! all stages of a job. All digits are hexadecimal, in lower case.
//!
//! A source that was set aside is a user's file, and may be the only copy. No function here treats
//! its name as private.

use crate::journal::SourceId;
use haul_model::{MAX_NAME_LEN, Name};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// The prefix of all private names.
const PREFIX: &str = ".haul-";

/// The suffix of the names of stages that a host's SFTP server writes.
pub(crate) const REMOTE_SUFFIX: &str = ".sftp";

/// The suffix of the names of such stages that can be resumed.
const REMOTE_PART_SUFFIX: &str = ".sftp.part";

/// The suffix of the name of a lot.
const BATCH_SUFFIX: &str = ".late";

/// The suffix of the name of an existing file that is being replaced.
const OLD_SUFFIX: &str = ".old";

/// The prefix of the names of sources that were set aside.
const ASIDE_PREFIX: &str = ".haul-moving-";

/// Number of digits in such a name.
const ASIDE_LEN: usize = 8;

/// The separator of the digits and the name. The second is used if the name is left out.
const ASIDE_WHOLE: u8 = b'-';
const ASIDE_CUT: u8 = b'+';

/// Number of digits of a random name, and of each half of a stem.
const RANDOM_LEN: usize = 16;
const HALF_LEN: usize = 12;

/// Number of digits that are the same for all stages of a series.
const SERIES_LEN: usize = 10;

/// Length of the common beginning of a series' names in bytes.
pub(crate) const SERIES_PREFIX_LEN: usize = PREFIX.len() + SERIES_LEN;

/// The kind of a private name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A stage that its own process removes.
    Random,
    /// A stage that can be resumed.
    Part,
    /// The journal of such a stage.
    Journal,
    /// A stage that a host's SFTP server writes. It is not locked there.
    Remote,
    /// Such a stage that can be resumed by the machine with its journal.
    RemotePart,
    /// A batch: a directory of files that wait for the end of their job.
    DelayedBatch,
    /// An existing file that is being replaced, on a host whose server can't replace in one step.
    /// It is not a stage: while its final name does not exist, it is the only copy of the file.
    Old,
}

/// The private names of one resumable stage.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) part: String,
    pub(crate) journal: String,
}

impl Names {
    /// The first half is the same for all sources of `name`.
    pub(crate) fn of(name: &Name, source: &SourceId) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&source.size.to_le_bytes());
        hasher.update(&source.mtime.secs.to_le_bytes());
        hasher.update(&source.mtime.nanos.to_le_bytes());
        let source = hasher.finalize().to_hex();
        Self::from_stem(&format!("{}{}", Self::prefix(name), &source[..HALF_LEN]))
    }

    /// The name of a stage on a host, for one `keeper` of journals.
    pub(crate) fn for_keeper(name: &Name, source: &SourceId, keeper: &[u8]) -> String {
        let stem = Self::of(name, source).part;
        let both = [stem.as_bytes(), keeper].concat();
        let half = name_half(&both);
        format!("{}{half}{REMOTE_PART_SUFFIX}", Self::prefix(name))
    }

    /// The prefix of the private names of all sources of `name`.
    pub(crate) fn prefix(name: &Name) -> String {
        format!("{PREFIX}{}-", name_half(name.as_bytes()))
    }

    pub(crate) fn from_stem(stem: &str) -> Self {
        Self { part: format!("{stem}.part"), journal: format!("{stem}.journal") }
    }
}

/// The private name of the existing file `name` while it is being replaced.
pub fn old_name(name: &Name) -> String {
    format!("{PREFIX}{}{OLD_SUFFIX}", name_half(name.as_bytes()))
}

/// The old files in `names`, all of one directory, whose final names exist again, each with that
/// name. They are no longer needed.
pub fn superseded<'n>(names: &[&'n Name]) -> Vec<(&'n Name, &'n Name)> {
    let waits = |name: &&Name| matches!(parse(name.as_bytes()), Some((Form::Old, _)));
    let waiting: Vec<&Name> = names.iter().copied().filter(waits).collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let by_old: HashMap<Vec<u8>, &Name> =
        names.iter().map(|name| (old_name(name).into_bytes(), *name)).collect();
    waiting.into_iter().filter_map(|old| Some((old, *by_old.get(old.as_bytes())?))).collect()
}

/// The half of a stem that is a hash of the destination's name.
pub(crate) fn name_half(name: &[u8]) -> String {
    blake3::hash(name).to_hex()[..HALF_LEN].to_owned()
}

/// The half of `stem` that is a hash of the destination's name.
pub(crate) fn half_of(stem: &str) -> &str {
    &stem[PREFIX.len()..PREFIX.len() + HALF_LEN]
}

/// A new private name: `.haul-` and 16 random hexadecimal digits.
pub fn private_name() -> String {
    // The operating system seeds RandomState, which differs at each call.
    format!("{PREFIX}{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// A new private name for a stage that a host's SFTP server writes.
pub fn remote_stage_name() -> String {
    format!("{}{REMOTE_SUFFIX}", private_name())
}

/// A new private name for a lot.
pub(crate) fn batch_name() -> String {
    format!("{}{BATCH_SUFFIX}", private_name())
}

/// True if `name` is the name of a lot.
pub fn is_batch(name: &Name) -> bool {
    matches!(parse(name.as_bytes()), Some((Form::DelayedBatch, _)))
}

/// A new name for the source `name`, which a move sets aside while it checks that the source can be
/// removed. It contains `name`, so that the file can be restored if the move is killed. `name` is
/// left out if it is too long, or if `short`.
pub fn aside_name(name: &Name, short: bool) -> Name {
    let digits = RandomState::new().hash_one(std::process::id()) as u32;
    let mut aside = format!("{ASIDE_PREFIX}{digits:08x}").into_bytes();
    let is_whole = !short && aside.len() + 1 + name.as_bytes().len() <= MAX_NAME_LEN;
    aside.push(if is_whole { ASIDE_WHOLE } else { ASIDE_CUT });
    if is_whole {
        aside.extend_from_slice(name.as_bytes());
    }
    Name::new(&aside).expect("a name behind what is a part of a name")
}

/// The original name of a source that was set aside as `aside`, if `aside` contains it.
pub fn set_aside(aside: &Name) -> Option<Name> {
    let rest = aside.as_bytes().strip_prefix(ASIDE_PREFIX.as_bytes())?;
    let (digits, name) = rest.split_at_checked(ASIDE_LEN)?;
    if !std::str::from_utf8(digits).is_ok_and(|digits| is_digits(digits, ASIDE_LEN)) {
        return None;
    }
    let name = name.strip_prefix(&[ASIDE_WHOLE])?;
    Name::new(name).ok()
}

/// The private name of the file that an upload creates to recognise a directory, with the digits of
/// `number`.
pub fn marker_name(number: &[u8; 16]) -> Name {
    let digits: String =
        number[..RANDOM_LEN / 2].iter().map(|byte| format!("{byte:02x}")).collect();
    as_name(&format!("{PREFIX}{digits}{REMOTE_SUFFIX}"))
}

/// The beginning of the names of a new series. Six digits follow.
pub(crate) fn series_prefix() -> String {
    let mut name = private_name();
    name.truncate(SERIES_PREFIX_LEN);
    name
}

/// True if `name` has the form of haul's own stages and journals.
pub fn is_private(name: &Name) -> bool {
    parse(name.as_bytes()).is_some()
}

/// The form and stem of a private name. The stem of a resumable stage or its journal is the part
/// before the suffix. Otherwise it is the whole name.
pub(crate) fn parse(name: &[u8]) -> Option<(Form, &str)> {
    let name = std::str::from_utf8(name).ok()?;
    let digits = name.strip_prefix(PREFIX)?;
    let whole = [
        (Form::Random, "", RANDOM_LEN),
        (Form::Old, OLD_SUFFIX, HALF_LEN),
        (Form::Remote, REMOTE_SUFFIX, RANDOM_LEN),
        (Form::DelayedBatch, BATCH_SUFFIX, RANDOM_LEN),
    ];
    for (form, ending, len) in whole {
        if digits.strip_suffix(ending).is_some_and(|digits| is_digits(digits, len)) {
            return Some((form, name));
        }
    }
    let endings = [
        (Form::RemotePart, REMOTE_PART_SUFFIX),
        (Form::Part, ".part"),
        (Form::Journal, ".journal"),
    ];
    let (form, ending) = endings.into_iter().find(|(_, ending)| digits.ends_with(ending))?;
    let (first, second) = digits.strip_suffix(ending)?.split_once('-')?;
    let both = is_digits(first, HALF_LEN) && is_digits(second, HALF_LEN);
    both.then_some((form, &name[..name.len() - ending.len()]))
}

/// The private name `name` as a [`Name`].
pub(crate) fn as_name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a private name is a name")
}

fn is_digits(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::Timestamp;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a name")
    }

    #[test]
    fn what_is_made_is_reported() {
        let source =
            SourceId { size: 1, mtime: Timestamp { secs: 2, nanos: 3 }, inode: 4, ctime: None };
        let names = Names::of(&name("a"), &source);
        let stem = names.part.strip_suffix(".part").expect("an ending");
        assert_eq!(parse(names.part.as_bytes()), Some((Form::Part, stem)));
        assert_eq!(parse(names.journal.as_bytes()), Some((Form::Journal, stem)));
        assert_eq!(half_of(stem), name_half(b"a"));
        assert!(stem.starts_with(&Names::prefix(&name("a"))));
        let old = old_name(&name("a"));
        assert_eq!(parse(old.as_bytes()), Some((Form::Old, old.as_str())));
        assert_eq!(half_of(&old), name_half(b"a"));
        let sent = remote_stage_name();
        assert_eq!(parse(sent.as_bytes()), Some((Form::Remote, sent.as_str())));
        let part = Names::for_keeper(&name("a"), &source, b"keeper");
        let stem = part.strip_suffix(".sftp.part").expect("an ending");
        assert_eq!(parse(part.as_bytes()), Some((Form::RemotePart, stem)));
        assert!(stem.starts_with(&Names::prefix(&name("a"))));
        let batch = batch_name();
        assert_eq!(parse(batch.as_bytes()), Some((Form::DelayedBatch, batch.as_str())));
        assert!(is_batch(&name(&batch)) && !is_batch(&name(&sent)));
        let random = private_name();
        assert_eq!(parse(random.as_bytes()), Some((Form::Random, random.as_str())));
    }

    #[test]
    fn a_marker_has_a_private_name_of_all_digits_of_its_number() {
        let marker = marker_name(&[0xab; 16]);
        assert_eq!(parse(marker.as_bytes()).map(|(form, _)| form), Some(Form::Remote));
        for at in 0..RANDOM_LEN / 2 {
            let mut number = [0xab; 16];
            number[at] = 0;
            assert_ne!(marker_name(&number), marker, "{at}");
        }
    }

    #[test]
    fn what_waits_is_superseded_when_something_has_its_name() {
        let (a, b, old_a, old_c) =
            (name("a"), name("b"), name(&old_name(&name("a"))), name(&old_name(&name("c"))));
        assert_eq!(superseded(&[&a, &b, &old_a, &old_c]), [(&old_a, &a)]);
        assert_eq!(superseded(&[&b, &old_a]), []);
        assert_eq!(superseded(&[&a, &b]), []);
    }

    #[test]
    fn what_was_set_aside_is_found_again_and_no_litter() {
        for text in ["f", "name.txt", "-", ".haul-moving-00000000-f", &"x".repeat(233)] {
            let aside = aside_name(&name(text), false);
            assert_eq!(set_aside(&aside), Some(name(text)));
            assert!(!is_private(&aside));
        }
        for (len, short) in [(234, false), (255, false), (1, true)] {
            let aside = aside_name(&name(&"x".repeat(len)), short);
            assert_eq!(set_aside(&aside), None);
            assert!(!is_private(&aside) && aside.as_bytes().len() == 22);
        }
        for other in [".haul-moving-f", ".haul-moving-0123456-f", ".haul-moving-01234567-", "f"] {
            assert_eq!(set_aside(&name(other)), None, "{other}");
        }
    }

    #[test]
    fn nothing_else_is_taken_for_one() {
        for other in [
            ".haul-",
            ".haul-0123456789abcde",
            ".haul-0123456789abcdef0",
            ".haul-0123456789abcdeF",
            ".haul-0123456789abcdeg",
            "haul-0123456789abcdef",
            ".haul-0123456789abcdef.part",
            ".haul-0123456789abcdef.old",
            ".haul-0123456789abcde.sftp",
            ".haul-0123456789abcde.late",
            ".haul-0123456789abcdef.sftp.part",
            ".haul-0123456789ab-0123456789ab.sftp",
            ".haul-0123456789ab-0123456789ab.sftp.journal",
            ".haul-0123456789a.old",
            ".haul-0123456789ab-0123456789ab",
            ".haul-0123456789ab-0123456789ab.part2",
            ".haul-0123456789ab-0123456789a.part",
            ".haul-0123456789ab-0123456789abc.journal",
            ".haul-0123456789ab.0123456789ab.journal",
            ".haul-0123456789ab-0123456789ab.part.journal",
            ".haul-notes",
        ] {
            assert!(!is_private(&name(other)), "{other}");
        }
        assert_eq!(parse(b".haul-0123456789abcde\xff"), None);
    }
}
