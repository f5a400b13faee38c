//! The form of commit subjects: `area: imperative`, and short.

use std::process::Command;

use crate::repo;

/// The longest subject, in characters.
const SUBJECT_CHARS_MAX: usize = 72;

/// Verbs that a subject may open with, after its area.
const VERBS: &str = "\
    accept accumulate adapt add adjust adopt align allow always announce answer append apply ask \
    assert assign attach avoid await back balance batch bind block bound break bring build bump \
    cache calculate call cancel cap carry change check choose clamp clarify classify clean clear \
    close coalesce collect combine commit compare compress compute condense configure confirm \
    connect consider continue convert copy correct count cover create cut decide declare decode \
    decrease deduplicate default defer define delay delete deny deploy deprecate derive describe \
    destroy detach detect diff disable discard discover display divide do document don't download \
    draw drop edit embed emit empty enable encode encrypt end enforce ensure escape estimate \
    evaluate examine exclude exercise exit expand expect expire explain export expose extend extract fail \
    fake fall feed fetch fill filter find finish fix flatten flush fold follow forbid force forget forward \
    format free fuzz gate generate get give group grow guard hand handle hash hide hint hoist hold \
    honour identify ignore implement import improve include increase index infer inline insert \
    inspect install interrupt introduce invert isolate join keep kill leave let limit link lint \
    list listen load lock log look lower make map mark match measure mend merge migrate mirror \
    mock model mount move mute name narrow negotiate never normalise normalize note notify number \
    obey observe offer omit open optimise optimize order override pace pad park parse pass permit \
    persist pin pipe place plan point poll postpone prefer prepare present preserve prevent print \
    probe process profile promise prompt propagate protect prove prune publish pull purge push put \
    query queue quote raise rank rate reach react read reap rebuild recheck reclaim recognise \
    recompute reconnect record recover recycle redo redraw reduce refactor refer reformat refresh \
    refuse regenerate reject relax relay release reload rely remember remove rename renew reopen \
    reorder reorganise repair repeat rephrase replace replay report request require rescan resend \
    reserve reset resolve respect respond restart restore restrict restructure resume retain \
    retire retrieve retry return reuse revert reword rework rewrite roll rotate round run sample \
    sanitise save scale scan schedule search seed select send separate serve set settle share \
    shift ship shorten show shrink shut sign signal silence simplify size skip sleep slow smooth \
    snapshot sort spawn speed spell split spread stage start stat state stop store stream stretch \
    strip suggest sum summarise summarize support survive suspend swap switch sync tag take \
    terminate test throttle tidy tighten time tolerate touch trace track transfer translate \
    trap treat trigger trim truncate trust try tune turn type unblock undo unify unlink unmount \
    unwrap update upgrade upload use validate vary verify wait wake walk warm warn widen wipe wire \
    work wrap write yield zero";

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
