//! A build of haul that runs on any Linux of its processor: statically linked,
//! and proven to be. It is what `haul deploy` puts onto hosts.
//!
//! Linked with musl where Rust's target for it is installed (`rustup target add
//! x86_64-unknown-linux-musl`), else with glibc's static libraries. haul asks
//! neither for names of users nor of hosts, which is what glibc could not do
//! without its shared ones.
//!
//! A haul for another processor is linked by the linker that comes with Rust, and
//! started under qemu where that is installed.

mod deb;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haul_model::{ContentHash, EXECUTABLE_HEAD_LEN, Executable};

use crate::{Result, repo};

/// The packages to build.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build for this target, given as often as needed; if not given, for this machine
    #[arg(long, value_name = "TRIPLE")]
    target: Vec<String>,
    /// Build for x86-64 and arm64, linked with musl
    #[arg(long, conflicts_with = "target")]
    all: bool,
    /// Make Debian packages of them, too
    #[arg(long)]
    deb: bool,
}

/// The targets of those who publish haul.
const ALL: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// How the C library is linked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Library {
    Musl,
    Glibc,
}

/// Builds, checks, and puts the program and its hash into `target/dist`.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Err("static programs are built on Linux, and for it".into());
    }
    if args.all {
        return ALL.iter().try_for_each(|triple| one(Some(triple), args.deb));
    }
    if args.target.is_empty() {
        return one(None, args.deb);
    }
    args.target.iter().try_for_each(|triple| one(Some(triple), args.deb))
}

/// Builds for one target.
fn one(wanted: Option<&str>, with_package: bool) -> Result<()> {
    let (triple, library) = choose(wanted)?;
    println!(
        "building haul for {triple}, linked statically with {}",
        if library == Library::Musl { "musl" } else { "glibc" }
    );
    let built = build(&triple, library)?;
    let hash = ContentHash::of(&fs::read(&built)?);
    let processor = processor_of(&triple)?;
    check_static(&built, &processor)?;
    let qemu = emulator(&processor);
    let note = match processor == std::env::consts::ARCH || qemu.is_some() {
        true => check_start(&built, qemu.as_deref(), hash)?,
        false => "not started: it is for another processor, and qemu-user-static is missing",
    };
    let name = format!("haul-{}-{triple}", env!("CARGO_PKG_VERSION"));
    let placed = publish(&built, &repo::target_dir().join("dist"), &name, hash)?;
    let len = fs::metadata(&placed)?.len() as f64 / f64::from(1 << 20);
    println!("{}: {len:.1} MiB, {note}\n{hash}  {name}", placed.display());
    if with_package {
        let start = start_command(&built, qemu.as_deref());
        let package = deb::make(&built, &processor, start, &repo::target_dir().join("dist"))?;
        println!("{}", package.display());
    }
    Ok(())
}

/// The target, and what to link: musl if it is there.
fn choose(wanted: Option<&str>) -> Result<(String, Library)> {
    if let Some(triple) = wanted {
        let library = if triple.contains("-musl") { Library::Musl } else { Library::Glibc };
        return match is_installed(triple)? {
            true => Ok((triple.to_owned(), library)),
            false => Err(format!(
                "Rust's libraries for {triple} are missing; to install them: rustup target add {triple}"
            )
            .into()),
        };
    }
    let host = repo::host_triple()?;
    let musl = host.replace("-gnu", "-musl");
    match is_installed(&musl)? {
        true => Ok((musl, Library::Musl)),
        false => Ok((host, Library::Glibc)),
    }
}

/// True if Rust's libraries for a target are there.
fn is_installed(triple: &str) -> Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", triple]).stderr(Stdio::null());
    let output = rustc.output()?;
    let dir = String::from_utf8(output.stdout)?;
    Ok(output.status.success() && Path::new(dir.trim()).is_dir())
}

