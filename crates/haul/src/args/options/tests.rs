//! The help: its lines, its order, and the page that is made of it.

use super::super::words;
use super::table::{COMMON, SECTIONS};
use super::*;
use crate::config::RETRIES;
use haul_net::SILENCE_SECONDS;
use std::collections::BTreeSet;

/// The columns that a line of the help may have.
const COLUMNS_MAX: usize = 100;

/// All commands, built.
fn built() -> Command {
    let mut all = words();
    all.build();
    all
}

fn short(command: &str) -> Option<String> {
    short_help(&["haul", command, "-h"].map(OsString::from))
}

#[test]
fn each_option_has_a_line_of_its_own() {
    let mut all = built();
    let top = all.render_help().to_string();
    let mut seen = 0;
    let mut look = |name: &str, help: &str, args: &[Arg]| {
        for line in help.lines() {
            assert!(line.chars().count() <= COLUMNS_MAX, "{name}: {line}");
        }
        for arg in args.iter().filter(|arg| !arg.is_hide_set()) {
            let text =
                arg.get_help().unwrap_or_else(|| panic!("{name} {arg}: no help")).to_string();
            assert!(help.lines().any(|line| line.contains(&text)), "{name} {arg} wraps: {text}");
            assert!(!text.ends_with('.') && !text.starts_with("As "), "{name} {arg}: {text}");
            seen += 1;
        }
    };
    look("haul", &top, &[]);
    for command in all.get_subcommands_mut() {
        let (name, args) = (command.get_name().to_owned(), command.get_arguments().cloned());
        let (args, help) = (args.collect::<Vec<_>>(), command.render_help().to_string());
        look(&name, &help, &args);
        if let Some(short) = short(&name) {
            look(&name, &short, &[]);
            assert!(short.lines().count() < 45, "{short}");
        }
    }
    assert!(seen > 200, "{seen} options");
}

#[test]
fn every_text_is_of_an_option() {
    let all = built();
    let commands = || all.get_subcommands();
    let texts: BTreeSet<_> = commands()
        .flat_map(clap::Command::get_arguments)
        .filter_map(|arg| Some(arg.get_help()?.to_string()))
        .collect();
    for text in SECTIONS.iter().flat_map(|(_, texts)| *texts) {
        assert!(texts.contains(text.help), "{text:?}");
    }
    for (name, common) in COMMON {
        let command = all.find_subcommand(name).expect("a command");
        for option in *common {
            let is_it = |arg: &Arg| arg.get_long() == Some(option) && !arg.is_hide_set();
            assert!(command.get_arguments().any(is_it), "{name} {option}");
        }
        assert!(*name != "copy" || common.len() == 15);
        let short = short(name).expect("a short help");
        let full = command.clone().render_help().to_string();
        assert!(short.lines().count() < full.lines().count());
    }
    assert_eq!(short("ls"), None);
}

#[test]
fn texts_name_the_right_defaults() {
    let text = |name: &str| {
        let texts = SECTIONS.iter().flat_map(|(_, texts)| *texts);
        texts.into_iter().find(|text| text.name == name).expect("a text").help
    };
    assert!(text("timeout").ends_with(&format!("[default: {SILENCE_SECONDS}]")));
    assert!(text("retries").ends_with(&format!("[default: {RETRIES}]")));
}
