//! Command lines as structs, and their help.

use super::*;
use clap::CommandFactory;
use haul::{Host, Machine, Request, WithoutHaul};
use haul_model::{Compression, Conflict, Kept, Policy, Sameness, Via};
use haul_testkit::fixture;
use std::collections::BTreeSet;
use std::num::{NonZeroU8, NonZeroU64};
use std::path::Path;

pub(super) fn parse(words: &str) -> Result<Command, String> {
    let words = std::iter::once("haul").chain(words.split_whitespace());
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let told = |error: CommandError| format!("haul: {error} {:?}\n", error.hints);
    match Cli::try_parse_from(&words) {
        Ok(words) => words.into_command(|| Ok(Config::default())).map_err(told),
        Err(error) => Err(explain(error, &words).map_or_else(|error| error.to_string(), told)),
    }
}

fn copy(words: &str) -> Copy {
    match parse(words).expect("words that are right") {
        Command::Copy(copy) => copy,
        other => panic!("not a copy: {other:?}"),
    }
}

#[test]
fn the_words_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_copy_is_careful_by_default() {
    let copy = copy("copy a b c");
    assert_eq!(copy.request.sources.len(), 2);
    assert_eq!(copy.request.dest.path, b"c");
    assert_eq!(copy.request.policy, Policy::default());
    assert_eq!(copy.detail, Detail::Text(Show::Normal));
    assert!(!copy.request.recursive && copy.request.follow, "what is named is followed");
}

#[test]
fn flags_mean_what_they_do_in_cp_and_rsync() {
    let copied = copy("cp -rLun -v a b");
    assert!(copied.request.recursive && copied.request.follow && copied.request.policy.dry_run);
    assert_eq!(copied.request.policy.conflict, Conflict::ReplaceOlder);
    assert_eq!(copied.detail, Detail::Text(Show::Verbose));

    assert!(!copy("copy -P a b").request.follow && copy("copy -PL a b").request.follow);
    assert!(copy("copy --partial --progress a b").request.follow);
    let tree = copy("copy -R a b");
    assert!(tree.request.recursive && !tree.request.follow, "in trees links stay links");
    assert_eq!(copy("copy -f a b").request.policy.conflict, Conflict::ReplaceAll);
    assert_eq!(copy("copy --no-clobber a b").request.policy.conflict, Conflict::Keep);
    assert_eq!(copy("copy -q a b").detail, Detail::Text(Show::Quiet));
    assert_eq!(copy("copy a b --json").detail, Detail::Json);
    assert_eq!(copy("copy -- -a -b").request.sources[0].path, b"-a");
}

#[test]
fn flags_of_info_and_debug_have_a_help() {
    let help = |line: &str| {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        sync::flags_help(&words).is_some()
    };
    for line in ["haul sync --info=help", "haul sync -a --debug=HELP", "haul sync --info name,help"]
    {
        assert!(help(line), "{line}");
    }
    for line in ["haul sync --info=name help/", "haul sync -- --info=help"] {
        assert!(!help(line), "{line}");
    }
}

