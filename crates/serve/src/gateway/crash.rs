//! Ends of processes.

use std::process::ExitStatus;

/// True where a process has ended by a fault of its own, not because somebody has killed it.
pub(super) fn has_crashed(status: ExitStatus) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        /// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
        const FAULTS: [i32; 6] = [4, 5, 6, 7, 8, 11];
        status.signal().map_or(!status.success(), |signal| FAULTS.contains(&signal))
    }
    #[cfg(not(unix))]
    !status.success()
}
