//! Programs that are no haul for the host are refused, and nothing is left.

use super::*;
use std::os::unix::fs::FileExt;

/// Asserts that deploying `binary` ends with `code` and says `error` and `hint`,
/// and that the home directory is as empty as before.
#[track_caller]
fn assert_refused(host: &Host<'_>, binary: &Path, code: i32, error: &str, hint: &str) {
    let binary = binary.to_str().expect("a path that is text");
    let run = host.deploy(&["--binary", binary]).run().expect_code(code);
    let said = said(&run);
    assert!(said[0].contains(error), "{run}");
    assert!(said[1].starts_with("  hint: ") && said[1].contains(hint), "{run}");
    assert_eq!(names_in(&host.home("")), [""; 0], "{run}");
}

/// A copy of haul in which `bytes` stand at `offset`.
fn changed(host: &Host<'_>, name: &str, offset: u64, bytes: &[u8]) -> PathBuf {
    let path = host.scene.path(name);
    run(std::process::Command::new("cp").arg(HAUL).arg(&path));
    let file = fs::OpenOptions::new().write(true).open(&path).expect("a file");
    file.write_all_at(bytes, offset).expect("written");
    path
}

#[test]
fn what_is_no_program_for_the_host_is_refused_before_it_is_sent() {
    let world = World::new();
    let host = Host::new(&world);
    let text = host.scene.file("text", "#!/bin/sh\necho haul\n");
    assert_refused(&host, &text, 2, "text: not an ELF program", "cargo xtask dist");
    assert_refused(&host, Path::new("/nowhere/haul"), 2, "can't read it: ", "cargo xtask dist");
    // e_machine: a VAX. And a 64-bit Arm, or an x86 where this is one.
    let vax = changed(&host, "vax", 18, &75_u16.to_le_bytes());
    assert_refused(&host, &vax, 2, "built for an unknown machine", "cargo xtask dist");
    let (machine, name) =
        if cfg!(target_arch = "aarch64") { (62_u16, "x86_64") } else { (183, "aarch64") };
    let foreign = changed(&host, "foreign", 18, &machine.to_le_bytes());
    let error = format!("this haul is built for linux on {name}, but haul-test is Linux ");
    assert_refused(&host, &foreign, 4, &error, "--binary PATH");
    // Cut in its headers.
    let cut = host.scene.path("cut");
    fs::write(&cut, &fs::read(HAUL).expect("a file")[..60]).expect("a file");
    assert_refused(&host, &cut, 2, "damaged: its ELF headers are incomplete", "cargo xtask dist");
}

#[test]
fn what_does_not_start_there_as_this_haul_is_taken_back() {
    let world = World::new();
    let host = Host::new(&world);
    let fails = "the uploaded program does not run as haul on haul-test: ";
    // Its loader is one that no host has.
    let whole = fs::read(HAUL).expect("a file");
    let loader = whole.windows(4).position(|at| at == b"/ld-").expect("it names its loader");
    let other = changed(&host, "other", loader as u64, b"/xx-");
    assert_refused(&host, &other, 4, fails, "libraries");
    // It has its headers, and nothing of what they promise; and programs that are
    // not haul.
    let fails =
        "the uploaded program does not look like haul, and does not run as haul on haul-test: ";
    let cut = host.scene.path("cut");
    fs::write(&cut, &whole[..20_000]).expect("a file");
    assert_refused(&host, &cut, 4, fails, "name a haul with --binary");
    let ends = format!("{fails}it ended without a greeting");
    let system = |name: &str| ["/bin", "/usr/bin"].map(|dir| Path::new(dir).join(name));
    let status = format!("{fails}the remote command on haul-test exited with status 1");
    let text = format!("{fails}haul-test sent text instead of haul's greeting: \"serve");
    let words = format!("{fails}the remote command on haul-test exited with status 2: ");
    for (name, error) in [("true", ends), ("false", status), ("echo", text), ("ls", words)] {
        let program = system(name).into_iter().find(|path| path.exists()).expect("coreutils");
        assert_refused(&host, &program, 4, &error, "name a haul with --binary");
    }
}
