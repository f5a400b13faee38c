//! The hosts that the jobs of a command go to: through the haul there, or where
//! there is none through the host's SFTP server.

use crate::command::deploy;
use crate::error::CommandError;
use crate::location::Place;
use crate::peer::{self, Reaches, WithoutHaul};
use crate::progress::Screen;
use crate::state;
use haul_engine::{Event, Job, JobError, Leg, Monitor, Placement, Route, SftpRoute, Summary};
use haul_net::{ConnectError, SshTarget};
use std::sync::{Mutex, PoisonError};

/// The hosts of a command.
pub(crate) struct Hosts {
    screen: Screen,
    reaches: Reaches,
    /// Those that turned out to have no haul.
    lacking: Mutex<Vec<SshTarget>>,
}

impl Hosts {
    /// None is known yet; what ssh has to say is shown on `screen`.
    pub(crate) fn new(reaches: Reaches, screen: &Screen) -> Self {
        Self { screen: screen.clone(), reaches, lacking: Mutex::default() }
    }

    /// Where ssh shows what it has to say.
    pub(crate) fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Runs the job of `leg`.
    ///
    /// # Errors
    /// When there is no way to the host, or the job as a whole fails.
    pub(crate) fn run(
        &self,
        leg: &Leg<Place>,
        monitor: &dyn Monitor,
    ) -> Result<Summary, CommandError> {
        let place = match &leg.route {
            Route::Local => &Place::Here,
            Route::Upload(place) | Route::Download(place) => place,
        };
        self.run_at(place, leg, monitor).map_err(|error| match place {
            Place::Here => error,
            Place::There(target) | Place::Sftp(target) => {
                let there = matches!(leg.route, Route::Upload(_)).then(|| target.display());
                self.reaches.explained(target, error.at_host(there.as_deref()))
            }
        })
    }

    fn run_at(
        &self,
        place: &Place,
        leg: &Leg<Place>,
        monitor: &dyn Monitor,
    ) -> Result<Summary, CommandError> {
        let Leg { job, route } = leg;
        match place {
            Place::Here => Ok(haul_engine::run(job, Placement::Local, monitor)?),
            Place::Sftp(target) => Ok(self.run_sftp(job, route, target, monitor)?),
            Place::There(target) if self.lacks_haul(target) => {
                Ok(self.run_sftp(job, route, target, monitor)?)
            }
            Place::There(target) => {
                let missing = match self.run_agent(job, route, target, monitor) {
                    Err(JobError::Connection(error)) if error.lacks_haul() => error,
                    ran => return Ok(ran?),
                };
                let reach = self.reaches.of(target);
                if reach.deploy && !matches!(missing, ConnectError::SftpOnly { .. }) {
                    self.deploy(target, monitor)?;
                    return Ok(self.run_agent(job, route, target, monitor)?);
                }
                match reach.without_haul {
                    WithoutHaul::Fail => Err(missing.into()),
                    _ => self.run_without(job, route, target, missing, monitor),
                }
            }
        }
    }

    /// Puts haul onto a host that has none.
    fn deploy(&self, target: &SshTarget, monitor: &dyn Monitor) -> Result<(), CommandError> {
        let put = deploy::put(target, None, &self.screen, &|| monitor.cancelled());
        // Ctrl-C ends ssh too, and what is seen of it first is a broken connection.
        let put = put.map_err(|error| match monitor.cancelled() {
            true => CommandError::interrupted(),
            false => error,
        })?;
        let host = target.display();
        let line = deploy::deployed_line(target, put);
        let message = format!("no haul there: {}", line.trim_end());
        monitor.event(Event::Warning { path: host.as_bytes(), message: &message });
        Ok(())
    }

    /// Runs `job` with the haul of the host.
    fn run_agent(
        &self,
        job: &Job,
        route: &Route<Place>,
        target: &SshTarget,
        monitor: &dyn Monitor,
    ) -> Result<Summary, JobError> {
        let connection = peer::connect(target, job.task, &self.screen)?;
        let placement = match route {
            Route::Download(_) => Placement::Download(connection),
            Route::Local | Route::Upload(_) => Placement::Upload(connection),
        };
        haul_engine::run(job, placement, monitor)
    }

    /// Runs `job` through the SFTP server of a host where haul is `missing`.
    fn run_without(
        &self,
        job: &Job,
        route: &Route<Place>,
        target: &SshTarget,
        missing: ConnectError,
        monitor: &dyn Monitor,
    ) -> Result<Summary, CommandError> {
        let connections = match self.connect(target) {
            Ok(connections) => connections,
            Err(neither) => return Err(neither_helps(missing.into(), &neither)),
        };
        let host = target.display();
        monitor.event(Event::Warning {
            path: host.as_bytes(),
            message: &match missing {
                // No program can be started there.
                ConnectError::SftpOnly { .. } => {
                    "it allows SFTP alone: going on through that".into()
                }
                _ => format!(
                    "no haul there: going on through SFTP; \"haul deploy {host}\" makes it faster"
                ),
            },
        });
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner).push(target.clone());
        match self.go_through(job, route, connections, monitor) {
            Err(JobError::Connection(neither)) if neither.lacks_sftp() => {
                Err(neither_helps(missing.into(), &JobError::from(neither)))
            }
            ran => Ok(ran?),
        }
    }

    fn lacks_haul(&self, target: &SshTarget) -> bool {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner).contains(target)
    }

    fn run_sftp(
        &self,
        job: &Job,
        route: &Route<Place>,
        target: &SshTarget,
        monitor: &dyn Monitor,
    ) -> Result<Summary, JobError> {
        self.go_through(job, route, self.connect(target)?, monitor)
    }

    /// Connects to the SFTP server of a host, as often as the user wants.
    fn connect(&self, target: &SshTarget) -> Result<Vec<haul_net::Connection>, JobError> {
        let connect = |_| peer::connect_sftp(target, &self.screen);
        Ok((0..self.reaches.of(target).parallel.get()).map(connect).collect::<Result<_, _>>()?)
    }

    fn go_through(
        &self,
        job: &Job,
        route: &Route<Place>,
        connections: Vec<haul_net::Connection>,
        monitor: &dyn Monitor,
    ) -> Result<Summary, JobError> {
        let changes_host = matches!(route, Route::Upload(_)) && !job.task.keeps_destination();
        let journals = if changes_host { state::journals() } else { None };
        if changes_host && journals.is_none() {
            monitor.event(Event::Warning {
                path: b"XDG_STATE_HOME",
                message: "neither it nor HOME is an absolute path, so there is no place for journals: interrupted uploads of large files can't be gone on with, and what a killed one leaves stays at the host; set one of them",
            });
        }
        let route_there = SftpRoute { connections, journals, silence_max: None };
        let placement = match route {
            Route::Download(_) => Placement::SftpDownload(route_there),
            Route::Local | Route::Upload(_) => Placement::SftpUpload(route_there),
        };
        haul_engine::run(job, placement, monitor)
    }
}

/// SFTP would have been of help; that it isn't there is not what is wrong.
fn neither_helps(missing: CommandError, neither: &JobError) -> CommandError {
    missing.with_hint(format!("SFTP is of no help either: {neither}"))
}
