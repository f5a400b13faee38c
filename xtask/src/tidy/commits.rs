//! The form of commit subjects: `area: imperative`, and short.

use std::process::Command;

use crate::repo;

/// The longest subject, in characters.
const SUBJECT_CHARS_MAX: usize = 72;

/// Verbs that a subject may open with, after its area.
const VERBS: &str = "\
    accept accumulate add adjust align allow always announce answer apply ask assert avoid await \
    back batch bind bound bring build bump cache call cancel cap carry change check choose clean \
    clear close collect combine compare compress compute convert copy correct count cover create \
    cut decide declare decode decrease deduplicate default defer define delay delete deny deploy \
    describe detect disable discard display do document don't download drop edit embed empty \
    enable encode end enforce ensure escape exclude exit expand expect explain export expose \
    extend extract fail fall feed fetch fill filter find finish fix flush follow forbid force \
    forget format free generate get give group guard handle hash hide hold honour ignore import \
    improve include increase index inline insert install introduce invert isolate join keep kill \
    leave let limit link list listen load lock log look lower make map mark match measure mend \
    merge mirror mock mount move name narrow never note notify offer omit open order override pace \
    parse pass pin poll prefer prepare preserve prevent print promise propagate protect publish \
    pull push put queue quote raise read rebuild recognise recompute reconnect record recover \
    reduce refer refuse reject release reload rely remember remove rename reopen reorder replace \
    report require reserve reset resolve restore restrict restructure resume retry return reuse \
    revert rewrite round run save say scan search select send separate serve set share shorten \
    show shrink shut simplify skip sort speed split stage start state stop store stream stretch \
    strip support swap switch sync take teach test throttle tidy tighten time track translate \
    treat trim truncate trust try tune turn unify update upgrade upload use validate verify wait \
    walk warn widen work wrap write yield";

/// Checks the newest commit, and all those that the upstream branch lacks, as far as this clone
/// knows them. A source tree without git has none.
pub(super) fn check() -> Vec<String> {
    let newest = subjects(&["-1", "HEAD"]);
    let ours = subjects(&["HEAD", "^refs/remotes/origin/main"]);
    let mut all = [newest, ours].concat();
    all.sort_unstable();
    all.dedup();
    all.iter().filter_map(|subject| check_subject(subject)).collect()
}

/// The subjects of commits, without merges; none where git can't give them.
fn subjects(range: &[&str]) -> Vec<String> {
    let log = Command::new("git")
        .args(["log", "--no-merges", "--format=%s"])
        .args(range)
        .arg("--")
        .current_dir(repo::root())
        .output();
    let Ok(log) = log else { return Vec::new() };
    if !log.status.success() {
        return Vec::new();
    }
    String::from_utf8_lossy(&log.stdout).lines().map(str::to_owned).collect()
}

fn check_subject(subject: &str) -> Option<String> {
    let fault = |what: &str| Some(format!("commit `{subject}`: {what}"));
    if subject.chars().count() > SUBJECT_CHARS_MAX {
        return fault(&format!("over {SUBJECT_CHARS_MAX} characters"));
    }
    let Some((area, what)) = subject.split_once(": ") else {
        return fault("has no `area: `");
    };
    let is_area_char = |c: char| c.is_ascii_alphanumeric() || "-_/., ".contains(c);
    if area.is_empty() || !area.chars().all(is_area_char) {
        return fault("has no `area: `");
    }
    let first = what.split_whitespace().next().unwrap_or_default();
    if !VERBS.split_whitespace().any(|verb| verb == first) {
        return fault(&format!("`{first}` is not a verb in the imperative: see {}", file!()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_an_area_and_a_verb_and_are_short() {
        let longest = format!("engine: skip {}", "x".repeat(SUBJECT_CHARS_MAX - 13));
        for good in [
            "engine: skip slow lanes for the last blocks",
            "xtask, tests: add a check",
            "docs/how-to: don't link to the old guide",
            &longest,
        ] {
            assert_eq!(check_subject(good), None);
        }
        for (bad, why) in [
            (format!("{longest}x").as_str(), "over 72 characters"),
            ("skip slow lanes", "no `area: `"),
            ("engine:skip", "no `area: `"),
            ("Says (at last): skip", "no `area: `"),
            ("engine: a lane that is slow is skipped", "`a` is not a verb"),
            ("engine: Skip lanes", "`Skip` is not a verb"),
            ("engine: ", "`` is not a verb"),
        ] {
            let found = check_subject(bad).expect("a fault");
            assert!(found.contains(why), "{found}");
        }
    }
}