#[test]
fn options_of_other_programs_are_accepted_if_haul_has_their_meaning() {
    let archived = copy("copy -avz a b");
    assert!(archived.request.recursive);
    assert_eq!(archived.detail, Detail::Text(Show::Verbose));
    assert_eq!(copy("copy -rz a host:b"), copy("copy -r a host:b"));
    let all = copy("copy -rpPvv --progress a b");
    assert_eq!(all.detail, Detail::Text(Show::Everything));
    assert_eq!(archived.request.policy.keeps, Kept::OF_ARCHIVES);
    let request = Request { policy: Policy::default(), ..archived.request };
    assert_eq!(Copy { request, ..archived }, copy("copy -rv a b"));
    assert!(copy("copy -rH a b").request.policy.keeps.has(Kept::LINKS));
    let some = copy("copy -rAX --group --numeric-ids a b").request.policy;
    assert!(some.keeps.has(Kept::ACL.with(Kept::XATTRS).with(Kept::GROUP).with(Kept::SET_ID)));
    assert!(!some.keeps.has_any(Kept::USER.with(Kept::ATIMES)) && some.numeric_ids);
    let Ok(Command::Check(check)) = parse("check -avzP a host:b") else { panic!("not a check") };
    assert!(check.copy.request.recursive);
    assert_eq!(copy("copy -avh a b"), copy("copy -av a b"));
    assert_eq!(copy("copy --human-readable a b"), copy("copy a b"));
    assert_eq!(parse("move -h a b"), parse("move a b"));
    assert_eq!(parse("check -h a b"), parse("check a b"));
    // A later option overrides an earlier one, as in scripts that append options.
    let given_twice = parse("copy --timeout 5 --timeout 6 a b");
    assert_eq!(given_twice, parse("copy --timeout 6 a b"));
}

#[test]
fn words_of_other_programs_are_answered_where_they_are_not_taken() {
    let mut texts = String::new();
    for words in [
        "copy -r --exclude= a b",
        "copy -r --exclude-from /nowhere/at-all a b",
        "copy -r --filter merge a b",
        "move --exclude *.o a b",
        "copy -a --delete a b",
        "copy --preserve=all a b",
        "copy --preserve a b",
        "copy --preserve=ownership a b",
        "copy --preserve=links,xattr a b",
        "copy --preserve=timestamps a b",
        "move --preserve=all a b",
        "copy -rlptgoD a b",
        "copy -rlt a b",
        "check -rog a b",
        "copy -o a b",
        "copy -d a b",
        "copy -l a b",
        "copy -l 100 a host:b",
        "copy -rl8000 a host:b",
        "copy -S .bak a b",
        "move -l 100 a host:b",
        "move -S .bak a b",
        "move -P 22 a host:b",
        "copy -c a b",
        "copy -t dir a b",
        "copy -P 2222 a host:b",
        "copy -C a host:b",
        "copy -i key a host:b",
        "copy -o Port=2222 a host:b",
        "copy -x a b",
        "copy --remove-source-files a b",
        "copy --link-dest=x a b",
        "copy --bwlimit=fast a host:b",
        "copy -b a b",
        "copy --inplace a b",
        "copy -I a b",
        "move -X a b",
        "move --cvs-exclude a b",
        "copy --frobnicate a b",
        "copy --recursiv a b",
        "move -a a b",
        "move -n a b",
        "move -z a b",
        "check -n a b",
        "ls -la host:",
        "ls -R host:",
        "ls -lt host:",
        "ls -d host:",
        "ls -1 host:",
        "ls -i host:",
        "ls --si host:",
        "hash -r host:a",
        "hash --check sums",
        "hash -a sha256 a",
        "check -u a b",
        "check -i a b",
        "stat -l a",
        "stat -c %s a",
        "stat -f a",
        "doctor -v host",
        "doctor -p 22 host",
        "deploy -v host",
        "deploy --force host",
        "deploy -n host",
        "clean -v dir",
        "move --progress a b",
        "move --partial a b",
        "copy -P42201 a host:b",
        "sync -P42201 a host:b",
        "sync -6 a host:b",
        "sync --port=22 a host:b",
        "sync --delet a b",
        "sync --parents a b",
        "sync --preserve=all a b",
        "sync --no-preserve=mode a b",
        "sync -3 a:b c:d",
        "copy --no-dereference a b",
        "copy --attributes-only a b",
        "sync --hel",
        "hash --tag a",
        "clean -f dir",
        "clean -q dir",
        "clean --al dir",
        "stat -h a",
        "hash -h a",
        "-h copy a b",
        "copy -3 a:b c:d",
        "copy -s a b",
        "copy --reflink=auto a b",
        "copy --no-preserve=mode a b",
        "copy --parents a b",
        "-av a b",
        "a host:b",
        "rsync a b",
        "rsync -av a b",
        "copi a b",
        "copy --mkpath a b",
        "move --mkpath a b",
        "copy --info=progress2 a b",
        "scp a host:b",
        "chek a b",
        "diff a b",
        "help us",
    ] {
        let error = parse(words).expect_err("words that haul has not");
        assert!(!error.contains("as a value"), "{error}");
        texts.push_str(&format!("$ haul {words}\n{error}\n"));
    }
    insta::assert_snapshot!(texts);
}

