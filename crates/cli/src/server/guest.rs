//! The conversation of an invited client, over a connection that the secret of the invitation
//! has opened. The guest says a key and a name ([`Enrolment`]); the server answers with one byte.

use super::records::{Client, Invited, now_text};
use super::{Place, Records};
use crate::error::{CommandError, ErrorKind};
use haul_net::{
    Caller, Connection, Enrolment, Identity, Invitation, Patience, PublicKey, connect_server,
};
use std::io::{self, Read, Write};
use std::time::SystemTime;

/// The answers of the server.
const ENROLLED: u8 = 0;
const NAME_TAKEN: u8 = 1;
const USED: u8 = 2;

/// The server's side: its name for the client.
///
/// # Errors
/// When the guest says something else, or can't be enrolled.
pub(super) fn receive(place: &Place, caller: Caller, invited: &Invited) -> io::Result<String> {
    let connection = caller.into_connection("the guest".to_owned(), None)?;
    let Connection { reader, mut writer, closer: _closer } = connection;
    let said = Enrolment::read(reader)?;
    let enrolled = Records::change(place, |records| {
        let open =
            |records: &Records| records.invitations.iter().position(|open| open.key == invited.key);
        let Some(at) = open(records) else {
            return Err(CommandError::new(ErrorKind::Refused, "the invitation was used already"));
        };
        if records.clients.iter().any(|client| client.key == said.key()) {
            // A guest does not prove that the key is its own.
            return Err(CommandError::usage("a client has this key already"));
        }
        let Invited { name, root, right, user, .. } = records.invitations.remove(at);
        let name = name.unwrap_or_else(|| said.name().to_owned());
        records.add(Client {
            name: name.clone(),
            key: said.key(),
            root,
            right,
            user,
            added: Some(now_text()),
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

/// The guest's side: enrols `identity` under `name`.
///
/// # Errors
/// When the server is not reached, or refuses.
pub(crate) fn join(
    invitation: &Invitation,
    identity: &Identity,
    name: &str,
) -> Result<(), CommandError> {
    let bad_name = || {
        let message = "invalid name for a client: use letters, digits and '.', '-', '_' or '@'";
        CommandError::usage(message)
    };
    let said = Enrolment::new(identity.key(), name).ok_or_else(bad_name)?;
    if invitation.expires <= SystemTime::now() {
        return Err(expired());
    }
    let guest = invitation.identity().map_err(CommandError::io)?;
    let host = invitation.addresses.first().map_or("", |address| address.host());
    let forgets = |_: PublicKey| ();
    let connection = connect_server(
        host,
        &invitation.addresses,
        invitation.server,
        &guest,
        Patience::default(),
        forgets,
    )?;
    let Connection { mut reader, mut writer, closer } = connection;
    let mut answer = [0];
    let answered = writer.write_all(&said.encode()).and_then(|()| reader.read_exact(&mut answer));
    match (answered, answer[0]) {
        (Ok(()), ENROLLED) => Ok(()),
        (Ok(()), NAME_TAKEN) => {
            Err(CommandError::usage("the server has a client of that name or key")
                .with_hint("choose another name with --name, or have the client revoked first"))
        }
        (Ok(()), _) => Err(expired()),
        (Err(_), _) => {
            drop((reader, writer));
            match closer.explain() {
                haul_net::ConnectError::NotEnrolled { .. } => Err(expired()),
                error => Err(CommandError::new(ErrorKind::Connection, error)
                    .with_hint("run 'haul server join' again")),
            }
        }
    }
}

fn expired() -> CommandError {
    CommandError::new(ErrorKind::Connection, "the invitation has expired, or was used already")
        .with_hint("ask for another one: 'haul server invite' on the server makes it")
}
