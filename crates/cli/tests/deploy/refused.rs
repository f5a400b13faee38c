//! Places where haul is not put, since others could exchange it there, and hosts
//! that can't take it.

use super::*;
use haul_testkit::fixture;
use std::os::unix::fs::{chown, symlink};

/// Asserts that both deploying and removing say `error` and `hint` and change
/// nothing.
#[track_caller]
fn assert_refused(host: &Host<'_>, error: &str, hint: &str) {
    let before = host.scene.snapshot("");
    for words in [&[][..], &["--remove"]] {
        let run = host.deploy(words).run().expect_code(4);
        let said = said(&run);
        assert!(said[0].starts_with("haul: haul-test:/") && said[0].contains(error), "{run}");
        assert!(said[1].starts_with("  hint: ") && said[1].contains(hint), "{run}");
        haul_testkit::assert_same(&before, &host.scene.snapshot(""));
    }
}

/// Empties the home directory for what comes next.
fn empty_home(host: &Host<'_>) {
    let _ = fs::remove_dir_all(host.home(".local"));
    mode(host.home(""), 0o755);
}

#[test]
fn a_planted_link_in_the_place_of_a_directory_is_refused() {
    let world = World::new();
    let host = Host::new(&world);
    // Where it leads, there is a haul that nobody may exchange.
    let elsewhere = host.scene.mkdir("elsewhere");
    host.scene.file("elsewhere/haul", "another one");
    for name in [".local", ".local/share", ".local/share/haul", BIN] {
        empty_home(&host);
        let link = host.home(name);
        fs::create_dir_all(link.parent().expect("a directory")).expect("directories");
        symlink(&elsewhere, &link).expect("a link");
        let error = format!("/home/{name}: it is a symbolic link");
        assert_refused(&host, &error, "replace it with a directory, or install haul by hand");
        fs::remove_file(&link).expect("removed");
    }
}

#[test]
fn a_link_in_the_place_of_haul_is_refused() {
    let world = World::new();
    let host = Host::new(&world);
    host.scene.file("elsewhere/haul", "another one");
    host.make_bin();
    for dir in [BIN, ".local/share/haul"] {
        mode(host.home(dir), 0o700);
    }
    symlink(host.scene.path("elsewhere/haul"), host.home(BIN).join("haul")).expect("a link");
    assert_refused(&host, "/haul: it is not a regular file", "remove it by hand");
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let world = World::new();
    let host = Host::new(&world);
    // All, the group alone, and all as in /tmp.
    let cases = ["", ".local", ".local/share", ".local/share/haul", BIN].map(|name| (name, 0o777));
    for (name, bits) in cases.into_iter().chain([(BIN, 0o775), (BIN, 0o1777), ("", 0o1777)]) {
        empty_home(&host);
        host.make_bin();
        mode(host.home(name), bits);
        assert_refused(&host, "other users can write to it", "chmod go-w");
    }
}

#[test]
fn a_home_that_a_group_can_write_to_is_refused_unless_it_is_the_users_own() {
    if !is_root() {
        return fixture::missing("root, who can give a directory to any group");
    }
    let world = World::new();
    let host = Host::new(&world);
    mode(host.home(""), 0o775);
    chown(host.home(""), None, Some(65534)).expect("given away");
    assert_refused(&host, "other users can write to it", "chmod go-w");
    // Root's group is called like root.
    chown(host.home(""), None, Some(0)).expect("taken back");
    host.deploy(&[]).run().expect_ok();
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !is_root() {
        return fixture::missing("root, who can give a directory away");
    }
    let world = World::new();
    let host = Host::new(&world);
    for name in [".local", ".local/share/haul", BIN] {
        empty_home(&host);
        host.make_bin();
        chown(host.home(name), Some(65534), None).expect("given away");
        assert_refused(&host, "it belongs to another user", "ask the host's administrator");
    }
}

#[test]
fn a_directory_that_others_can_look_into_is_closed() {
    let world = World::new();
    let host = Host::new(&world);
    host.make_bin();
    host.deploy(&[]).run().expect_ok();
    assert_eq!((mode_of(host.home(BIN)), mode_of(host.home(".local/share/haul"))), (0o700, 0o700));
    assert_eq!(mode_of(host.home(".local/share")), 0o755, "that is not haul's own");
}

#[test]
fn a_file_in_the_place_of_a_directory_is_reported() {
    let world = World::new();
    let host = Host::new(&world);
    host.scene.file("home/.local", "");
    assert_refused(
        &host,
        "/home/.local: it is not a directory",
        "check what it is, and move it elsewhere",
    );
}

