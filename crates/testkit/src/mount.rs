//! Small file systems of a test's own, to be full, read-only, or just elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{at, failed, fixture};

/// A file system on a temporary directory, taken away when dropped.
#[derive(Debug)]
pub struct Mount {
    dir: TempDir,
    /// Where its image lies, if it has one.
    backing: Option<TempDir>,
    kind: Option<FileSystem>,
}

/// The content of a file system's image at one moment: all that a cut of the power would
/// have left then.
#[derive(Debug)]
pub struct Frozen {
    backing: TempDir,
    kind: FileSystem,
}

impl Frozen {
    /// Mounts it, which repairs it as after a cut. The file system itself must not be
    /// mounted any more: some kinds take it for the same.
    pub fn mount(self) -> io::Result<Mount> {
        Mount::from_image(self.backing, self.kind)
    }
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
    /// ext4 whose inodes have no room for times after January 2038.
    Ext4Until2038,
}

impl FileSystem {
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Ext4Until2038 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// The flags with which it is made in a file.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => &["-q", "-F"],
            Self::Ext4Until2038 => &["-q", "-F", "-I", "128"],
            Self::Xfs | Self::Btrfs => &["-q", "-f"],
        }
    }
}

const IMAGE: &str = "image";

impl Mount {
    /// Mounts a tmpfs that holds `size_bytes`. It needs root, and in a container
    /// the right to mount; where that is missing, so is a [`fixture`].
    #[track_caller]
    pub fn tmpfs(size_bytes: u64) -> Option<Mount> {
        fixture::made("a tmpfs", Self::try_tmpfs(size_bytes))
    }

    /// The same for who can do without.
    pub fn try_tmpfs(size_bytes: u64) -> io::Result<Mount> {
        let mount = Self::unmounted()?;
        let options = format!("size={size_bytes},nr_inodes=0,mode=0755");
        run("mount", &["-t", "tmpfs", "-o", &options, "haul-test"], mount.path())?;
        Ok(mount)
    }

    /// A tmpfs that has room for so many files and directories, its root among them. None as
    /// for [`Self::tmpfs`].
    #[track_caller]
    pub fn tmpfs_of_inodes(inodes: u64) -> Option<Mount> {
        fixture::made("a tmpfs", Self::try_tmpfs_with(&format!("mode=0755,nr_inodes={inodes}")))
    }

    /// A tmpfs that everybody may write to, as in `/tmp`, with room for half of the
    /// machine's memory.
    pub fn try_tmpfs_for_all() -> io::Result<Mount> {
        Self::try_tmpfs_with("mode=1777")
    }

    /// The same for large files: these are in pages of megabytes, so that they cost a third
    /// less processor time, and have no smaller holes.
    pub fn try_tmpfs_of_large_pages() -> io::Result<Mount> {
        Self::try_tmpfs_with("mode=1777,huge=within_size")
    }

    fn try_tmpfs_with(options: &str) -> io::Result<Mount> {
        let mount = Self::unmounted()?;
        // The directory that is mounted on is closed to others, and no longer seen.
        run("mount", &["-t", "tmpfs", "-o", options, "haul-test"], mount.path())?;
        Ok(mount)
    }

    /// A file system in memory that has no extended attributes and no access control lists.
    pub fn try_ramfs() -> io::Result<Mount> {
        let mount = Self::unmounted()?;
        run("mount", &["-t", "ramfs", "haul-test"], mount.path())?;
        Ok(mount)
    }

    /// Shows the directory `shown` in a second place. None as for [`Self::tmpfs`].
    #[track_caller]
    pub fn bind(shown: &Path) -> Option<Mount> {
        fixture::made("a bind mount", Self::try_bind(shown))
    }

    fn try_bind(shown: &Path) -> io::Result<Mount> {
        let mount = Self::unmounted()?;
        run("mount", &["--bind", text(shown)?], mount.path())?;
        Ok(mount)
    }

    /// The same at `place`, a directory or a file that is there.
    #[track_caller]
    pub fn bind_at(shown: &Path, place: &Path) -> Option<Mounted> {
        let mounted = text(shown).and_then(|shown| run("mount", &["--bind", shown], place));
        fixture::made("a bind mount", mounted.map(|()| Mounted(place.to_path_buf())))
    }

