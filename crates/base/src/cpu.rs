//! What the processor is called.

/// The CPU's model, as the system names it.
#[cfg(target_os = "linux")]
pub fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named =
        text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    named.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned()
}

/// The CPU's model, as the system names it.
#[cfg(not(target_os = "linux"))]
pub fn cpu_name() -> String {
    use sysinfo::{CpuRefreshKind, RefreshKind, System};
    let system = System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()));
    let named = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
