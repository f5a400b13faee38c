//! The lines in which a host says what it is, before haul is put onto it: what is
//! taken from them is what they say, and the home directory is a whole path.

#![no_main]

use haul_model::HostFacts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|said: &[u8]| {
    let mut lines = said.split(|byte| *byte == b'\n');
    let lines = [(); HostFacts::LINES].map(|()| lines.next().unwrap_or_default());
    let Some(facts) = HostFacts::parse(lines) else { return };
    assert_eq!(facts.machine.as_bytes(), lines[0]);
    assert_eq!(facts.home, lines[4]);
    assert!(facts.home.starts_with(b"/") && !facts.home.contains(&0));
    assert_eq!(facts.own_group.is_none(), lines[2] == b"-");
    let _ = facts.system_and_processor();
    let group = facts.own_group.map_or("-".to_owned(), |group| group.to_string());
    let (user, now) = (facts.user.to_string(), facts.now.to_string());
    let again = [lines[0], user.as_bytes(), group.as_bytes(), now.as_bytes(), lines[4]];
    assert_eq!(HostFacts::parse(again), Some(facts));
});