    /// Shows what is in `lower` and, in front of it, in `upper`: an overlay. What is
    /// written goes to `upper`, beside which it takes a directory to work in. None
    /// as for [`Self::tmpfs`].
    #[track_caller]
    pub fn overlay(lower: &Path, upper: &Path) -> Option<Mount> {
        fixture::made("an overlay", Self::try_overlay(lower, upper))
    }

    fn try_overlay(lower: &Path, upper: &Path) -> io::Result<Mount> {
        let mount = Self::unmounted()?;
        let work = upper.with_extension("work");
        fs::create_dir(&work)?;
        let (lower, upper, work) = (text(lower)?, text(upper)?, text(&work)?);
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        run("mount", &["-t", "overlay", "-o", &options, "haul-test"], mount.path())?;
        Ok(mount)
    }

    /// Shows the directory `shown` in a second place, by a file system in user
    /// space: with numbers of files that are its own. None as for [`Self::tmpfs`],
    /// and where bindfs is missing.
    #[track_caller]
    pub fn bindfs(shown: &Path) -> Option<Mount> {
        let unmounted = Self::unmounted().expect("a temporary directory");
        let place = unmounted.path().to_path_buf();
        let mounted = text(shown).and_then(|shown| run("bindfs", &[shown], &place));
        fixture::made("a bindfs", mounted.map(|()| unmounted))
    }

    /// The same at `place`, a directory that is there.
    #[track_caller]
    pub fn bindfs_at(shown: &Path, place: &Path) -> Option<Mounted> {
        let mounted = text(shown).and_then(|shown| run("bindfs", &[shown], place));
        fixture::made("a bindfs", mounted.map(|()| Mounted(place.to_path_buf())))
    }

    /// Shows the directory `shown` in a second place, by a file system that remembers
    /// what was in a directory for minutes, with `flags` of rclone's. None as for
    /// [`Self::tmpfs`], and where rclone or FUSE's own mounting is missing.
    #[track_caller]
    pub fn rclone(shown: &Path, flags: &[&str]) -> Option<Mount> {
        let unmounted = Self::unmounted().expect("a temporary directory");
        let place = unmounted.path().to_path_buf();
        fixture::made("a mount of rclone's", rclone(shown, flags, &place).map(|()| unmounted))
    }

    /// The same at `place`, a directory that is there.
    #[track_caller]
    pub fn rclone_at(shown: &Path, flags: &[&str], place: &Path) -> Option<Mounted> {
        let mounted = rclone(shown, flags, place).map(|()| Mounted(place.to_path_buf()));
        fixture::made("a mount of rclone's", mounted)
    }

    /// A place to mount something.
    fn unmounted() -> io::Result<Mount> {
        Ok(Mount { dir: TempDir::new()?, backing: None, kind: None })
    }

    /// Makes a file system in a sparse image of `size_bytes` and mounts it.
    /// None as for [`Self::tmpfs`], and where its tools are missing.
    #[track_caller]
    pub fn image(kind: FileSystem, size_bytes: u64) -> Option<Mount> {
        let name = format_args!("{} in an image", kind.name());
        fixture::made(name, Self::try_image(kind, size_bytes))
    }

    /// The same for who can do without.
    pub fn try_image(kind: FileSystem, size_bytes: u64) -> io::Result<Mount> {
        Self::image_in(TempDir::new()?, kind, size_bytes)
    }

    /// Where the image lies.
    ///
    /// # Panics
    /// When it has none.
    pub fn image_path(&self) -> PathBuf {
        self.backing.as_ref().expect("a file system in an image").path().join(IMAGE)
    }

    /// The same with the image on this file system, which may have less room
    /// than the image claims: what is written then fails when it is written out.
    pub fn image_on(&self, kind: FileSystem, size_bytes: u64) -> io::Result<Mount> {
        Self::image_in(TempDir::new_in(self.path())?, kind, size_bytes)
    }

    fn image_in(backing: TempDir, kind: FileSystem, size_bytes: u64) -> io::Result<Mount> {
        let image = backing.path().join(IMAGE);
        fs::File::create_new(&image)?.set_len(size_bytes)?;
        run(&format!("mkfs.{}", kind.name()), kind.flags(), &image)?;
        Self::from_image(backing, kind)
    }

