//! Matches names with patterns, as a shell does.

use std::ffi::CString;

/// True if `name` matches `pattern`: `*`, `?`, `[...]`, and `\` before a literal character. Only a
/// literal dot matches a leading dot. It compares bytes in any locale; `?` is one byte.
pub fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (Ok(pattern), Ok(name)) = (CString::new(pattern), CString::new(name)) else {
        return false;
    };
    let flags = libc::FNM_PERIOD;
    // SAFETY: both are strings that end with NUL and live until the call returns.
    #[allow(unsafe_code)]
    let result = unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), flags) };
    result == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        let cases: [(&[u8], &[u8], bool); 18] = [
            (b"*", b"a", true),
            (b"*", b".a", false),
            (b".*", b".a", true),
            (b"?a", b".a", false),
            (b"[.]a", b".a", false),
            (b"*.gz", b"a.b.gz", true),
            (b"*.gz", b"a.gz.1", false),
            (b"a?c", b"abc", true),
            (b"a?c", b"ac", false),
            (b"[a-c]x", b"bx", true),
            (b"[!a-c]x", b"bx", false),
            (b"[[:digit:]]", b"7", true),
            (b"\\*", b"*", true),
            (b"\\*", b"a", false),
            (b"a[", b"a[", true),
            (b"{a,b}", b"a", false),
            (b"\xff*", b"\xff\xfe", true),
            (b"*", b"a\0b", false),
        ];
        for (pattern, name, matches) in cases {
            assert_eq!(name_matches(pattern, name), matches, "{pattern:?} {name:?}");
        }
    }

    #[test]
    fn many_stars_cost_little() {
        let name = [b'a'; 255];
        let pattern = [&b"*a".repeat(40)[..], b"b"].concat();
        let started = std::time::Instant::now();
        assert!(!name_matches(&pattern, &name));
        assert!(started.elapsed().as_secs() < 5);
    }
}
