//! Tests of settings in the file and the environment, and of their precedence.

use super::*;
use std::path::Path;

impl Config {
    /// Parses `text` as the file.
    pub(crate) fn of_text(text: &str) -> Self {
        file::parse(text, Path::new("config.toml")).expect("a right configuration")
    }
}

fn parsed(text: &str) -> Result<Config, CommandError> {
    file::parse(text, Path::new("/c/haul.toml"))
}

fn config(text: &str) -> Config {
    parsed(text).expect("a configuration that is right")
}

const FILE: &str = r#"
rsh = "ssh -p 2222"
timeout = 5
verify = true

[host.nas]
timeout = 0
parallel = 4
transport = "sftp"

[host."192.168.0.1"]
remote-haul = "/opt/haul"
"#;

/// The keys with values that are not defaults, and their origins.
fn set(settings: &Settings) -> String {
    let rows = settings.rows().into_iter();
    let lines = rows
        .filter_map(|(key, value, origin)| Some(format!("{key} = {:?} {:?}\n", value?, origin?)));
    lines.collect()
}

#[test]
fn a_host_has_its_own_settings_above_those_of_all() {
    let config = config(FILE);
    let of = |host| set(&config.with(Settings::default(), host));
    insta::assert_snapshot!(format!(
        "{}nas:\n{}192.168.0.1:\n{}",
        of(None),
        of(Some("NAS")),
        of(Some("192.168.0.1"))
    ));
    assert_eq!(of(Some("other")), of(None));
}

#[test]
fn the_command_line_holds_over_the_environment_and_that_over_the_file() {
    let mut config = config(FILE);
    let value = |name: &str| (name == "HAUL_TIMEOUT").then(|| OsString::from("7"));
    config.environment = environment(value).expect("a variable that is right");
    let timeout = |words: Settings| config.with(words, Some("nas")).timeout.expect("one is set");
    let from_environment = timeout(Settings::default());
    assert_eq!((from_environment.value, from_environment.origin), (7, Origin::Environment));
    let words = Settings { timeout: Some(from_command_line(9)), ..Settings::default() };
    assert_eq!(timeout(words), from_command_line(9));
}

#[test]
fn a_nearer_setting_puts_aside_what_it_contradicts() {
    let with = |text: &str, words: Settings| {
        let settings = config(text).with(words, Some("nas"));
        (settings.transport.map(|given| given.value), settings.remote_haul.map(|given| given.value))
    };
    let none = Settings::default;
    let sftp_for_nas = "remote-haul = \"/h\"\n[host.nas]\ntransport = \"sftp\"";
    assert_eq!(with(sftp_for_nas, none()), (Some(Transport::Sftp), None));
    let haul_for_nas = "transport = \"sftp\"\n[host.nas]\nremote-haul = \"/h\"";
    assert_eq!(with(haul_for_nas, none()), (None, Some("/h".to_owned())));
    let both = Settings { transport: Some(from_command_line(Transport::Haul)), ..none() };
    assert_eq!(with(sftp_for_nas, both), (Some(Transport::Haul), Some("/h".to_owned())));
    let sftp = Settings { transport: Some(from_command_line(Transport::Sftp)), ..none() };
    assert_eq!(with("remote-haul = \"/h\"", sftp), (Some(Transport::Sftp), None));
}

#[test]
fn mistakes_name_the_file_the_line_and_the_key_but_no_value() {
    let mut texts = String::new();
    for text in [
        "paralel = 3",
        "timeout = \"secret\"",
        "bwlimit = \"fast\"",
        "compress = 3",
        "via = true",
        "congestion = \"reno\"",
        "port-range = \"9-1\"",
        "timeout = -1",
        "timeout = 86401",
        "\n\nparallel = 9",
        "parallel = 0",
        "parallel = 2.5",
        "transport = \"secret\"",
        "rsh = \"'secret\"",
        "rsh = [\"secret\"]",
        "remote-haul = \"\"",
        "verify = 1",
        "host = 3",
        "[host]\nnas = 3",
        "[host.nas]\nsync = true",
        "[host.nas]\n\ntimout = 3",
        "[hosts.nas]\ntimeout = 3",
        "transport = \"sftp\"\nremote-haul = \"/h\"",
        "timeout = 3\ntimeout = 4",
        "timeout = secret",
        "verify = yes",
        "rsh = secret -p 22",
        "paralel = secret",
        "[host.nas\n",
        "'a\u{1b}[2J' = 3",
    ] {
        let error = parsed(text).expect_err("a mistake");
        let said = format!("{error} {:?}", error.hints);
        assert!(!said.contains("secret"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
        texts.push_str(&format!("{text:?}\n  {error}\n"));
        for hint in &error.hints {
            texts.push_str(&format!("  hint: {hint}\n"));
        }
    }
    insta::assert_snapshot!(texts);
}

#[test]
fn a_variable_that_is_wrong_is_named() {
    let told = |name: &'static str, value: &'static str| {
        let error = environment(|asked| (asked == name).then(|| value.into()));
        error.err().map(|error| error.to_string())
    };
    assert_eq!(
        told("HAUL_PARALLEL", "many").as_deref(),
        Some("HAUL_PARALLEL: must be a number from 1 to 8")
    );
    assert_eq!(told("HAUL_SYNC", "yes").as_deref(), Some("HAUL_SYNC: must be true or false"));
    assert_eq!(told("HAUL_SYNC", "true"), None);
    assert_eq!(told("HAUL_REMOTE_HAUL", ""), None, "an empty one is none");
    assert_eq!(variable("remote-haul"), "HAUL_REMOTE_HAUL");
}

#[test]
fn a_value_is_shown_as_it_was_written() {
    let shown = |text: &str| text.parse().map(|it: KeptMax| (it.to_string(), it.value));
    assert_eq!(shown("4GiB"), Ok(("4GiB".to_owned(), 4 << 30)));
    let none = Rate::default();
    assert_eq!((none.to_string(), none.value), ("0".to_owned(), None));
    assert_eq!("0".parse(), Ok(none));
}

#[test]
fn a_time_is_a_number_with_a_unit() {
    let seconds = |text: &str| text.parse().map(|it: KeepFor| it.value.as_secs()).ok();
    for (text, expected) in
        [("0", 0), ("30", 30), ("30s", 30), ("10m", 600), ("24h", 86_400), ("86400", 86_400)]
    {
        assert_eq!(seconds(text), Some(expected), "{text}");
    }
    for bad in ["", "m", "-1", "1d", "25h", "1 m", "1.5m", "99999999999999999999h"] {
        assert_eq!(seconds(bad), None, "{bad}");
    }
    assert_eq!(seconds(KEEP_DEFAULT), Some(600));
}
