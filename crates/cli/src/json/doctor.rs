//! The line of `haul doctor`.

use super::Path;
use haul::doctor::{Machine, Startups};
use serde::{Serialize, Serializer};

/// All that was found out about a host.
#[derive(Debug, Serialize)]
pub(crate) struct DoctorLine<'a> {
    pub(crate) host: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) haul: Option<HaulLine<'a>>,
    pub(crate) login_seconds: f64,
    pub(crate) round_trip_seconds: f64,
    pub(crate) direct: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) direct_reason: Option<&'a str>,
    pub(crate) rates: Vec<RateLine>,
    pub(crate) here: MachineLine<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) there: Option<MachineLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_startups: Option<StartupsLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<DiskLine<'a>>,
    #[serde(serialize_with = "advice")]
    pub(crate) advice: Vec<(&'a str, &'a str)>,
    pub(crate) exit_code: u8,
}

/// The haul of the host.
#[derive(Debug, Serialize)]
pub(crate) struct HaulLine<'a> {
    pub(crate) version: &'a str,
    pub(crate) protocol: u16,
    #[serde(flatten)]
    pub(crate) path: Option<Path<'a>>,
}

/// The rates of a way, in bytes per second.
#[derive(Debug, Serialize)]
pub(crate) struct RateLine {
    pub(crate) via: JsonVia,
    pub(crate) connections: u8,
    pub(crate) up: u64,
    pub(crate) down: u64,
}

/// The kind of a connection.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonVia {
    Ssh,
    Server,
    Tcp,
}

/// A machine, with its rates in bytes per second.
#[derive(Debug, Serialize)]
pub(crate) struct MachineLine<'a> {
    blake3: u64,
    aes_256_gcm: u64,
    chacha20_poly1305: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<&'a str>,
}

impl<'a> MachineLine<'a> {
    pub(crate) fn of(machine: &'a Machine) -> Self {
        let rates = machine.rates;
        Self {
            blake3: rates.blake3,
            aes_256_gcm: rates.aes_256_gcm,
            chacha20_poly1305: rates.chacha20_poly1305,
            congestion: machine.congestion.as_deref(),
        }
    }
}

/// sshd's `MaxStartups`.
#[derive(Debug, Serialize)]
pub(crate) struct StartupsLine {
    begin: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    full: u32,
}

impl From<Startups> for StartupsLine {
    fn from(Startups { begin, rate, full }: Startups) -> Self {
        Self { begin, rate, full }
    }
}

/// A disk, in bytes per second.
#[derive(Debug, Serialize)]
pub(crate) struct DiskLine<'a> {
    #[serde(flatten)]
    pub(crate) path: Path<'a>,
    pub(crate) write: u64,
    pub(crate) read: u64,
}

/// A word and its sentence.
#[derive(Serialize)]
struct AdviceLine<'a> {
    advice: &'a str,
    text: &'a str,
}

fn advice<S: Serializer>(given: &[(&str, &str)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(given.iter().map(|(advice, text)| AdviceLine { advice, text }))
}

/// Lines in which each field is at least once; the first is the example in the document.
#[cfg(test)]
pub(super) fn samples() -> [super::Line<'static>; 2] {
    let machine = |blake3, aes_256_gcm, chacha20_poly1305, congestion| MachineLine {
        blake3,
        aes_256_gcm,
        chacha20_poly1305,
        congestion: Some(congestion),
    };
    let rate = |via, up, down| RateLine { via, connections: 1, up, down };
    let line = || DoctorLine {
        host: "nas",
        haul: Some(HaulLine {
            version: "0.1.0",
            protocol: haul_proto::VERSION,
            path: Some(Path::of(b"/usr/bin/haul")),
        }),
        login_seconds: 0.31,
        round_trip_seconds: 0.00021,
        direct: true,
        direct_reason: None,
        rates: vec![
            rate(JsonVia::Ssh, 512_000_000, 498_000_000),
            rate(JsonVia::Tcp, 901_000_000, 887_000_000),
        ],
        here: machine(2_100_000_000, 3_900_000_000, 1_600_000_000, "cubic"),
        there: Some(machine(2_000_000_000, 3_800_000_000, 1_500_000_000, "bbr")),
        max_startups: Some(StartupsLine { begin: 10, rate: None, full: 100 }),
        disk: None,
        advice: vec![("direct", "leave --via as it is: large copies go over direct connections")],
        exit_code: 0,
    };
    let disk = Some(DiskLine { path: Path::of(b"\xff"), write: 1, read: 2 });
    let other = DoctorLine { direct: false, direct_reason: Some("it has none"), disk, ..line() };
    [line(), other].map(|line| super::Line::Doctor(Box::new(line)))
}
