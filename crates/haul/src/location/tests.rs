//! Tables of locations as users write them, and their meaning.

use super::*;
use std::os::unix::ffi::OsStrExt;

fn location(words: &[u8]) -> Result<Location, LocationError> {
    Location::parse(OsStr::from_bytes(words))
}

/// The location as `user|host|port|path`, or `here|path`.
fn shape(words: &[u8]) -> String {
    match location(words) {
        Err(error) => format!("refused: {error}"),
        Ok(Location { machine: Machine::Local, path, .. }) => {
            format!("here|{}", escape_bytes(&path))
        }
        Ok(Location { machine: Machine::Remote(host), path, .. }) => {
            let sftp = if host.by_sftp { "sftp:" } else { "" };
            format!(
                "{sftp}{}|{}|{}|{}",
                host.user().unwrap_or(""),
                host.name(),
                host.port().map(|p| p.to_string()).unwrap_or_default(),
                escape_bytes(&path)
            )
        }
    }
}

#[test]
fn paths_here() {
    for path in [
        &b"a"[..],
        b"a/b:c",
        b"./a:b",
        b"/abs:x",
        b"../x:y",
        b"a/",
        b":x",
        b":",
        b"-r",
        b"a@b",
        b"[::1]",
        b"[a:b",
        b"[a/b]:c",
        b"u@[a:b",
        b"~/x",
        b"./ssh://host/x",
        b"/ssh://host/x",
        b"nul\xffl",
        b"\xff/:",
        b"a\nb",
    ] {
        let found = location(path).expect("a path here");
        assert_eq!(found.machine, Machine::Local, "{}", escape_bytes(path));
        assert_eq!(found.path, path);
    }
}

#[test]
fn paths_on_hosts() {
    for (words, expected) in [
        (&b"host:path"[..], "|host||path"),
        (b"host:", "|host||."),
        (b"host:/", "|host||/"),
        (b"host:/abs/x", "|host||/abs/x"),
        (b"host:~/x", "|host||~/x"),
        (b"host:~", "|host||~"),
        (b"host:./~other/x", "|host||./~other/x"),
        (b"host:~$report.docx", "|host||~$report.docx"),
        (b"host:~*", "|host||~*"),
        (b"host:a/~other", "|host||a/~other"),
        (b"host:a:b", "|host||a:b"),
        (b"host:./:a", "|host||./:a"),
        (b"host:a::b", "|host||a::b"),
        (b"host:-r", "|host||-r"),
        (b"user@host:x", "user|host||x"),
        (b"first.last@corp@host:x", "first.last@corp|host||x"),
        (b"host:u@x:y", "|host||u@x:y"),
        (b"[::1]:x", "|::1||x"),
        (b"[::1]:", "|::1||."),
        (b"user@[fe80::1%eth0]:/x y", "user|fe80::1%eth0||/x y"),
        (b"[host]:x", "|host||x"),
        (b"a[b]:x", "|a[b]||x"),
        (b"h:\xff\xfe", "|h||\\xff\\xfe"),
        (b"h:new\nline", "|h||new\\nline"),
        (b"h:%41", "|h||%41"),
    ] {
        assert_eq!(shape(words), expected, "{}", escape_bytes(words));
    }
}

