//! One direction of a link as arithmetic: when a packet arrives at the other
//! end, if it does. No clock, no devices, no threads; times are told from a
//! beginning that the caller chooses.
//!
//! A packet passes, in this order,
//! 1. a queue that takes what fits and drops the rest (drop-tail),
//! 2. a wire that sends one packet after the other at the link's rate,
//! 3. the way, which takes each the same time, so that none overtakes,
//! 4. a chance to be lost, which does not give its time on the wire back.

use std::time::Duration;

use super::link::Link;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is at the other end at this time.
    Arrives(Duration),
    /// It was sent and is lost.
    Lost,
    /// The queue was full.
    Dropped,
}

/// One direction of a link.
pub(crate) struct Shaper {
    rate_bits: u64,
    queue_bytes: u64,
    one_way_delay: Duration,
    loss: f64,
    rng: Rng,
    /// When the wire will have sent all that was queued.
    free_at: Duration,
}

impl Shaper {
    /// A direction of `link` with nothing on it. The seed decides which packets
    /// are lost.
    pub(crate) fn new(link: &Link, seed: u64) -> Shaper {
        Shaper {
            rate_bits: link.rate.0,
            queue_bytes: link.queue_bytes(),
            one_way_delay: link.one_way_delay(),
            loss: link.loss.0,
            rng: Rng(seed),
            free_at: Duration::ZERO,
        }
    }

    /// Sends a packet. `now` must not be before that of an earlier packet.
    ///
    /// A link with nothing waiting takes any packet, however short its queue.
    pub(crate) fn send(&mut self, now: Duration, len_bytes: usize) -> Fate {
        let queue_delay = self.free_at.saturating_sub(now);
        let len_bytes = len_bytes as u64;
        if !queue_delay.is_zero() && self.bytes_sent_in(queue_delay) + len_bytes > self.queue_bytes
        {
            return Fate::Dropped;
        }
        self.free_at = self.free_at.max(now) + self.transmit_time(len_bytes);
        if self.loss > 0.0 && self.rng.next() < self.loss {
            return Fate::Lost;
        }
        Fate::Arrives(self.free_at + self.one_way_delay)
    }

    /// How long the wire takes to send so much.
    fn transmit_time(&self, len_bytes: u64) -> Duration {
        let nanos = u128::from(len_bytes) * 8 * NANOS_PER_SECOND / u128::from(self.rate_bits);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How much the wire sends in that time, in bytes.
    fn bytes_sent_in(&self, time: Duration) -> u64 {
        let bytes = time.as_nanos() * u128::from(self.rate_bits) / 8 / NANOS_PER_SECOND;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// Numbers that look random and follow from a seed: SplitMix64 (Steele, Lea,
/// Flood: Fast Splittable Pseudorandom Number Generators, 2014).
struct Rng(u64);

impl Rng {
    /// The next number, at least 0 and less than 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The 53 bits that a double holds exactly.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::{Rate, Share, Size};
    use super::*;

    const PACKET: usize = 1000;

    /// 8 Mbit/s: a packet takes a millisecond.
    fn link() -> Link {
        Link {
            rate: Rate(8_000_000),
            delay: ms(40),
            loss: Share(0.0),
            queue: Some(Size(10_000)),
            mtu: 1500,
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn arrival(fate: Fate) -> Option<Duration> {
        match fate {
            Fate::Arrives(at) => Some(at),
            Fate::Lost | Fate::Dropped => None,
        }
    }

    #[test]
    fn a_packet_takes_its_time_on_the_wire_and_half_the_round_trip() {
        let mut shaper = Shaper::new(&link(), 1);
        assert_eq!(shaper.send(ms(5), PACKET), Fate::Arrives(ms(5 + 1 + 20)));
        // The wire was idle in between: nothing is saved up.
        assert_eq!(shaper.send(ms(100), PACKET), Fate::Arrives(ms(100 + 1 + 20)));
        assert_eq!(shaper.send(ms(100), PACKET), Fate::Arrives(ms(100 + 2 + 20)));
    }

    #[test]
    fn a_full_queue_drops_what_comes_until_a_packet_has_left() {
        let mut shaper = Shaper::new(&link(), 1);
        for sent in 1..=10 {
            assert_eq!(shaper.send(ms(0), PACKET), Fate::Arrives(ms(sent + 20)));
        }
        assert_eq!(shaper.send(ms(0), PACKET), Fate::Dropped);
        assert_eq!(shaper.send(ms(0), 1), Fate::Dropped);
        // What was dropped takes no time on the wire.
        assert_eq!(shaper.send(ms(1), PACKET), Fate::Arrives(ms(11 + 20)));
        assert_eq!(shaper.send(ms(1), PACKET), Fate::Dropped);
    }

    #[test]
    fn an_idle_link_takes_a_packet_longer_than_its_queue() {
        let mut shaper = Shaper::new(&Link { queue: Some(Size(1)), ..link() }, 1);
        assert_eq!(shaper.send(ms(0), PACKET), Fate::Arrives(ms(21)));
        assert_eq!(shaper.send(ms(0), PACKET), Fate::Dropped);
        assert_eq!(shaper.send(ms(1), PACKET), Fate::Arrives(ms(22)));
    }

    #[test]
    fn no_more_than_the_rate_arrives_and_none_overtakes() {
        let mut shaper = Shaper::new(&link(), 1);
        // Twice the rate for a second, in packets of all sizes.
        let mut arrived = Vec::new();
        let mut bytes = 0;
        for step in 0..4000_u64 {
            let len = 1 + (step as usize * 7919) % PACKET;
            let fate = shaper.send(Duration::from_micros(step * 250), len);
            if let Some(at) = arrival(fate) {
                arrived.push(at);
                bytes += len;
            }
        }
        assert!(arrived.is_sorted());
        let (first, last) = (arrived[0], arrived[arrived.len() - 1]);
        let rate_bits = bytes as f64 * 8.0 / (last - first).as_secs_f64();
        assert!((7.9e6..8.1e6).contains(&rate_bits), "{rate_bits}");
    }

    #[test]
    fn so_many_are_lost_and_the_seed_says_which() {
        let lossy = Link { loss: Share(0.1), ..link() };
        let lost = |seed| {
            let mut shaper = Shaper::new(&lossy, seed);
            let fates = (0..10_000).map(|step| shaper.send(ms(step), PACKET));
            fates.map(|fate| fate == Fate::Lost).collect::<Vec<_>>()
        };
        let count = lost(1).iter().filter(|lost| **lost).count();
        assert!((850..1150).contains(&count), "{count}");
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
    }

    #[test]
    fn what_is_lost_took_its_time_on_the_wire() {
        let mut all = Shaper::new(&Link { loss: Share(1.0), ..link() }, 1);
        for _ in 0..10 {
            assert_eq!(all.send(ms(0), PACKET), Fate::Lost);
        }
        assert_eq!(all.send(ms(0), PACKET), Fate::Dropped);
    }
}
