//! The documents as a book with a search field: docs/ built with mdBook, which is installed
//! below target/ if it is not on the PATH.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Result, repo};

/// The mdBook that is installed where there is none.
const VERSION: &str = "0.5.4";

/// Builds the book, and prints where it begins.
pub(crate) fn run() -> Result<()> {
    let book = repo::target_dir().join("book");
    repo::run(
        Command::new(mdbook()?).arg("build").arg(repo::root().join("docs")).arg("-d").arg(&book),
    )?;
    println!("{}", book.join("index.html").display());
    Ok(())
}

/// The program, installed if need be.
fn mdbook() -> Result<PathBuf> {
    let tools = repo::target_dir().join("tools");
    let ours = tools.join("bin/mdbook");
    for program in [PathBuf::from("mdbook"), ours.clone()] {
        let asked = Command::new(&program).arg("--version").stdout(Stdio::null()).status();
        if asked.is_ok_and(|status| status.success()) {
            return Ok(program);
        }
    }
    let mut install = repo::cargo();
    install.args(["install", "--locked", "mdbook", "--version", VERSION]);
    install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
    repo::run(&mut install)?;
    Ok(ours)
}
