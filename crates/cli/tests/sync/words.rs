//! Each word that the help of rsync names is known, and has its row in the documentation.

use crate::common::*;
use haul_testkit::fixture;
use std::collections::BTreeSet;
use std::process::Command;

/// The words that rsync's help names, long ones and letters.
fn words_of_rsync() -> BTreeSet<String> {
    let help = Command::new("rsync").arg("--help").output().expect("it runs").stdout;
    let help = String::from_utf8(help).expect("text");
    let (_, options) = help.split_once("\nOptions\n").expect("a list of options");
    let (options, _) = options.split_once("\n\n").expect("an end of the list");
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let parts = options.split(|letter| !is_of_word(letter));
    let words = parts.filter(|word| word.starts_with('-') && !word.ends_with('-'));
    let words = words.filter(|word| word.starts_with("--") || word.len() == 2);
    // An example of a word with "no-" in front, and those that each program has of its own.
    let others = ["--no-OPTION", "--help", "--version", "-V"];
    words.filter(|word| !others.contains(word)).map(str::to_owned).collect()
}

#[test]
fn every_word_of_rsync_is_known_and_documented() {
    if Command::new("rsync").arg("--version").output().is_err() {
        return fixture::missing("rsync");
    }
    let page = include_str!("../../../../docs/reference/rsync-options.md");
    let world = World::new();
    let scene = world.scene(Way::Local);
    let words = words_of_rsync();
    assert!(words.len() > 150, "{words:?}");
    for word in words {
        // One path more than there has to be, for words that take the next one.
        let run = scene.haul().args(["sync", &word, "-n", "a", "b", "c"]).run();
        let err = run.err();
        assert!(!err.contains("unexpected argument"), "{word}: {run}");
        assert!(!err.contains("internal error"), "{word}: {run}");
        let is_there =
            [",", "`", "=", " "].iter().any(|end| page.contains(&format!("`{word}{end}")));
        assert!(is_there, "{word} is not on the page");
    }
}
