//! Small file systems of a test's own, to be full, read-only, or just elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::{at, failed};

/// A file system on a temporary directory, taken away when dropped.
#[derive(Debug)]
pub struct Mount {
    dir: TempDir,
    /// Where its image lies, if it has one.
    backing: Option<TempDir>,
}

/// A file system that is made in an image and mounted by a loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4, with its journal.
    Ext4,
    /// XFS, which shares content; at least 300 MiB.
    Xfs,
    /// Btrfs, which shares content.
    Btrfs,
}

impl FileSystem {
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }
}

const IMAGE: &str = "image";

impl Mount {
    /// Mounts a tmpfs that holds `size_bytes`. None where that isn't allowed:
    /// it needs root, and in a container the right to mount. A test that gets
    /// None has nothing to test on and says that it skips.
    pub fn tmpfs(size_bytes: u64) -> Option<Mount> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mount = Mount { dir: TempDir::new().ok()?, backing: None };
        let options = format!("size={size_bytes},mode=0755");
        let mounted = run("mount", &["-t", "tmpfs", "-o", &options, "haul-test"], mount.path());
        mounted.ok().map(|()| mount)
    }

    /// Shows the directory `shown` in a second place. None as for [`Self::tmpfs`].
    pub fn bind(shown: &Path) -> Option<Mount> {
        let mount = Mount { dir: TempDir::new().ok()?, backing: None };
        run("mount", &["--bind", shown.to_str()?], mount.path()).ok().map(|()| mount)
    }

    /// Makes a file system in a sparse image of `size_bytes` and mounts it.
    /// None as for [`Self::tmpfs`], and where its tools are missing.
    pub fn image(kind: FileSystem, size_bytes: u64) -> Option<Mount> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        Self::image_in(TempDir::new().ok()?, kind, size_bytes)
    }

    /// The same with the image on this file system, which may have less room
    /// than the image claims: what is written then fails when it is written out.
    pub fn image_on(&self, kind: FileSystem, size_bytes: u64) -> Option<Mount> {
        Self::image_in(TempDir::new_in(self.path()).ok()?, kind, size_bytes)
    }

    fn image_in(backing: TempDir, kind: FileSystem, size_bytes: u64) -> Option<Mount> {
        let image = backing.path().join(IMAGE);
        fs::File::create_new(&image).ok()?.set_len(size_bytes).ok()?;
        let force = if kind == FileSystem::Ext4 { "-F" } else { "-f" };
        run(&format!("mkfs.{}", kind.name()), &["-q", force], &image).ok()?;
        Self::of_image(backing)
    }

    /// What a power cut at this moment would leave: a second file system, of a
    /// copy of what has been written to the image so far. ext4 only.
    pub fn after_power_cut(&self) -> Option<Mount> {
        let backing = TempDir::new().ok()?;
        let image = self.backing.as_ref()?.path().join(IMAGE);
        let copy = backing.path().join(IMAGE);
        let copy = copy.to_str()?;
        run("cp", &["--sparse=always", "-T", "--", image.to_str()?], Path::new(copy)).ok()?;
        Self::of_image(backing)
    }

    fn of_image(backing: TempDir) -> Option<Mount> {
        let image = backing.path().join(IMAGE);
        let mount = Mount { dir: TempDir::new().ok()?, backing: Some(backing) };
        run("mount", &["-o", "loop", image.to_str()?], mount.path()).ok()?;
        Some(mount)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A path below it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Lets its loop device pass by the page cache of the file system that the
    /// image is on, so that what is read and written goes to that one's disk.
    pub fn bypass_host_cache(&self) -> io::Result<()> {
        run("losetup", &["--direct-io=on"], &self.device()?)
    }

    /// Its loop device.
    fn device(&self) -> io::Result<PathBuf> {
        let mounts = Path::new("/proc/self/mounts");
        let text = fs::read_to_string(mounts).map_err(|e| at("read", mounts, e))?;
        let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
        let ours = pairs.find(|(_, rest)| rest.split(' ').next() == self.path().to_str());
        Ok(ours.ok_or_else(|| failed("it is not mounted"))?.0.into())
    }

    /// Bytes that were read from its device since that exists.
    pub fn bytes_read(&self) -> io::Result<u64> {
        // The third figure (Documentation/block/stat.rst).
        self.sectors(2)
    }

    /// Bytes that were written to its device since that exists.
    pub fn bytes_written(&self) -> io::Result<u64> {
        // The seventh.
        self.sectors(6)
    }

    /// Bytes that a figure of its device's comes to, which counts sectors.
    fn sectors(&self, figure: usize) -> io::Result<u64> {
        /// The unit of the kernel's own figures, whatever the device has.
        const SECTOR_LEN: u64 = 512;
        let device = self.device()?;
        let path = Path::new("/sys/class/block").join(device.file_name().unwrap_or_default());
        let path = path.join("stat");
        let stat = fs::read_to_string(&path).map_err(|e| at("read", &path, e))?;
        let sectors =
            stat.split_whitespace().nth(figure).and_then(|figure| figure.parse::<u64>().ok());
        Ok(sectors.ok_or_else(|| failed("no figure"))? * SECTOR_LEN)
    }

    /// Makes it read-only. Fails while a file on it is open for writing.
    pub fn remount_read_only(&self) -> io::Result<()> {
        run("mount", &["-o", "remount,ro"], self.path())
    }

    /// Makes it writable again.
    pub fn remount_writable(&self) -> io::Result<()> {
        run("mount", &["-o", "remount,rw"], self.path())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily (MNT_DETACH), because a process that was just killed can still
        // hold it. Without a mount this fails, and nothing is lost.
        let _ = run("umount", &["-l"], self.path());
    }
}

fn run(program: &str, args: &[&str], path: &Path) -> io::Result<()> {
    let done = Command::new(program).args(args).arg(path).stdin(Stdio::null()).output();
    let done = done.map_err(|e| at("start", Path::new(program), e))?;
    if done.status.success() {
        return Ok(());
    }
    Err(failed(format!(
        "{program} {}: {}",
        path.display(),
        String::from_utf8_lossy(&done.stderr).trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_gets_full_and_read_only_and_goes_away() {
        let Some(mount) = Mount::tmpfs(1 << 20) else {
            eprintln!("skipped: mounting is not allowed here");
            return;
        };
        let path = mount.path().to_path_buf();
        let full = fs::write(mount.join("large"), vec![1; 2 << 20]).expect_err("it is too large");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        fs::remove_file(mount.join("large")).expect("removed");
        fs::write(mount.join("small"), b"small").expect("written");
        mount.remount_read_only().expect("remounted");
        let refused = fs::write(mount.join("small"), b"more").expect_err("it is read-only");
        assert_eq!(refused.kind(), io::ErrorKind::ReadOnlyFilesystem);
        mount.remount_writable().expect("remounted");
        fs::write(mount.join("small"), b"more").expect("written");
        drop(mount);
        assert!(!path.exists());
    }

    #[test]
    fn a_power_cut_takes_what_was_not_written_out() {
        let Some(mount) = Mount::image(FileSystem::Ext4, 32 << 20) else {
            eprintln!("skipped: mounting is not allowed here");
            return;
        };
        fs::write(mount.join("durable"), b"durable").expect("written");
        fs::File::open(mount.join("durable")).expect("opened").sync_all().expect("synced");
        fs::write(mount.join("lost"), b"lost").expect("written");
        let cut = mount.after_power_cut().expect("a second file system");
        assert_eq!(fs::read(cut.join("durable")).expect("read"), b"durable");
        assert!(!cut.join("lost").exists());
    }
}
