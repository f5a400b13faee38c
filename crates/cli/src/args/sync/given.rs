//! Options of `haul sync` that depend on each other: changes of owners and modes, compression, and
//! filter rules.

use super::switches::Given;
use super::table::Word;
use super::{SyncWords, Wish};
use crate::config::{Settings, typed};
use crate::error::CommandError;
use haul_engine::Links;
use haul_model::{AccountMap, Compression, Filter, Style};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Indexes into [`Wish::mapped`]: the option for users, and the one for groups.
const USERS: usize = 0;
const GROUPS: usize = 1;

const CHOWN: &str = "chown";

/// `--chmod`: adds to earlier ones.
pub(super) fn chmod(wish: &mut Wish, value: &OsStr) -> Result<(), String> {
    wish.altered.modes.add(value.as_bytes()).map_err(|error| error.to_string())
}

/// `--chown`: sets the owner, the group, or both for all entries.
pub(super) fn chown(wish: &mut Wish, value: &OsStr) -> Result<(), String> {
    let value = value.as_bytes();
    let colon = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
    let (user, group) = (&value[..colon], value.get(colon + 1..).unwrap_or_default());
    if !user.is_empty() {
        once(wish, USERS, CHOWN)?;
        wish.altered.users = AccountMap::all_to(user).map_err(|error| error.to_string())?;
        wish.owner = true;
    }
    if !group.is_empty() {
        once(wish, GROUPS, CHOWN)?;
        wish.altered.groups = AccountMap::all_to(group).map_err(|error| error.to_string())?;
        wish.group = true;
    }
    Ok(())
}

/// `--usermap`.
pub(super) fn usermap(wish: &mut Wish, value: &OsStr) -> Result<(), String> {
    once(wish, USERS, "usermap")?;
    wish.altered.users = AccountMap::parse(value.as_bytes()).map_err(|error| error.to_string())?;
    wish.owner = true;
    Ok(())
}

/// `--groupmap`.
pub(super) fn groupmap(wish: &mut Wish, value: &OsStr) -> Result<(), String> {
    once(wish, GROUPS, "groupmap")?;
    wish.altered.groups = AccountMap::parse(value.as_bytes()).map_err(|error| error.to_string())?;
    wish.group = true;
    Ok(())
}

/// Refuses a second option for the same accounts, as rsync does.
fn once(wish: &mut Wish, of: usize, word: &'static str) -> Result<(), &'static str> {
    match wish.mapped[of].replace(word) {
        None => Ok(()),
        Some(_) if word == CHOWN => Err("another option sets the owner already"),
        Some(CHOWN) => Err("--chown sets the owner already"),
        Some(_) => Err("give it only once"),
    }
}

impl SyncWords {
    /// The rules. As in rsync, `--from0` affects a rule file on the command line only if it
    /// precedes it. For rule files in directories the last `--from0` counts.
    pub(super) fn rules(&self, style: Style, links: Links) -> Result<Filter, CommandError> {
        let zeros = |place| {
            let said = self.switches.given.iter().rev().find_map(|(at, given)| match given {
                Given::On(Word { long: "from0", .. }, _) if *at < place => Some(true),
                Given::Off(Word { long: "from0", .. }) if *at < place => Some(false),
                _ => None,
            });
            said.unwrap_or(false)
        };
        self.filter.rules(style, links, zeros)
    }
}

impl Wish {
    /// The settings for reaching hosts and for transfers.
    pub(super) fn settings(&self) -> Result<Settings, CommandError> {
        Ok(Settings {
            rsh: self.rsh()?.map(typed),
            remote_haul: self.remote_haul.clone().map(typed),
            timeout: self.timeout.map(typed),
            transport: self.transport.map(typed),
            retries: self.retries.map(typed),
            parallel: self.parallel.map(typed),
            keep: self.keep.clone().map(typed),
            bwlimit: self.rate.clone().map(typed),
            compress: self.compression().map(typed),
            via: self.via.map(typed),
            congestion: self.congestion.map(typed),
            port_range: self.ports.map(typed),
            ..Settings::default()
        })
    }

    /// The compression, if an option sets it.
    fn compression(&self) -> Option<Compression> {
        match (self.compression, self.level) {
            (None | Some(Compression::Auto | Compression::Zstd(_)), Some(level)) => {
                Some(Compression::Zstd(level))
            }
            (Some(how), _) => Some(how),
            (None, None) => self.compressed.map(|is_compressed| match is_compressed {
                true => Compression::Auto,
                false => Compression::None,
            }),
        }
    }
}
