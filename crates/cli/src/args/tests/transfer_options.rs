//! How contents travel, by options and configuration.

use super::*;
use haul_model::{Compression, Via};
use std::num::NonZeroU64;

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
