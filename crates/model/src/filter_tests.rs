//! Tests of rules: which decides, and how they are written.

use super::*;

fn filter(rules: &[&str]) -> Filter {
    let mut filter = Filter::default();
    for rule in rules {
        for line in Lines::of_word(rule.as_bytes(), Style::default()).expect("a rule") {
            match line {
                Line::Rule(rule) => filter.push(rule).expect("few"),
                Line::Files(files) => filter.push_files(files).expect("few"),
                Line::Clear => filter.clear(),
                other => panic!("{other:?}"),
            }
        }
    }
    filter
}

fn hides(filter: &Filter, path: &str, is_dir: bool) -> bool {
    let path = path.as_bytes();
    let subject = Subject { path, is_dir, side: FilterSide::Sender, is_being_removed: false };
    filter.excludes(&subject, &Scope::default())
}

fn protects(filter: &Filter, path: &str, is_being_removed: bool) -> bool {
    let path = path.as_bytes();
    let subject = Subject { path, is_dir: false, side: FilterSide::Receiver, is_being_removed };
    filter.excludes(&subject, &Scope::default())
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = filter(&["+ *.c", "- a.*", "+ *.txt", "- /d/"]);
    for (path, is_dir, left_out) in [
        ("a.c", false, false),
        ("a.txt", false, true),
        ("b.txt", false, false),
        ("b.o", false, false),
        ("d", true, true),
        ("d", false, false),
        ("e/d", true, false),
    ] {
        assert_eq!(hides(&rules, path, is_dir), left_out, "{path} {is_dir}");
        assert_eq!(rules.hides(path.as_bytes(), is_dir), Some(left_out), "{path} {is_dir}");
    }
    let only_c = filter(&["+ */", "+ *.c", "- *"]);
    assert!(!hides(&only_c, "src", true));
    assert!(!hides(&only_c, "src/a.c", false));
    assert!(hides(&only_c, "src/a.o", false));
    assert!(!hides(&Filter::default(), "anything", false));
}

#[test]
fn each_side_asks_its_own_rules() {
    let rules =
        filter(&["S *.show", "H *.o", "P *.keep", "-p *.bak", "R risk.*", "-,r *.r", "- *.b"]);
    for (path, hidden, kept, kept_in_what_goes) in [
        ("a.o", true, false, false),
        ("a.show", false, false, false),
        ("a.keep", false, true, true),
        ("a.bak", true, true, false),
        ("a.r", false, true, true),
        ("a.b", true, true, true),
        ("risk.b", true, false, false),
    ] {
        assert_eq!(hides(&rules, path, false), hidden, "{path}");
        assert_eq!(protects(&rules, path, false), kept, "{path}");
        assert_eq!(protects(&rules, path, true), kept_in_what_goes, "{path}");
    }
}

#[test]
fn a_rule_may_be_about_what_does_not_match() {
    let rules = filter(&["-! */"]);
    assert!(hides(&rules, "a", false));
    assert!(!hides(&rules, "a", true));
}

#[test]
fn whole_paths_begin_at_the_root_of_a_side() {
    let rules = filter(&["-/ /home/me/secret", "-/ me/b"]);
    let scope = Scope::at(b"home/me/");
    let is_out = |path: &[u8]| {
        let subject =
            Subject { path, is_dir: false, side: FilterSide::Sender, is_being_removed: false };
        rules.excludes(&subject, &scope)
    };
    assert!(is_out(b"secret") && is_out(b"b"));
    assert!(!is_out(b"me/secret") && !is_out(b"x/b"));
    assert_eq!(rules.hides(b"secret", false), None);
}

