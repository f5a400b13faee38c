//! The server's own keys: files `1`, `2` and so on in a private directory. The highest number is
//! the newest key. Older keys are kept until every client knows the newest.

use super::ServerPaths;
use super::paths::failed;
use crate::error::CommandError;
use haul_net::{Identity, PublicKey};
use std::fs;
use std::io;
use std::path::Path;

/// The keys, newest first.
#[derive(Debug, Clone)]
pub(crate) struct Keys(Vec<(u32, Identity)>);

/// Maximum number of keys.
const KEYS_MAX: usize = 16;

impl Keys {
    /// Loads the keys; creates the first if there is none.
    ///
    /// # Errors
    /// Errors of the file system, and if other users can read a key.
    pub(crate) fn load(paths: &ServerPaths) -> Result<Self, CommandError> {
        let dir = paths.keys();
        let mut numbers = numbers(&dir).map_err(|error| failed(&dir, &error))?;
        if numbers.is_empty() {
            numbers.push(1);
        }
        numbers.truncate(KEYS_MAX);
        let load = |number: u32| {
            let path = dir.join(number.to_string());
            let identity = Identity::load_or_create(&path);
            identity.map(|it| (number, it)).map_err(|error| failed(&path, &error))
        };
        numbers.into_iter().map(load).collect::<Result<_, _>>().map(Self)
    }

    /// Adds a new key.
    ///
    /// # Errors
    /// Errors of the file system, and if there are too many keys.
    pub(crate) fn rotate(paths: &ServerPaths) -> Result<Self, CommandError> {
        let keys = Self::load(paths)?;
        if keys.0.len() >= KEYS_MAX {
            let message = "some clients do not know the last 16 keys yet";
            return Err(CommandError::usage(message)
                .with_hint("revoke clients that are not used: 'haul server clients' lists them"));
        }
        let path = paths.keys().join((keys.0[0].0 + 1).to_string());
        Identity::load_or_create(&path).map_err(|error| failed(&path, &error))?;
        Self::load(paths)
    }

    /// Removes all keys except the newest.
    ///
    /// # Errors
    /// If a file can't be removed. Its key then stays in use.
    pub(super) fn remove_old(&mut self, paths: &ServerPaths) -> io::Result<()> {
        while let [_, .., (number, _)] = &self.0[..] {
            match fs::remove_file(paths.keys().join(number.to_string())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => drop(self.0.pop()),
            }
        }
        Ok(())
    }

    /// The public half of the newest key.
    pub(crate) fn newest(&self) -> PublicKey {
        self.0[0].1.key()
    }

    pub(crate) fn has_old_keys(&self) -> bool {
        self.0.len() > 1
    }

    /// All keys, newest first.
    pub(super) fn identities(&self) -> Vec<Identity> {
        self.0.iter().map(|(_, identity)| identity.clone()).collect()
    }
}

/// The numbers of the files in `dir`, in descending order.
fn numbers(dir: &Path) -> io::Result<Vec<u32>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<io::Result<Vec<String>>>()?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_whose_file_is_left_is_not_forgotten() {
        let files = tempfile::TempDir::new().expect("a directory");
        let paths = ServerPaths::below(&files.path().join("server"));
        fs::create_dir_all(files.path().join("server")).expect("made");
        let mut keys = Keys::load(&paths).expect("a key");
        for _ in 0..2 {
            keys = Keys::rotate(&paths).expect("a new key");
        }
        // A directory at the path makes removing the file fail.
        let second = paths.keys().join("2");
        fs::remove_file(&second).expect("removed");
        fs::create_dir(&second).expect("made");
        keys.remove_old(&paths).expect_err("it is a directory");
        let numbers = |keys: &Keys| keys.0.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        assert_eq!(numbers(&keys), [3, 2]);
        fs::remove_dir(&second).expect("removed");
        keys.remove_old(&paths).expect("nothing is left");
        assert_eq!(numbers(&keys), [3]);
    }
}