#[test]
fn hosts_are_reached_as_the_options_say() {
    let copy = copy("copy -e rsh --remote-haul /opt/haul u@host:a b");
    let expected = Host::new(Some("u"), "host")
        .and_then(|host| host.with_ssh(|ssh| ssh.with_rsh("rsh")?.with_remote_haul("/opt/haul")))
        .expect("names that are right");
    let host = copy.request.sources[0].machine.host().expect("on a host");
    assert_eq!(host.ssh(), expected.ssh());
    assert_eq!(copy.request.dest.machine, Machine::Local);
}

#[test]
fn a_host_is_the_same_for_all_words_that_name_it() {
    let copy = copy("copy --compress none h:a sftp://h/b h:c ann@h:d");
    let host = |at: &Location| at.machine.host().expect("on a host").clone();
    let [a, b, c] = [0, 1, 2].map(|at| host(&copy.request.sources[at]));
    assert!(a == c && a != b && a != host(&copy.request.dest));
    assert!(b.by_sftp && !a.by_sftp && a.sets_compression && !a.sets_rate);
}

#[test]
fn every_command_that_names_a_host_takes_a_timeout() {
    let timeout = |words: &str| {
        let machine = match parse(words).expect("words that are right") {
            Command::Copy(copy) | Command::Move(copy) => copy.request.sources[0].machine.clone(),
            Command::Check(check) => check.copy.request.sources[0].machine.clone(),
            Command::Ls(ls) => ls.asked.paths[0].machine.clone(),
            Command::Stat(stat) => stat.asked.paths[0].machine.clone(),
            Command::Hash(hash) => hash.paths[0].machine.clone(),
            Command::Deploy(deploy) => Machine::Remote(deploy.host),
            other => panic!("a command without hosts: {other:?}"),
        };
        machine.host().expect("on a host").timeouts().silence_max.map(|silence| silence.as_secs())
    };
    for (command, rest) in
        [("copy", "h:a b"), ("move", "sftp://h/a b"), ("check", "h:a b"), ("ls", "h:a")]
            .into_iter()
            .chain([("stat", "sftp://h/a"), ("hash", "h:a"), ("deploy", "h")])
    {
        assert_eq!(timeout(&format!("{command} {rest}")), Some(15));
        assert_eq!(timeout(&format!("{command} --timeout 2 {rest}")), Some(2));
        assert_eq!(timeout(&format!("{command} --timeout 0 {rest}")), None);
    }
}

#[test]
fn requests_have_their_flags() {
    let Ok(Command::Ls(ls)) = parse("ls -l a host:") else { panic!("not a listing") };
    assert!(ls.long && !ls.null && ls.asked.paths.len() == 2);
    assert_eq!(ls.asked.detail, Detail::Text(Show::Normal));
    let Ok(Command::Ls(ls)) = parse("ls -lh a") else { panic!("not a listing") };
    assert!(ls.long && ls.readable);
    let Ok(Command::Ls(ls)) = parse("ls -0 a") else { panic!("not a listing") };
    assert!(ls.null && !ls.long);
    let Ok(Command::Stat(stat)) = parse("stat -L --json a") else { panic!("not a stat") };
    assert!(stat.follow && stat.asked.detail == Detail::Json);
    let Ok(Command::Hash(hash)) = parse("hash a b") else { panic!("not a hash") };
    assert_eq!(hash.paths.len(), 2);
    assert_eq!(parse("serve"), Ok(Command::Serve(Serve::default())));
    let restricted = Serve { root: Some("/backup".into()), read_only: true };
    assert_eq!(parse("serve --root /backup --read-only"), Ok(Command::Serve(restricted)));
}

