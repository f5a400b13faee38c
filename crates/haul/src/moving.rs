//! The request of a move, and its connection to the hosts. The engine's `run_move` does the moving.

use crate::error::Error;
use crate::hosts::{Hosts, Questions};
use crate::location::{Location, Machine};
use crate::peer::Peers;
use crate::request::Request;
use crate::routed_jobs::{JobObserver, run_routed_jobs};
use haul_engine::{
    Machines, Monitor, MoveJob, NotCopied, RequestError, Requests, RoutedJob, Summary, run_move,
};
use haul_model::{Fault, words};

impl Request {
    /// Refuses sources that can't be moved, before anything is moved.
    ///
    /// # Errors
    /// If both ends are on hosts, a source has no name, or rules exclude entries: a move would
    /// take these too.
    pub fn refuse_to_move(&self) -> Result<(), Error> {
        if !self.filter.is_empty() {
            let what = "a move takes all that is named: nothing can be excluded";
            return Err(Error::refused(what.to_owned(), "name the parts to move"));
        }
        let mut sources = self.sources.iter();
        if self.dest.machine != Machine::Local
            && let Some(source) = sources.find(|source| source.machine != Machine::Local)
        {
            let what = format!("{source}: can't move from one host to another");
            return Err(Error::refused(what, "move it to this machine first"));
        }
        if let Some(source) = self.sources.iter().find(|source| is_nameless(source)) {
            let what = format!("{source}: not moved: it has no name of its own");
            return Err(Error::refused(what, "name its entries"));
        }
        Ok(())
    }

    /// Moves the sources. Returns the figures of what was done, even if the move ended early.
    pub fn run_move(
        &self,
        hosts: &Hosts,
        peers: Peers,
        monitor: &dyn Monitor,
        observer: &dyn JobObserver,
    ) -> (Summary, Result<(), Error>) {
        let job = MoveJob {
            sources: self.sources.iter().map(Location::host_path).collect(),
            dest: self.dest.host_path(),
            dest_shown: self.dest.to_string(),
            policy: self.policy,
            like: self.transfer_options.job(),
        };
        let questions = Questions::new(hosts, peers, monitor);
        run_move(&job, &mut MoveMachines { questions, observer }, monitor)
    }
}

/// True if a source has no name of its own. On a host, `~` is the home directory.
fn is_nameless(source: &Location) -> bool {
    let is_home = source.machine != Machine::Local && words::split(&source.path).whole == b"~";
    source.final_name().is_none() || is_home
}

/// The machines of a move, for the engine.
struct MoveMachines<'m> {
    questions: Questions<'m>,
    observer: &'m dyn JobObserver,
}

impl Machines for MoveMachines<'_> {
    type Host = Machine;
    type Error = Error;

    fn ask<T>(
        &mut self,
        host: Option<&Machine>,
        question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, Error> {
        self.questions.ask(host.unwrap_or(&Machine::Local), question)
    }

    fn hang_up(&mut self) {
        self.questions.hang_up();
    }

    fn copy(
        &mut self,
        routed_jobs: Vec<RoutedJob<Machine>>,
        not_copied: &NotCopied,
    ) -> Result<Summary, Error> {
        let watch = not_copied.watch(self.questions.monitor());
        match run_routed_jobs(routed_jobs, self.questions.hosts(), &watch, self.observer) {
            (summary, false) => Ok(summary),
            (_, true) => Err(Error::SourcesStay),
        }
    }

    fn remove(
        &mut self,
        routed_job: &RoutedJob<Machine>,
        monitor: &dyn Monitor,
    ) -> Result<(), Error> {
        self.observer.removes(routed_job);
        self.questions.hosts().run(routed_job, monitor).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Action, Pattern, Rule};

    #[test]
    fn a_move_with_rules_is_refused() {
        let location = |path: &str| path.parse::<Location>().expect("a location");
        let mut request = Request::new(vec![location("a")], location("b"));
        assert!(request.refuse_to_move().is_ok());
        let pattern = Pattern::new(b"*.o").expect("a pattern");
        request.filter.push(Rule::new(Action::Exclude, pattern)).expect("few rules");
        assert!(request.refuse_to_move().is_err());
    }
}