/// The processor of a target in the words of [`std::env::consts::ARCH`].
fn processor_of(triple: &str) -> Result<String> {
    let output = Command::new("rustc").args(["--print", "cfg", "--target", triple]).output()?;
    let output = String::from_utf8(output.stdout)?;
    let processor = output.lines().find_map(|line| line.strip_prefix("target_arch="));
    Ok(processor.ok_or("rustc does not know the target's processor")?.trim_matches('"').to_owned())
}

/// Builds for an explicit target, so that build scripts and procedural macros,
/// which run here, are linked as ever.
fn build(triple: &str, library: Library) -> Result<PathBuf> {
    let mut build = repo::cargo();
    build.args(["build", "--release", "--quiet", "--package", "haul-cli", "--target", triple]);
    match library {
        Library::Musl => {
            // What blake3 has in assembler needs no C library, so any compiler
            // for the processor will do. musl's own would be looked for.
            let variable = format!("CC_{}", triple.replace('-', "_"));
            let is_free = |variable: &str| std::env::var_os(variable).is_none();
            let is_foreign = !triple.starts_with(std::env::consts::ARCH);
            if is_free(&variable) && is_foreign {
                let processor = triple.split('-').next().unwrap_or(triple);
                build.env(variable, format!("{processor}-linux-gnu-gcc"));
            } else if is_free(&variable) {
                build.env(variable, "cc");
            }
            let variable =
                format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase().replace('-', "_"));
            if is_foreign && is_free(&variable) {
                build.env(variable, "rust-lld");
            }
        }
        Library::Glibc => {
            let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
            build.env("RUSTFLAGS", format!("{flags} -Ctarget-feature=+crt-static").trim());
        }
    }
    repo::run(&mut build)?;
    Ok(repo::target_dir().join(triple).join("release/haul"))
}

/// The emulator of another processor, if it is installed.
fn emulator(processor: &str) -> Option<PathBuf> {
    let qemu = PathBuf::from(format!("/usr/bin/qemu-{processor}-static"));
    (processor != std::env::consts::ARCH && qemu.is_file()).then_some(qemu)
}

/// The command that starts `program`, under `qemu` if one is given.
fn start_command(program: &Path, qemu: Option<&Path>) -> Command {
    let Some(qemu) = qemu else { return Command::new(program) };
    let mut command = Command::new(qemu);
    command.arg(program);
    command
}

/// The program is for this processor and names no loader.
fn check_static(program: &Path, processor: &str) -> Result<()> {
    let failed =
        |why: String| -> Result<()> { Err(format!("{}: {why}", program.display()).into()) };
    let mut head = Vec::new();
    File::open(program)?.take(EXECUTABLE_HEAD_LEN as u64).read_to_end(&mut head)?;
    match Executable::parse(&head) {
        Ok(found) if found.dynamic => failed("it is linked dynamically: it names a loader".into()),
        Ok(found) if (found.system, found.processor) != ("linux", processor) => failed(format!(
            "it is for {} on {}, not for linux on {processor}",
            found.system, found.processor
        )),
        Ok(_) => Ok(()),
        Err(error) => failed(error.to_string()),
    }
}

