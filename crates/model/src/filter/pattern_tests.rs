//! Tests of patterns: cases from the manual, and a naive twin.

use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn matches(pattern: &str, path: &str, is_dir: bool) -> bool {
    Pattern::new(pattern.as_bytes()).expect("a pattern").matches(path.as_bytes(), is_dir)
}

#[test]
fn patterns_match_as_the_manual_says() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("foo", &["foo", "a/foo", "foo/"], &["afoo", "foo/a", "foob"]),
        ("foo/", &["foo/", "a/foo/"], &["foo", "a/foo"]),
        ("/foo", &["foo", "foo/"], &["a/foo", "foo/a"]),
        ("foo/bar", &["foo/bar", "a/foo/bar"], &["afoo/bar", "foo/bar/c", "bar"]),
        ("/foo/bar", &["foo/bar"], &["a/foo/bar"]),
        ("*.o", &["a.o", "d/a.o", ".o"], &["a.ob", "a.o/b"]),
        ("a*c", &["ac", "abc", "d/axxc"], &["a/c", "acd"]),
        ("/a/*", &["a/b", "a/.b"], &["a/b/c", "a", "x/a/b"]),
        ("a/*/c", &["a/b/c", "x/a/b/c"], &["a/c", "a/b/b/c"]),
        ("a/**/c", &["a/b/c", "a/b/b/c", "x/a/b/c"], &["a/c", "xa/b/c"]),
        ("**/c", &["c", "b/c", "a/b/c"], &["bc", "c/d"]),
        ("**c", &["c", "b/c", "bc", "a/bc"], &["c/d"]),
        ("a**", &["a", "ab", "a/b/c", "x/a/b"], &["xa", "x/b"]),
        ("/a**", &["a", "ab/c"], &["x/a"]),
        ("foo/***", &["foo/", "foo/a", "foo/a/b", "x/foo/a"], &["foo", "xfoo/a"]),
        ("/foo/***", &["foo/", "foo/a"], &["x/foo/", "x/foo/a"]),
        ("foo/**", &["foo/a", "foo/a/b", "x/foo/a"], &["foo/", "foo"]),
        ("a?c", &["abc", "d/a.c"], &["a/c", "ac", "abbc"]),
        ("[a-c]x", &["ax", "cx"], &["dx", "x", "-x"]),
        ("[!a-c]x", &["dx", "-x"], &["ax", "/x", "x"]),
        ("[^a]", &["b"], &["a", "ab"]),
        ("[]a]", &["]", "a"], &["b"]),
        ("[a-]", &["a", "-"], &["b"]),
        ("[[:digit:]x]", &["7", "x"], &["a", ":"]),
        ("[[:nothing:]]", &[], &["n", "a"]),
        ("[a", &[], &["a", "[a"]),
        ("a[/]b", &[], &["a/b"]),
        // The slash in brackets stands for nothing, and is counted.
        ("[a/]b", &[], &["ab", "a/b", "x/ab"]),
        ("[a/]*", &[], &["ab", "x/ab"]),
        // Without a wildcard a backslash is itself, with one it is not.
        ("a\\b", &["a\\b"], &["ab"]),
        ("a\\b*", &["abc"], &["a\\bc"]),
        ("\\**", &["*", "*a"], &["a"]),
        ("*\\", &[], &["a", "a\\"]),
        ("/", &[], &["a", "a/"]),
        ("*/", &["a/", "a/b/"], &["a", "a/b"]),
    ];
    for (pattern, good, bad) in cases {
        for (paths, expected) in [(good, true), (bad, false)] {
            for path in *paths {
                let (path, is_dir) = match path.strip_suffix('/') {
                    Some(path) => (path, true),
                    None => (*path, false),
                };
                assert_eq!(matches(pattern, path, is_dir), expected, "{pattern} {path} {is_dir}");
            }
        }
    }
}

#[test]
fn classes_have_the_bytes_of_the_posix_locale() {
    for (name, members, others) in [
        ("alnum", "azAZ09", "_ -"),
        ("alpha", "azAZ", "09_ "),
        ("blank", " \t", "\na"),
        ("cntrl", "\0\n\x1f\x7f", " a"),
        ("digit", "09", "a/:"),
        ("graph", "!a~", " \n"),
        ("lower", "az", "AZ0"),
        ("print", " a~", "\t\x7f"),
        ("punct", "!/_~", "a0 "),
        ("space", " \t\n\x0b\x0c\r", "a\0"),
        ("upper", "AZ", "az0"),
        ("xdigit", "09afAF", "gG"),
    ] {
        let class = class(name.as_bytes()).expect(name);
        assert!(members.bytes().all(|byte| class(&byte)), "{name}");
        assert!(!others.bytes().any(|byte| class(&byte)) && !class(&0xe9), "{name}");
    }
}

