//! `haul deploy`: puts haul onto a host, and takes it away again.

use crate::args::{Deploy, Deployment};
use crate::deployed::{deployed_line, undeployed_line};
use crate::error::{CommandError, ErrorKind, ExitCode};
use crate::hint::Hint;
use crate::progress::{Screen, diagnostics};
use crate::report::{Detail, Report, Show};
use haul::Host;
use haul::deploy::{DeployError, Deployed, LikelyCause, Program, deploy, undeploy};
use haul_engine::JobError;
use haul_net::ConnectError;
use std::path::{Path, PathBuf};

/// Where Linux shows the program of a process, even if its file has another
/// name by now, or none.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Deploys or removes, and reports the result.
pub(super) fn run(deploy: &Deploy) -> ExitCode {
    let screen = Screen::default();
    let show = if deploy.quiet { Show::Quiet } else { Show::Normal };
    let report = Report::new(Detail::Text(show), &screen);
    let host = &deploy.host;
    let done = match &deploy.action {
        Deployment::Install(binary) => install(host, binary.as_deref(), &screen)
            .map(|deployed| deployed_line(&host.to_string(), deployed.bytes, deployed.change)),
        Deployment::Remove => undeploy(host.ssh(), &diagnostics(&screen))
            .map(|undeployed| undeployed_line(host, undeployed))
            .map_err(CommandError::from),
    };
    if let (Ok(_), Deployment::Install(_), Some(path), true) =
        (&done, &deploy.action, &deploy.configured_program, report.shows_warnings())
    {
        let message = format!(
            "the configuration sets remote-haul to '{path}': other commands start that, not the installed haul"
        );
        report.warning(host.to_string().as_bytes(), &message);
    }
    match done {
        Ok(line) => report.conclude(ExitCode::Success, &line),
        Err(error) => report.abort(&error, None),
    }
}

/// Puts the haul at `binary`, or else this one, onto the host, where a later
/// connection finds it. What ssh has to say is shown on `screen`.
///
/// # Errors
/// With what the user can do. What was on the host before still is.
pub(crate) fn install(
    host: &Host,
    binary: Option<&Path>,
    screen: &Screen,
) -> Result<Deployed, CommandError> {
    let program = match binary {
        Some(path) => Program::open(path)?,
        None => Program::own(&own_program()?)?,
    };
    Ok(deploy(host.ssh(), &diagnostics(screen), &program, &|| false)?)
}

/// The path of the program that runs now.
///
/// # Errors
/// When the system does not know it.
pub(crate) fn own_program() -> Result<PathBuf, CommandError> {
    if Path::new(OWN_PROGRAM).exists() {
        return Ok(OWN_PROGRAM.into());
    }
    std::env::current_exe().map_err(|error| {
        CommandError::io(format!("can't find the file of this program: {error}"))
            .with_hint("name it with --binary PATH")
    })
}

impl Hint for DeployError {
    type Text = &'static str;

    fn hint(&self) -> Option<&'static str> {
        match self {
            // The caller knows more about connections.
            Self::Job(_) => None,
            Self::Program { .. } => {
                Some("build one with 'cargo xtask dist', and name it with --binary PATH")
            }
            Self::Bound { .. } => Some("use the haul that is there, or an unrestricted login"),
            Self::FactsMissing { .. } => {
                Some("install haul by hand: 'haul deploy' needs sh, uname, id, date and pwd")
            }
            Self::WrongMachine { .. } => {
                Some("name a haul built for that machine with --binary PATH, or install it by hand")
            }
            Self::Place { hint, .. } => Some(hint),
            Self::Irreplaceable { .. } => Some("run 'haul deploy --remove', then deploy again"),
            Self::Sftp { .. } | Self::Upload { .. } => {
                Some("check free space and write permission on the host")
            }
            Self::Differs { .. } => {
                Some("run the same command again; if it fails again, check the host's disk")
            }
            Self::NoHaul { .. } => Some(
                "name a haul with --binary PATH ('cargo xtask dist' builds one), or leave it out to install this one",
            ),
            Self::DoesNotStart { suspect: LikelyCause::Libraries, .. } => Some(
                "it may need newer libraries: build a static haul with 'cargo xtask dist', and name it with --binary PATH",
            ),
            Self::DoesNotStart { suspect: LikelyCause::Directory, .. } => Some(
                "check whether the directory is mounted 'noexec'; install haul elsewhere by hand",
            ),
            Self::Version { .. } => {
                Some("deploy from that version, or name this version with --binary PATH")
            }
        }
    }
}

impl From<DeployError> for CommandError {
    fn from(error: DeployError) -> Self {
        let kind = match error {
            DeployError::Job(JobError::Connection(
                missing @ ConnectError::SubsystemMissing { .. },
            )) => {
                return Self::from(missing)
                    .with_hint("install haul by hand: 'haul deploy' needs SFTP");
            }
            DeployError::Job(error) => return error.into(),
            DeployError::Program { .. } => ErrorKind::Usage,
            _ => ErrorKind::Destination,
        };
        let hint = error.hint();
        hint.into_iter().fold(Self::new(kind, error), Self::with_hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul::deploy::Undeployed;
    use haul_engine::Change;

    #[test]
    fn lines_say_what_was_done_and_where() {
        let host = Host::new(Some("ann"), "box").expect("names that are right");
        let deployed = |change| deployed_line(&host.to_string(), 5 << 20, change);
        let undeployed =
            |was_there, dirs_kept| undeployed_line(&host, Undeployed { was_there, dirs_kept });
        let lines = [
            deployed(Change::New),
            deployed(Change::Replaced),
            deployed(Change::Nothing),
            undeployed(true, false),
            undeployed(true, true),
            undeployed(false, false),
        ];
        insta::assert_snapshot!(lines.concat(), @r"
        installed haul 0.1.0 as ann@box:~/.local/share/haul/bin/haul, 5.0 MiB
        installed haul 0.1.0 as ann@box:~/.local/share/haul/bin/haul, 5.0 MiB, replacing another
        haul 0.1.0 is already installed: ann@box:~/.local/share/haul/bin/haul
        removed ann@box:~/.local/share/haul/bin/haul
        removed ann@box:~/.local/share/haul/bin/haul; its directory is not empty and stays
        nothing to remove: no ann@box:~/.local/share/haul/bin/haul
        ");
    }

    #[test]
    fn the_class_of_an_error_follows_from_whose_fault_it_is() {
        let code = |error: DeployError| CommandError::from(error).kind.exit_code().number();
        let host = || "box".to_owned();
        assert_eq!(code(DeployError::Program { path: "x".into(), why: "y".into() }), 2);
        assert_eq!(code(DeployError::Version { theirs: "7".into() }), 4);
        let taken = DeployError::Irreplaceable { host: host(), path: "x".into() };
        assert!(taken.hint().is_some_and(|hint| hint.contains("run 'haul deploy --remove'")));
        assert_eq!(code(taken), 4);
        assert_eq!(code(JobError::Interrupted.into()), 130);
        let missing = JobError::from(ConnectError::SubsystemMissing { host: host(), name: "sftp" });
        let error = CommandError::from(DeployError::from(missing));
        assert_eq!(error.kind.exit_code().number(), 3);
        assert_eq!(error.hints.len(), 2);
    }
}
