//! The line that invites a client, and what a guest answers to it: what is understood reads the
//! same once it is written again, and holds only names and addresses that are safe to show.

#![no_main]

use haul_net::{Enrolment, Invitation, is_client_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(said) = Enrolment::read(bytes) {
        assert!(is_client_name(said.name()));
        let written = said.encode();
        assert!(bytes.starts_with(&written));
        assert_eq!(Enrolment::read(&written[..]).expect("it was written by us"), said);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(invitation) = text.parse::<Invitation>() else { return };
    assert!(!invitation.addresses.is_empty());
    for address in &invitation.addresses {
        let shown = address.to_string();
        assert!(shown.is_ascii() && !shown.contains(char::is_control));
        assert_eq!(shown.parse().as_ref(), Ok(address));
    }
    invitation.identity().expect("any seed makes a key");
    assert_eq!(invitation.to_string().parse(), Ok(invitation));
});
