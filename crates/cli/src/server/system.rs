//! systemd: state notifications, and the unit files of a service.

use std::env;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The variable with the address for notifications.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Sends the state to systemd, if the variable is set.
pub(super) fn notify(state: &str) {
    let Some(address) = env::var_os(SOCKET) else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    let state = match state {
        "RELOADING=1" => {
            // systemd compares this with its monotonic clock.
            let up = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
            let seconds = up.split(' ').next().and_then(|word| word.parse::<f64>().ok());
            let micros = seconds.unwrap_or_default() * 1e6;
            format!("{state}\nMONOTONIC_USEC={micros:.0}")
        }
        state => state.to_owned(),
    };
    // systemd may no longer listen.
    #[cfg(target_os = "linux")]
    if let Some(name) = address.to_str().and_then(|address| address.strip_prefix('@')) {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name);
        let _ = address.and_then(|address| socket.send_to_addr(state.as_bytes(), &address));
        return;
    }
    let _ = socket.send_to(state.as_bytes(), PathBuf::from(address));
}

/// A unit file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// Hardening of a system service: a server of root becomes the users of its clients, and needs no
/// other privileges.
const HARDENING: &str = "\
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
PrivateDevices=yes
CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH \
CAP_FOWNER CAP_CHOWN CAP_KILL CAP_NET_BIND_SERVICE
";

/// The service and socket units of a server, for one `user` or the whole system. `variables`
/// determine the paths of the server's files. `listen` are the socket's addresses, also for UDP if
/// `quic` is set.
pub(crate) fn unit_files(
    program: &Path,
    variables: &[(&str, PathBuf)],
    listen: &[String],
    quic: bool,
    user: bool,
) -> [Unit; 2] {
    let program = quoted(program);
    let environment: String = variables
        .iter()
        .map(|(name, path)| format!("Environment=\"{name}={}\"\n", quoted(path)))
        .collect();
    let (wanted_by, hardening) = match user {
        true => ("default.target", ""),
        false => ("multi-user.target", HARDENING),
    };
    // Each of the inserted lines has its line end.
    let service = include_str!("haul.service")
        .replace("{hardening}\n", hardening)
        .replace("{wanted-by}", wanted_by)
        .replace("{environment}\n", &environment)
        .replace("{program}", &program);
    let lines = |kind: &str| -> String {
        listen.iter().map(|address| format!("{kind}={address}\n")).collect()
    };
    let datagrams = if quic { lines("ListenDatagram") } else { String::new() };
    let listen = lines("ListenStream") + &datagrams;
    let socket = include_str!("haul.socket").replace("{listen}\n", &listen);
    [Unit { name: "haul.service", text: service }, Unit { name: "haul.socket", text: socket }]
}

/// Quotes `path` for a unit file.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_path_is_one_word_of_a_unit() {
        assert_eq!(quoted(Path::new("/a b/50%/\"x\"")), "/a b/50%%/\\\"x\\\"");
    }

    #[test]
    fn systemd_understands_the_units() {
        let program = "systemd-analyze";
        if Command::new(program).arg("--version").output().is_err() {
            return;
        }
        let listen = ["127.0.0.1:28790".to_owned(), "[::1]:28790".to_owned()];
        for kind in ["--user", "--system"] {
            let dir = tempfile::tempdir().expect("a directory");
            let haul = std::env::current_exe().expect("a program");
            let home = [("HOME", dir.path().to_owned())];
            let units = unit_files(&haul, &home, &listen, true, kind == "--user");
            let paths = units.map(|unit| {
                let path = dir.path().join(unit.name);
                std::fs::write(&path, unit.text).expect("written");
                path
            });
            let mut verify = Command::new(program);
            verify.args(["verify", "--man=no", kind]).args(paths);
            let output = verify.env("XDG_RUNTIME_DIR", dir.path()).output().expect("it runs");
            // systemd warns about an unknown directive.
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{kind}: {said}");
        }
    }

    #[test]
    fn units_start_this_program_and_listen_where_the_settings_say() {
        let listen = ["127.0.0.1:28790".to_owned(), "[::1]:28790".to_owned()];
        let files = |user| {
            let variables = [("HOME", "/home/ann"), ("XDG_STATE_HOME", "/var/lib/ann 1")];
            let variables = variables.map(|(name, path)| (name, path.into()));
            let [service, socket] =
                unit_files(Path::new("/opt/haul"), &variables, &listen, true, user);
            format!("# {}\n{}\n# {}\n{}", service.name, service.text, socket.name, socket.text)
        };
        insta::assert_snapshot!("user", files(true));
        insta::assert_snapshot!("system", files(false));
    }
}
