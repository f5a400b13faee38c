//! The findings as a table for people, and as a line of JSON.

use super::Diagnosis;
use super::advice::direct_reason;
use crate::json::Object;
use crate::quantity;
use crate::report::Message;
use haul::doctor::{Amount, ExamineStep, Examined, Machine, Rates, Startups};
use haul_model::{Fault, escape_bytes, escape_text};
use std::time::Duration;

/// The version of the protocol, which both sides have.
const PROTOCOL: u16 = haul_engine::PROTOCOL;

/// Columns of the names of what is measured, and of a figure.
const NAME_WIDTH: usize = 22;
const FIGURE_WIDTH: usize = 14;

/// A step, as it is told while it is measured.
pub(super) fn step(step: ExamineStep) -> String {
    match step {
        ExamineStep::RoundTrip => "the round trip".to_owned(),
        ExamineStep::Processors => "the processors".to_owned(),
        ExamineStep::One => "the throughput of one connection".to_owned(),
        ExamineStep::Direct(lanes) => connections(lanes),
        ExamineStep::Disk => "the disk".to_owned(),
    }
}

fn connections(lanes: u8) -> String {
    let counted = quantity::counted(lanes.into(), "connection", "connections");
    format!("direct, {counted}")
}

impl Message for Diagnosis<'_> {
    fn text(&self) -> Vec<u8> {
        let mut out = format!("{}\n", self.host);
        self.way(&mut out);
        if let Some(there) = self.there() {
            self.rates(&mut out, there);
            self.machines(&mut out, there.machine.as_ref());
            if let (Some(disk), Some(path)) = (&there.disk, self.path) {
                out.push_str(&disk_text(disk, path));
            }
        }
        out.push('\n');
        for advice in &self.advice {
            out.push_str(&format!("- {}\n", advice.text));
        }
        out.into_bytes()
    }

    fn json(&self) -> Option<Object> {
        let there = self.there();
        let machine = there.and_then(|there| there.machine.as_ref());
        let haul = there.map(|there| {
            let haul = Object::default().with("version", &there.version);
            let path = machine.and_then(|machine| machine.program.as_deref());
            haul.with("protocol", PROTOCOL).with_some_bytes("path", path)
        });
        let disk = there.and_then(|there| there.disk.as_ref()?.as_ref().ok()).zip(self.path);
        let disk = disk.map(|((written, read), path)| {
            let disk = Object::default().with_path(path);
            disk.with("write", written.per_second()).with("read", read.per_second())
        });
        let advice = self
            .advice
            .iter()
            .map(|advice| Object::default().with("advice", advice.word).with("text", &advice.text));
        let startups = machine.and_then(|machine| machine.startups);
        let line = Object::line("doctor")
            .with("host", &self.host)
            .with_object("haul", haul)
            .with("login_seconds", round_to_micros(self.login))
            .with("round_trip_seconds", round_to_micros(self.findings.round_trip))
            .with("direct", there.is_some_and(|there| direct_reason(there).is_none()))
            .with_some("direct_reason", there.and_then(direct_reason))
            .with_list("rates", self.rate_objects())
            .with_object("here", Some(machine_object(&self.findings.here)))
            .with_object("there", machine.map(machine_object))
            .with_object("max_startups", startups.map(startups_object))
            .with_object("disk", disk)
            .with_list("advice", advice)
            .with("exit_code", self.code().number());
        Some(line)
    }
}

impl Diagnosis<'_> {
    /// How the host is reached.
    fn way(&self, out: &mut String) {
        let row = |out: &mut String, name: &str, value: &str| {
            out.push_str(&format!("  {name:<14}{value}\n"));
        };
        let (name, what) = if self.by_server { ("server", "handshake") } else { ("ssh", "login") };
        row(out, name, &format!("{what} {}", milliseconds(self.login)));
        let Some(there) = self.there() else {
            row(out, "haul there", "none; SFTP answers");
            row(out, "round trip", &milliseconds(self.findings.round_trip));
            return;
        };
        let path = there.machine.as_ref().and_then(|machine| machine.program.as_ref());
        let path = path.map(|path| format!(": {}", escape_bytes(path))).unwrap_or_default();
        row(out, "haul there", &format!("{}, protocol {PROTOCOL}{path}", there.version));
        row(out, "round trip", &milliseconds(self.findings.round_trip));
        let direct = match direct_reason(there) {
            None => "yes".to_owned(),
            Some(reason) => format!("no: {reason}"),
        };
        if self.by_server {
            return row(out, "connections", &direct);
        }
        row(out, "direct port", &direct);
        let startups = there.machine.as_ref().and_then(|machine| machine.startups);
        row(out, "MaxStartups", &startups.map_or_else(|| "not readable".to_owned(), startups_text));
    }

    fn rates(&self, out: &mut String, there: &Examined) {
        let Some(one) = there.one else { return };
        heading(out, "to the host", "from it");
        let rate = |rate: u64| quantity::rate(rate as f64);
        let name = if self.by_server { "server" } else { "ssh" };
        figures(out, name, &rate(one.up), &rate(one.down));
        for lanes in there.direct.iter().flatten() {
            figures(out, &connections(lanes.lanes), &rate(lanes.rates.up), &rate(lanes.rates.down));
        }
    }

    /// Both processors and their systems.
    fn machines(&self, out: &mut String, there: Option<&Machine>) {
        let Some(there) = there else { return };
        let here = &self.findings.here;
        heading(out, "here", "there");
        let rate = |rate: u64| match rate {
            0 => "unknown".to_owned(),
            rate => quantity::rate(rate as f64),
        };
        let (a, b) = (here.rates, there.rates);
        figures(out, "BLAKE3", &rate(a.blake3), &rate(b.blake3));
        figures(out, "AES-256-GCM", &rate(a.aes_256_gcm), &rate(b.aes_256_gcm));
        figures(out, "ChaCha20-Poly1305", &rate(a.chacha20_poly1305), &rate(b.chacha20_poly1305));
        let name =
            |machine: &Machine| machine.congestion.clone().unwrap_or_else(|| "not told".to_owned());
        figures(out, "congestion control", &name(here), &name(there));
    }

    /// The rates of each way, in bytes per second.
    fn rate_objects(&self) -> Vec<Object> {
        let of_way = |via: &str, connections: u8, rates: Rates| {
            let object = Object::default().with("via", via).with("connections", connections);
            object.with("up", rates.up).with("down", rates.down)
        };
        let Some(there) = self.there() else { return Vec::new() };
        let via = if self.by_server { "server" } else { "ssh" };
        let one = there.one.map(|one| of_way(via, 1, one));
        let direct = there.direct.iter().flatten();
        let direct = direct.map(|lanes| of_way("tcp", lanes.lanes, lanes.rates));
        one.into_iter().chain(direct).collect()
    }
}

