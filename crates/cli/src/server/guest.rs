//! Accepts an invitation, over a connection that its secret authenticates. The guest sends a key
//! and a name ([`Enrolment`]), and the server answers with one byte.

use super::records::{Client, InvitationRecord, timestamp_now};
use super::{Records, ServerPaths};
use crate::error::{CommandError, ErrorKind};
use haul_net::{
    Caller, ConnectError, Connection, Enrolment, Identity, Invitation, PublicKey, SILENCE_SECONDS,
    Timeouts, connect_server,
};
use std::io::{self, Read, Write};
use std::time::{Duration, SystemTime};

/// The server's answers.
const ENROLLED: u8 = 0;
const NAME_TAKEN: u8 = 1;
const USED: u8 = 2;

/// Maximum time that the guest waits for the answer.
const ANSWER_MAX: Duration = Duration::from_secs(SILENCE_SECONDS as u64);

/// The server's side: enrolls the guest, and returns the client's name.
///
/// # Errors
/// If the guest's message is invalid, or it can't be enrolled.
pub(super) fn receive(
    paths: &ServerPaths,
    caller: Caller,
    invited: &InvitationRecord,
) -> io::Result<String> {
    let connection = caller.into_connection("the guest".to_owned(), None)?;
    let Connection { reader, mut writer, closer: _closer } = connection;
    let enrolment = Enrolment::read(reader)?;
    let enrolled = Records::change(paths, |records| {
        let open =
            |records: &Records| records.invitations.iter().position(|open| open.key == invited.key);
        let Some(at) = open(records) else {
            return Err(CommandError::new(ErrorKind::Refused, "the invitation was used already"));
        };
        if records.clients.iter().any(|client| client.key == enrolment.key()) {
            // A guest does not prove that it owns the key.
            return Err(CommandError::usage("a client has this key already"));
        }
        let InvitationRecord { name, root, right, user, .. } = records.invitations.remove(at);
        let name = name.unwrap_or_else(|| enrolment.name().to_owned());
        records.add(Client {
            name: name.clone(),
            key: enrolment.key(),
            root,
            right,
            user,
            added: Some(timestamp_now()),
            server_key: None,
        })?;
        Ok(name)
    });
    let answer = match &enrolled {
        Ok(_) => ENROLLED,
        Err(error) if error.kind == ErrorKind::Usage => NAME_TAKEN,
        Err(_) => USED,
    };
    writer.write_all(&[answer])?;
    enrolled.map_err(|error| io::Error::other(error.to_string()))
}

/// The guest's side: enrolls `identity` under `name`.
///
/// # Errors
/// If the server can't be reached, or refuses.
pub(crate) fn join(
    invitation: &Invitation,
    identity: &Identity,
    name: &str,
) -> Result<(), CommandError> {
    let bad_name = || {
        let message = "invalid name for a client: use letters, digits and '.', '-', '_' or '@'";
        CommandError::usage(message)
    };
    let enrolment = Enrolment::new(identity.key(), name).ok_or_else(bad_name)?;
    if invitation.expires <= SystemTime::now() {
        return Err(expired());
    }
    let guest = invitation.identity().map_err(CommandError::io)?;
    let host = invitation.addresses.first().map_or("", |address| address.host());
    let ignore_key = |_: PublicKey| ();
    let connection = connect_server(
        host,
        &invitation.addresses,
        invitation.server,
        &guest,
        Timeouts::default(),
        ignore_key,
    )?;
    match answer(connection, enrolment.encode(), ANSWER_MAX)? {
        ENROLLED => Ok(()),
        NAME_TAKEN => Err(CommandError::usage("the server has a client of that name or key")
            .with_hint("choose another name with --name, or have the client revoked first")),
        _ => Err(expired()),
    }
}

/// Sends `enrolment`, and waits at most `timeout` for the answer.
///
/// # Errors
/// If no answer arrives.
fn answer(
    connection: Connection,
    enrolment: Vec<u8>,
    timeout: Duration,
) -> Result<u8, CommandError> {
    let Connection { mut reader, mut writer, closer } = connection;
    let mut answer = [0];
    let ask = || writer.write_all(&enrolment).and_then(|()| reader.read_exact(&mut answer));
    let asked = closer.killer().within(Some(timeout), ask).map_err(CommandError::io)?;
    drop((reader, writer));
    let error = match asked {
        (Ok(()), _) => return Ok(answer[0]),
        (Err(_), false) => closer.explain(),
        (Err(_), true) => closer.unanswered(Some(timeout)),
    };
    Err(match error {
        ConnectError::NotEnrolled { .. } => expired(),
        error => CommandError::new(ErrorKind::Connection, error).with_hint(
            "ask for another invitation: this one may have been used, and then the administrator revokes its client first",
        ),
    })
}

fn expired() -> CommandError {
    CommandError::new(ErrorKind::Connection, "the invitation has expired, or was used already")
        .with_hint("ask for another one: 'haul server invite' on the server makes it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_guest_whose_answer_is_lost_is_reported_what_helps() {
        let file = |end: UnixStream| File::from(OwnedFd::from(end));
        for is_silent in [true, false] {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let again = ours.try_clone().expect("a descriptor");
            let connection =
                Connection::from_streams(file(ours), file(again)).expect("a connection");
            let theirs = is_silent.then_some(theirs);
            let error = answer(connection, vec![7], Duration::from_millis(20)).expect_err("lost");
            let hint = error.hints.join(" ");
            assert!(hint.starts_with("ask for another invitation"), "{error}: {hint}");
            drop(theirs);
        }
    }
}
