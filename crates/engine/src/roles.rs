//! Both roles of a job in this process, and the memory link between them.

use crate::control::Control;
use crate::link::memory::MemoryLink;
use crate::link::{ReceiverPort, SenderPort};
use crate::receiver::{Destination, Receiver, Tasks};
use crate::sender::{Heard, Sender};
use crate::{CopyJob, JobError};
use std::sync::Arc;

/// The roles, which know each other.
pub(crate) struct Roles<'a> {
    pub(crate) sender: Arc<Sender<'a>>,
    pub(crate) receiver: Arc<Receiver<'a>>,
}

impl<'a> Roles<'a> {
    /// Those of `job`, whose Receiver works in `destination` and puts its work
    /// into `tasks`. What the Sender hears goes to `heard`, if others are to
    /// remove its sources.
    ///
    /// # Errors
    /// When the destination can't be looked at.
    pub(crate) fn connect(
        control: &'a Control<'a>,
        job: &CopyJob,
        destination: Destination,
        tasks: Tasks,
        heard: Option<crossbeam_channel::Sender<Heard>>,
    ) -> Result<Self, JobError> {
        let group = destination.inherited_group();
        let link = Arc::new(MemoryLink::default());
        let to_sender = Arc::clone(&link) as Arc<dyn SenderPort>;
        let receiver = Receiver::new(control, to_sender, destination, job, None, tasks)
            .map_err(|error| JobError::unusable(&job.dest, &error))?;
        let to_receiver = Arc::clone(&link) as Arc<dyn ReceiverPort>;
        let sender = Sender::new(control, None, to_receiver, job, None, heard);
        if let Some(group) = group {
            sender.expect_group(group);
        }
        link.connect(&sender, &receiver);
        Ok(Self { sender, receiver })
    }
}
