//! The sides of a job on which attributes that only root can give are written down.

use crate::{Side, Task};

impl Task {
    /// True if attributes of root are written down on that side.
    pub fn fakes(&self, side: Side) -> bool {
        self.mirrors().is_some_and(|mirror| match side {
            Side::Source => mirror.fakes_sources,
            Side::Destination => mirror.fakes_dest,
        })
    }
}
