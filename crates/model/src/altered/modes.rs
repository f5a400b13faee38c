//! Changes of modes, in the syntax of `chmod` with rsync's additions: `Du+x,Fgo-w,a+rX`.

use serde::{Deserialize, Serialize};

/// Maximum number of changes of one job.
const CHANGES_MAX: usize = 1024;

/// Maximum length of a change in a message, in bytes.
const CHANGE_LEN_MAX: usize = 24;

const EXECUTES: u32 = 0o111;
const SET_USER_ID: u32 = 0o4000;
const SET_IDS: u32 = 0o6000;
const ALL_BITS: u32 = 0o7777;

/// Changes, in the order in which they are applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ModeChange>")]
pub struct ModeChanges(Vec<ModeChange>);

/// A change of modes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// The entries that it applies to.
    pub of: ModeOf,
    /// Its operation.
    pub step: ModeStep,
    /// The bits of the classes that it names, owner, group and others: `0o100`, `0o010` and
    /// `0o001`. If it names none, it applies to all, without the bits of the umask.
    pub who: u32,
    /// The rights of each class: the low 3 bits. For [`ModeStep::Replace`] all 12 bits.
    pub rights: u32,
    /// Set-ID bits and the sticky bit.
    pub special: u32,
    /// The bit of the class whose rights are copied, in place of [`Self::rights`], or 0.
    pub copied: u32,
    /// The right to execute is set only for directories, and for files that somebody may execute.
    pub keeps_executable: bool,
}

/// The entries that a change applies to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModeOf {
    /// All entries except symbolic links.
    #[default]
    All,
    /// Directories.
    Dirs,
    /// All entries except directories and symbolic links.
    Files,
}

/// The operation of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModeStep {
    /// `+`.
    #[default]
    Add,
    /// `-`.
    Remove,
    /// `=`.
    Set,
    /// An octal number.
    Replace,
}

/// The reason why a text is not a list of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// It does not have rsync's syntax.
    #[error("not a list of modes, such as Du=rwx,Fgo-w or D755,F644")]
    Unknown,
    /// There are too many changes.
    #[error("more than {CHANGES_MAX} changes of modes")]
    TooMany,
}

impl ModeChanges {
    /// Adds the changes in `words`, separated by commas.
    ///
    /// # Errors
    /// See [`ModeError`].
    pub fn add(&mut self, words: &[u8]) -> Result<(), ModeError> {
        for word in words.split(|byte| *byte == b',') {
            if self.0.len() >= CHANGES_MAX {
                return Err(ModeError::TooMany);
            }
            self.0.push(ModeChange::parse(word).ok_or(ModeError::Unknown)?);
        }
        Ok(())
    }

    /// Applies the changes to `mode`. Bits of `umask` are only set for classes that are named.
    pub fn apply(&self, mode: u32, is_dir: bool, umask: u32) -> u32 {
        let was_executable = mode & EXECUTES != 0;
        let is_about = |change: &&ModeChange| match change.of {
            ModeOf::All => true,
            ModeOf::Dirs => is_dir,
            ModeOf::Files => !is_dir,
        };
        self.0.iter().filter(is_about).fold(mode & ALL_BITS, |mode, change| {
            let (clears, sets) = change.bits(mode, umask);
            let is_spared = change.keeps_executable && !was_executable && !is_dir;
            (mode & !clears) | if is_spared { sets & !EXECUTES } else { sets }
        })
    }

    /// True if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Maximum length in a message, in bytes.
    pub fn encoded_len_max(&self) -> usize {
        self.0.len() * CHANGE_LEN_MAX
    }
}

impl ModeChange {
    fn parse(word: &[u8]) -> Option<Self> {
        let is_who = |byte: &u8| b"DFugoa".contains(byte);
        let at = word.iter().position(|byte| !is_who(byte))?;
        let (whom, rest) = word.split_at(at);
        let mut change = Self::default();
        for byte in whom {
            match (byte, change.of) {
                (b'D', ModeOf::All | ModeOf::Dirs) => change.of = ModeOf::Dirs,
                (b'F', ModeOf::All | ModeOf::Files) => change.of = ModeOf::Files,
                (b'a', _) => change.who = EXECUTES,
                _ => change.who |= one_of(*byte)?,
            }
        }
        if rest[0].is_ascii_digit() {
            // Any number of digits, if the value is a mode.
            let digit = |sum: u32, byte: &u8| {
                let digit = (b'0'..=b'7').contains(byte).then(|| u32::from(byte - b'0'))?;
                let sum = sum * 8 + digit;
                (sum <= ALL_BITS).then_some(sum)
            };
            let rights = rest.iter().try_fold(0, digit).filter(|_| change.who == 0)?;
            return Some(Self { step: ModeStep::Replace, rights, ..change });
        }
        change.step = match rest[0] {
            b'+' => ModeStep::Add,
            b'-' => ModeStep::Remove,
            b'=' => ModeStep::Set,
            _ => return None,
        };
        if let [byte] = rest[1..]
            && let Some(one) = one_of(byte)
        {
            return Some(Self { copied: one, ..change });
        }
        for byte in &rest[1..] {
            match byte {
                b'r' => change.rights |= 4,
                b'w' => change.rights |= 2,
                b'x' => change.rights |= 1,
                b'X' => {
                    change.rights |= 1;
                    change.keeps_executable = true;
                }
                b's' => {
                    let set_ids = special_of(change.who) & SET_IDS;
                    change.special |= if set_ids == 0 { SET_USER_ID } else { set_ids };
                }
                b't' => change.special |= 0o1000,
                _ => return None,
            }
        }
        Some(change)
    }