#[test]
fn rules_of_files_are_about_their_directory_and_what_is_below() {
    let rules = filter(&["+ top", ": .rules", "- *.o"]);
    let files = rules.files().next().expect("one").clone();
    let put = |scope: &mut Scope, text: &str, dir| {
        let lines: Result<Vec<_>, _> = Lines::of(text.as_bytes(), files.style).collect();
        let rule = |line| if let Line::Rule(rule) = line { Some(Item::Rule(rule)) } else { None };
        let found = lines.expect("rules").into_iter().filter_map(rule).collect();
        assert!(scope.put((FilesKind::Filter(0), &files), found, text.starts_with('!'), dir, 5));
    };
    let mut upper = Scope::at(b"home/x/");
    put(&mut upper, "- /x/above", Err(b"home/"));
    put(&mut upper, "- top\n- /a/in\n- b", Ok(b""));
    let mut lower = upper.below();
    put(&mut lower, "# none\n+ /b", Ok(b"a/"));
    let is_out = |scope: &Scope, path: &[u8]| {
        let subject =
            Subject { path, is_dir: false, side: FilterSide::Sender, is_being_removed: false };
        rules.excludes(&subject, scope)
    };
    for (path, out) in [("top", false), ("above", true), ("b", true), ("a/in", true), ("b.o", true)]
    {
        assert_eq!(is_out(&upper, path.as_bytes()), out, "{path}");
    }
    for (path, out) in [("a/b", false), ("a/c/b", true), ("a/in", true), ("a/b.o", true)] {
        assert_eq!(is_out(&lower, path.as_bytes()), out, "{path}");
    }
    let mut cleared = lower.clone();
    put(&mut cleared, "!\n- c", Ok(b"a/"));
    assert!(!is_out(&cleared, b"a/in") && is_out(&cleared, b"a/c"));
    assert!(!lower.put(
        (FilesKind::Filter(0), &files),
        vec![Item::Rule(Rule::new(Action::Include, Pattern::new(b"x").unwrap()))],
        false,
        Ok(b"a/"),
        4
    ));
    assert_eq!(rules.hides(b"top", false), Some(false));
    assert_eq!(rules.hides(b"else", false), None);
}

#[test]
fn rules_about_extended_attributes_leave_entries_alone() {
    let filter = filter(&["+x user.keep", "-xs user.sent*", "-xr user.set", "-x! user.*", "- f"]);
    let out = |name: &[u8], side| filter.excludes_xattr(name, side);
    for (name, sender, receiver) in [
        (&b"user.keep"[..], false, false),
        (b"user.sent1", true, false),
        (b"user.set", false, true),
        (b"user.other", false, false),
        (b"trusted.a", true, true),
        (b"f", true, true),
    ] {
        assert_eq!(out(name, FilterSide::Sender), sender, "{}", crate::escape_bytes(name));
        assert_eq!(out(name, FilterSide::Receiver), receiver, "{}", crate::escape_bytes(name));
    }
    assert_eq!(filter.hides(b"user.sent1", false), Some(false));
    assert_eq!(filter.hides(b"f", false), Some(true));
    assert!(filter.has_rules_of_xattrs());
    let last = self::filter(&["- g"]).behind(filter).expect("few rules");
    assert!(last.has_rules_of_xattrs() && last.excludes_xattr(b"f", FilterSide::Sender));
    assert_eq!(last.hides(b"g", false), Some(true));
}

#[test]
fn what_is_no_rule_is_reported_as_that() {
    let read = |text: &str| Lines::of_word(text.as_bytes(), Style::default());
    for (text, why) in [
        ("foo", RuleError::Unknown),
        ("excludes x", RuleError::Unknown),
        ("-", RuleError::Short),
        ("- ", RuleError::Short),
        ("merge", RuleError::Short),
        (":", RuleError::Short),
        ("!x", RuleError::Modifier(b'x')),
        ("clear x", RuleError::Long),
        (".x x", RuleError::Modifier(b'x')),
        ("Hs x", RuleError::Modifier(b's')),
        ("HC", RuleError::Modifier(b'C')),
        ("-n x", RuleError::Modifier(b'n')),
        ("-e x", RuleError::Modifier(b'e')),
        ("-w x", RuleError::Modifier(b'w')),
        (".! x", RuleError::Modifier(b'!')),
        ("+C x", RuleError::Modifier(b'C')),
        ("H- x", RuleError::Modifier(b'-')),
        (".-+ x", RuleError::Modifier(b'+')),
        (": a/b", RuleError::Name),
        (": ../../", RuleError::Name),
    ] {
        assert_eq!(read(text), Err(why), "{text}");
    }
    for text in
        ["-_foo", "exclude,! foo", "H,/ foo", "P! foo", ":C", "-,C", "clear", ":en-sp/ x", ". -"]
    {
        assert!(read(text).is_ok(), "{text}");
    }
}

