//! Advice that follows from the findings.

use crate::quantity;
use haul::doctor::{Examined, Findings, Machine, NotDirect, Rates};
use std::time::Duration;

/// One piece of advice.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Advice {
    /// For programs.
    pub(super) word: &'static str,
    /// For people, a sentence or two, safe to show.
    pub(super) text: String,
}

/// Round trips from which on the pace of TCP depends on its congestion control.
const ROUND_TRIP_LONG: Duration = Duration::from_millis(5);

/// The congestion control that losses slow down least.
const BBR: &str = "bbr";

/// How much faster one way must be for a word about it.
const FASTER_RATIO_MIN: f64 = 1.1;

/// Connections that `haul` may make to a host at the same time.
const CONNECTIONS_MAX: u32 = 8;

/// Why there are no direct connections, if there are none.
pub(super) fn direct_reason(there: &Examined) -> Option<&str> {
    match &there.direct {
        Ok(lanes) if lanes.is_empty() => Some("no connection was open"),
        Ok(_) => None,
        Err(not_direct) => Some(not_direct.reason()),
    }
}

/// The advice about `host`; there is always some.
pub(super) fn advice(host: &str, findings: &Findings, by_server: bool) -> Vec<Advice> {
    let Some(there) = &findings.there else {
        let text = format!(
            "install haul with 'haul deploy {host}', without root, if the host allows more than SFTP: without it, everything goes through SFTP, and nothing else can be measured"
        );
        return vec![Advice { word: "deploy", text }];
    };
    let (Some(machine), Some(ssh)) = (&there.machine, there.one) else {
        let text =
            format!("install this haul with 'haul deploy {host}', which replaces the older one");
        return vec![Advice { word: "deploy", text }];
    };
    let (about_way, best) = match by_server {
        true => about_server(there, ssh),
        false => about_way(there, machine, ssh),
    };
    let sides = [("this machine", &findings.here), (host, machine)];
    let mut given = vec![about_way];
    given.extend(about_congestion(findings.round_trip, sides));
    given
        .extend(sides.into_iter().filter_map(|(name, machine)| about_hashing(name, machine, best)));
    given.extend(about_disk(there, best));
    given.extend(about_logins(machine));
    given
}

/// The way of contents to a server, and its rates.
fn about_server(there: &Examined, one: Rates) -> (Advice, Rates) {
    let lanes = there.direct.iter().flatten().map(|lanes| lanes.rates);
    let fastest = lanes.fold(one, fastest);
    let text = match direct_reason(there) {
        None => "leave --via as it is: contents go to the server".to_owned(),
        Some(reason) => format!("contents go to the server over one connection: {reason}"),
    };
    (Advice { word: "server", text }, fastest)
}

/// The higher rate of each direction.
fn fastest(one: Rates, other: Rates) -> Rates {
    Rates { up: one.up.max(other.up), down: one.down.max(other.down) }
}

/// Which way contents should take, and its rates.
fn about_way(there: &Examined, machine: &Machine, ssh: Rates) -> (Advice, Rates) {
    let new_advice = |word, text: &str| Advice { word, text: text.to_owned() };
    if let Some(reason) = direct_reason(there) {
        let advice = match &there.direct {
            _ if machine.program.is_none() => new_advice(
                "via_ssh",
                &format!("use --via ssh: this login allows no direct connections ({reason})"),
            ),
            Err(NotDirect::ClosedAsked(_)) => new_advice(
                "other_ports",
                &format!(
                    "use --via ssh: no direct connection through the given ports ({reason}); try other ports with --port-range, or none"
                ),
            ),
            Err(NotDirect::Closed(_) | NotDirect::Implausible(_)) => {
                new_advice("via_ssh", &format!("use --via ssh: no direct connections ({reason})"))
            }
            Ok(_) | Err(NotDirect::Unreached(_)) => new_advice(
                "open_port",
                "use --via ssh: no port of the host is reachable. To go faster, open some in its firewall, and use --port-range 7000-7009",
            ),
        };
        return (advice, ssh);
    }
    let lanes = there.direct.iter().flatten().map(|lanes| lanes.rates);
    let fastest = lanes.fold(Rates { up: 0, down: 0 }, fastest);
    let least = |rates: Rates| rates.up.min(rates.down) as f64;
    match least(ssh) > least(fastest) * FASTER_RATIO_MIN {
        true => {
            (new_advice("via_ssh", "use --via ssh: it is faster here than direct connections"), ssh)
        }
        false => {
            let text = "leave --via as it is: large copies go over direct connections";
            (new_advice("direct", text), fastest)
        }
    }
}

/// Where another congestion control would help.
fn about_congestion(round_trip: Duration, sides: [(&str, &Machine); 2]) -> Option<Advice> {
    let is_other =
        |machine: &Machine| machine.congestion.as_deref().is_some_and(|name| name != BBR);
    let others: Vec<&str> =
        sides.iter().filter(|(_, machine)| is_other(machine)).map(|(name, _)| *name).collect();
    (round_trip >= ROUND_TRIP_LONG && !others.is_empty()).then(|| Advice {
        word: "bbr",
        text: format!(
            "use bbr on {}, if the link loses packets: 'sysctl -w net.ipv4.tcp_congestion_control=bbr', as root",
            others.join(" and on ")
        ),
    })
}