#[test]
fn a_host_without_sftp_is_reported() {
    let world = World::new();
    let host = Host::with(&world, SshdBuilder::without_sftp);
    for words in [&[][..], &["--remove"]] {
        let run = host.deploy(words).run().expect_code(3);
        let said = said(&run);
        assert_eq!(said[0], "haul: haul-test offers no sftp", "{run}");
        assert!(
            said.iter().any(|line| line.contains("install haul by hand: 'haul deploy' needs SFTP")),
            "{run}"
        );
        assert_eq!(names_in(&host.home("")), [""; 0]);
    }
}

#[test]
fn a_host_that_runs_no_programs_is_reported() {
    let world = World::new();
    let host = Host::with(&world, |server| {
        server.server_line("ForceCommand internal-sftp").sftp("internal-sftp")
    });
    let run = host.deploy(&[]).run().expect_code(3);
    assert_eq!(said(&run)[0], "haul: haul-test allows only SFTP", "{run}");
    assert_eq!(names_in(&host.home("")), [""; 0]);
}

#[test]
fn a_login_that_is_bound_to_a_haul_is_reported() {
    let world = World::new();
    let host =
        Host::with(&world, |server| server.server_line(format!("ForceCommand {HAUL} serve")));
    let limit = std::time::Duration::from_secs(30);
    let run = host.deploy(&[]).limit(limit).run().expect_code(4);
    assert_eq!(said(&run)[0], "haul: this login to haul-test runs only haul");
    assert_eq!(names_in(&host.home("")), [""; 0]);
}

#[test]
fn a_host_that_says_nonsense_of_itself_is_reported_with_its_words() {
    let world = World::new();
    let bin = world.path().join("odd");
    fs::create_dir(&bin).expect("a directory");
    script(&bin.join("uname"), "printf 'Plan9\\033[31m mips\\n'");
    let odd = format!("{}:/usr/bin:/bin", bin.display());
    let scene = world.scene_called("home-of-odd", Way::Upload);
    let server =
        Sshd::builder().env("PATH", odd).env("HOME", scene.mkdir("home").display().to_string());
    let host = Host { server: server.start().expect("sshd starts"), scene };
    let run = host.deploy(&[]).run().expect_code(4);
    let first = &said(&run)[0];
    assert!(first.ends_with(", but haul-test is Plan9\\x1b[31m mips"), "{run}");

    script(&bin.join("id"), "echo 'nobody\u{9b}2J'");
    let run = host.deploy(&[]).run().expect_code(4);
    let first = &said(&run)[0];
    assert!(first.starts_with("haul: haul-test: unexpected output of uname"), "{run}");
    assert!(!first.contains(char::is_control), "{run}");
    assert_eq!(names_in(&host.home("")), [""; 0]);
}

#[test]
fn a_home_directory_that_sftp_does_not_see_is_reported() {
    let world = World::new();
    let scene = world.scene(Way::Upload);
    // The server's SFTP sees it under another name: this one sees nothing.
    let empty = scene.mkdir("empty");
    let home = scene.mkdir("home");
    let odd = script(
        &scene.path("sftp"),
        &format!(
            "exec unshare -m sh -c 'mount --bind {} {} && exec {}'",
            empty.display(),
            scene.path("").display(),
            haul_testkit::sshd::system_sftp_server().expect("a server").display()
        ),
    );
    let can = std::process::Command::new("unshare").args(["-m", "true"]).status();
    if !is_root() || !can.is_ok_and(|status| status.success()) {
        return fixture::missing("the right to mount");
    }
    let server =
        Sshd::builder().sftp(odd.display().to_string()).env("HOME", home.display().to_string());
    let host = Host { server: server.start().expect("sshd starts"), scene };
    let run = host.deploy(&[]).run().expect_code(4);
    assert!(
        said(&run)[0].ends_with("the SFTP server and the shell have different home directories"),
        "{run}"
    );
    assert_eq!(names_in(&home), [""; 0]);
}

#[test]
fn other_programs_than_ssh_cannot_deploy() {
    let world = World::new();
    let mut scene = world.scene(Way::Upload);
    scene.reach_by_pipe();
    let home = scene.mkdir("home");
    let pipe = scene.path("pipe").display().to_string();
    let haul = scene.haul().args(["deploy", "--rsh", &pipe, "haul-test"]).env("HOME", &home);
    let run = haul.run().expect_code(2);
    assert!(
        said(&run)[0]
            .contains("only ssh can start an SFTP server: install haul on the other machine"),
        "{run}"
    );
}
