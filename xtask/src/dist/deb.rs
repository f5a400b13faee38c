//! A Debian package of a static haul, with its man pages and completions. It depends on
//! nothing, so one package serves every release of Debian and what is made from it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, repo};

/// Where Debian's zsh looks, and where others do.
const ZSH: (&str, &str) = ("zsh/site-functions", "zsh/vendor-completions");

/// Makes the package of `program`, which is for `processor`, in `dir`; `start` is the
/// command that starts it here.
pub(super) fn make(
    program: &Path,
    processor: &str,
    mut start: Command,
    dir: &Path,
) -> Result<PathBuf> {
    let architecture = architecture(processor)?;
    let version = env!("CARGO_PKG_VERSION");
    let tree = tempfile::tempdir()?;
    let root = tree.path().join("haul");
    let (bin, share) = (root.join("usr/bin"), root.join("usr/share"));
    fs::create_dir_all(&bin)?;
    fs::copy(program, bin.join("haul"))?;
    fs::set_permissions(bin.join("haul"), fs::Permissions::from_mode(0o755))?;
    repo::run(start.arg("generate").arg(&share))?;
    fs::rename(share.join(ZSH.0), share.join(ZSH.1))?;
    let doc = share.join("doc/haul");
    fs::create_dir_all(&doc)?;
    fs::copy(repo::root().join("LICENSE"), doc.join("copyright"))?;
    fs::copy(repo::root().join("CHANGELOG.md"), doc.join("changelog"))?;
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "-n", "-r"]).arg(share.join("man")).arg(doc.join("changelog"));
    repo::run(&mut gzip)?;
    let size = size_of(&root)?.div_ceil(1024);
    fs::create_dir_all(root.join("DEBIAN"))?;
    fs::write(root.join("DEBIAN/control"), control(version, architecture, size))?;
    fs::create_dir_all(dir)?;
    let package = dir.join(format!("haul_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&package);
    repo::run(build.stdout(std::process::Stdio::null()))?;
    Ok(package)
}

/// Bytes of the files below `dir`.
fn size_of(dir: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let found = entry.metadata()?;
        size += if found.is_dir() { size_of(&entry.path())? } else { found.len() };
    }
    Ok(size)
}

/// Debian's name of a processor.
fn architecture(processor: &str) -> Result<&'static str> {
    match processor {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => Err(format!("no Debian package is made for {other}").into()),
    }
}

/// The package's control file; `size` is that of its files, in KiB.
fn control(version: &str, architecture: &str, size: u64) -> String {
    format!(
        "Package: haul\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The haul developers <noreply@haul.invalid>\n\
         Installed-Size: {size}\n\
         Recommends: openssh-client\n\
         Section: net\n\
         Priority: optional\n\
         Description: copies and moves files, here and between machines\n \
         haul copies file trees on one machine and to and from others through\n \
         ssh: verified, crash-safe, and resumable. A host needs haul itself, or\n \
         nothing but its SFTP server.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_says_what_it_is_for() {
        let control = control("1.2.3", architecture("aarch64").expect("known"), 5);
        for line in ["Package: haul", "Version: 1.2.3", "Architecture: arm64", "Installed-Size: 5"]
        {
            assert!(control.lines().any(|found| found == line), "{line}: {control}");
        }
        // A description goes on in lines that begin with a space.
        let after = control.lines().skip_while(|line| !line.starts_with("Description")).skip(1);
        assert!(after.into_iter().all(|line| line.starts_with(' ')), "{control}");
        assert!(architecture("vax").is_err());
    }
}
