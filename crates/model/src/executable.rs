//! Reads the target machine from the first bytes of a program file: the parts of ELF (System V ABI,
//! chapters 4 and 5) with system, processor, and whether it needs a loader.

/// Maximum number of bytes that are needed: the header, and the program headers directly after it,
/// as all linkers write them.
pub const EXECUTABLE_HEAD_LEN: usize = 64 << 10;

/// The target machine of a program file. Its names are those of Rust's [`std::env::consts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executable {
    /// The operating system.
    pub system: &'static str,
    /// The processor.
    pub processor: &'static str,
    /// It needs a loader of the machine that it runs on, and in most cases libraries.
    pub dynamic: bool,
}

/// The reason why a file is not a known program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExecutableError {
    /// It does not begin with the ELF magic.
    #[error("not an ELF program")]
    NotElf,
    /// It is an ELF file, but too short or inconsistent.
    #[error("damaged: its ELF headers are incomplete")]
    Damaged,
    /// It is an object file, a core dump or similar.
    #[error("an ELF file, but not a program")]
    NotProgram,
    /// It is for a system or processor that haul does not know.
    #[error("built for an unknown machine")]
    Unknown,
}

/// Values of `e_type`.
const ET_EXEC: u16 = 2;
/// See [`ET_EXEC`].
const ET_DYN: u16 = 3;
/// The type of the program header that names a loader.
const PT_INTERP: u32 = 3;

impl Executable {
    /// Parses the beginning of a file, at most [`EXECUTABLE_HEAD_LEN`] bytes.
    ///
    /// # Errors
    /// See [`ExecutableError`].
    pub fn parse(head: &[u8]) -> Result<Self, ExecutableError> {
        if !head.starts_with(b"\x7fELF") {
            return Err(ExecutableError::NotElf);
        }
        let elf = Elf { bytes: head, wide: at(head, 4)? == 2, big: at(head, 5)? == 2 };
        // EI_CLASS and EI_DATA are 1 or 2.
        if !matches!(head[4], 1 | 2) || !matches!(head[5], 1 | 2) {
            return Err(ExecutableError::Damaged);
        }
        let system = match at(head, 7)? {
            // Most linkers leave it at "System V" for Linux.
            0 | 3 => "linux",
            2 => "netbsd",
            9 => "freebsd",
            12 => "openbsd",
            _ => return Err(ExecutableError::Unknown),
        };
        if !matches!(elf.u16(16)?, ET_EXEC | ET_DYN) {
            return Err(ExecutableError::NotProgram);
        }
        let processor = match (elf.u16(18)?, elf.wide, elf.big) {
            (3, false, false) => "x86",
            (62, true, false) => "x86_64",
            (40, false, false) => "arm",
            (183, true, false) => "aarch64",
            (243, true, false) => "riscv64",
            (243, false, false) => "riscv32",
            (22, true, true) => "s390x",
            (21, true, false) => "powerpc64",
            (258, true, false) => "loongarch64",
            _ => return Err(ExecutableError::Unknown),
        };
        Ok(Self { system, processor, dynamic: elf.has_loader()? })
    }
}

/// An ELF file, whose fields are read by their offsets.
struct Elf<'a> {
    bytes: &'a [u8],
    /// It is of 64 bits.
    wide: bool,
    /// The highest byte comes first.
    big: bool,
}

