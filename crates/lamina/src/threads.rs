//! How many threads to use where the user does not say.

use std::thread;

/// Physical cores that this process may use: affinity and cgroup quota are minded, hyperthreads are not counted, since
/// two of them share the units that the kernels keep busy.
pub fn default_threads() -> usize {
    let allowed = thread::available_parallelism().map_or(1, usize::from);
    allowed.min(num_cpus::get_physical()).max(1)
}
