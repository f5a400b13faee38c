//! Options of `haul sync` that depend on each other: changes of owners and modes, compression, and
//! filter rules.

use super::switches::Given;
use super::{SyncArgs, SyncOptions};
use crate::config::{Settings, from_command_line};
use crate::error::CommandError;
use haul_engine::Links;
use haul_model::{AccountMap, Compression, Filter, Kept, Style};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Indexes into [`SyncOptions::mapped`]: the option for users, and the one for groups.
const USERS: usize = 0;
const GROUPS: usize = 1;

const CHOWN: &str = "chown";

/// `--chmod`: adds to earlier ones.
pub(super) fn chmod(options: &mut SyncOptions, value: &OsStr) -> Result<(), String> {
    options.altered.modes.add(value.as_bytes()).map_err(|error| error.to_string())
}

/// `--chown`: sets the owner, the group, or both for all entries.
pub(super) fn chown(options: &mut SyncOptions, value: &OsStr) -> Result<(), String> {
    let value = value.as_bytes();
    let colon = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
    let (user, group) = (&value[..colon], value.get(colon + 1..).unwrap_or_default());
    if !user.is_empty() {
        set_once(options, USERS, CHOWN)?;
        options.altered.users = AccountMap::all_to(user).map_err(|error| error.to_string())?;
        options.keep(Kept::USER, true);
    }
    if !group.is_empty() {
        set_once(options, GROUPS, CHOWN)?;
        options.altered.groups = AccountMap::all_to(group).map_err(|error| error.to_string())?;
        options.keep(Kept::GROUP, true);
    }
    Ok(())
}

/// `--usermap`.
pub(super) fn usermap(options: &mut SyncOptions, value: &OsStr) -> Result<(), String> {
    set_once(options, USERS, "usermap")?;
    options.altered.users =
        AccountMap::parse(value.as_bytes()).map_err(|error| error.to_string())?;
    options.keep(Kept::USER, true);
    Ok(())
}

/// `--groupmap`.
pub(super) fn groupmap(options: &mut SyncOptions, value: &OsStr) -> Result<(), String> {
    set_once(options, GROUPS, "groupmap")?;
    options.altered.groups =
        AccountMap::parse(value.as_bytes()).map_err(|error| error.to_string())?;
    options.keep(Kept::GROUP, true);
    Ok(())
}

/// Refuses a second option for the same accounts, as rsync does.
fn set_once(options: &mut SyncOptions, of: usize, word: &'static str) -> Result<(), &'static str> {
    match options.mapped[of].replace(word) {
        None => Ok(()),
        Some(_) if word == CHOWN => Err("another option sets the owner already"),
        Some(CHOWN) => Err("--chown sets the owner already"),
        Some(_) => Err("give it only once"),
    }
}

impl SyncArgs {
    /// The rules. As in rsync, `--from0` affects a rule file on the command line only if it
    /// precedes it. For rule files in directories the last `--from0` counts.
    pub(super) fn rules(&self, style: Style, links: Links) -> Result<Filter, CommandError> {
        let zeros = |index| {
            let enabled = self.switches.given.iter().rev().find_map(|(at, given)| match given {
                Given::On(option, _) if *at < index && option.name() == "from0" => Some(true),
                Given::Off(option) if *at < index && option.name() == "from0" => Some(false),
                _ => None,
            });
            enabled.unwrap_or(false)
        };
        self.filter.rules(style, links, zeros)
    }
}

impl SyncOptions {
    /// The settings for reaching hosts and for transfers.
    pub(super) fn settings(&self) -> Result<Settings, CommandError> {
        let compress = self.compression().map(from_command_line);
        Ok(Settings { rsh: self.rsh()?, compress, ..self.settings.clone() })
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