impl Elf<'_> {
    /// True if a program header names a loader.
    fn has_loader(&self) -> Result<bool, ExecutableError> {
        let (start, len, count) = match self.wide {
            true => (self.u64(32)?, self.u16(54)?, self.u16(56)?),
            false => (self.u32(28)?.into(), self.u16(42)?, self.u16(44)?),
        };
        let start = usize::try_from(start).map_err(|_| ExecutableError::Damaged)?;
        if count == 0 {
            return Err(ExecutableError::Damaged);
        }
        for index in 0..usize::from(count) {
            let offset = start.checked_add(index * usize::from(len));
            if self.u32(offset.ok_or(ExecutableError::Damaged)?)? == PT_INTERP {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn field<const LEN: usize>(&self, offset: usize) -> Result<[u8; LEN], ExecutableError> {
        let bytes = self.bytes.get(offset..).and_then(|rest| rest.first_chunk());
        let mut bytes: [u8; LEN] = *bytes.ok_or(ExecutableError::Damaged)?;
        if self.big {
            bytes.reverse();
        }
        Ok(bytes)
    }

    fn u16(&self, offset: usize) -> Result<u16, ExecutableError> {
        self.field(offset).map(u16::from_le_bytes)
    }

    fn u32(&self, offset: usize) -> Result<u32, ExecutableError> {
        self.field(offset).map(u32::from_le_bytes)
    }

    fn u64(&self, offset: usize) -> Result<u64, ExecutableError> {
        self.field(offset).map(u64::from_le_bytes)
    }
}

fn at(bytes: &[u8], offset: usize) -> Result<u8, ExecutableError> {
    bytes.get(offset).copied().ok_or(ExecutableError::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first bytes of a program of 64 bits, little end first, with program
    /// headers of these types.
    fn program(machine: u16, headers: &[u32]) -> Vec<u8> {
        let mut head = vec![0; 64 + 56 * headers.len()];
        head[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x00");
        head[16..18].copy_from_slice(&ET_DYN.to_le_bytes());
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        head[32..40].copy_from_slice(&64_u64.to_le_bytes());
        head[54..56].copy_from_slice(&56_u16.to_le_bytes());
        head[56..58].copy_from_slice(&(headers.len() as u16).to_le_bytes());
        for (index, kind) in headers.iter().enumerate() {
            head[64 + 56 * index..][..4].copy_from_slice(&kind.to_le_bytes());
        }
        head
    }

    #[test]
    fn machine_and_loader_are_reported() {
        let found = |machine, headers: &[u32]| Executable::parse(&program(machine, headers));
        let linux = |processor, dynamic| Ok(Executable { system: "linux", processor, dynamic });
        assert_eq!(found(62, &[1, PT_INTERP]), linux("x86_64", true));
        assert_eq!(found(183, &[1, 2]), linux("aarch64", false));
        assert_eq!(found(9999, &[1]), Err(ExecutableError::Unknown));
        assert_eq!(found(62, &[]), Err(ExecutableError::Damaged));

        let mut small = vec![0; 52 + 32];
        small[..8].copy_from_slice(b"\x7fELF\x01\x01\x01\x00");
        small[16..20].copy_from_slice(&[2, 0, 40, 0]);
        (small[28], small[42], small[44], small[52]) = (52, 32, 1, 1);
        assert_eq!(Executable::parse(&small), linux("arm", false));

        let mut other = program(62, &[1]);
        other[7] = 9;
        assert_eq!(Executable::parse(&other).map(|found| found.system), Ok("freebsd"));
        other[16] = 1;
        assert_eq!(Executable::parse(&other), Err(ExecutableError::NotProgram));
        for text in [&b""[..], b"\x7fEL", b"#!/bin/sh\n"] {
            assert_eq!(Executable::parse(text), Err(ExecutableError::NotElf));
        }
    }

    #[test]
    fn this_program_is_for_this_machine() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let own = std::env::current_exe().expect("a path");
        let found = Executable::parse(&std::fs::read(own).expect("a file")).expect("a program");
        assert_eq!(found.system, std::env::consts::OS);
        assert_eq!(found.processor, std::env::consts::ARCH);
        assert_eq!(found.dynamic, !cfg!(target_feature = "crt-static"));
    }

    #[test]
    fn what_ends_early_is_damaged() {
        let whole = program(62, &[1, 2, 4]);
        // Of the last header, only its type is needed.
        for len in 4..whole.len() - 52 {
            assert_eq!(Executable::parse(&whole[..len]), Err(ExecutableError::Damaged), "{len}");
        }
        assert!(Executable::parse(&whole[..whole.len() - 52]).is_ok());
        let mut far = whole;
        far[32..40].fill(0xff);
        assert_eq!(Executable::parse(&far), Err(ExecutableError::Damaged));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(
            noise in proptest::collection::vec(any::<u8>(), 0..200),
            len in 0..200_usize,
        ) {
            let mut head = program(62, &[1, 2]);
            for (byte, noise) in head[4..].iter_mut().zip(&noise) {
                *byte ^= noise & noise.rotate_left(3);
            }
            let found = Executable::parse(&head);
            // Less of it never says something else.
            match Executable::parse(&head[..len.min(head.len())]) {
                Err(ExecutableError::NotElf | ExecutableError::Damaged) => {}
                cut => prop_assert_eq!(cut, found),
            }
            head.extend_from_slice(&noise);
            if found.is_ok() {
                prop_assert_eq!(Executable::parse(&head), found);
            }
            let _ = Executable::parse(&noise);
        }
    }

    #[test]
    fn each_machine_has_its_number_width_and_order() {
        for (number, is_wide, is_big, processor) in [
            (3_u16, false, false, Some("x86")),
            (62, true, false, Some("x86_64")),
            (40, false, false, Some("arm")),
            (183, true, false, Some("aarch64")),
            (243, true, false, Some("riscv64")),
            (243, false, false, Some("riscv32")),
            (22, true, true, Some("s390x")),
            (21, true, false, Some("powerpc64")),
            (258, true, false, Some("loongarch64")),
            (62, false, false, None),
            (22, true, false, None),
            (21, true, true, None),
        ] {
            let mut head = vec![0; 160];
            head[..8].copy_from_slice(b"\x7fELF\x01\x01\x01\x03");
            (head[4], head[5]) = (1 + u8::from(is_wide), 1 + u8::from(is_big));
            let mut put = |offset: usize, number: u16| {
                let bytes = if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
                head[offset..offset + 2].copy_from_slice(&bytes);
            };
            put(16, ET_EXEC);
            put(18, number);
            let (start, [len, count]) = if is_wide { (32, [54, 56]) } else { (28, [42, 44]) };
            put(if is_big { start + 6 } else { start }, 100);
            put(len, 32);
            put(count, 2);
            // The second of the program headers names a loader.
            put(if is_big { 134 } else { 132 }, PT_INTERP as u16);
            let found = Executable::parse(&head);
            let expected =
                processor.map(|processor| Executable { system: "linux", processor, dynamic: true });
            assert_eq!(found, expected.ok_or(ExecutableError::Unknown), "{number}");
        }
    }

    #[test]
    fn each_system_has_its_number() {
        for (number, system) in [
            (0, Ok("linux")),
            (3, Ok("linux")),
            (2, Ok("netbsd")),
            (9, Ok("freebsd")),
            (12, Ok("openbsd")),
            (1, Err(ExecutableError::Unknown)),
        ] {
            let mut head = program(62, &[1]);
            head[7] = number;
            assert_eq!(Executable::parse(&head).map(|found| found.system), system, "{number}");
        }
        for (at, byte) in [(4, 0), (4, 3), (5, 0), (5, 3)] {
            let mut head = program(62, &[1]);
            head[at] = byte;
            assert_eq!(Executable::parse(&head), Err(ExecutableError::Damaged), "{at} {byte}");
        }
    }
}
