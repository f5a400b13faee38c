//! Descriptors inherited from another program.

use std::io;

/// The first descriptor after the standard streams.
const FIRST: i32 = 3;

/// Makes all descriptors but the standard streams close in programs that this one starts. A program
/// that outlives this process would hold its caller's locks and pipes.
///
/// # Errors
/// Errors of reading the list of descriptors.
pub fn close_descriptors_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/dev/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(descriptor) = number.filter(|number| *number >= FIRST) else { continue };
        // SAFETY: it accesses no memory. It fails for a descriptor that is closed by now.
        #[allow(unsafe_code)]
        unsafe {
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::Command;

    #[test]
    fn a_program_inherits_no_descriptor_of_a_caller() {
        let (left, _held) = io::pipe().expect("a pipe");
        rustix::io::fcntl_setfd(&left, rustix::io::FdFlags::empty()).expect("left to others");
        let path = format!("/dev/fd/{}", left.as_raw_fd());
        let gets = || {
            let status = Command::new("test").args(["-e", &path]).status().expect("started");
            status.success()
        };
        assert!(gets());
        close_descriptors_on_exec().expect("changed");
        assert!(!gets());
    }
}
