//! `haul doctor`: finds out how fast a host is, and the way to it.

mod advice;
mod shown;

#[cfg(test)]
pub(crate) use self::shown::samples as doctor_samples;

use self::advice::{Advice, advice};
use crate::args::Doctor;
use crate::error::{CommandError, ExitCode};
use crate::progress::{Screen, diagnostics};
use crate::report::Report;
use haul::doctor::{ExamineOptions, ExamineStep, Examined, Findings, examine};
use haul::servers;
use haul::{AnsweringHost, Call, Machine, UseServer};
use haul_engine::LinkEvent;
use haul_model::FaultKind;
use std::time::Duration;

/// Measures, and says what was found.
pub(super) fn run(doctor: &Doctor) -> ExitCode {
    let screen = Screen::default();
    let report = &Report::new(doctor.detail, &screen);
    let diagnosis = diagnose(doctor, report, &screen);
    screen.clear();
    match diagnosis {
        Ok(diagnosis) => {
            if let Some(Err(fault)) = diagnosis.there().and_then(|there| there.disk.as_ref()) {
                let path = doctor.path.clone().unwrap_or_default();
                let host = Some(diagnosis.host.clone());
                report.fault_with((host, path), fault, hint(fault.kind));
            }
            report.conclude(diagnosis.code(), &diagnosis)
        }
        Err(error) => report.abort(&error, None),
    }
}

/// The hint where a disk can't be measured: it is about no copy.
fn hint(kind: FaultKind) -> Option<&'static str> {
    Some(match kind {
        FaultKind::NotFound | FaultKind::NotDirectory => {
            "name an existing directory; nothing is left in it"
        }
        FaultKind::PermissionDenied | FaultKind::ReadOnly => {
            "name a directory that you can write to, for a temporary file"
        }
        FaultKind::NoSpace => "name a directory with 64 MiB of free space",
        _ => return None,
    })
}

/// All that was found out about a host.
struct Diagnosis<'d> {
    /// Its name, safe to show.
    host: String,
    /// The time until the greeting of the host.
    login: Duration,
    /// It is reached by its server, and not by ssh.
    by_server: bool,
    findings: Findings,
    /// The directory whose disk was measured.
    path: Option<&'d [u8]>,
    advice: Vec<Advice>,
}

impl Diagnosis<'_> {
    fn there(&self) -> Option<&Examined> {
        self.findings.there.as_ref()
    }

    /// Success only if all was measured.
    fn code(&self) -> ExitCode {
        let disk_failed = |disk: &Option<Result<_, _>>| disk.as_ref().is_some_and(Result::is_err);
        match self.there() {
            Some(there) if there.machine.is_some() && !disk_failed(&there.disk) => {
                ExitCode::Success
            }
            _ => ExitCode::SomeFailed,
        }
    }
}

fn diagnose<'d>(
    doctor: &'d Doctor,
    report: &Report,
    screen: &Screen,
) -> Result<Diagnosis<'d>, CommandError> {
    let machine = doctor.machine.clone();
    let Machine::Remote(mut host) = machine.clone() else {
        return Err(CommandError::usage("the host is missing"));
    };
    if host.server == UseServer::IfKnown && servers::find(host.name())?.is_some() {
        // Advice about ssh would be wrong: paths mean other places there.
        host.server = UseServer::Always(None);
    }
    let (host, diagnostics) = (&host, &diagnostics(screen));
    let by_server = !host.by_sftp && matches!(host.server, UseServer::Always(_));
    let answering = if host.by_sftp {
        AnsweringHost::at_sftp(host, diagnostics)?
    } else {
        // As a copy does it, with the ciphers that it would have.
        let on_event = &|event: LinkEvent<'_>| report.link(event);
        let call = Call {
            host,
            may_be_kept: false,
            is_reconnect: false,
            has_content: true,
            diagnostics,
            on_event,
            server_is_silent: false,
            cancelled: &|| false,
        };
        AnsweringHost::at(&call).map_err(CommandError::at(&machine))?
    };
    let AnsweringHost { mut requests, login, .. } = answering;
    let draws_progress = report.is_text() && Screen::is_terminal();
    let on_step = |step: ExamineStep| {
        if draws_progress {
            screen.draw(format!("measuring {}", shown::step(step)));
        }
    };
    let options =
        ExamineOptions { path: doctor.path.as_deref(), ports: doctor.ports, on_step: &on_step };
    let findings = examine(&mut requests, &options)?;
    let (path, host) = (doctor.path.as_deref(), host.to_string());
    let advice = advice(&host, &findings, by_server);
    Ok(Diagnosis { host, login, by_server, findings, path, advice })
}
