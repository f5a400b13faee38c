//! `haul hash`: the BLAKE3 hashes of files, taken where they are; here, of a
//! file on a host without haul.

use super::{each_path, host};
use crate::args::Hash;
use crate::error::ExitCode;
use crate::json::{HashLine, Line, Path};
use crate::report::Form;
use haul_model::ContentHash;

/// Prints a line for each file.
pub(super) fn run(hash: &Hash) -> ExitCode {
    each_path(hash.form, &hash.paths, hash.without_haul, |requests, location, report| {
        let value = requests.hash(&location.path)?;
        match report.form() {
            Form::Plain => report.print(check_line(value, &location.path).as_bytes()),
            Form::Json => report.json(&Line::Hash(HashLine {
                host: host(&location.place),
                path: Path::of(&location.path),
                hash: value.to_string(),
            })),
        }
        // The next hash may take long.
        report.flush();
        Ok(())
    })
}

/// The line that `b3sum --check` reads: the name's lines are joined by escapes,
/// marked by a backslash at the very start, and bytes that are not UTF-8 are
/// lost. Names are the user's own words, and shown as `b3sum` would.
fn check_line(hash: ContentHash, path: &[u8]) -> String {
    let name = String::from_utf8_lossy(path);
    if !name.contains(['\\', '\n', '\r']) {
        return format!("{hash}  {name}\n");
    }
    let name = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    format!("\\{hash}  {name}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_b3sum() {
        let hash = ContentHash::of(b"");
        let hex = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        for (path, expected) in [
            (&b"a b"[..], format!("{hex}  a b\n")),
            (b"a\nb\r\\", format!("\\{hex}  a\\nb\\r\\\\\n")),
            (b"a\xffb", format!("{hex}  a\u{fffd}b\n")),
            (b"tab\t", format!("{hex}  tab\t\n")),
        ] {
            assert_eq!(check_line(hash, path), expected);
        }
    }
}