#[test]
fn options_choose_the_program_on_a_host() {
    let asked = |words: &str| match parse(&format!("hash {words}")) {
        Ok(Command::Hash(hash)) => {
            let sftp = hash.paths.iter().map(|at| at.machine.is_by_sftp());
            let hosts = hash.paths.iter().filter_map(|at| at.machine.host());
            let mut without: Vec<_> = hosts.map(|host| host.without_haul).collect();
            without.dedup();
            assert_eq!(without.len(), 1, "{without:?}");
            (sftp.collect::<Vec<_>>(), without[0])
        }
        other => panic!("not a hash: {other:?}"),
    };
    assert_eq!(asked("h:a sftp://h/a"), (vec![false, true], WithoutHaul::Continue));
    assert_eq!(asked("-q h:a"), (vec![false], WithoutHaul::ContinueQuietly));
    assert_eq!(
        asked("--transport sftp a h:a ssh://h/a"),
        (vec![false, true, true], WithoutHaul::Continue)
    );
    assert_eq!(asked("--transport haul -q h:a"), (vec![false], WithoutHaul::Fail));
    assert_eq!(asked("--remote-haul /x h:a"), (vec![false], WithoutHaul::Fail));
}

#[test]
fn a_deployment_has_a_host_and_a_program() {
    let deploy = |words: &str| match parse(&format!("deploy {words}")) {
        Ok(Command::Deploy(deploy)) => deploy,
        other => panic!("not a deployment: {other:?}"),
    };
    let plain = deploy("ann@box");
    assert_eq!((plain.action, plain.quiet), (Deployment::Install(None), false));
    assert_eq!(plain.host.to_string(), "ann@box");
    let other = deploy("-q -e 'my-ssh' --binary /a/b ssh://box:7");
    assert_eq!((other.action, other.quiet), (Deployment::Install(Some("/a/b".into())), true));
    let host = Host::new(None, "box");
    let host = host.and_then(|it| it.with_ssh(|ssh| Ok(ssh.with_rsh("'my-ssh'")?.with_port(7))));
    assert_eq!(other.host.ssh(), host.expect("names that are right").ssh());
    assert_eq!(deploy("--remove box").action, Deployment::Remove);
}

#[test]
fn the_command_line_overrides_the_configuration() {
    let parse = |config: &Config, words: &str| {
        let words = std::iter::once("haul").chain(words.split_whitespace());
        let words = Cli::try_parse_from(words).expect("words that are right");
        words.into_command(|| Ok(config.clone()))
    };
    let copied = |config: &Config, words: &str| match parse(config, words) {
        Ok(Command::Copy(copy)) => copy,
        other => panic!("not a copy: {other:?}"),
    };

    let config =
        Config::of_text("verify = true\nsync = true\n[host.h]\ntransport = \"sftp\"\nparallel = 3");
    let plain = copied(&config, "copy a h:b");
    assert!(plain.request.policy.verify && plain.request.policy.sync);
    assert!(!copied(&config, "copy -V --no-verify a b").request.policy.verify);
    assert!(copied(&config, "copy --no-verify -V a b").request.policy.verify);
    let host = |copy: &Copy| copy.request.dest.machine.host().expect("on a host").clone();
    assert!(host(&plain).by_sftp);
    assert_eq!(host(&plain).parallel.map(NonZeroU8::get), Some(3));
    let other = copied(&config, "copy --no-verify --no-sync a other:b");
    assert!(!other.request.policy.verify && !other.request.policy.sync);
    assert!(!host(&other).by_sftp && host(&other).parallel.is_none());

    // An option overrides settings that contradict it.
    let typed = copied(&config, "copy --remote-haul /x a h:b");
    assert_eq!(host(&typed).without_haul, WithoutHaul::Fail);
    let deployed = copied(&config, "copy --deploy a h:b");
    assert!(!host(&deployed).by_sftp);
    let config = Config::of_text("remote-haul = \"/x\"");
    let by_sftp = copied(&config, "copy a sftp://h/b");
    assert!(host(&by_sftp).by_sftp);
    assert!(parse(&config, "deploy h").is_ok());
}

