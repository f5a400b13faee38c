//! Moves on this machine, entry by entry, and changes between two of their steps.

use super::*;
use crate::monitor::Silent;
use crate::{Placement, Progress, RequestError, Route, run};
use haul_model::Moving;
use parking_lot::Mutex;
use std::fs;
use std::path::Path;

/// This machine, with actions after the copy and before the removal.
struct LocalMachines {
    requests: Option<Requests>,
    after_copy: Box<dyn FnMut() -> Result<(), JobError>>,
    before_removal: Box<dyn FnMut()>,
}

impl Machines for LocalMachines {
    type Host = String;
    type Error = JobError;

    fn ask<T>(
        &mut self,
        host: Option<&String>,
        mut question: impl FnMut(&mut Requests) -> Result<T, RequestError>,
    ) -> Result<Result<T, Fault>, JobError> {
        assert_eq!(host, None);
        match question(self.requests.get_or_insert_with(Requests::local)) {
            Ok(answer) => Ok(Ok(answer)),
            Err(RequestError::Fault(fault)) => Ok(Err(fault)),
            Err(RequestError::Job(error)) => Err(error),
        }
    }

    fn hang_up(&mut self) {
        self.requests = None;
    }

    fn copy(
        &mut self,
        routed_jobs: Vec<RoutedJob<String>>,
        not_copied: &NotCopied,
    ) -> Result<Summary, JobError> {
        let mut total = Summary::default();
        for routed_job in routed_jobs {
            assert_eq!(routed_job.route, Route::Local);
            let silent = Silent::default();
            total += run(&routed_job.job, Placement::Local, &not_copied.watch(&silent))?;
        }
        (self.after_copy)()?;
        Ok(total)
    }

    fn remove(
        &mut self,
        routed_job: &RoutedJob<String>,
        monitor: &dyn Monitor,
    ) -> Result<(), JobError> {
        assert!(self.requests.is_none(), "a connection stands idle");
        (self.before_removal)();
        run(&routed_job.job, Placement::Local, monitor).map(|_| ())
    }
}

/// A monitor that stores all events as text.
#[derive(Default)]
struct Events(Mutex<Vec<String>>, Progress);

impl Monitor for Events {
    fn progress(&self) -> &Progress {
        &self.1
    }

    fn event(&self, event: Event<'_>) {
        let shown = |path: &[u8]| {
            let path = String::from_utf8_lossy(path);
            path.rsplit('/').next().unwrap_or_default().to_owned()
        };
        self.0.lock().push(match event {
            Event::Moved { path, renamed } => format!("moved {} {renamed}", shown(path)),
            Event::Stays { path, fault, is_copied: false, .. } => {
                format!("failed {}: {fault}", shown(path))
            }
            Event::Stays { path, fault, .. } => format!("left {}: {fault}", shown(path)),
            Event::Warning { message, .. } => format!("warning: {message}"),
            other => format!("{other:?}"),
        });
    }

    fn cancelled(&self) -> bool {
        false
    }
}

/// A source `a/tree` with the files `x` and `y`, and a `b/tree` with content, so that the source
/// can't be renamed.
fn merging() -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    for (path, content) in [("a/tree/x", "1"), ("a/tree/y", "2"), ("b/tree/own", "3")] {
        let path = temp.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    temp
}

/// Moves `a/tree` into `b`. Returns the figures, the result, and the sorted events.
fn move_tree(
    temp: &Path,
    after_copy: impl FnMut() -> Result<(), JobError> + 'static,
    before_removal: impl FnMut() + 'static,
) -> (Summary, Result<(), JobError>, Vec<String>) {
    let host_path = |path: &str| HostPath::<String> {
        host: None,
        path: temp.join(path).into_os_string().into_encoded_bytes(),
    };
    let policy = Policy { moving: Some(Moving::Whole), ..Policy::default() };
    let dest_shown = "b".to_owned();
    let (sources, dest) = (vec![host_path("a/tree")], host_path("b"));
    let job = MoveJob { sources, dest, dest_shown, policy, like: Job::default() };
    let mut here = LocalMachines {
        requests: None,
        after_copy: Box::new(after_copy),
        before_removal: Box::new(before_removal),
    };
    let events = Events::default();
    let (figures, result) = run_move(&job, &mut here, &events);
    let mut events = events.0.into_inner();
    events.sort();
    (figures, result, events)
}

