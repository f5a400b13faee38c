//! The machine and the versions on which the figures were measured.

use std::fs;
use std::path::Path;
use std::thread;

use crate::repo::first_line;

/// Facts, each with its name, in the order of the report.
pub(crate) fn facts(haul: &Path, space: &str, network: &str) -> Vec<(&'static str, String)> {
    let version = |program: &str, args: &[&str]| first_line(program, args).unwrap_or_else(unknown);
    let cores = thread::available_parallelism().map_or(0, usize::from);
    vec![
        ("date", version("date", &["-u", "+%Y-%m-%d"])),
        ("processor", format!("{}, {cores} cores", processor().unwrap_or_else(unknown))),
        ("memory", memory().unwrap_or_else(unknown)),
        ("kernel", version("uname", &["-srm"])),
        ("file system", space.to_owned()),
        ("network", network.to_owned()),
        ("haul", version(&haul.to_string_lossy(), &["--version"])),
        ("cp", version("cp", &["--version"])),
        ("ssh, scp", version("ssh", &["-V"])),
        ("rsync", version("rsync", &["--version"])),
        ("tar", version("tar", &["--version"])),
    ]
}

fn processor() -> Option<String> {
    field("/proc/cpuinfo", "model name")
}

fn memory() -> Option<String> {
    let kib: u64 = field("/proc/meminfo", "MemTotal")?.strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{:.1} GiB", kib as f64 / f64::from(1 << 20)))
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let (_, value) =
        text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}
