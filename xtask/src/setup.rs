//! Programs that the tests and benchmarks need from the system, and their installation where
//! that is possible: as root, with apt-get.

use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::repo;

/// A program that must be there, and the Debian package that has it.
struct Need {
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "sshd", package: "openssh-server", why: "the tests copy to a real ssh server" },
    Need { program: "ssh", package: "openssh-client", why: "the tests copy to a real ssh server" },
    Need { program: "ssh-keygen", package: "openssh-client", why: "each run makes its own keys" },
    Need { program: "scp", package: "openssh-client", why: "the benchmarks compare with it" },
    Need { program: "rsync", package: "rsync", why: "the tests compare with it" },
    Need { program: "rclone", package: "rclone", why: "the tests talk to its SFTP server too" },
    Need { program: "b3sum", package: "b3sum", why: "the benchmarks compare with it" },
    Need { program: "mkfs.ext4", package: "e2fsprogs", why: "the tests cut a file system's power" },
    Need { program: "mkfs.xfs", package: "xfsprogs", why: "the benchmarks share content on it" },
    Need {
        program: "mkfs.btrfs",
        package: "btrfs-progs",
        why: "the benchmarks share content on it",
    },
    Need { program: "getfattr", package: "attr", why: "the tests look at extended attributes" },
    Need { program: "getfacl", package: "acl", why: "the tests look at access control lists" },
    Need { program: "bindfs", package: "bindfs", why: "the tests see directories in two places" },
    Need { program: "ip", package: "iproute2", why: "the lab's hosts and their link" },
    Need { program: "tc", package: "iproute2", why: "the lab asks it for netem" },
    Need { program: "unshare", package: "util-linux", why: "the lab's hosts are namespaces" },
    Need { program: "c++", package: "g++", why: "the fuzz targets link libFuzzer" },
];

/// Installs what is missing, or fails with a list of it.
pub(crate) fn run() -> Result<()> {
    if missing().is_empty() {
        return Ok(());
    }
    let packages = packages(&missing());
    if repo::is_root() && find("apt-get").is_some() {
        println!("installing {}", packages.join(" "));
        install(&packages)?;
    }
    let still = missing();
    if still.is_empty() {
        return Ok(());
    }
    let mut text = String::from("these programs are missing:\n");
    for need in &still {
        text.push_str(&format!("  {} (Debian: {}): {}\n", need.program, need.package, need.why));
    }
    text.push_str(&format!(
        "install them, on Debian and Ubuntu with: apt-get install {}",
        self::packages(&still).join(" ")
    ));
    Err(text.into())
}

fn install(packages: &[&str]) -> Result<()> {
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    repo::run(apt().args(["update", "-q"]))?;
    repo::run(apt().args(["install", "-y", "-q", "--no-install-recommends"]).args(packages))
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| find(need.program).is_none()).collect()
}

fn packages(needs: &[&Need]) -> Vec<&'static str> {
    let mut packages: Vec<_> = needs.iter().map(|need| need.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Looks where servers live too, which need not be on a user's PATH.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    dirs.map(|dir| dir.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_several_programs_need_is_named_once() {
        let needs: Vec<_> = NEEDS.iter().collect();
        let all = ["acl", "attr", "b3sum", "bindfs", "btrfs-progs", "e2fsprogs", "g++", "iproute2"];
        let more =
            ["openssh-client", "openssh-server", "rclone", "rsync", "util-linux", "xfsprogs"];
        assert_eq!(packages(&needs), [&all[..], &more].concat());
    }

    #[test]
    fn programs_are_found_and_missing_ones_are_not() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-as-this").is_none());
    }
}
