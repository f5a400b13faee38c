//! How often a host is logged in to.

use super::{Scene, script};
use std::fs;

/// Has the host reached through a script that writes a line for each login.
pub(crate) fn count_logins(scene: &mut Scene<'_>) {
    let rsh = scene.remote()[1].to_string_lossy().into_owned();
    scene.reach_by(counting(scene, &rsh));
}

/// A script that does what `rsh` does, and writes a line for each login. It has the name
/// of ssh, which alone can start a server's SFTP.
pub(crate) fn counting(scene: &Scene<'_>, rsh: &str) -> std::path::PathBuf {
    let count = scene.path("logins");
    let counts =
        format!("case \" $* \" in *' -'[GV]' '*) ;; *) echo >> '{}' ;; esac", count.display());
    let path = scene.mkdir("counting").join("ssh");
    script(&path, &format!("{counts}\nexec {rsh} \"$@\""))
}

/// The logins since this was asked last.
pub(crate) fn logins(scene: &Scene<'_>) -> usize {
    let lines = fs::read_to_string(scene.path("logins")).unwrap_or_default().lines().count();
    // There were none before the first.
    let _ = fs::remove_file(scene.path("logins"));
    lines
}
