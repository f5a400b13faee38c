//! The host that haul is installed on: the facts that it reports, and the shell there that runs the
//! upload.

use super::{DeployError, LikelyCause, Program, VERSION};
use haul_engine::{JobError, PROTOCOL, greet};
use haul_model::{HostFacts, escape_bytes};
use haul_net::{Closer, ConnectError, Connection, DEPLOY_MARKER, Writer};
use haul_proto::{FrameType, Header};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

/// Maximum length, in bytes, of a line with facts about a host. A path may be that long.
const LINE_LEN_MAX: u64 = 4 << 10;

/// The exit status of a shell for a command that is not executable (POSIX, 2.8.2).
const NOT_EXECUTABLE: i32 = 126;

/// A host, and the facts that it reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// Its name, safe to show.
    pub(super) name: String,
    pub(super) facts: HostFacts,
}

/// A waiting shell on the host.
pub(super) struct Shell {
    pub(super) host: Host,
    input: BufReader<Box<dyn Read + Send>>,
    output: Writer,
    closer: Closer,
}

impl Shell {
    /// Waits for the login, and for the facts about the host.
    pub(super) fn start(connection: Connection) -> Result<Self, DeployError> {
        let Connection { reader, mut writer, closer } = connection;
        let name = closer.peer().to_owned();
        let mut input = BufReader::new(reader);
        let asked = writer.write_all(format!("{DEPLOY_MARKER}\n").as_bytes());
        let asked = asked.and_then(|()| writer.flush());
        let login_max = closer.timeouts().login_max;
        let read = || asked.and_then(|()| Host::read(name, &mut input));
        let (read, is_late) = closer.killer().within(login_max, read).map_err(JobError::Threads)?;
        match read {
            Ok(Ok(host)) => Ok(Self { host, input, output: writer, closer }),
            _ if is_late => Err(JobError::from(closer.unanswered(login_max)).into()),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                drop((input, writer));
                Err(JobError::from(closer.explain()).into())
            }
        }
    }

    /// Names the file that will be uploaded. From now on the shell removes it if this side
    /// disconnects.
    pub(super) fn stage(&mut self, digits: &str) -> io::Result<()> {
        debug_assert!(digits.bytes().all(|b| b.is_ascii_alphanumeric()));
        self.output.write_all(format!("{digits}\n").as_bytes())?;
        self.output.flush()
    }

    /// The reason why the shell's stream broke.
    pub(super) fn broken(self) -> DeployError {
        let Self { input, output, closer, .. } = self;
        drop((input, output));
        JobError::from(closer.explain()).into()
    }

    /// Runs the named file, and waits up to `timeout` for its greeting. It must be this version of
    /// haul.
    pub(super) fn run(self, program: &Program, timeout: Duration) -> Result<(), DeployError> {
        let Self { host, mut input, mut output, closer } = self;
        let fails_so = |cause: String, suspect| {
            let host = host.name.clone();
            match program.looks_like_haul() {
                true => DeployError::DoesNotStart { host, cause, suspect },
                false => DeployError::NoHaul { host, cause },
            }
        };
        let suspect = match program.machine.dynamic {
            true => LikelyCause::Libraries,
            false => LikelyCause::Directory,
        };
        let fails = |cause: String| fails_so(cause, suspect);
        let greeting = || {
            output.write_all(b"\n")?;
            greet(&mut input, &mut output, &host.name, closer.timeouts())
        };
        let (answer, is_late) = closer
            .killer()
            .within(Some(timeout), greeting)
            .map_err(|error| fails(error.to_string()))?;
        // The program reads the end of its input, and exits.
        drop((input, output));
        match answer {
            Ok(Ok(agent)) if agent.version == PROTOCOL && agent.program == VERSION => Ok(()),
            Ok(Ok(agent)) => Err(DeployError::Version { theirs: agent.program }),
            _ if is_late => {
                let seconds = timeout.as_secs_f64();
                Err(fails(format!("no greeting within {seconds:.0} s")))
            }
            Ok(Err(error)) => Err(fails(error.to_string())),
            Err(_) => Err(match closer.finish() {
                Ok(()) => fails("it ended without a greeting".into()),
                Err(error @ ConnectError::Agent { status: NOT_EXECUTABLE, .. }) => {
                    fails_so(error.to_string(), LikelyCause::Directory)
                }
                Err(error) => fails(error.to_string()),
            }),
        }
    }
}

