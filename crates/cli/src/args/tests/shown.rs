//! The command lines in documents, help and hints.

use super::*;
use std::path::{Path, PathBuf};

/// Splits a command line as a shell does, up to a comment or another command.
fn words_of_line(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_word, mut quote) = (Vec::new(), String::new(), false, None);
    for char in line.chars() {
        match (char, quote) {
            (_, Some(open)) if char == open => quote = None,
            ('\'' | '"', None) => (quote, is_word) = (Some(char), true),
            (' ', None) if is_word => {
                words.push(std::mem::take(&mut word));
                is_word = false;
            }
            (' ', None) => {}
            ('#' | '|' | '&' | ';' | '<' | '>', None) if !is_word => break,
            _ => (word, is_word) = (word + &char.to_string(), true),
        }
    }
    words.extend(is_word.then_some(word));
    words
}

/// Fails for a command line in the documents with a word that haul does not know. Parts of a
/// command line are accepted.
fn assert_known(line: &str, place: &str) {
    use clap::error::ErrorKind as E;
    let optional = |word: &String| word.starts_with('[') || word.contains("...");
    let words: Vec<_> = words_of_line(line).into_iter().filter(|word| !optional(word)).collect();
    if let Err(error) = Cli::try_parse_from(words) {
        let is_unknown = matches!(error.kind(), E::UnknownArgument | E::InvalidSubcommand);
        assert!(!is_unknown, "{place}: {line}\n{error}");
    }
}

/// Collects the pages below `dir`.
fn pages(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("documents") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn every_command_line_in_documents_help_and_answers_is_known() {
    let mut seen = 0;
    let mut look = |line: &str, place: &str| {
        seen += 1;
        assert_known(line, place);
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut docs = vec![PathBuf::from(format!("{root}/README.md"))];
    pages(&PathBuf::from(format!("{root}/docs")), &mut docs);
    for path in docs {
        let (text, place) = (std::fs::read_to_string(&path).expect("text"), path.display());
        let mut is_block = false;
        let next = text.lines().skip(1).chain([""]);
        for (line, next) in text.lines().zip(next) {
            if line.starts_with("```") {
                is_block = !is_block;
            } else if is_block {
                let line = line.strip_prefix("$ ").unwrap_or(line);
                let is_answered = next.starts_with("haul: 'haul ");
                if line.starts_with("haul ") && !is_answered {
                    look(line, &place.to_string());
                }
            } else {
                let spans = line.split('`').skip(1).step_by(2);
                let commands = spans.filter(|span| {
                    span.starts_with("haul ")
                        && !["haul COMMAND", "haul ...", "haul post"]
                            .iter()
                            .any(|it| span.starts_with(it))
                });
                commands.for_each(|command| look(command, &place.to_string()));
            }
        }
    }
    let mut words = words();
    words.build();
    for command in words.get_subcommands_mut().map(clap::Command::render_help) {
        let help = command.to_string();
        let lines = help.lines().filter_map(|line| line.strip_prefix("  haul "));
        for line in lines {
            // The description follows after two spaces.
            let (line, _) = line.split_once("  ").unwrap_or((line, ""));
            look(&format!("haul {line}"), "help");
        }
    }
    let answers = include_str!(
        "../snapshots/haul__args__tests__words_of_other_programs_are_answered_where_they_are_not_taken.snap"
    );
    for (at, _) in answers.match_indices("'haul ") {
        let answer = &answers[at + 1..];
        let (line, _) = answer.split_once('\'').expect("the other quote");
        if !answers[..at].ends_with("haul: ") {
            look(line, "an answer");
        }
    }
    assert!(seen > 150, "{seen} command lines");
}
