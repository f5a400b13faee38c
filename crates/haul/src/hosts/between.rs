//! A job between two hosts. This side connects to one after the other, so that ssh never asks for
//! two passwords at once. The hauls of the hosts do the rest.

use super::{Hosts, logins_of};
use crate::endpoint::{Call, greeted};
use crate::error::Error;
use crate::host::Host;
use crate::location::Machine;
use crate::retry::Retry;
use haul_engine::{
    Between, DirectPlan, Event, Job, JobError, LinkEvent, Monitor, Placement, Requests, Summary,
    WireOptions,
};
use std::cell::Cell;

/// Both hosts of a job.
struct Both<'h> {
    hosts: &'h Hosts,
    from: &'h Host,
    to: &'h Host,
    /// The host of the current login.
    reaching: Cell<&'h Host>,
}

impl Hosts {
    /// Runs `job` from one host to the other, and again if a connection is lost.
    pub(super) fn run_between(
        &self,
        job: &Job,
        from: &Machine,
        to: &Machine,
        monitor: &dyn Monitor,
    ) -> Result<Summary, Error> {
        let hosts = from.host().zip(to.host());
        let Some((source, dest)) = hosts.filter(|(from, to)| !from.by_sftp && !to.by_sftp) else {
            let by_sftp = if from.is_by_sftp() { from } else { to };
            return Err(Error::NotBetween { host: by_sftp.to_string(), to: to.to_string() });
        };
        let both = Both { hosts: self, from: source, to: dest, reaching: Cell::new(dest) };
        // haul may have to be installed on each of them first.
        for missing_haul in [None, Some(source), Some(dest)] {
            let missing = match both.run(job, monitor) {
                Err(Error::Job(JobError::Connection(error))) if error.is_haul_missing() => error,
                ran => return ran,
            };
            let host = both.reaching.get();
            if host.deploy.is_none() || missing_haul == Some(dest) {
                return Err(Error::LacksHaul { missing, to: to.to_string() });
            }
            self.deploy(host, monitor)?;
        }
        both.run(job, monitor)
    }
}

impl<'h> Both<'h> {
    fn run(&self, job: &Job, monitor: &dyn Monitor) -> Result<Summary, Error> {
        let (from, to) = (self.from, self.to);
        let logins = logins_of(from.parallel.max(to.parallel));
        let wire = WireOptions { logins, ..job.wire };
        let job = &Job { wire, ..job.clone() };
        let retry = Retry {
            job,
            is_upload: true,
            has_local_sources: false,
            retries: from.retries.min(to.retries),
            monitor,
            host: format!("{from} or {to}"),
            has_greeted: &|| {
                [self.from, self.to].iter().all(|host| self.hosts.greeted().contains(host))
            },
        };
        retry.run(|job, is_first, monitor| {
            let to = self.greet(self.to, job, is_first, monitor)?;
            let mut from = self.greet(self.from, job, is_first, monitor)?;
            let at = job.uses_direct().then(|| [from.host_addresses(), to.host_addresses()]);
            let direct_plan = at.map(|at| DirectPlan::prepare(job, &mut from, at)).transpose()?;
            let (from, to) = (greeted(from, self.from)?, greeted(to, self.to)?);
            let direct_plan = direct_plan.flatten();
            let between = Box::new(Between { from, to, direct_plan });
            Ok(haul_engine::run(job, Placement::Between(between), monitor)?)
        })
    }

    /// Logs in to a host, and waits until its haul greets. The connection is kept alive until the
    /// other host has greeted, too.
    fn greet(
        &self,
        host: &'h Host,
        job: &Job,
        is_first: bool,
        monitor: &dyn Monitor,
    ) -> Result<Requests, Error> {
        self.reaching.set(host);
        let on_event = |event: LinkEvent<'_>| monitor.event(Event::Link(event));
        let cancelled = || monitor.cancelled();
        let call = self.hosts.call(host, job, is_first, &on_event, &cancelled);
        let call = Call { may_be_kept: false, ..call };
        let requests = call.greet()?;
        self.hosts.has_greeted(host);
        Ok(requests)
    }
}