#[test]
fn a_pattern_keeps_its_text() {
    for (text, is_anchored) in [("/a", true), ("a/b", false), ("*a", false), ("/*/", true)] {
        let pattern = Pattern::new(text.as_bytes()).expect("a pattern");
        assert_eq!(pattern.is_anchored(), is_anchored, "{text}");
        assert_eq!(*Box::<[u8]>::from(pattern), *text.as_bytes());
    }
}

#[test]
fn patterns_have_something_in_them_and_not_too_much() {
    assert_eq!(Pattern::new(b""), Err(PatternError::Empty));
    assert!(Pattern::new(&[b'a'; Pattern::LEN_MAX]).is_ok());
    assert_eq!(Pattern::new(&[b'a'; Pattern::LEN_MAX + 1]), Err(PatternError::TooLong));
}

#[test]
fn the_worst_pattern_takes_no_more_than_the_product() {
    let pattern = [&b"*a".repeat(60)[..], b"**", &b"*a?".repeat(60), b"b"].concat();
    let path = [b'a'; 4000];
    let started = Instant::now();
    assert!(!Pattern::new(&pattern).expect("a pattern").matches(&path, false));
    // Trying one way after the other takes longer than anybody lives.
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// Matches by trying all ways.
fn naive(pattern: &[u8], text: &[u8]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else { return text.is_empty() };
    let take_one = |ok: fn(u8) -> bool| {
        text.split_first().is_some_and(|(byte, left)| ok(*byte) && naive(rest, left))
    };
    match first {
        b'*' => {
            let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
            let rest = &pattern[stars..];
            let allowed = match stars {
                1 => text.iter().take_while(|byte| **byte != b'/').count(),
                _ => text.len(),
            };
            (0..=allowed).any(|len| naive(rest, &text[len..]))
        }
        b'?' => take_one(|byte| byte != b'/'),
        first => text.split_first().is_some_and(|(b, left)| *b == first && naive(rest, left)),
    }
}

/// Where a match may begin, by the words of the manual.
fn naive_path(pattern: &str, path: &str, is_dir: bool) -> bool {
    let takes_dirs = pattern.ends_with("***");
    let (only_dirs, stem) = match pattern.strip_suffix('/') {
        Some(stem) if !stem.is_empty() => (true, stem),
        _ => (false, pattern),
    };
    if only_dirs && !is_dir {
        return false;
    }
    let ended = if takes_dirs && is_dir { format!("{path}/") } else { path.to_owned() };
    let names: Vec<&str> = ended.split_inclusive('/').collect();
    let tail = |from: usize| names[from..].concat();
    let count = path.split('/').count();
    let wild2 = stem.contains("**");
    if let Some(anchored) = stem.strip_prefix('/') {
        return naive(anchored.as_bytes(), ended.as_bytes());
    }
    let slashes = stem.matches('/').count();
    if stem.starts_with("**") {
        return naive(stem.as_bytes(), format!("/{ended}").as_bytes());
    }
    if wild2 {
        return (0..count).any(|from| naive(stem.as_bytes(), tail(from).as_bytes()));
    }
    naive(stem.as_bytes(), tail(count.saturating_sub(slashes + 1)).as_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn patterns_match_as_the_naive_twin(
        pattern in "[ab*?/]{1,8}",
        path in "[ab]{1,3}(/[ab]{1,3}){0,3}",
        is_dir: bool,
    ) {
        prop_assert_eq!(
            matches(&pattern, &path, is_dir),
            naive_path(&pattern, &path, is_dir),
            "{} {}", pattern, path
        );
    }

    #[test]
    fn no_bytes_panic(pattern in prop::collection::vec(any::<u8>(), 1..20), path: Vec<u8>) {
        let pattern = Pattern::new(&pattern).expect("short");
        pattern.matches(&path, true);
        pattern.matches(&path, false);
    }
}
