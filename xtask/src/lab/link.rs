//! The properties of a link, and their words on the command line.

use std::fmt;
use std::time::Duration;

const RATE_BITS_MAX: f64 = 10e9;
const RATE_BITS_MIN: f64 = 8e3;
const DELAY_SECONDS_MAX: f64 = 10.0;
const QUEUE_BYTES_MAX: f64 = (1_u64 << 30) as f64;

/// The largest that a tun device takes is 65,521 bytes; less than 576 no host
/// has to take.
const MTU_BYTES: std::ops::RangeInclusive<i64> = 576..=65_521;

/// A queue is made no shorter than this by default, in packets of full size.
const QUEUE_PACKETS_MIN: u64 = 64;

/// A link between two hosts, the same in both directions.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub(crate) struct Link {
    /// The rate in each direction: a number with bit, kbit, mbit or gbit (per second)
    #[arg(long, value_name = "RATE", default_value = "1gbit", value_parser = rate)]
    pub(crate) rate: Rate,
    /// The round trip time, of which each direction takes half: a number with us, ms or s
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = time)]
    pub(crate) delay: Duration,
    /// How many packets are lost, in each direction: a number with %
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share)]
    pub(crate) loss: Share,
    /// The bytes that may wait before the link, in each direction: a number with B,
    /// KiB or MiB [default: those that the link takes in a round trip]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) queue: Option<Size>,
    /// The largest packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500,
          value_parser = clap::value_parser!(u16).range(MTU_BYTES))]
    pub(crate) mtu: u16,
}

/// Bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate(pub(crate) u64);

/// A share of packets, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(pub(crate) f64);

/// Bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size(pub(crate) u64);

impl Link {
    /// How long a packet is on its way in one direction, once it has been sent.
    pub(crate) fn one_way_delay(&self) -> Duration {
        self.delay / 2
    }

    /// The queue before the link, in each direction.
    pub(crate) fn queue_bytes(&self) -> u64 {
        let product = self.rate.0 as f64 / 8.0 * self.delay.as_secs_f64();
        let least = QUEUE_PACKETS_MIN * u64::from(self.mtu);
        self.queue.map_or((product as u64).max(least), |size| size.0)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Link { rate, loss, mtu, .. } = self;
        let (delay_ms, queue_kib) = (self.delay.as_secs_f64() * 1e3, self.queue_bytes() / 1024);
        let (rate_mbit, loss) = (rate.0 as f64 / 1e6, loss.0 * 100.0);
        write!(f, "{rate_mbit} Mbit/s, round trip {delay_ms} ms, loss {loss} %, ")?;
        write!(f, "queue {queue_kib} KiB, MTU {mtu}")
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let units = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    let bits = quantity(text, &units, RATE_BITS_MIN, RATE_BITS_MAX)?;
    Ok(Rate(bits as u64))
}

fn time(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    Ok(Duration::from_secs_f64(quantity(text, &units, 0.0, DELAY_SECONDS_MAX)?))
}

fn share(text: &str) -> Result<Share, String> {
    Ok(Share(quantity(text, &[("%", 0.01)], 0.0, 1.0)?))
}

fn size(text: &str) -> Result<Size, String> {
    let units = [("b", 1.0), ("kib", 1024.0), ("mib", 1_048_576.0)];
    Ok(Size(quantity(text, &units, 1.0, QUEUE_BYTES_MAX)? as u64))
}

/// A number with a unit, within bounds (in the basic unit, both included).
fn quantity(text: &str, units: &[(&str, f64)], least: f64, most: f64) -> Result<f64, String> {
    let text = text.to_lowercase();
    let begin = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(begin);
    let factor = units.iter().find(|(name, _)| *name == unit.trim());
    let Some((number, (_, factor))) = number.parse::<f64>().ok().zip(factor) else {
        let names = units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(format!("not a number with a unit ({names})"));
    };
    let value = number * factor;
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        let (basic, scale) = units[0];
        Err(format!("not between {}{basic} and {}{basic}", least / scale, most / scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units_and_bounds() {
        assert_eq!(rate("200mbit"), Ok(Rate(200_000_000)));
        assert_eq!(rate("1.5Gbit"), Ok(Rate(1_500_000_000)));
        assert_eq!(time("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(time("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(share("50%"), Ok(Share(0.5)));
        assert_eq!(size("64KiB"), Ok(Size(65_536)));
        for bad in ["200", "mbit", "-1mbit", "1e3mbit", "11gbit", "1bit", ""] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert_eq!(time("11s"), Err("not between 0us and 10000000us".to_owned()));
        assert!(share("100.1%").is_err() && size("0b").is_err());
    }

    #[test]
    fn a_queue_holds_a_round_trip_unless_configured_otherwise() {
        let mut link = Link {
            rate: Rate(1_000_000_000),
            delay: Duration::from_millis(100),
            loss: Share(0.0),
            queue: None,
            mtu: 9000,
        };
        assert_eq!(link.queue_bytes(), 12_500_000);
        link.delay = Duration::ZERO;
        assert_eq!(link.queue_bytes(), 64 * 9000);
        link.queue = Some(Size(1000));
        assert_eq!(link.queue_bytes(), 1000);
    }
}
