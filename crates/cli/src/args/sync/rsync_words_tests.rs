//! Each word that the help of rsync names is known, and has its row in the documentation.

use crate::args::tests::parse;
use haul_testkit::fixture;
use std::collections::BTreeSet;
use std::process::Command;

/// The words that rsync's help names, long ones and letters.
fn words_of_rsync(help: &str) -> BTreeSet<String> {
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
    let Ok(help) = Command::new("rsync").arg("--help").output() else {
        return fixture::missing("rsync");
    };
    let page = include_str!("../../../../../docs/reference/rsync-options.md");
    let words = words_of_rsync(&String::from_utf8(help.stdout).expect("text"));
    assert!(words.len() > 150, "{words:?}");
    for word in words {
        // One path more than there has to be, for words that take the next one.
        let error = parse(&format!("sync {word} -n a b c")).err().unwrap_or_default();
        // A word that haul knows and has not is answered with a reason.
        let has_no_reason =
            ["shows the options", "do you mean"].iter().any(|hint| error.contains(hint));
        assert!(!(error.contains(" has no ") && has_no_reason), "{word}: {error}");
        let is_there =
            [",", "`", "=", " "].iter().any(|end| page.contains(&format!("`{word}{end}")));
        assert!(is_there, "{word} is not on the page");
    }
}
