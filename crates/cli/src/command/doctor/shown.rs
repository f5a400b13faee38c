//! The findings as a table for people, and as a line of JSON.

use super::Diagnosis;
use super::advice::direct_reason;
use crate::json::{DiskLine, DoctorLine, JsonVia, Line, MachineLine, Path, RateLine};
use crate::quantity;
use crate::report::Message;
use haul::doctor::{Amount, ExamineStep, Examined, Machine, Startups};
use haul_model::{Fault, escape_bytes, escape_text};
use std::fmt::Write as _;
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
            line(&mut out, format_args!("- {}", advice.text));
        }
        out.into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        Line::Doctor(Box::new(self.line())).to_bytes()
    }
}

/// Writing to a String can't fail.
fn line(out: &mut String, words: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{words}");
}

impl Diagnosis<'_> {
    /// How the host is reached.
    fn way(&self, out: &mut String) {
        let row = |out: &mut String, name: &str, value: &str| {
            line(out, format_args!("  {name:<14}{value}"));
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
        let row = |out: &mut String, name: &str, here: &str, there: &str| {
            figures(out, name, here, there);
        };
        let rate = |rate: u64| match rate {
            0 => "unknown".to_owned(),
            rate => quantity::rate(rate as f64),
        };
        let (a, b) = (here.rates, there.rates);
        row(out, "BLAKE3", &rate(a.blake3), &rate(b.blake3));
        row(out, "AES-256-GCM", &rate(a.aes_256_gcm), &rate(b.aes_256_gcm));
        row(out, "ChaCha20-Poly1305", &rate(a.chacha20_poly1305), &rate(b.chacha20_poly1305));
        let name =
            |machine: &Machine| machine.congestion.clone().unwrap_or_else(|| "not told".to_owned());
        row(out, "congestion control", &name(here), &name(there));
    }

    fn line(&self) -> DoctorLine<'_> {
        let there = self.there();
        let machine = there.and_then(|there| there.machine.as_ref());
        let mut rates = Vec::new();
        if let Some(one) = there.and_then(|there| there.one) {
            let via = if self.by_server { JsonVia::Server } else { JsonVia::Ssh };
            rates.push(RateLine { via, connections: 1, up: one.up, down: one.down });
        }
        let direct = there.and_then(|there| there.direct.as_ref().ok());
        rates.extend(direct.into_iter().flatten().map(|lanes| RateLine {
            via: JsonVia::Tcp,
            connections: lanes.lanes,
            up: lanes.rates.up,
            down: lanes.rates.down,
        }));
        let disk = there.and_then(|there| there.disk.as_ref()?.as_ref().ok()).zip(self.path);
        DoctorLine {
            host: &self.host,
            haul: there.map(|there| crate::json::HaulLine {
                version: &there.version,
                protocol: PROTOCOL,
                path: machine.and_then(|m| m.program.as_deref()).map(Path::of),
            }),
            login_seconds: round_to_micros(self.login),
            round_trip_seconds: round_to_micros(self.findings.round_trip),
            direct: there.is_some_and(|there| direct_reason(there).is_none()),
            direct_reason: there.and_then(direct_reason),
            rates,
            here: MachineLine::of(&self.findings.here),
            there: machine.map(MachineLine::of),
            max_startups: machine.and_then(|machine| machine.startups).map(Into::into),
            disk: disk.map(|((written, read), path)| DiskLine {
                path: Path::of(path),
                write: written.per_second(),
                read: read.per_second(),
            }),
            advice: self.advice.iter().map(|advice| (advice.word, &*advice.text)).collect(),
            exit_code: self.code().number(),
        }
    }
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
    let row = format!("  {name:<NAME_WIDTH$}{first:>FIGURE_WIDTH$}{second:>FIGURE_WIDTH$}");
    line(out, format_args!("{row}"));
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