#[test]
fn wrong_words_are_explained() {
    let mut texts = String::new();
    for words in [
        "copy",
        "copy a",
        "copy -f --no-clobber a b",
        "copy -u -f a b",
        "copy -q -v a b",
        "copy --json -q a b",
        "copy --frobnicate a b",
        "ls",
        "ls -l -0 a",
        "transfer a b",
        "copy a -- -h:b",
        "copy -e ' a host:b",
        "copy --remote-haul= a host:b",
        "hash http://host/x",
        "copy --transport sftp --remote-haul /x a host:b",
        "copy --remote-haul /x a sftp://host/b",
        "copy --transport haul a sftp://host/b",
        "copy --deploy sftp://host/a b",
        "copy --deploy --transport sftp a host:b",
        "move --deploy --remote-haul /x a host:b",
        "ls --transport sftp --remote-haul /x host:",
        "copy --timeout never host:a b",
        "copy --timeout 86401 host:a b",
        "serve --read-only",
        "deploy host:a",
        "deploy --remove --binary a host",
    ] {
        let error = parse(words).expect_err("words that are wrong");
        texts.push_str(&format!("$ haul {words}\n{error}\n"));
    }
    insta::assert_snapshot!(texts);
}

fn help(name: Option<&str>) -> String {
    let mut words = Cli::command();
    words.build();
    let command = match name {
        Some(name) => words.find_subcommand_mut(name).expect("a command"),
        None => &mut words,
    };
    command.render_help().to_string()
}

#[test]
fn help_is_short_and_grouped() {
    insta::assert_snapshot!("help", help(None));
    let names =
        ["copy", "sync", "ls", "stat", "hash", "deploy", "doctor", "config", "cache", "keep"];
    for name in names {
        insta::assert_snapshot!(format!("help_{name}"), help(Some(name)));
    }
    for name in ["copy", "sync"] {
        let short = options::short_help(&["haul", name, "-h"].map(OsString::from));
        insta::assert_snapshot!(format!("short_help_{name}"), short.expect("a short help"));
    }
}