#[test]
fn urls() {
    for (words, expected) in [
        (&b"ssh://host"[..], "|host||."),
        (b"ssh://host/", "|host||/"),
        (b"ssh://host/a/b", "|host||/a/b"),
        (b"SSH://host/a", "|host||/a"),
        (b"ssh://host/~/a/b", "|host||a/b"),
        (b"ssh://host/~//a", "|host||a"),
        (b"ssh://host/~", "|host||."),
        (b"ssh://host/~/", "|host||."),
        (b"ssh://host/./~other/x", "|host||/./~other/x"),
        (b"ssh://user@host:2222/x", "user|host|2222|/x"),
        (b"ssh://user%40corp@host/x", "user@corp|host||/x"),
        (b"ssh://u@corp@host/x", "u@corp|host||/x"),
        (b"ssh://[::1]:22/x", "|::1|22|/x"),
        (b"ssh://u@[::1]/x", "u|::1||/x"),
        (b"ssh://[fe80::1%25eth0]/x", "|fe80::1%eth0||/x"),
        (b"ssh://host/a%20b%2Fc%ff", "|host||/a b/c\\xff"),
        (b"ssh://host/a?b#c:d@e", "|host||/a?b#c:d@e"),
        (b"ssh://host/\xff", "|host||/\\xff"),
        (b"sftp://host", "sftp:|host||."),
        (b"SFTP://u@host:2222/a%20b", "sftp:u|host|2222|/a b"),
        (b"sftp://host/~/a", "sftp:|host||a"),
        (b"sftp:a", "|sftp||a"),
    ] {
        assert_eq!(shape(words), expected, "{}", escape_bytes(words));
    }
}

#[test]
fn refusals_name_the_reason() {
    let mut texts = String::new();
    for words in [
        &b""[..],
        b"host::module/path",
        b"user@host::module",
        b"rsync://host/module",
        b"-oProxyCommand=x:path",
        b"u@-h:path",
        b"-u@h:path",
        b"ssh://-h/x",
        b"ssh://%2dh/x",
        b"@host:x",
        b"user@:x",
        b"[]:x",
        b"a b:x",
        b"a\x1bb:x",
        b"\xff:x",
        b"ssh://",
        b"ssh:///x",
        b"ssh://@host/x",
        b"ssh://user:secret@host/x",
        b"ssh://host:/x",
        b"ssh://host:0/x",
        b"ssh://host:65536/x",
        b"ssh://host:+22/x",
        b"ssh://host/%zz",
        b"ssh://host/%4",
        b"ssh://host/%00",
        b"host:~other",
        b"host:~other/x",
        b"ssh://host/~other/x",
        b"a\0b",
        b"sftp://-h/x",
        b"scp://host/x",
        b"http://host/x",
    ] {
        texts.push_str(&shape(words));
        texts.push('\n');
    }
    insta::assert_snapshot!(texts);
}

#[test]
fn the_final_name_is_the_last_component() {
    for (words, expected) in [
        (&b"a"[..], Some(&b"a"[..])),
        (b"a/b", Some(b"b")),
        (b"a/b///", Some(b"b")),
        (b"h:a/b/", Some(b"b")),
        (b"h:", None),
        (b".", None),
        (b"a/..", None),
        (b"a/.", None),
        (b"/", None),
        (b"...", Some(b"...")),
    ] {
        let found = location(words).expect("a location");
        assert_eq!(found.final_name(), expected, "{}", escape_bytes(words));
    }
}

#[test]
fn a_host_is_parsed_without_a_path() {
    for (words, address) in [
        ("box", "box"),
        ("ann@box", "ann@box"),
        ("ann@box:", "ann@box"),
        ("ssh://ann@box:7", "ssh://ann@box:7"),
        ("ssh://box:7/", "ssh://box:7"),
        ("[::1]", "[::1]"),
        ("::1", "[::1]"),
        ("ann@[::1]:", "ann@[::1]"),
    ] {
        let target = parse_host(OsStr::new(words));
        // The address in a message can be typed.
        for target in [target, parse_host(OsStr::new(address))] {
            assert_eq!(target.expect("a host").address(), address, "{words}");
        }
    }
    for (words, why) in [
        ("", "the host is missing"),
        ("/", "not a host: use"),
        ("box:/", "not a host: use"),
        ("box:a", "not a host: use"),
        ("ssh://box/a", "not a host: use"),
        ("sftp://box", "not a host: use"),
        ("./box", "not a host: use"),
        ("-oProxyCommand=x", "starts with '-'"),
        ("a;b", "it contains a character that is special to a shell"),
        ("-x@box", "starts with '-'"),
    ] {
        let error = parse_host(OsStr::new(words)).expect_err(words).to_string();
        assert!(error.contains(why), "{words}: {error}");
    }
}
