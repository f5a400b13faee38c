//! Prints the lines about entries in the order of the listing.

use crate::report::{Lazy, Message, Show};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum bytes of waiting lines. Beyond it, lines are printed as entries finish.
const HELD_BYTES_MAX: usize = 1 << 20;

/// Ticks for which lines wait for one entry on a terminal: one second.
const HELD_TICKS_MAX: u32 = 10;

/// The lines of a job that wait for earlier entries.
#[derive(Debug, Default)]
pub(super) struct OrderedLines {
    /// The numbers of listed entries without an outcome.
    open: BTreeSet<u64>,
    /// The waiting lines, by entry number.
    held: BTreeMap<u64, Vec<Held>>,
    /// The bytes in the waiting lines.
    held_bytes: usize,
    /// The entry that lines waited for at the last tick, and the number of ticks.
    waited: (Option<u64>, u32),
    /// Lines no longer wait.
    is_over: bool,
}

/// A waiting line, and its level.
type Held = (Vec<u8>, Show);

impl OrderedLines {
    /// Records that entry `number` was listed.
    pub(super) fn listed(&mut self, number: u64) {
        if !self.is_over {
            self.open.insert(number);
        }
    }

    /// Stores a line about entry `number`. It is printed in order, after [`Self::done`].
    pub(super) fn hold(&mut self, number: u64, line: &dyn Message) {
        let text = line.text();
        self.held_bytes += text.len();
        self.held.entry(number).or_default().push((text, line.level()));
    }

    /// Records that entry `number` has its outcome and all its lines, and prints the lines in turn.
    pub(super) fn done(&mut self, number: u64, mut print: impl FnMut(&dyn Message)) {
        self.open.remove(&number);
        if self.held_bytes > HELD_BYTES_MAX || self.open.is_empty() {
            return self.print(print);
        }
        while let Some(first) = self.held.first_entry()
            && self.open.first().is_none_or(|open| first.key() < open)
        {
            let lines = first.remove();
            self.print_lines(lines, &mut print);
        }
    }

    /// Prints all lines if they have waited long enough for a user at a terminal.
    pub(super) fn tick(&mut self, print: impl FnMut(&dyn Message)) {
        let first = self.open.first().copied().filter(|_| !self.held.is_empty());
        let (waited_for, ticks) = &mut self.waited;
        *ticks = if first.is_some() && first == *waited_for { *ticks + 1 } else { 0 };
        *waited_for = first;
        if *ticks >= HELD_TICKS_MAX {
            self.waited = Default::default();
            self.print(print);
        }
    }

    /// Prints all lines, and keeps no more. After a reconnect, entries are listed again although
    /// they already have an outcome.
    pub(super) fn release_all(&mut self, print: impl FnMut(&dyn Message)) {
        self.print(print);
        *self = Self { is_over: true, ..Self::default() };
    }

    fn print(&mut self, mut print: impl FnMut(&dyn Message)) {
        for lines in std::mem::take(&mut self.held).into_values() {
            self.print_lines(lines, &mut print);
        }
    }

    fn print_lines(&mut self, lines: Vec<Held>, mut print: impl FnMut(&dyn Message)) {
        for (text, level) in lines {
            self.held_bytes -= text.len();
            print(&Lazy { level, text: || text.clone(), json: || None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(act: impl FnOnce(&mut dyn FnMut(&dyn Message))) -> String {
        let mut text = Vec::new();
        act(&mut |line| text.extend(line.text()));
        String::from_utf8(text).expect("text")
    }

    fn done(order: &mut OrderedLines, number: u64, line: &str) -> String {
        if !line.is_empty() {
            order.hold(number, &line.to_owned());
        }
        printed(|print| order.done(number, print))
    }

    fn of(numbers: std::ops::Range<u64>) -> OrderedLines {
        let mut order = OrderedLines::default();
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
        let tick = |order: &mut OrderedLines| printed(|print| order.tick(print));
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
        assert_eq!(printed(|print| order.release_all(print)), "d");
        order.listed(0);
        assert_eq!(done(&mut order, 1, "b"), "b");
    }
}