#[test]
fn the_last_compression_option_wins() {
    let how = |line: &str| match parse(line) {
        Ok(Command::Copy(copy) | Command::Move(copy)) => copy.request.transfer_options.compression,
        Ok(Command::Sync(sync)) => sync.copy.request.transfer_options.compression,
        other => panic!("{other:?}"),
    };
    assert_eq!(how("copy a h:b"), Compression::Auto);
    assert_eq!(how("copy --compress none a h:b"), Compression::None);
    assert_eq!(how("move --compress zstd:9 a h:b"), Compression::Zstd(9));
    assert_eq!(how("sync -az a h:b"), Compression::Auto);
    assert_eq!(how("sync --zc=lz4 a h:b"), Compression::Lz4);
    assert_eq!(how("sync --zc=zlibx a h:b"), Compression::Zstd(3));
    assert_eq!(how("sync --zc=zlib --zl=9 a h:b"), Compression::Zstd(9));
    assert_eq!(how("sync --zl=7 a h:b"), Compression::Zstd(7));
    assert_eq!(how("sync -z --no-compress a h:b"), Compression::None);
    assert_eq!(how("sync --no-z --compress-choice zstd a h:b"), Compression::Zstd(3));
    assert_eq!(how("sync --zl=9 --zc=zstd -az a h:b"), Compression::Zstd(9));
    assert_eq!(how("sync --zc=zstd:5 --zl=9 a h:b"), Compression::Zstd(9));
    assert_eq!(how("sync --zl=9 --zc=zstd:5 a h:b"), Compression::Zstd(5));
    assert_eq!(how("sync --zc=lz4 --zl=9 a h:b"), Compression::Lz4);
    assert_eq!(how("sync --zc=none -az --zl=9 a h:b"), Compression::None);
    assert_eq!(how("sync --zc=lz4 --zl=9 --no-z a h:b"), Compression::None);
    assert_eq!(how("sync --no-z -z a h:b"), Compression::Auto);
    for wrong in ["copy --compress zlib a h:b", "sync --zc=gzip a h:b", "sync --zl=20 a h:b"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_mirror_preserves_what_its_options_say() {
    let keeps = |line: &str| match parse(line) {
        Ok(Command::Sync(sync)) => sync.copy.request.policy.keeps,
        other => panic!("{other:?}"),
    };
    let perms = Kept::MODE.with(Kept::SET_ID).with(Kept::LENT);
    let times = Kept::TIMES.with(Kept::DIR_TIMES).with(Kept::LINK_TIMES);
    let special = Kept::DEVICES.with(Kept::SPECIALS);
    let archive = perms.with(times).with(Kept::OWNER).with(special);
    assert_eq!(keeps("sync -r a b"), Kept::NONE);
    assert_eq!(keeps("sync -a a b"), archive);
    assert_eq!(
        keeps("sync -aAXHU a b"),
        archive.with(Kept::EXTENDED).with(Kept::LINKS).with(Kept::ATIMES)
    );
    assert_eq!(keeps("sync -a --no-p --no-o --no-D a b"), times.with(Kept::GROUP));
    assert_eq!(keeps("sync -A --no-p a b"), perms.with(Kept::ACL));
    assert_eq!(keeps("sync -A --no-A a b"), perms);
    assert_eq!(keeps("sync -tO a b"), Kept::TIMES.with(Kept::LINK_TIMES));
    assert_eq!(keeps("sync -tbJ a b"), Kept::TIMES);
    assert_eq!(keeps("sync -a --no-super a b"), archive.without(Kept::USER.with(Kept::DEVICES)));
    assert_eq!(keeps("sync --chown=ann a b"), Kept::USER);
}

/// The plan's tests have what these rules decide.
#[test]
fn each_rule_about_existing_entries_has_its_option() {
    let sync = |line: &str| match parse(line) {
        Ok(Command::Sync(sync)) => sync,
        other => panic!("{line}: {other:?}"),
    };
    let plain = sync("sync -a a b");
    let rule = |change: fn(&mut Sync)| {
        let mut expected = plain.clone();
        change(&mut expected);
        expected
    };
    for (options, expected) in [
        ("-u", rule(|sync| sync.mirror.skips_newer = true)),
        ("-c", rule(|sync| sync.mirror.sameness = Sameness::Content)),
        ("-c --no-c", plain.clone()),
        ("-c -I", rule(|sync| sync.mirror.sameness = Sameness::Content)),
        ("-I --size-only", rule(|sync| sync.mirror.sameness = Sameness::Size)),
        (
            "-I",
            rule(|sync| {
                sync.mirror.sameness = Sameness::None;
                sync.copy.request.policy.conflict = Conflict::ReplaceAll;
            }),
        ),
        ("--size-only", rule(|sync| sync.mirror.sameness = Sameness::Size)),
        ("--modify-window=2", rule(|sync| sync.mirror.window = Some(2))),
        ("--existing", rule(|sync| sync.mirror.existing_only = true)),
        ("--ignore-existing", rule(|sync| sync.copy.request.policy.conflict = Conflict::Keep)),
        ("--min-size=6", rule(|sync| sync.mirror.size_min = Some(6))),
        ("--max-size=5", rule(|sync| sync.mirror.size_max = Some(5))),
        ("--force", rule(|sync| sync.mirror.replaces_dirs = true)),
        ("--no-l", rule(|sync| sync.mirror.links = false)),
    ] {
        assert_eq!(sync(&format!("sync -a {options} a b")), expected, "{options}");
    }
}

#[test]
fn deletion_times_exclude_each_other_as_in_rsync() {
    for wrong in [
        "sync -a --delete-before --delete-after a b",
        "sync -a --delete-before --delete-delay a b",
        "sync -a --del --delete-after a b",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    for right in [
        "sync -a --delete --delete-after a b",
        "sync -a --delete-after --delete-after a b",
        "sync -a --delete-delay --del a b",
    ] {
        assert!(parse(right).is_ok(), "{right}");
    }
}

#[test]
fn the_configuration_applies_where_no_option_does() {
    let config = || {
        Config::of_text(
            "bwlimit = 100\ncompress = \"lz4\"\n[host.nas]\nbwlimit = \"5m\"\nvia = \"ssh\"\nport-range = \"7000-7009\"\n",
        )
    };
    let copied = |words: &str| {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        let parsed = Cli::try_parse_from(&words).expect("right words");
        match parsed.into_command(|| Ok(config())).expect("right words") {
            Command::Copy(copy) | Command::Move(copy) => copy,
            Command::Sync(sync) => sync.copy,
            other => panic!("{other:?}"),
        }
    };
    let way = |words: &str| {
        let TransferOptions { rate, compression, via, ports, .. } =
            copied(words).request.transfer_options;
        (rate.map_or(0, NonZeroU64::get), compression, via, ports)
    };
    let nas = (5 << 20, Compression::Lz4, Via::Ssh, Some(haul_model::Ports(7000, 7009)));
    let none = (0, Compression::Auto, Via::Auto, None);
    for command in ["copy", "move", "sync"] {
        assert_eq!(way(&format!("haul {command} a nas:")), nas, "{command}");
        assert_eq!(way(&format!("haul {command} nas:a .")), nas, "{command}");
        assert_eq!(way(&format!("haul {command} a b")), none, "{command}");
        let other = (100 << 10, Compression::Lz4, Via::Auto, None);
        assert_eq!(way(&format!("haul {command} a other:")), other, "{command}");
        let typed = format!("haul {command} --bwlimit=0 --via auto --port-range 1-2 a nas:");
        let ports = Some(haul_model::Ports(1, 2));
        assert_eq!(way(&typed), (0, Compression::Lz4, Via::Auto, ports), "{command}");
        let by_sftp = (5 << 20, Compression::Auto, Via::Auto, None);
        assert_eq!(way(&format!("haul {command} a sftp://nas/b")), by_sftp, "{command}");
    }
    let Copy { to_all, .. } = copied("haul copy --to-all a other: nas: b");
    let ways = to_all.iter().map(|(_, way)| (way.rate.map_or(0, NonZeroU64::get), way.via));
    let ways: Vec<_> = ways.collect();
    assert_eq!(ways, [(100 << 10, Via::Auto), (5 << 20, Via::Ssh), (0, Via::Auto)]);
    assert_eq!(way("haul sync -z a nas:").1, Compression::Auto);
    assert_eq!(way("haul sync --no-z a nas:").1, Compression::None);
    assert_eq!(way("haul copy --compress none a nas:").1, Compression::None);
}

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
        "snapshots/haul__args__tests__words_of_other_programs_are_answered_where_they_are_not_taken.snap"
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

/// Each word that the help of rsync names.
#[test]
fn every_word_of_rsync_is_known_and_documented() {
    let Ok(help) = process::Command::new("rsync").arg("--help").output() else {
        return fixture::missing("rsync");
    };
    let page = include_str!("../../../../docs/reference/rsync-options.md");
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