/// If a processor hashes less than the way carries.
fn about_hashing(name: &str, machine: &Machine, best: Rates) -> Option<Advice> {
    let rate = machine.rates.blake3;
    (1..best.up.max(best.down)).contains(&rate).then(|| Advice {
        word: "fast",
        text: format!(
            "use --fast if you trust the transit: one thread of {name} hashes {}, less than the connection carries",
            quantity::rate(rate as f64)
        ),
    })
}

/// If the disk is the limit.
fn about_disk(there: &Examined, best: Rates) -> Option<Advice> {
    let (written, read) = there.disk.as_ref()?.as_ref().ok()?;
    let is_slow = written.per_second() < best.up || read.per_second() < best.down;
    is_slow.then(|| Advice {
        word: "disk",
        text: "keep the connections: the disk is slower than the connection".into(),
    })
}

/// If few may log in at the same time.
fn about_logins(machine: &Machine) -> Option<Advice> {
    let limit = machine.startups.filter(|limit| limit.begin < CONNECTIONS_MAX)?;
    Some(Advice {
        word: "max_startups",
        text: format!(
            "raise MaxStartups in sshd_config if several copies run at once: sshd refuses more than {} concurrent logins",
            limit.begin
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul::doctor::{Amount, Lanes, ProcessorRates, Startups};

    const MIB: u64 = 1 << 20;

    fn machine() -> Machine {
        let rates = ProcessorRates {
            blake3: 2000 * MIB,
            aes_256_gcm: 3000 * MIB,
            chacha20_poly1305: 1000 * MIB,
        };
        let startups = Some(Startups { begin: 10, rate: Some(30), full: 100 });
        let congestion = Some("cubic".to_owned());
        Machine { program: Some(b"/haul".to_vec()), rates, congestion, startups }
    }

    fn findings() -> Findings {
        let rates = |rate| Rates { up: rate * MIB, down: rate * MIB };
        let direct =
            vec![Lanes { lanes: 1, rates: rates(100) }, Lanes { lanes: 4, rates: rates(300) }];
        let there = Examined {
            version: "0.1.0".into(),
            machine: Some(machine()),
            one: Some(rates(100)),
            direct: Ok(direct),
            disk: None,
        };
        let round_trip = Duration::from_millis(1);
        Findings { round_trip, here: machine(), there: Some(there) }
    }

    /// The words of the advice about findings that `change` has changed.
    fn words(change: impl FnOnce(&mut Findings, &mut Examined)) -> Vec<&'static str> {
        let mut findings = findings();
        let mut there = findings.there.take().expect("it was examined");
        change(&mut findings, &mut there);
        findings.there = Some(there);
        advice("nas", &findings, false).iter().map(|advice| advice.word).collect()
    }

    #[test]
    fn advice_follows_from_what_was_found() {
        assert_eq!(words(|_, _| ()), ["direct"]);
        for (reason, word) in [
            (NotDirect::Unreached as fn(String) -> NotDirect, "open_port"),
            (NotDirect::ClosedAsked, "other_ports"),
            (NotDirect::Closed, "via_ssh"),
            (NotDirect::Implausible, "via_ssh"),
        ] {
            assert_eq!(words(|_, there| there.direct = Err(reason("no".into()))), [word]);
        }
        let restricted = |_: &mut Findings, there: &mut Examined| {
            there.direct = Err(NotDirect::Unreached("no".into()));
            there.machine.as_mut().expect("it").program = None;
        };
        assert_eq!(words(restricted), ["via_ssh"]);
        let fast_ssh = |_: &mut Findings, there: &mut Examined| {
            there.one = Some(Rates { up: 900 * MIB, down: 900 * MIB });
        };
        assert_eq!(words(fast_ssh), ["via_ssh"]);
        let far = |findings: &mut Findings, _: &mut Examined| {
            findings.round_trip = Duration::from_millis(50);
        };
        assert_eq!(words(far), ["direct", "bbr"]);
        let slow_hash = |_: &mut Findings, there: &mut Examined| {
            there.machine.as_mut().expect("it").rates.blake3 = 200 * MIB;
        };
        assert_eq!(words(slow_hash), ["direct", "fast"]);
        let slow_disk = |_: &mut Findings, there: &mut Examined| {
            let amount = Amount { bytes: 50 * MIB, nanos: 1_000_000_000 };
            there.disk = Some(Ok((amount, amount)));
        };
        assert_eq!(words(slow_disk), ["direct", "disk"]);
        let few = |_: &mut Findings, there: &mut Examined| {
            let startups = Some(Startups { begin: 2, rate: None, full: 10 });
            there.machine.as_mut().expect("it").startups = startups;
        };
        assert_eq!(words(few), ["direct", "max_startups"]);
        assert_eq!(words(|_, there| there.machine = None), ["deploy"]);
        let none = Findings { there: None, ..findings() };
        assert_eq!(advice("nas", &none, false)[0].word, "deploy");
    }
}
