//! The documents as a book with a search field: docs/ built with mdBook, which is installed
//! below target/ if it is not on the PATH.

use crate::{Result, repo};

/// The mdBook that is installed where there is none.
const VERSION: &str = "0.5.4";

/// Builds the book, and prints where it begins.
pub(crate) fn run() -> Result<()> {
    let book = repo::target_dir().join("book");
    repo::run(
        repo::tool("mdbook", VERSION, &["--no-default-features", "--features", "search"])?
            .arg("build")
            .arg(repo::root().join("docs"))
            .arg("-d")
            .arg(&book),
    )?;
    println!("{}", book.join("index.html").display());
    Ok(())
}