#[test]
fn two_directories_are_merged_and_the_source_is_removed() {
    let temp = merging();
    let (figures, result, events) = move_tree(temp.path(), || Ok(()), || {});
    result.unwrap();
    assert_eq!(figures, Summary { moved: 2, ..Summary::default() });
    assert_eq!(events, ["moved x false", "moved y false"]);
    assert!(!temp.path().join("a/tree").exists());
    assert_eq!(fs::read(temp.path().join("b/tree/x")).unwrap(), b"1");
    assert_eq!(fs::read(temp.path().join("b/tree/own")).unwrap(), b"3");
}

#[test]
fn a_copy_that_ends_early_leaves_all_sources() {
    let temp = merging();
    let (figures, result, events) =
        move_tree(temp.path(), || Err(JobError::Interrupted), || panic!("nothing is removed"));
    assert!(matches!(result, Err(JobError::Interrupted)), "{result:?}");
    assert_eq!((figures, events), (Summary::default(), Vec::new()));
    assert!(temp.path().join("a/tree/x").exists() && temp.path().join("a/tree/y").exists());
}

#[test]
fn a_directory_that_replaced_the_source_stays() {
    let temp = merging();
    let tree = temp.path().join("a/tree");
    let exchange = move || {
        fs::rename(&tree, tree.with_file_name("old")).unwrap();
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("x"), "1").unwrap();
        Ok(())
    };
    let never = || panic!("there is nothing left to remove");
    let (figures, result, events) = move_tree(temp.path(), exchange, never);
    result.unwrap();
    assert_eq!(figures, Summary { failed: 1, ..Summary::default() });
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].starts_with("left tree: not removed: it was replaced"), "{events:?}");
    assert!(temp.path().join("a/tree/x").exists() && temp.path().join("a/old/y").exists());
}

#[test]
fn a_source_stays_if_the_destination_has_changed() {
    let temp = merging();
    let copy = temp.path().join("b/tree/x");
    let (figures, result, events) =
        move_tree(temp.path(), || Ok(()), move || fs::write(&copy, "another").unwrap());
    result.unwrap();
    assert_eq!(figures, Summary { moved: 1, failed: 1, ..Summary::default() });
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("failed x: not"), "{events:?}");
    assert!(events[0].contains("size"), "{events:?}");
    assert_eq!(events[1], "moved y false");
    assert!(temp.path().join("a/tree/x").exists() && !temp.path().join("a/tree/y").exists());
}

#[test]
fn a_source_that_was_not_copied_stays_even_if_the_destination_has_it_later() {
    let temp = merging();
    let (source, there) = (temp.path().join("a/tree/x"), temp.path().join("b/tree/x"));
    fs::create_dir(&there).unwrap();
    let put_same = move || {
        fs::remove_dir(&there).unwrap();
        fs::copy(&source, &there).unwrap();
        let time = fs::metadata(&source).unwrap().modified().unwrap();
        fs::File::open(&there).unwrap().set_modified(time).unwrap();
        Ok(())
    };
    let (figures, result, events) = move_tree(temp.path(), put_same, || {});
    result.unwrap();
    assert_eq!(figures, Summary { moved: 1, failed: 1, ..Summary::default() });
    // The copy has reported the other failure.
    assert_eq!(events, ["moved y false"]);
    assert!(temp.path().join("a/tree/x").exists() && !temp.path().join("a/tree/y").exists());
}

#[test]
fn a_source_is_renamed_without_a_copy_where_possible() {
    let temp = merging();
    fs::rename(temp.path().join("b/tree"), temp.path().join("b/other")).unwrap();
    let (figures, result, events) =
        move_tree(temp.path(), || panic!("nothing is copied"), || panic!("nothing is removed"));
    result.unwrap();
    assert_eq!(figures, Summary { moved: 1, ..Summary::default() });
    assert_eq!(events, ["moved tree true"]);
    assert_eq!(fs::read(temp.path().join("b/tree/y")).unwrap(), b"2");
}
