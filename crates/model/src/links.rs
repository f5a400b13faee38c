//! Targets of symbolic links, checked and changed by their text alone, as in rsync.

/// The prefix of a munged target, which leads nowhere and can be restored.
const MUNGED: &[u8] = b"/rsyncd-munged/";

/// True if a link with this `target` may lead out of the copied tree, by its text alone. `depth` is
/// the number of directories between the link and the top. A target leads out if it is absolute or
/// empty, has `..` after a name, or has more than `depth` of them.
pub fn leads_out(target: &[u8], depth: usize) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return true;
    }
    let mut rest = target;
    let mut up = 0;
    while let Some(behind) = rest.strip_prefix(b"../") {
        up += 1;
        let names = behind.iter().position(|byte| *byte != b'/').unwrap_or(behind.len());
        rest = &behind[names..];
    }
    if rest == b".." {
        up += 1;
    }
    let goes_up_again = rest.windows(4).any(|four| four == b"/../");
    goes_up_again || target.len() > 3 && target.ends_with(b"/..") || up > depth
}

/// Munges `target`, so that it leads nowhere.
pub fn munged(target: &[u8]) -> Vec<u8> {
    [MUNGED, target].concat()
}

/// The original target if `target` is [`munged`].
pub fn unmunged(target: &[u8]) -> Option<&[u8]> {
    target.strip_prefix(MUNGED).filter(|target| !target.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_may_go_up_to_the_top_and_no_further() {
        let cases: [(&[u8], usize); 12] = [
            (b"a", 0),
            (b"./a", 0),
            (b"a/b/", 0),
            (b"..a", 0),
            (b"a/..b", 0),
            (b"../a", 1),
            (b"..//a", 1),
            (b"..", 1),
            (b"../", 1),
            (b"../../a", 2),
            (b"../..//..///a", 3),
            (b"../../", 2),
        ];
        for (target, depth) in cases {
            let shown = target.escape_ascii();
            assert!(!leads_out(target, depth), "{shown} in {depth}");
            assert!(depth == 0 || leads_out(target, depth - 1), "{shown} in {}", depth - 1);
        }
        for target in [&b""[..], b"/", b"/a", b"a/../b", b"a/..", b"./../a", b"../..", b"../a/.."] {
            assert!(leads_out(target, 9), "{}", target.escape_ascii());
        }
    }

    #[test]
    fn what_is_munged_comes_back() {
        for target in [&b"a"[..], b"/a", b"/rsyncd-munged/a"] {
            assert_eq!(unmunged(&munged(target)), Some(target));
        }
        for other in [&b"a"[..], b"/rsyncd-munged", b"/rsyncd-munged/"] {
            assert_eq!(unmunged(other), None);
        }
    }
}