#[test]
fn words_are_rules_where_they_are_asked_for() {
    let style = Style { splits_words: true, ..Style::default() };
    let read = |text: &str, style| {
        let lines: Result<Vec<_>, _> = Lines::of(text.as_bytes(), style).collect();
        let told = |line: Line| match line {
            Line::Rule(rule) => {
                format!("{:?} {}", rule.action, String::from_utf8_lossy(rule.pattern.as_bytes()))
            }
            other => format!("{other:?}"),
        };
        lines.expect("rules").into_iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(read("- foo + bar\n\t-_#x ", style), ["Exclude foo", "Include bar", "Exclude #x"]);
    let cvs = style.of_cvs();
    assert_eq!(read("*.o !\n- x", cvs), ["Exclude *.o", "Clear", "Exclude -", "Exclude x"]);
    assert_eq!(read("- a b\r\n\n; no\n+ c", Style::default()), ["Exclude a b", "Include c"]);
    let zeros = Style { zeros: true, ..Style::default() };
    assert_eq!(read("- a\nb\0+ c", zeros), ["Exclude a\nb", "Include c"]);
    assert!(cvs_defaults(cvs).all(|line| matches!(line, Ok(Line::Rule(rule)) if rule.perishable)));
}

#[test]
fn there_are_not_more_rules_than_allowed() {
    let rule = || Rule::new(Action::Include, Pattern::new(b"x").expect("a pattern"));
    let mut filter = Filter::default();
    for _ in 0..Filter::RULES_MAX {
        filter.push(rule()).expect("room");
    }
    assert_eq!(filter.push(rule()), Err(FilterError::TooMany));
    let rules = filter.items;
    assert!(Filter::try_from(rules.clone()).is_ok());
    assert!(Filter::try_from([rules, vec![Item::Rule(rule())]].concat()).is_err());
    let named = |n: usize| {
        let Ok(mut lines) = Lines::of_word(format!(": .{n}").as_bytes(), Style::default()) else {
            panic!("a rule");
        };
        let Some(Line::Files(files)) = lines.pop() else { panic!("files") };
        files
    };
    let mut filter = Filter::default();
    for n in 0..Filter::FILES_MAX {
        filter.push_files(named(n)).expect("room");
        filter.push_files(named(n)).expect("it is there");
    }
    assert_eq!(filter.push_files(named(99)), Err(FilterError::TooManyFiles));
}

#[test]
fn where_rules_are_unknown_all_is_protected() {
    let rules = filter(&["+ shown", ": .rules", "- hidden"]);
    let mut upper = Scope::default();
    upper.skip_file(&Name::new(b".rules").unwrap());
    let lower = upper.below();
    assert_eq!((upper.skipped_files().len(), lower.skipped_files().len()), (1, 0));
    for (scope, path) in [(&upper, "shown"), (&upper, "a"), (&lower, "d/shown"), (&lower, "d/a")] {
        let is_out = |side| {
            let subject =
                Subject { path: path.as_bytes(), is_dir: false, side, is_being_removed: true };
            rules.excludes(&subject, scope)
        };
        assert!(is_out(FilterSide::Receiver) && !is_out(FilterSide::Sender), "{path}");
    }
}

#[test]
fn a_kind_of_files_that_names_itself_is_asked_once() {
    let rules = filter(&[": .outer"]);
    let outer = rules.files().next().expect("one").clone();
    let inner = RuleFiles { name: Name::new(b".inner").unwrap(), ..outer.clone() };
    let rule = |pattern: &[u8]| {
        Item::Rule(Rule::new(Action::Exclude, Pattern::new(pattern).expect("a pattern")))
    };
    let mut scope = Scope::default();
    let named = || Item::Files(inner.clone());
    assert!(scope.add_kind(&inner) && scope.add_kind(&inner) && scope.nested(1).is_none());
    let of_outer = vec![named(), named(), rule(b"x")];
    assert!(scope.put((FilesKind::Filter(0), &outer), of_outer, false, Ok(b""), 9));
    let of_inner = vec![named(), rule(b"y")];
    assert!(scope.put((FilesKind::Nested(0), &inner), of_inner, false, Ok(b""), 9));
    let is_out = |path: &[u8]| {
        let subject =
            Subject { path, is_dir: false, side: FilterSide::Sender, is_being_removed: false };
        rules.excludes(&subject, &scope.below())
    };
    assert!(is_out(b"x") && is_out(b"d/y") && !is_out(b"z"));
    // No more of them are looked for than may be.
    for number in 1..Filter::FILES_MAX {
        let name = Name::new(format!("{number}").as_bytes()).unwrap();
        assert!(scope.add_kind(&RuleFiles { name, ..inner.clone() }));
    }
    assert!(!scope.add_kind(&RuleFiles { name: Name::new(b"more").unwrap(), ..inner.clone() }));
}

#[test]
fn rules_of_files_for_one_directory_end_there() {
    let rules = filter(&[": .outer"]);
    let outer = rules.files().next().expect("one").clone();
    for is_for_one in [false, true] {
        let inner = RuleFiles { name: Name::new(b".inner").unwrap(), is_for_one, ..outer.clone() };
        let mut scope = Scope::at(b"home/");
        assert_eq!(scope.root(), b"home/");
        assert!(scope.add_kind(&inner));
        assert_eq!((scope.nested(0), scope.nested(1)), (Some(&inner), None));
        let named = vec![Item::Files(inner.clone())];
        assert!(scope.put((FilesKind::Filter(0), &outer), named, false, Ok(b""), 9));
        let rule = Rule::new(Action::Exclude, Pattern::new(b"a").unwrap());
        let of_inner = vec![Item::Rule(rule)];
        assert!(scope.put((FilesKind::Nested(0), &inner), of_inner, false, Ok(b""), 9));
        for (scope, path, is_out) in [(&scope, "a", true), (&scope.below(), "d/a", !is_for_one)] {
            let path = path.as_bytes();
            let side = FilterSide::Sender;
            let subject = Subject { path, is_dir: false, side, is_being_removed: false };
            assert_eq!(rules.excludes(&subject, scope), is_out, "{is_for_one}");
        }
    }
}

#[test]
fn rules_are_counted_in_bytes_and_asked_for_whole_paths() {
    let len_max = |rules: &[&str]| filter(rules).encoded_len_max();
    assert_eq!(len_max(&[]), 0);
    assert_eq!(len_max(&["- abc"]), RULE_LEN_MAX + 3);
    assert_eq!(len_max(&["- abc", ": name"]), 2 * RULE_LEN_MAX + 3 + 4);
    assert_eq!(len_max(&[": /dir/name"]), RULE_LEN_MAX + 4 + 5);
    let needs = |rules: &[&str]| filter(rules).needs_whole_paths();
    assert!(!needs(&[]) && !needs(&["- a", "+ /b"]));
    assert!(needs(&["- a", "-/ b"]) && needs(&[": .rules"]));
    let mut rules = filter(&["- a"]);
    assert!(!rules.is_empty() && !rules.has_rules_of_xattrs());
    rules.clear();
    assert!(rules.is_empty() && !rules.has_rules_of_xattrs());
}

#[test]
fn rules_of_a_message_are_put_in_their_order_behind_the_first() {
    let rule = |text: &str| filter(&[text]).items.remove(0);
    let rules: Filter = vec![rule("-x a"), rule("- b"), rule("+x c"), rule(": d"), rule("- e")]
        .try_into()
        .expect("few");
    let behind = rules.behind(filter(&["- f"])).expect("few");
    let expected = ["- f", "- b", ": d", "- e", "-x a", "+x c"].map(rule);
    assert_eq!(behind.items, expected);
    let rules =
        Filter::try_from(vec![Item::Rule(Rule::new(Action::Exclude, Pattern::new(b"f").unwrap()))]);
    assert_eq!(rules, Ok(filter(&["- f"])));
}

/// Each line is what the words are read as.
#[test]
fn each_prefix_and_modifier_has_its_meaning() {
    let read = |text: &str| match &Lines::of_word(text.as_bytes(), Style::default()).unwrap()[..] {
        [line] => line.clone(),
        lines => panic!("{lines:?}"),
    };
    let plain = |action| Rule::new(action, Pattern::new(b"a").unwrap());
    let (exclude, include) = (plain(Action::Exclude), plain(Action::Include));
    let (sender, receiver) = (Sides::Sender, Sides::Receiver);
    for (text, rule) in [
        ("exclude a", exclude.clone()),
        ("-_a", exclude.clone()),
        ("include a", include.clone()),
        ("hide a", Rule { sides: sender, ..exclude.clone() }),
        ("H a", Rule { sides: sender, ..exclude.clone() }),
        ("show a", Rule { sides: sender, ..include.clone() }),
        ("protect a", Rule { sides: receiver, ..exclude.clone() }),
        ("risk a", Rule { sides: receiver, ..include.clone() }),
        ("-s a", Rule { sides: sender, ..exclude.clone() }),
        ("-r a", Rule { sides: receiver, ..exclude.clone() }),
        ("-sr a", exclude.clone()),
        ("-ss a", Rule { sides: sender, ..exclude.clone() }),
        ("-! a", Rule { negated: true, ..exclude.clone() }),
        ("-/ a", Rule { absolute: true, ..exclude.clone() }),
        ("+p a", Rule { perishable: true, ..include.clone() }),
        ("+x a", Rule { of_xattrs: true, ..include.clone() }),
    ] {
        assert_eq!(read(text), Line::Rule(rule), "{text}");
    }
    let style = Style::default();
    let merge = |style| Line::Merge(Merge { path: b"d/f".to_vec(), style });
    for (text, style) in [
        (". d/f", style),
        ("merge,- d/f", Style { forced: Some(Action::Exclude), ..style }),
        (".+ d/f", Style { forced: Some(Action::Include), ..style }),
        (".w d/f", Style { splits_words: true, ..style }),
        (".p/ d/f", Style { perishable: true, absolute: true, ..style }),
        (".s d/f", Style { sides: Some(sender), ..style }),
        (".C d/f", style.of_cvs()),
    ] {
        assert_eq!(read(text), merge(style), "{text}");
    }
    assert_eq!(read("-C"), Line::Cvs(style.of_cvs()));
    assert_eq!(read("clear"), Line::Clear);
    let files = |name: &[u8], start, is_for_one, style| {
        Line::Files(RuleFiles { name: Name::new(name).unwrap(), start, is_for_one, style })
    };
    for (text, expected) in [
        (": f", files(b"f", Start::First, false, style)),
        ("dir-merge f", files(b"f", Start::First, false, style)),
        (":n f", files(b"f", Start::First, true, style)),
        (": ../../f", files(b"f", Start::Above(2), false, style)),
        (": /d/f", files(b"f", Start::At(b"/d/"[..].into()), false, style)),
        (":C", files(b".cvsignore", Start::First, true, style.of_cvs())),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    let itself = Lines::of_word(b":e f", style).unwrap();
    let rule = Rule::new(Action::Exclude, Pattern::new(b"f").unwrap());
    assert_eq!(itself, [files(b"f", Start::First, false, style), Line::Rule(rule)]);
    for text in [": /d/../f", ": a/../f"] {
        assert_eq!(Lines::of_word(text.as_bytes(), style), Err(RuleError::Name), "{text}");
    }
}

#[test]
fn rules_of_a_side_that_is_given_name_none() {
    let style = Style { sides: Some(Sides::Sender), ..Style::default() };
    for text in ["H a", "show a", "P a", "risk a", "-s a", "+r a", ".s a"] {
        assert_eq!(Lines::of_word(text.as_bytes(), style), Err(RuleError::Sided), "{text}");
    }
    let read = |text: &[u8], style| match &Lines::of_word(text, style).unwrap()[..] {
        [Line::Rule(rule)] => rule.sides,
        lines => panic!("{lines:?}"),
    };
    assert_eq!(read(b"- a", style), Sides::Sender);
    let plain = Style { plain: Sides::Receiver, ..Style::default() };
    assert_eq!((read(b"- a", plain), read(b"-s a", plain)), (Sides::Receiver, Sides::Sender));
}
