//! The records of a running server, and the changes that it makes to them itself: expired
//! invitations are removed, and clients that know the newest key are noted.

use super::ServerPaths;
use super::records::{Client, INVITATION_SPAN, InvitationRecord, Records, RecordsState};
use crate::error::CommandError;
use haul_net::PublicKey;
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

/// Interval for retrying to read invalid records.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Interval for retrying to change records that another process is changing.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The records in effect, and the changes to them that are due.
pub(super) struct LiveRecords {
    paths: ServerPaths,
    pub(super) current: Records,
    /// The state of the file when it was read.
    state: RecordsState,
    /// The error if the current file can't be read.
    unread: Option<String>,
    /// When invitations expire, independent of the clock.
    expiries: HashMap<PublicKey, Instant>,
    /// Clients with the newest key that they know, which the file does not contain yet.
    key_notes: Vec<(PublicKey, PublicKey)>,
}

impl LiveRecords {
    pub(super) fn load(paths: &ServerPaths) -> Result<Self, CommandError> {
        let (current, state) = Records::load_with_state(paths)?;
        let expiries = expiries(&current, &HashMap::new());
        let (paths, key_notes) = (paths.clone(), Vec::new());
        Ok(Self { paths, current, state, unread: None, expiries, key_notes })
    }

    /// Reads the file again. Invalid records do not replace the earlier ones.
    pub(super) fn reload(&mut self) -> Result<(), CommandError> {
        (self.current, self.state) = Records::load_with_state(&self.paths)?;
        self.expiries = expiries(&self.current, &self.expiries);
        Ok(())
    }

    /// True if another process or a child has changed the file.
    pub(super) fn has_changed(&self) -> bool {
        Records::state(&self.paths) != self.state
    }

    /// Records whether the changed file could be read. Returns the error if it is another one than
    /// before.
    pub(super) fn set_unread(&mut self, unread: Option<String>) -> Option<&str> {
        let is_new = unread != self.unread;
        self.unread = unread;
        self.unread.as_deref().filter(|_| is_new)
    }

    /// The time until the next retry or expiry.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let noting = (!self.key_notes.is_empty()).then_some(RETRY_INTERVAL);
        let reading = self.unread.as_ref().map(|_| READ_INTERVAL);
        let expiring = self.expiries.values().min();
        let expiring = expiring.map(|at| at.saturating_duration_since(Instant::now()));
        [noting, reading, expiring].into_iter().flatten().min()
    }

    /// Queues a note that the client knows the newest key.
    pub(super) fn queue_key_note(&mut self, client: &Client, newest: PublicKey) {
        if client.server_key != Some(newest) {
            self.key_notes.push((client.key, newest));
        }
    }

    /// Writes these notes to the file, unless another process is changing it.
    pub(super) fn write_key_notes(&mut self) -> Result<(), CommandError> {
        if self.key_notes.is_empty() {
            return Ok(());
        }
        let noted = Records::try_change(&self.paths, |records| {
            for (client, newest) in &self.key_notes {
                let known = records.clients.iter_mut().filter(|known| known.key == *client);
                known.for_each(|known| known.server_key = Some(*newest));
            }
            Ok(())
        });
        if !matches!(noted, Ok(None)) {
            self.key_notes.clear();
        }
        noted.map(drop)
    }

    /// Removes expired invitations, by the measured time. Calls `set_known` with the remaining
    /// records before the file is changed.
    pub(super) fn remove_expired(
        &mut self,
        set_known: impl FnOnce(&Records),
    ) -> Result<(), CommandError> {
        let now = Instant::now();
        let is_over = |(key, at): (&PublicKey, &Instant)| (*at <= now).then_some(*key);
        let expired: Vec<_> = self.expiries.iter().filter_map(is_over).collect();
        if expired.is_empty() {
            return Ok(());
        }
        let is_open = |it: &InvitationRecord| !expired.contains(&it.key);
        self.current.invitations.retain(is_open);
        set_known(&self.current);
        let removed = Records::try_change(&self.paths, |records| {
            records.invitations.retain(is_open);
            Ok(())
        });
        match &removed {
            // Another process is changing the records: retry later.
            Ok(None) => {
                self.expiries.extend(expired.into_iter().map(|key| (key, now + RETRY_INTERVAL)));
            }
            _ => self.expiries.retain(|_, at| *at > now),
        }
        removed.map(drop)
    }

    /// True if all clients know the server's key `newest` and no invitation is open. A missing file
    /// may be about to be written.
    pub(super) fn all_know(&self, newest: &PublicKey) -> bool {
        self.state.is_some() && self.current.all_know(newest, SystemTime::now())
    }
}

/// When the invitations of `records` expire. Known invitations keep their time.
fn expiries(records: &Records, known: &HashMap<PublicKey, Instant>) -> HashMap<PublicKey, Instant> {
    let (now, clock) = (Instant::now(), SystemTime::now());
    let expiry = |invited: &InvitationRecord| {
        let left = invited.expiry().duration_since(clock).unwrap_or_default();
        now + left.min(INVITATION_SPAN)
    };
    let invitations = records.invitations.iter();
    invitations
        .map(|it| (it.key, known.get(&it.key).copied().unwrap_or_else(|| expiry(it))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Right;
    use haul_net::Identity;
    use std::time::UNIX_EPOCH;

    #[test]
    fn an_invitation_expires_in_time_whatever_the_clock_says() {
        let key = Identity::new().expect("a key").key();
        let expires_in = |seconds: i64| {
            let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
            let expires = clock.saturating_add_signed(seconds);
            let (name, user, right) = (None, None, Right::Read);
            let invited = InvitationRecord { key, name, root: "/".into(), right, user, expires };
            Records { invitations: vec![invited], ..Records::default() }
        };
        let begin = Instant::now();
        let of = |seconds| expiries(&expires_in(seconds), &HashMap::new())[&key];
        assert!(of(-60) <= Instant::now());
        assert!(of(60) > begin + Duration::from_secs(50));
        // The clock was set back.
        assert!(of(3600) <= Instant::now() + INVITATION_SPAN);
        let known = HashMap::from([(key, begin)]);
        assert_eq!(expiries(&expires_in(600), &known), known);
    }
}
