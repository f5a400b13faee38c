//! The sides of a job on which attributes of root are stored in an extended attribute.

use crate::{Side, Task};

impl Task {
    /// True if attributes of root are stored in an extended attribute on `side`.
    pub fn fakes(&self, side: Side) -> bool {
        self.mirrors().is_some_and(|mirror| match side {
            Side::Source => mirror.fakes_sources,
            Side::Destination => mirror.fakes_dest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mirror, Policy};

    #[test]
    fn each_side_fakes_by_itself() {
        let of = |fakes_sources, fakes_dest| {
            let mirror = Mirror { fakes_sources, fakes_dest, ..Mirror::default() };
            let task = Task::Sync(Policy::default(), mirror);
            [Side::Source, Side::Destination].map(|side| task.fakes(side))
        };
        assert_eq!(of(true, false), [true, false]);
        assert_eq!(of(false, true), [false, true]);
        assert!(!Task::default().fakes(Side::Source));
    }
}
