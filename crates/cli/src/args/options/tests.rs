//! Tests of the help: its lines, its order, and the page made from it.

use super::super::words;
use super::*;
use haul::RETRIES;
use haul_net::SILENCE_SECONDS;
use std::collections::BTreeSet;

/// Maximum columns of a line of the help.
const COLUMNS_MAX: usize = 100;

fn built() -> Command {
    let mut all = words();
    all.build();
    all
}

/// All commands; `haul server` is replaced by its subcommands.
fn flat(all: &Command) -> impl Iterator<Item = &Command> {
    all.get_subcommands().flat_map(|command| match command.has_subcommands() {
        true => command.get_subcommands().collect(),
        false => vec![command],
    })
}

/// The words of a command after `haul`.
fn words_of(command: &Command) -> &str {
    let name = command.get_bin_name().unwrap_or_default();
    name.strip_prefix("haul ").unwrap_or(command.get_name())
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
    let commands: Vec<Command> = flat(&all).cloned().collect();
    for mut command in commands {
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
fn hidden_options_are_meant_to_be() {
    let all = built();
    let mut hidden = String::new();
    for command in flat(&all).filter(|command| !command.is_hide_set()) {
        let of = command.get_arguments().filter(|arg| arg.is_hide_set());
        let names: Vec<_> = of.filter_map(|arg| arg.get_long()).collect();
        hidden += &format!("{}: {}\n", words_of(command), names.join(" "));
    }
    insta::assert_snapshot!(hidden);
}

#[test]
fn every_text_is_of_an_option() {
    let all = built();
    let commands = || flat(&all);
    let texts: BTreeSet<_> = commands()
        .flat_map(clap::Command::get_arguments)
        .filter_map(|arg| Some(arg.get_help()?.to_string()))
        .collect();
    for text in HELP.iter() {
        assert!(texts.contains(text.help), "{text:?}");
    }
    for (name, common) in COMMON {
        let command = all.find_subcommand(name).expect("a command");
        for option in common.split(' ') {
            let is_it = |arg: &Arg| arg.get_long() == Some(option) && !arg.is_hide_set();
            assert!(command.get_arguments().any(is_it), "{name} {option}");
        }
        assert!(*name != "copy" || common.split(' ').count() == 15);
        let short = short(name).expect("a short help");
        let full = command.clone().render_help().to_string();
        assert!(short.lines().count() < full.lines().count());
    }
    assert_eq!(short("ls"), None);
}

#[test]
fn texts_name_the_right_defaults() {
    let text = |name: &str| HELP.iter().find(|text| text.name == name).expect("a text").help;
    assert!(text("timeout").ends_with(&format!("[default: {SILENCE_SECONDS}]")));
    assert!(text("retries").ends_with(&format!("[default: {RETRIES}]")));
}

/// If set, the test writes the page.
const WRITES: &str = "HAUL_WRITE_DOCS";

/// Options of `haul sync` that neither rsync nor another command has.
const OWN: [&str; 3] = ["no-cache", "no-moves", "yes"];

/// The names and the value of an option, as the page shows them.
fn spelt(arg: &Arg) -> String {
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let takes = arg.get_num_args().is_some_and(|number| number.takes_values());
    let value = arg.get_value_names().filter(|_| takes).and_then(|names| names.first());
    let value = value.map(|name| format!(" {name}")).unwrap_or_default();
    format!("`{}{}`", names.join(", "), value.replace('|', "\\|"))
}

/// The page of all options, except those that only `haul sync` has from rsync.
fn page() -> String {
    let all = built();
    let is_shown = |command: &&Command| !command.is_hide_set() || command.get_name() == "serve";
    let commands: Vec<&Command> = flat(&all).filter(is_shown).collect();
    let mut page = "# Options\n\n\
        This page is generated from the program's own tables. `haul COMMAND --help` shows the \
        options of a command, and `haul COMMAND -h` the common ones of copy, move, check and \
        sync. The options that only `haul sync` has, with their rsync meaning, are in \
        [rsync options](rsync-options.md).\n\n\
        ## Commands\n\n| Command | Purpose |\n|---|---|\n"
        .to_owned();
    for command in &commands {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let alias = command.get_visible_aliases().next();
        let alias = alias.map(|alias| format!(", `haul {alias}`")).unwrap_or_default();
        page.push_str(&format!("| `haul {}`{alias} | {about} |\n", words_of(command)));
    }
    for texts in HELP.chunk_by(|one, next| one.heading == next.heading) {
        let (heading, mut rows) = (texts[0].heading, String::new());
        for text in texts {
            let is_it = |arg: &&Arg| {
                arg.get_help().is_some_and(|help| help.to_string() == text.help)
                    && arg.get_help_heading() == Some(heading)
                    && match arg.get_long() {
                        Some(long) => long == text.name,
                        None => arg.get_short().is_some_and(|c| text.name.chars().eq([c])),
                    }
            };
            let takers: Vec<_> = commands
                .iter()
                .filter_map(|command| {
                    Some((words_of(command), command.get_arguments().find(is_it)?))
                })
                .collect();
            let Some((first, arg)) = takers.first() else { continue };
            if (takers.len() == 1 && *first == "sync" && !OWN.contains(&text.name))
                || text.name == "help"
            {
                continue;
            }
            let names: Vec<&str> = takers.iter().map(|(name, _)| *name).collect();
            let details = match text.details {
                "" => String::new(),
                details => format!(". {details}"),
            };
            rows.push_str(&format!(
                "| {} | {}{details} | {} |\n",
                spelt(arg),
                text.help.replace('|', "\\|"),
                names.join(", ")
            ));
        }
        if !rows.is_empty() {
            page.push_str(&format!(
                "\n## {heading}\n\n| Option | Meaning | Commands |\n|---|---|---|\n{rows}"
            ));
        }
    }
    page
}

#[test]
fn the_page_of_options_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/options.md");
    let page = page();
    if std::env::var_os(WRITES).is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().expect("a parent"))
            .and_then(|()| std::fs::write(path, &page))
            .expect("it is written");
    }
    assert!(page.split_whitespace().count() < 2000, "too many words");
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == page, "docs/reference/options.md is stale: set {WRITES}=1 and run this test");
}
