//! Facts that a host reports before haul is installed on it, parsed from lines of its shell.

/// The facts that a host reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// The output of `uname -sm`.
    pub machine: String,
    /// The number of the user.
    pub user: u32,
    /// The number of the user's group if it has the user's name. By convention it has no other
    /// members.
    pub own_group: Option<u32>,
    /// The time on the host, in seconds since 1970.
    pub now: u64,
    /// The home directory: absolute, without NUL, and with links resolved by the shell.
    pub home: Vec<u8>,
}

impl HostFacts {
    /// Number of lines with facts.
    pub const LINES: usize = 5;

    /// Parses the lines, in the order of the fields. `None` if one is invalid. A `-` means that the
    /// user has no group of its own.
    #[must_use]
    pub fn parse(lines: [&[u8]; Self::LINES]) -> Option<Self> {
        let [machine, user, group, now, home] = lines;
        let machine = String::from_utf8(machine.to_vec()).ok()?;
        let user = u32::try_from(number(user)?).ok()?;
        let own_group = match group {
            b"-" => None,
            group => Some(u32::try_from(number(group)?).ok()?),
        };
        let now = number(now)?;
        let is_path = home.starts_with(b"/") && !home.contains(&0);
        is_path.then(|| Self { machine, user, own_group, now, home: home.to_vec() })
    }

    /// System and processor, with the names of [`Executable`](crate::Executable). `None` if the
    /// machine is unknown.
    #[must_use]
    pub fn system_and_processor(&self) -> Option<(&'static str, &'static str)> {
        let (system, processor) = self.machine.split_once(' ')?;
        let system = match system {
            "Linux" => "linux",
            "Darwin" => "macos",
            "FreeBSD" => "freebsd",
            "NetBSD" => "netbsd",
            "OpenBSD" => "openbsd",
            _ => return None,
        };
        let processor = match processor {
            "x86_64" | "amd64" => "x86_64",
            "aarch64" | "arm64" => "aarch64",
            "i386" | "i486" | "i586" | "i686" => "x86",
            "ppc64le" => "powerpc64",
            "riscv64" => "riscv64",
            "riscv32" => "riscv32",
            "s390x" => "s390x",
            "loongarch64" => "loongarch64",
            // Such as armv7l, or armv8l of a 64-bit kernel in 32-bit mode.
            arm if arm.starts_with("armv") => "arm",
            _ => return None,
        };
        Some((system, processor))
    }
}

/// Parses a number without a sign.
fn number(line: &[u8]) -> Option<u64> {
    let digits = str::from_utf8(line).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(lines: [&str; HostFacts::LINES]) -> Option<HostFacts> {
        HostFacts::parse(lines.map(str::as_bytes))
    }

    #[test]
    fn each_line_has_to_be_an_answer() {
        let lines = ["Linux x86_64", "1000", "100", "1700000000", "/home/a b"];
        let facts = HostFacts {
            machine: "Linux x86_64".into(),
            user: 1000,
            own_group: Some(100),
            now: 1_700_000_000,
            home: b"/home/a b".to_vec(),
        };
        assert_eq!(parse(lines), Some(facts.clone()));
        assert!(HostFacts::parse([&b"Linux\xff"[..], b"0", b"-", b"1", b"/"]).is_none());
        let with = |line: usize, answer: &'static str| {
            let mut lines = lines;
            lines[line] = answer;
            parse(lines)
        };
        assert_eq!(with(2, "-"), Some(HostFacts { own_group: None, ..facts }));
        for (line, answer) in [
            (1, ""),
            (1, "-"),
            (1, "-1"),
            (1, "+1"),
            (1, " 1"),
            (1, "4294967296"),
            (2, ""),
            (2, "staff"),
            (2, "4294967296"),
            (3, "now"),
            (3, "18446744073709551616"),
            (4, ""),
            (4, "home"),
            (4, "/ho\0me"),
        ] {
            assert_eq!(with(line, answer), None, "{line}: {answer:?}");
        }
    }

    #[test]
    fn machines_have_one_name_each() {
        let told = |machine: &str| {
            parse([machine, "0", "-", "1", "/"]).expect("a host").system_and_processor()
        };
        assert_eq!(told("Linux x86_64"), Some(("linux", "x86_64")));
        assert_eq!(told("FreeBSD amd64"), Some(("freebsd", "x86_64")));
        assert_eq!(told("Darwin arm64"), Some(("macos", "aarch64")));
        assert_eq!(told("Linux armv7l"), Some(("linux", "arm")));
        assert_eq!(told("Linux i686"), Some(("linux", "x86")));
        assert_eq!(told("NetBSD i386"), Some(("netbsd", "x86")));
        assert_eq!(told("OpenBSD i486"), Some(("openbsd", "x86")));
        for (machine, processor) in [
            ("i586", "x86"),
            ("aarch64", "aarch64"),
            ("ppc64le", "powerpc64"),
            ("riscv64", "riscv64"),
            ("riscv32", "riscv32"),
            ("s390x", "s390x"),
            ("loongarch64", "loongarch64"),
            ("armv8l", "arm"),
        ] {
            assert_eq!(told(&format!("Linux {machine}")), Some(("linux", processor)));
        }
        for unknown in ["", "Linux", "Linux mips", "MINGW64_NT-10.0 x86_64", "Linux x86_64 "] {
            assert_eq!(told(unknown), None, "{unknown:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_was_said(
            machine in "(Linux|FreeBSD|Darwin|\\PC{0,9})[ -](x86_64|armv7l|\\PC{0,9})",
            user in any::<u32>(),
            own_group in any::<Option<u32>>(),
            now in any::<u64>(),
            path in "[^\\x00\n]{0,20}",
        ) {
            let home = format!("/{path}").into_bytes();
            let facts = HostFacts { machine: machine.clone(), user, own_group, now, home };
            let group = own_group.map_or("-".to_owned(), |group| group.to_string());
            let (user, now) = (user.to_string(), now.to_string());
            let home = facts.home.clone();
            let lines = [machine.as_bytes(), user.as_bytes(), group.as_bytes(), now.as_bytes(), &home];
            let found = HostFacts::parse(lines);
            prop_assert_eq!(found, Some(facts.clone()));
            let known = facts.system_and_processor().is_some();
            prop_assert!(!known || machine.split(' ').count() == 2);
        }

        #[test]
        fn any_lines_are_read_without_harm(
            lines in proptest::array::uniform5(proptest::collection::vec(
                prop_oneof![Just(b'/'), Just(b'1'), Just(b'-'), any::<u8>()],
                0..24,
            )),
        ) {
            let lines: [&[u8]; HostFacts::LINES] = lines.each_ref().map(Vec::as_slice);
            if let Some(facts) = HostFacts::parse(lines) {
                prop_assert_eq!(facts.machine.as_bytes(), lines[0]);
                prop_assert_eq!(&facts.home, lines[4]);
                prop_assert!(facts.home.starts_with(b"/") && !facts.home.contains(&0));
                let _ = facts.system_and_processor();
            }
        }
    }
}
