//! An entry as it travels: its name, its kind, a mask, and the fields that the mask
//! names, in the order of its bits. So a field that an entry lacks takes no room, and
//! one that a later capability brings has a place.

use crate::{Attributes, Entry};
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The mode.
const MODE: u32 = 0x01;
/// The time of the last modification.
const MTIME: u32 = 0x02;
/// [`Entry::inode`], where it is not 0.
const INODE: u32 = 0x04;
/// [`Entry::ctime`], where it is known.
const CTIME: u32 = 0x08;
/// [`Entry::has_holes`], by the bit alone.
const HOLES: u32 = 0x10;

/// Fields that each entry has.
const ALWAYS: u32 = MODE | MTIME;

/// All that may be in a mask.
const KNOWN: u32 = ALWAYS | INODE | CTIME | HOLES;

/// Name, kind, mask, and a field for each bit of it but [`HOLES`].
const PARTS_MAX: usize = 7;

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        let only_if = |bit: u32, is_so: bool| if is_so { bit } else { 0 };
        let mask = ALWAYS
            | only_if(INODE, self.inode != 0)
            | only_if(CTIME, self.ctime.is_some())
            | only_if(HOLES, self.has_holes);
        let fields = (mask & !HOLES).count_ones() as usize;
        let mut output = output.serialize_tuple(3 + fields)?;
        output.serialize_element(&self.name)?;
        output.serialize_element(&self.kind)?;
        output.serialize_element(&mask)?;
        output.serialize_element(&self.attributes.mode)?;
        output.serialize_element(&self.attributes.mtime)?;
        if self.inode != 0 {
            output.serialize_element(&self.inode)?;
        }
        if let Some(ctime) = &self.ctime {
            output.serialize_element(ctime)?;
        }
        output.end()
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Parts;
        impl<'de> Visitor<'de> for Parts {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an entry")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Entry, A::Error> {
                let (name, kind) = (next(&mut parts)?, next(&mut parts)?);
                let mask: u32 = next(&mut parts)?;
                if mask & ALWAYS != ALWAYS || mask & !KNOWN != 0 {
                    return Err(A::Error::custom("an entry has fields that are not known"));
                }
                let attributes = Attributes::new(next(&mut parts)?, next(&mut parts)?);
                let mut entry = Entry::new(name, kind, attributes);
                if mask & INODE != 0 {
                    entry.inode = next(&mut parts)?;
                }
                if mask & CTIME != 0 {
                    entry.ctime = Some(next(&mut parts)?);
                }
                entry.has_holes = mask & HOLES != 0;
                Ok(entry)
            }
        }
        input.deserialize_tuple(PARTS_MAX, Parts)
    }
}

/// The next part of an entry, which has to be there.
fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(parts: &mut A) -> Result<T, A::Error> {
    parts.next_element()?.ok_or_else(|| A::Error::custom("an entry ends too early"))
}