/// The program starts with an empty environment and, as root, where there is
/// nothing but itself, and there it hashes itself right.
fn check_start(program: &Path, qemu: Option<&Path>, hash: ContentHash) -> Result<&'static str> {
    let root = tempfile::tempdir()?;
    fs::copy(program, root.path().join("haul"))?;
    let (mut command, path, note) = if repo::is_root() {
        let mut chroot = Command::new("chroot");
        chroot.arg(root.path());
        if let Some(qemu) = qemu {
            fs::copy(qemu, root.path().join("qemu"))?;
            chroot.arg("/qemu");
        }
        chroot.arg("/haul");
        (chroot, "/haul".to_owned(), "static, and starts where there is nothing else")
    } else {
        let path = root.path().join("haul");
        (start_command(&path, qemu), path.display().to_string(), "static, and starts")
    };
    let path_of_programs = std::env::var_os("PATH").unwrap_or_default();
    command.args(["hash", &path]).env_clear().env("PATH", path_of_programs);
    let output = command.stdin(Stdio::null()).output()?;
    let expected = format!("{hash}  {path}\n");
    if !output.status.success() || output.stdout != expected.as_bytes() {
        return Err(format!(
            "the program does not start, or does not work: {} {}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(note)
}

/// Puts the program into `dir` under `name`, and beside it its hash in the form
/// that `b3sum --check` reads.
fn publish(program: &Path, dir: &Path, name: &str, hash: ContentHash) -> Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let write_file = |name: &str, fill: &dyn Fn(&Path) -> std::io::Result<()>| -> Result<PathBuf> {
        let (staged, path) = (dir.join(format!(".{name}.new")), dir.join(name));
        fill(&staged)?;
        fs::rename(&staged, &path)?;
        Ok(path)
    };
    write_file(&format!("{name}.b3"), &|path| fs::write(path, format!("{hash}  {name}\n")))?;
    write_file(name, &|path| fs::copy(program, path).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_needs_a_loader_or_is_for_another_processor_is_refused() {
        let own = std::env::current_exe().expect("a path");
        let text = |program: &Path, processor: &str| match check_static(program, processor) {
            Ok(()) => "static".to_owned(),
            Err(error) => error.to_string(),
        };
        if !cfg!(target_feature = "crt-static") {
            let found = text(&own, std::env::consts::ARCH);
            assert!(found.ends_with("it is linked dynamically: it names a loader"), "{found}");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let script = dir.path().join("script");
        fs::write(&script, "#!/bin/sh\n").expect("a file");
        assert!(text(&script, "x86_64").ends_with("not an ELF program"));

        // The same program with its loader's header turned into nothing.
        let mut bytes = fs::read(&own).expect("a file");
        let start = usize::from(bytes[32]);
        for header in 0..usize::from(bytes[56]) {
            let kind = start + 56 * header;
            if bytes[kind..kind + 4] == [3, 0, 0, 0] {
                bytes[kind] = 0;
            }
        }
        let static_one = dir.path().join("static");
        fs::write(&static_one, bytes).expect("a file");
        assert_eq!(text(&static_one, std::env::consts::ARCH), "static");
        assert!(text(&static_one, "vax").ends_with(", not for linux on vax"));
    }

    #[test]
    fn a_program_that_does_not_hash_itself_right_does_not_work() {
        let own = std::env::current_exe().expect("a path");
        let error = check_start(&own, None, ContentHash::of(b"")).expect_err("it is no haul");
        assert!(error.to_string().starts_with("the program does not start"), "{error}");
    }

    #[test]
    fn what_is_published_can_be_checked() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = dir.path().join("built");
        fs::write(&program, "content").expect("a file");
        let dist = dir.path().join("dist");
        for _ in 0..2 {
            let hash = ContentHash::of(b"content");
            let placed = publish(&program, &dist, "haul-0", hash).expect("published");
            assert_eq!(fs::read(placed).expect("a file"), b"content");
            let output = fs::read_to_string(dist.join("haul-0.b3")).expect("a hash");
            assert_eq!(output, format!("{hash}  haul-0\n"));
            assert_eq!(fs::read_dir(&dist).expect("a directory").count(), 2);
        }
    }

    #[test]
    fn targets_are_known_by_their_processor() {
        let host = repo::host_triple().expect("a triple");
        assert_eq!(processor_of(&host).expect("a processor"), std::env::consts::ARCH);
        assert!(is_installed(&host).expect("an answer"));
        assert!(!is_installed("vax-unknown-linux-gnu").expect("an answer"));
        let error = choose(Some("vax-unknown-linux-gnu")).expect_err("nothing for it");
        assert!(error.to_string().contains("rustup target add vax"), "{error}");
    }
}