    /// The bits of `mode` that it clears, and the bits that it sets afterwards.
    fn bits(&self, mode: u32, umask: u32) -> (u32, u32) {
        let rights = mode.checked_div(self.copied).unwrap_or(self.rights) & 7;
        let (who, named) = match self.who & EXECUTES {
            0 => (EXECUTES, (EXECUTES * rights) & !umask),
            who => (who, who * rights),
        };
        let named = (named | self.special) & ALL_BITS;
        match self.step {
            ModeStep::Add => (0, named),
            ModeStep::Remove => (named, 0),
            ModeStep::Set => {
                let special = match (self.copied, self.special) {
                    (0, 0) => 0,
                    (0, _) => special_of(self.who) & SET_IDS,
                    _ => special_of(who),
                };
                ((who * 7) | special, named)
            }
            ModeStep::Replace => (ALL_BITS, self.rights & ALL_BITS),
        }
    }
}

/// The bit of the owner, the group or others, by its letter.
const fn one_of(letter: u8) -> Option<u32> {
    match letter {
        b'u' => Some(0o100),
        b'g' => Some(0o010),
        b'o' => Some(0o001),
        _ => None,
    }
}

/// The set-ID bits and the sticky bit of the classes in `who`.
fn special_of(who: u32) -> u32 {
    let bits = [(0o100, SET_USER_ID), (0o010, 0o2000), (0o001, 0o1000)];
    bits.iter().filter(|(one, _)| who & one != 0).map(|(_, bit)| bit).sum()
}

impl TryFrom<Vec<ModeChange>> for ModeChanges {
    type Error = ModeError;

    fn try_from(changes: Vec<ModeChange>) -> Result<Self, ModeError> {
        if changes.len() > CHANGES_MAX {
            return Err(ModeError::TooMany);
        }
        Ok(Self(changes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_change_modes_as_they_say() {
        for (words, mode, is_dir, expected) in [
            ("u+x", 0o644, false, 0o744),
            ("+w", 0o444, false, 0o644),
            ("a+w", 0o444, false, 0o666),
            ("go-rwx", 0o777, false, 0o700),
            ("=r", 0o777, false, 0o444),
            ("D755,F644", 0o700, true, 0o755),
            ("D755,F644", 0o700, false, 0o644),
            ("ugo=rwX", 0o640, false, 0o666),
            ("ugo=rwX", 0o740, false, 0o777),
            ("ugo=rwX", 0o600, true, 0o777),
            ("Dg+s,ug+w,Fo-w,+X", 0o555, true, 0o2775),
            ("ug+s", 0o755, false, 0o6755),
            ("+s", 0o755, false, 0o4755),
            ("u=s", 0o4755, false, 0o4055),
            ("g=rx", 0o2775, false, 0o2755),
            ("+t", 0o755, true, 0o1755),
            ("u-x,u+X", 0o744, false, 0o744),
            ("a+s", 0o644, false, 0o6644),
            ("a-s", 0o6755, false, 0o755),
            ("a=rwxt", 0o6755, false, 0o1777),
            ("o+s", 0o644, false, 0o4644),
            ("g=u", 0o2640, false, 0o660),
            ("go=u", 0o6755, false, 0o4777),
            ("g-o", 0o644, false, 0o604),
            ("u+g", 0o70, true, 0o770),
            ("o=g", 0o1770, true, 0o777),
            ("u=g", 0o6755, false, 0o2555),
            ("+u", 0o700, false, 0o755),
            ("=u", 0o7700, false, 0o755),
            ("u=rwx,g=u,Fo=g,Do=", 0o604, false, 0o777),
            ("u=rwx,g=u,Fo=g,Do=", 0o604, true, 0o770),
        ] {
            let mut changes = ModeChanges::default();
            changes.add(words.as_bytes()).expect(words);
            let found = changes.apply(mode, is_dir, 0o022);
            assert_eq!(format!("{found:o}"), format!("{expected:o}"), "{words} {mode:o}");
        }
    }

    #[test]
    fn other_words_are_none() {
        for words in [
            "", "u", "u+q", "u+x,", "DF+x", "u755", "77777", "8", "x", "D", "u+x,,g+x", "u=go",
            "g=ux", "u+D",
        ] {
            assert!(ModeChanges::default().add(words.as_bytes()).is_err(), "{words}");
        }
        let many = vec!["u+x"; CHANGES_MAX].join(",");
        let mut changes = ModeChanges::default();
        changes.add(many.as_bytes()).expect("as many as may be");
        assert_eq!(changes.add(b"u+x"), Err(ModeError::TooMany));
    }

    #[test]
    fn changes_are_counted() {
        let mut changes = ModeChanges::default();
        assert!(changes.is_empty());
        assert_eq!(changes.encoded_len_max(), 0);
        changes.add(b"u+x,g+x").expect("words");
        assert!(!changes.is_empty());
        assert_eq!(changes.encoded_len_max(), 2 * CHANGE_LEN_MAX);
        let many = |count| ModeChanges::try_from(vec![ModeChange::default(); count]);
        assert_eq!(many(CHANGES_MAX).map(|all| all.0.len()), Ok(CHANGES_MAX));
        assert_eq!(many(CHANGES_MAX + 1), Err(ModeError::TooMany));
    }
}
