//! The words of `haul sync` that give entries other attributes than those of the sources.

use super::Wish;
use haul_model::{AccountMap, MapError, ModeError};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Where [`Wish::mapped`] has the word for users, and that for groups.
const USERS: usize = 0;
const GROUPS: usize = 1;

const CHOWN: &str = "chown";

/// `--chmod`, which adds to what an earlier one says.
pub(super) fn chmod(wish: &mut Wish, value: &OsStr) -> Result<(), &'static str> {
    wish.altered.modes.add(value.as_bytes()).map_err(|error| match error {
        ModeError::Unknown => "it is no list of modes like Du=rwx,Fgo-w or D755,F644",
        ModeError::TooMany => "it has too many changes",
    })
}

/// `--chown`: all get one owner, one group, or both.
pub(super) fn chown(wish: &mut Wish, value: &OsStr) -> Result<(), &'static str> {
    let value = value.as_bytes();
    let colon = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
    let (user, group) = (&value[..colon], value.get(colon + 1..).unwrap_or_default());
    if !user.is_empty() {
        once(wish, USERS, CHOWN)?;
        wish.altered.users = AccountMap::all_to(user).map_err(words)?;
        wish.owner = true;
    }
    if !group.is_empty() {
        once(wish, GROUPS, CHOWN)?;
        wish.altered.groups = AccountMap::all_to(group).map_err(words)?;
        wish.group = true;
    }
    Ok(())
}

/// `--usermap`.
pub(super) fn usermap(wish: &mut Wish, value: &OsStr) -> Result<(), &'static str> {
    once(wish, USERS, "usermap")?;
    wish.altered.users = AccountMap::parse(value.as_bytes()).map_err(words)?;
    wish.owner = true;
    Ok(())
}

/// `--groupmap`.
pub(super) fn groupmap(wish: &mut Wish, value: &OsStr) -> Result<(), &'static str> {
    once(wish, GROUPS, "groupmap")?;
    wish.altered.groups = AccountMap::parse(value.as_bytes()).map_err(words)?;
    wish.group = true;
    Ok(())
}

/// As in rsync one word says it, once.
fn once(wish: &mut Wish, of: usize, word: &'static str) -> Result<(), &'static str> {
    match wish.mapped[of].replace(word) {
        None => Ok(()),
        Some(_) if word == CHOWN => Err("another word has said who the owner is"),
        Some(CHOWN) => Err("--chown has said who the owner is"),
        Some(_) => Err("it can be given only once"),
    }
}

fn words(error: MapError) -> &'static str {
    match error {
        MapError::NoColon => "no colon is between an account and the one that it becomes",
        MapError::NoName => "no name is behind a colon",
        MapError::Number => "a number of an account is none, or out of range",
        MapError::Name => "a name of an account can't be one",
        MapError::TooMany => "it has too many rules",
    }
}
