//! Puts the lines about entries into the order of the listing.

use crate::report::{Show, Statement};
use std::collections::{BTreeMap, BTreeSet};

/// Text that waits for earlier entries, in bytes, at most. Beyond it, lines are printed as their
/// entries are done.
const HELD_BYTES_MAX: usize = 1 << 20;

/// Ticks for which lines wait for one entry while a person watches: a second.
const HELD_TICKS_MAX: u32 = 10;

/// The lines of a job that wait for entries listed before theirs.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Listed entries without an outcome, by their numbers.
    open: BTreeSet<u64>,
    /// The lines of entries, by their numbers.
    held: BTreeMap<u64, Vec<Held>>,
    /// The text in them, in bytes.
    held_bytes: usize,
    /// The entry that the lines waited for at the last tick, and the number of ticks.
    waited: (Option<u64>, u32),
    /// Lines are not held any more.
    is_over: bool,
}

/// A statement that waits.
#[derive(Debug)]
struct Held {
    text: Vec<u8>,
    least: Show,
}

impl Statement for Held {
    fn text(&self) -> Vec<u8> {
        self.text.clone()
    }

    fn least(&self) -> Show {
        self.least
    }
}

impl Order {
    /// The entry of that number was listed.
    pub(super) fn listed(&mut self, number: u64) {
        if !self.is_over {
            self.open.insert(number);
        }
    }

    /// Prints a line about the entry of that number when it is its turn, after [`Self::done`].
    pub(super) fn hold(&mut self, number: u64, line: &dyn Statement) {
        let held = Held { text: line.text(), least: line.least() };
        self.held_bytes += held.text.len();
        self.held.entry(number).or_default().push(held);
    }

    /// The entry of that number has its outcome, and all of its lines.
    pub(super) fn done(&mut self, number: u64, mut print: impl FnMut(&dyn Statement)) {
        self.open.remove(&number);
        if self.held_bytes > HELD_BYTES_MAX || self.open.is_empty() {
            return self.print(print);
        }
        while let Some(first) = self.held.first_entry()
            && self.open.first().is_none_or(|open| first.key() < open)
        {
            let lines = first.remove();
            self.tell(lines, &mut print);
        }
    }

    /// Prints all lines that have waited long enough, for a person who watches.
    pub(super) fn tick(&mut self, print: impl FnMut(&dyn Statement)) {
        let first = self.open.first().copied().filter(|_| !self.held.is_empty());
        let (waited_for, ticks) = &mut self.waited;
        *ticks = if first.is_some() && first == *waited_for { *ticks + 1 } else { 0 };
        *waited_for = first;
        if *ticks >= HELD_TICKS_MAX {
            self.waited = Default::default();
            self.print(print);
        }
    }

    /// Prints all lines, and holds no further ones: a second run lists entries that have had
    /// their outcome.
    pub(super) fn give_up(&mut self, print: impl FnMut(&dyn Statement)) {
        self.print(print);
        *self = Self { is_over: true, ..Self::default() };
    }

    /// Prints all lines, in their order.
    fn print(&mut self, mut print: impl FnMut(&dyn Statement)) {
        for lines in std::mem::take(&mut self.held).into_values() {
            self.tell(lines, &mut print);
        }
    }

    fn tell(&mut self, lines: Vec<Held>, mut print: impl FnMut(&dyn Statement)) {
        for line in lines {
            self.held_bytes -= line.text.len();
            print(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that `act` prints.
    fn printed(act: impl FnOnce(&mut dyn FnMut(&dyn Statement))) -> String {
        let mut text = Vec::new();
        act(&mut |line| text.extend(line.text()));
        String::from_utf8(text).expect("text")
    }

    fn done(order: &mut Order, number: u64, line: &str) -> String {
        if !line.is_empty() {
            order.hold(number, &line.to_owned());
        }
        printed(|print| order.done(number, print))
    }

    fn of(numbers: std::ops::Range<u64>) -> Order {
        let mut order = Order::default();
        numbers.for_each(|number| order.listed(number));
        order
    }

    #[test]
    fn lines_wait_for_earlier_entries() {
        let mut order = of(0..5);
        assert_eq!(done(&mut order, 1, "b\n"), "");
        assert_eq!(done(&mut order, 3, "d\n"), "");
        assert_eq!(done(&mut order, 0, "a\n"), "a\nb\n");
        assert_eq!(done(&mut order, 2, ""), "d\n", "an entry without a line holds others too");
        assert_eq!(done(&mut order, 4, "e\n"), "e\n");
        assert_eq!(order.held_bytes, 0);
    }

    #[test]
    fn a_person_sees_lines_after_a_second() {
        let mut order = of(0..3);
        let tick = |order: &mut Order| printed(|print| order.tick(print));
        assert_eq!(done(&mut order, 2, "c\n"), "");
        for _ in 0..HELD_TICKS_MAX {
            assert_eq!(tick(&mut order), "");
        }
        assert_eq!(tick(&mut order), "c\n");
        assert_eq!(done(&mut order, 1, "b\n"), "");
        assert_eq!(tick(&mut order), "", "the next line waits for a second too");
        assert_eq!(done(&mut order, 0, "a\n"), "a\nb\n");
    }

    #[test]
    fn no_more_is_held_than_the_bound_and_nothing_after_a_lost_connection() {
        let mut order = of(0..4);
        let long = "b".repeat(HELD_BYTES_MAX);
        assert_eq!(done(&mut order, 1, &long), "");
        assert_eq!(done(&mut order, 2, "c"), long.clone() + "c");
        assert_eq!(done(&mut order, 3, "d"), "");
        assert_eq!(printed(|print| order.give_up(print)), "d");
        order.listed(0);
        assert_eq!(done(&mut order, 1, "b"), "b");
    }
}
