//! Files that are written for a server before it starts: keys, and the configuration
//! of both sides.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::{Sftp, SshdBuilder, write};
use crate::{at, failed};

/// Keeps sshd from shutting out an address whose logins fail, as it does from 9.8 on.
const NO_PENALTIES: &str = "PerSourcePenalties no";

impl SshdBuilder {
    pub(super) fn server_config(
        &self,
        dir: &Path,
        port: u16,
        marker: &str,
        sshd: &Path,
    ) -> io::Result<String> {
        let path = |name: &str| quoted(&dir.join(name));
        let mut env = format!("SetEnv {marker}");
        for (name, value) in &self.env {
            env.push_str(&format!(" \"{name}={value}\""));
        }
        if !self.env.iter().any(|(name, _)| name == "HOME") {
            // A shell that sshd starts reads the user's startup files, which
            // may take any time, or wait for each other.
            env.push_str(&format!(" \"HOME={}\"", dir.display()));
        }
        let use_pam = if needs_pam() { "yes" } else { "no" };
        let mut lines = self.server_lines.clone();
        lines.extend([
            format!("Port {port}"),
            format!("ListenAddress {}", self.address),
            format!("HostKey {}", path("host_key")),
            format!("AuthorizedKeysFile {}", path("authorized_keys")),
            format!("PidFile {}", path("pid")),
            format!("UsePAM {use_pam}"),
            "PermitRootLogin yes".to_owned(),
            "PubkeyAuthentication yes".to_owned(),
            "PasswordAuthentication no".to_owned(),
            "KbdInteractiveAuthentication no".to_owned(),
            "PermitUserEnvironment no".to_owned(),
            "PermitUserRC no".to_owned(),
            "StrictModes no".to_owned(),
            "UseDNS no".to_owned(),
            "PrintMotd no".to_owned(),
            "LogLevel ERROR".to_owned(),
            // Tests open many connections at once.
            "MaxStartups 1000".to_owned(),
            "MaxSessions 1000".to_owned(),
            env,
        ]);
        match &self.sftp {
            Sftp::System => {
                let command = system_sftp_server().map(|path| path.display().to_string());
                let command = command.unwrap_or_else(|| "internal-sftp".to_owned());
                lines.push(format!("Subsystem sftp {command}"));
            }
            Sftp::Command(command) => lines.push(format!("Subsystem sftp {command}")),
            Sftp::Nothing => {}
        }
        if has_penalties(sshd, dir)? {
            lines.push(NO_PENALTIES.to_owned());
        }
        Ok(lines.join("\n") + "\n")
    }

    pub(crate) fn client_config(&self, dir: &Path, port: u16) -> io::Result<String> {
        let path = |name: &str| quoted(&dir.join(name));
        let key_file = dir.join("host_key.pub");
        let key = fs::read_to_string(&key_file).map_err(|e| at("read", &key_file, e))?;
        write(&dir.join("known_hosts"), &format!("[{}]:{port} {key}", self.address))?;
        let mut lines = vec![format!("Host {}", self.host)];
        lines.extend(self.client_lines.clone());
        lines.extend([
            format!("HostName {}", self.address),
            format!("Port {port}"),
            format!("User {}", current_user()?),
            format!("IdentityFile {}", path("user_key")),
            "IdentitiesOnly yes".to_owned(),
            "IdentityAgent none".to_owned(),
            format!("UserKnownHostsFile {}", path("known_hosts")),
            "GlobalKnownHostsFile /dev/null".to_owned(),
            "StrictHostKeyChecking accept-new".to_owned(),
            "BatchMode yes".to_owned(),
            "LogLevel ERROR".to_owned(),
        ]);
        Ok(lines.join("\n    ") + "\n")
    }
}

/// Puts a key pair at `path`. Each name has one pair for all servers of this process: to make
/// one starts a program. OpenSSH signs faster with keys of this kind than with Ed25519.
pub(crate) fn put_key(path: &Path) -> io::Result<()> {
    static PAIRS: Mutex<BTreeMap<OsString, [Vec<u8>; 2]>> = Mutex::new(BTreeMap::new());
    let name = path.file_name().unwrap_or_default().to_owned();
    let files = [path.to_owned(), path.with_extension("pub")];
    let mut pairs = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pair) = pairs.get(&name) {
        for (file, content) in files.iter().zip(pair) {
            fs::write(file, content).map_err(|e| at("write", file, e))?;
        }
    } else {
        make_key(path)?;
        let [private, public] = files.each_ref().map(fs::read);
        pairs.insert(name, [private?, public?]);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|e| at("set the mode of", path, e))
}

fn make_key(path: &Path) -> io::Result<()> {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ecdsa", "-N", "", "-C", "haul-test", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| at("run ssh-keygen for", path, e))?;
    if !made.status.success() {
        return Err(failed(format!("ssh-keygen: {}", String::from_utf8_lossy(&made.stderr))));
    }
    Ok(())
}

/// True if this version of sshd takes [`NO_PENALTIES`]. It is asked once.
fn has_penalties(sshd: &Path, dir: &Path) -> io::Result<bool> {
    static HAS: OnceLock<bool> = OnceLock::new();
    if let Some(has) = HAS.get() {
        return Ok(*has);
    }
    let has = accepts_line(sshd, dir, NO_PENALTIES)?;
    Ok(*HAS.get_or_init(|| has))
}

/// True if sshd takes the line, in a configuration of nothing else.
fn accepts_line(sshd: &Path, dir: &Path, line: &str) -> io::Result<bool> {
    let config = dir.join("probe");
    write(&config, &format!("{line}\nHostKey {}\n", quoted(&dir.join("host_key"))))?;
    let tested = Command::new(sshd).arg("-t").arg("-f").arg(&config).stdin(Stdio::null()).output();
    Ok(tested.map_err(|e| at("run", sshd, e))?.status.success())
}

/// True if sshd has to ask PAM whether the account may log in. Without PAM it
/// looks at the password itself and refuses a locked one, even with a key; and
/// what it may not read, when it is not root, counts as locked.
fn needs_pam() -> bool {
    let locked = |shadow: String| shadow.lines().any(|line| line.starts_with("root:!"));
    !rustix::process::geteuid().is_root() || fs::read_to_string("/etc/shadow").is_ok_and(locked)
}

/// The name of this user. It is asked for once.
fn current_user() -> io::Result<String> {
    static NAME: OnceLock<String> = OnceLock::new();
    if let Some(name) = NAME.get() {
        return Ok(name.clone());
    }
    let named = Command::new("id").arg("-un").output()?;
    let name = String::from_utf8_lossy(&named.stdout).trim().to_owned();
    if name.is_empty() {
        return Err(failed("`id -un` says nothing"));
    }
    Ok(NAME.get_or_init(|| name).clone())
}

/// The system's program that serves SFTP on its standard input and output.
pub fn system_sftp_server() -> Option<PathBuf> {
    find(
        "sftp-server",
        &["/usr/lib/openssh", "/usr/libexec/openssh", "/usr/libexec", "/usr/lib/ssh"],
    )
}

pub(crate) fn find(program: &str, dirs: &[&str]) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = dirs.iter().map(PathBuf::from).chain(std::env::split_paths(&on_path));
    dirs.map(|dir| dir.join(program)).find(|path| path.is_file())
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}