    /// The file system that a power cut at this moment would leave: a second one, of a
    /// copy of what has been written to the image so far. ext4 only.
    pub fn after_power_cut(&self) -> io::Result<Mount> {
        let backing = TempDir::new()?;
        let own = self.backing.as_ref().ok_or_else(|| failed("it has no image"))?;
        let (image, copy) = (own.path().join(IMAGE), backing.path().join(IMAGE));
        run("cp", &["--sparse=always", "-T", "--", text(&image)?], &copy)?;
        Self::from_image(backing, FileSystem::Ext4)
    }

    /// The content of its image at this moment, exactly, also while it is written to. Its
    /// image must be on a file system that shares content ([`Self::image_on`]).
    pub fn freeze(&self) -> io::Result<Frozen> {
        let (own, kind) =
            self.backing.as_ref().zip(self.kind).ok_or_else(|| failed("it has no image"))?;
        let beside = own.path().parent().ok_or_else(|| failed("its image is nowhere"))?;
        let backing = TempDir::new_in(beside)?;
        let (image, copy) = (own.path().join(IMAGE), backing.path().join(IMAGE));
        run("cp", &["--reflink=always", "-T", "--", text(&image)?], &copy)?;
        Ok(Frozen { backing, kind })
    }

    fn from_image(backing: TempDir, kind: FileSystem) -> io::Result<Mount> {
        let image = backing.path().join(IMAGE);
        let mount = Mount { dir: TempDir::new()?, backing: Some(backing), kind: Some(kind) };
        run("mount", &["-o", "loop", text(&image)?], mount.path())?;
        Ok(mount)
    }

    /// Has its device written one page at a time. The loop driver takes a write that
    /// its own file system has cut short for one that was done; a page is written or
    /// refused.
    pub fn write_by_pages(&self) -> io::Result<()> {
        /// The largest request, in KiB.
        const PAGE_KIB: &str = "4";
        let device = self.device()?;
        let path = Path::new("/sys/class/block").join(device.file_name().unwrap_or_default());
        let path = path.join("queue/max_sectors_kb");
        fs::write(&path, PAGE_KIB).map_err(|e| at("write", &path, e))
    }

    /// Lets a tmpfs take so many bytes more than it holds.
    pub fn leave_room(&self, bytes: u64) -> io::Result<()> {
        let stat = rustix::fs::statvfs(self.path())?;
        let held = (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
        run("mount", &["-o", &format!("remount,size={}", held + bytes)], self.path())
    }

    /// Unmounts it, and mounts its image again: what was in memory alone is gone. A
    /// process that is about to end may still hold it for a moment.
    pub fn mount_again(mut self) -> io::Result<Mount> {
        let until = Instant::now() + Duration::from_secs(20);
        while let Err(error) = run("umount", &[], self.path()) {
            if Instant::now() > until {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(20));
        }
        let own = self.backing.take().zip(self.kind);
        let (backing, kind) = own.ok_or_else(|| failed("it has no image"))?;
        Self::from_image(backing, kind)
    }

    /// Unmounts it, and waits for that, so that its device is free.
    pub fn unmount(self) -> io::Result<()> {
        run("umount", &[], self.path())
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

/// A file system in a directory of somebody else's, taken away when dropped.
#[derive(Debug)]
pub struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = run("umount", &["-l"], &self.0);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily (MNT_DETACH), because a process that was just killed can still
        // hold it. Without a mount this fails, and nothing is lost.
        let _ = run("umount", &["-l"], self.path());
    }
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| failed(format!("{} is not UTF-8", path.display())))
}

fn rclone(shown: &Path, flags: &[&str], place: &Path) -> io::Result<()> {
    let own = ["mount", "--daemon", "--config", "", "--dir-cache-time", "1h", text(shown)?];
    run("rclone", &[&own, flags].concat(), place)
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
        let Some(mount) = Mount::tmpfs(1 << 20) else { return };
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
        let Some(mount) = Mount::image(FileSystem::Ext4, 32 << 20) else { return };
        fs::write(mount.join("durable"), b"durable").expect("written");
        fs::File::open(mount.join("durable")).expect("opened").sync_all().expect("synced");
        fs::write(mount.join("lost"), b"lost").expect("written");
        let cut = mount.after_power_cut().expect("a second file system");
        assert_eq!(fs::read(cut.join("durable")).expect("read"), b"durable");
        assert!(!cut.join("lost").exists());
    }
}