/// A machine, with its rates in bytes per second.
fn machine_object(machine: &Machine) -> Object {
    Object::default()
        .with("blake3", machine.rates.blake3)
        .with("aes_256_gcm", machine.rates.aes_256_gcm)
        .with("chacha20_poly1305", machine.rates.chacha20_poly1305)
        .with_some("congestion", machine.congestion.as_ref())
}

/// sshd's `MaxStartups`.
fn startups_object(Startups { begin, rate, full }: Startups) -> Object {
    Object::default().with("begin", begin).with_some("rate", rate).with("full", full)
}

/// Seconds, to the microsecond.
fn round_to_micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}

fn heading(out: &mut String, first: &str, second: &str) {
    out.push('\n');
    figures(out, "", first, second);
}

fn figures(out: &mut String, name: &str, first: &str, second: &str) {
    out.push_str(&format!("  {name:<NAME_WIDTH$}{first:>FIGURE_WIDTH$}{second:>FIGURE_WIDTH$}\n"));
}

fn disk_text(disk: &Result<(Amount, Amount), Fault>, path: &[u8]) -> String {
    let found = match disk {
        Ok((written, read)) => {
            let rate = |amount: &Amount| quantity::rate(amount.per_second() as f64);
            format!("{} written and flushed, {} read", rate(written), rate(read))
        }
        Err(fault) => escape_text(&fault.message),
    };
    format!("\n  disk at {}: {found}\n", escape_bytes(path))
}

/// A short time: `0.21 ms`, `48 ms`.
fn milliseconds(time: Duration) -> String {
    match time.as_secs_f64() * 1000.0 {
        ms @ ..10.0 => format!("{ms:.2} ms"),
        _ => quantity::duration(time),
    }
}

fn startups_text(startups: Startups) -> String {
    let Startups { begin, rate, full } = startups;
    match rate {
        Some(rate) => format!("{begin}:{rate}:{full}"),
        None => format!("{begin} to {full}"),
    }
}

#[cfg(test)]
pub(crate) use self::tests::samples;

#[cfg(test)]
mod tests {
    use super::super::advice::Advice;
    use super::*;
    use haul::doctor::{Findings, Lanes, NotDirect, ProcessorRates};

    /// Lines in which each field is at least once; the first is the example in the document.
    pub(crate) fn samples() -> [Object; 2] {
        let machine = |blake3, aes_256_gcm, chacha20_poly1305, congestion: &str| Machine {
            program: Some(b"/usr/bin/haul".to_vec()),
            rates: ProcessorRates { blake3, aes_256_gcm, chacha20_poly1305 },
            congestion: Some(congestion.to_owned()),
            startups: Some(Startups { begin: 10, rate: None, full: 100 }),
        };
        let text = "leave --via as it is: large copies go over direct connections".to_owned();
        let lanes = Lanes { lanes: 1, rates: Rates { up: 901_000_000, down: 887_000_000 } };
        let diagnosis = |direct, disk| Diagnosis {
            host: "nas".to_owned(),
            login: Duration::from_millis(310),
            by_server: false,
            findings: Findings {
                round_trip: Duration::from_micros(210),
                here: machine(2_100_000_000, 3_900_000_000, 1_600_000_000, "cubic"),
                there: Some(Examined {
                    version: "0.1.0".to_owned(),
                    machine: Some(machine(2_000_000_000, 3_800_000_000, 1_500_000_000, "bbr")),
                    one: Some(Rates { up: 512_000_000, down: 498_000_000 }),
                    direct,
                    disk,
                }),
            },
            path: Some(b"\xff"),
            advice: vec![Advice { word: "direct", text: text.clone() }],
        };
        let disk = Some(Ok((Amount { bytes: 1, nanos: 1 }, Amount { bytes: 2, nanos: 1 })));
        let reason = NotDirect::Closed("it has none".to_owned());
        [diagnosis(Ok(vec![lanes]), None), diagnosis(Err(reason), disk)]
            .map(|diagnosis| diagnosis.json().expect("a line"))
    }
}
