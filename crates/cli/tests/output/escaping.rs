//! Names that would move a cursor or change a colour, wherever they are shown.

use crate::common::*;
use haul_testkit::haul::Outcome;
use std::process::Command;

/// A window's title, C1 controls, a line of its own, text that runs backwards.
const EVIL: &[&[u8]] = &[
    b"\x1b]0;title\x07",
    b"\x1b[2J\x1b[H",
    "\u{9b}31mred".as_bytes(),
    b"\xc2\x9b1A",
    b"\x9b31mraw",
    b"line\nhaul: lie",
    b"over\rwritten",
    "\u{202e}txt.exe".as_bytes(),
    b"\x7f\x08\x08",
];

/// Nothing but printable text and line ends was said.
#[track_caller]
fn assert_safe(run: &Outcome) {
    for said in [&run.stdout, &run.stderr] {
        let text = std::str::from_utf8(said).unwrap_or_else(|e| panic!("no text: {e}\n{run}"));
        let evil = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(evil), "{:?}", text.escape_default().to_string());
    }
}

fn evil_tree(scene: &Scene<'_>) {
    for name in EVIL {
        scene.file(os(&[b"tree/", *name].concat()), "x");
        scene.file(os(&[b"tree/dir/", *name, b"/", *name].concat()), "x");
    }
}

#[test]
fn names_are_escaped_in_lines_errors_and_warnings() {
    each_way_by_pipe(|scene| {
        evil_tree(scene);
        for (n, name) in EVIL.iter().enumerate() {
            // What can't be copied: links to nowhere, FIFOs, files in the way.
            scene.symlink(os(name), os(&[b"tree/link-", *name].concat()));
            if n % 2 == 0 {
                let fifo = scene.path(os(&[b"tree/fifo-", *name].concat()));
                run(Command::new("mkfifo").arg(fifo));
            }
            scene.mkdir(os(&[b"there/tree/", *name].concat()));
        }
        for flags in [&["-rv"][..], &["-rvL"], &["-rvn"], &["-rv", "--no-clobber"], &["-rq"]] {
            let run = scene.copy(flags, &["tree"], "there").run().expect_code(1);
            assert_safe(&run);
            assert!(run.err().contains("\\x1b]0;title\\x07"), "{run}");
        }
        for name in EVIL {
            let missing = scene.copy(&[], &[os(name)], "there").run().expect_code(1);
            assert_safe(&missing);
            let dest = os(&[b"no/", *name, b"/x"].concat()).to_owned();
            assert_safe(&scene.copy(&["-r"], &["tree"], dest).run().expect_code(4));
            let two = scene.copy(&["-r"], &["tree", "tree/dir"], os(&[*name, b"!"].concat()));
            assert_safe(&two.run().expect_code(2));
        }
    });
}

#[test]
fn names_are_escaped_in_listings_and_by_json() {
    each_way_by_pipe(|scene| {
        evil_tree(scene);
        let location = |path: &std::path::Path| match scene.way {
            Way::Local => path.as_os_str().to_owned(),
            _ => scene.there(path),
        };
        let haul = |words: &[&str]| {
            let remote = if scene.way == Way::Local { Vec::new() } else { scene.remote() };
            scene.haul().args(words).args(remote)
        };
        let tree = location(&scene.path("tree"));
        for words in [&["ls"][..], &["ls", "-l"], &["ls", "--json"]] {
            assert_safe(&haul(words).arg(&tree).run().expect_ok());
        }
        let name = os(EVIL[0]);
        let evil = location(&scene.path(os(&[b"tree/", EVIL[0]].concat())));
        for words in [&["stat"][..], &["stat", "--json"], &["hash", "--json"]] {
            assert_safe(&haul(words).arg(&evil).run().expect_ok());
        }
        for words in [&["ls"][..], &["stat"], &["hash"], &["hash", "--json"]] {
            assert_safe(&haul(words).arg(location(&scene.path(name))).run().expect_code(1));
        }
        for flags in [["-r", "--json"], ["-rL", "--json"]] {
            assert_safe(&scene.copy(&flags, &["tree"], "there/").run().expect_ok());
        }
        let failed = scene.copy(&["--json"], &[name], "there").run().expect_code(1);
        assert_safe(&failed);
    });
}

#[test]
fn the_words_of_the_command_line_are_escaped() {
    let world = World::new();
    let scene = world.scene(Way::Local);
    for name in EVIL {
        let name = os(name);
        let host = os(&[name.as_encoded_bytes(), b":x"].concat()).to_owned();
        for words in [[host.as_os_str(), os(b".")], [os(b"a:x"), &host], [os(b"ssh://[/"), name]] {
            let run = scene.haul().arg("copy").arg("--").args(words).run();
            assert_ne!(run.code, Some(0));
            assert_safe(&run);
        }
    }
}