impl Host {
    /// Reads the facts that the host reports. Anything else is a [`DeployError`].
    ///
    /// # Errors
    /// If the stream ends or breaks.
    fn read(
        name: String,
        input: &mut BufReader<impl Read>,
    ) -> io::Result<Result<Self, DeployError>> {
        let marker = line(input)?;
        if marker != DEPLOY_MARKER.as_bytes() {
            let text = [&marker, input.buffer()].concat();
            // An agent answers every invalid greeting with an abort.
            let header = text.first_chunk().and_then(|first| Header::decode(*first).ok());
            if header.is_some_and(|header| header.kind == FrameType::Abort) {
                return Ok(Err(DeployError::Bound { host: name }));
            }
            return Ok(Err(JobError::from(ConnectError::noisy_shell(&name, &text)).into()));
        }
        let said = [line(input)?, line(input)?, line(input)?, line(input)?, line(input)?];
        Ok(match HostFacts::parse(said.each_ref().map(Vec::as_slice)) {
            Some(facts) => Ok(Self { name, facts }),
            None => {
                let said = escape_bytes(&said.join(&b"; "[..]));
                Err(DeployError::FactsMissing { host: name, said })
            }
        })
    }

    /// Checks that the program is built for this host.
    pub(super) fn check_fit(&self, program: &Program) -> Result<(), DeployError> {
        let ours = program.machine;
        if self.facts.system_and_processor() == Some((ours.system, ours.processor)) {
            return Ok(());
        }
        Err(DeployError::WrongMachine {
            host: self.name.clone(),
            theirs: escape_bytes(self.facts.machine.as_bytes()),
            ours: format!("{} on {}", ours.system, ours.processor),
        })
    }
}

/// Reads a line, without its end. A longer line is cut, and is then no valid answer.
fn line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.take(LINE_LEN_MAX).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Err(io::ErrorKind::UnexpectedEof.into()),
        Some(b'\n') => Ok(line),
        Some(last) => {
            line.push(last);
            Ok(line)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(said: &[u8]) -> Result<Host, String> {
        match Host::read("box".into(), &mut BufReader::new(said)) {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err("lost".to_owned()),
        }
    }

    #[test]
    fn six_lines_describe_a_host() {
        let host = read(b"haul-deploy\nLinux x86_64\n1000\n100\n1700000000\n/home/a b\xff\nmore");
        let facts = HostFacts {
            machine: "Linux x86_64".into(),
            user: 1000,
            own_group: Some(100),
            now: 1_700_000_000,
            home: b"/home/a b\xff".to_vec(),
        };
        assert_eq!(host, Ok(Host { name: "box".into(), facts }));
        for cut in [&b""[..], b"haul-deploy\n", b"haul-deploy\nLinux x86_64\n0\n-\n1\n"] {
            assert_eq!(read(cut), Err("lost".into()));
        }
    }

    #[test]
    fn unexpected_output_of_a_host_is_shown_in_the_error() {
        let noisy = read(b"Welcome\x1b!\nhaul-deploy\n").expect_err("no host");
        assert!(noisy.contains("sent text") && noisy.contains("Welcome\\x1b!"), "{noisy}");
        let sftp_only = read(b"This service allows sftp connections only.\n");
        assert_eq!(sftp_only, Err("box allows only SFTP".into()));
        for said in [
            &b"haul-deploy\nsh: uname: not found\n0\n-\n1\nhome\x1b[2J\n"[..],
            b"haul-deploy\nLinux x86_64\n-1\n-\n1\n/home\n",
            b"haul-deploy\nLinux x86_64\n0\n-\nnow\n/home\n",
            b"haul-deploy\nLinux x86_64\n4294967296\n-\n1\n/home\n",
            b"haul-deploy\nLinux x86_64\n0\n-\n1\n/ho\0me\n",
            b"haul-deploy\nLinux x86_64\n0\nstaff\n1\n/home\n",
            b"haul-deploy\nLinux x86_64\n0\n\n1\n/home\n",
        ] {
            let error = read(said).expect_err("no host");
            assert!(error.starts_with("box: unexpected output of uname"), "{error}");
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn an_endless_line_is_cut() {
        let endless = BufReader::new(io::repeat(b'x'));
        let mut endless = BufReader::new(endless.chain(&b""[..]));
        assert_eq!(line(&mut endless).expect("a line").len() as u64, LINE_LEN_MAX);
        let long = [b"haul-deploy\n", &vec![b'x'; 9000][..], b"\n0\n-\n0\n/\n"].concat();
        assert!(read(&long).expect_err("no host").starts_with("box: unexpected output"));
    }

    proptest! {
        #[test]
        fn any_output_of_a_host_is_read_without_a_panic(
            lines in proptest::collection::vec(
                prop_oneof![
                    Just(DEPLOY_MARKER.as_bytes().to_vec()),
                    "(/|Linux x86_64|-|[0-9]{1,11})".prop_map(String::into_bytes),
                    proptest::collection::vec(any::<u8>(), 0..40),
                    Just(vec![b'x'; LINE_LEN_MAX as usize]),
                ],
                0..8,
            ),
        ) {
            for begin in [&b"haul-deploy\n"[..], b""] {
                let said = [begin, &lines.join(&b'\n')].concat();
                match read(&said) {
                    Ok(host) => {
                        prop_assert!(said.starts_with(b"haul-deploy\n"));
                        prop_assert!(host.facts.home.len() < LINE_LEN_MAX as usize);
                    }
                    Err(error) => prop_assert!(!error.contains(char::is_control), "{error:?}"),
                }
            }
        }
    }
}
