//! Where a measurement comes from: what every line of a record carries beside its figures.

use chrono::{SecondsFormat, Utc};
use serde_json::{Map, Value, json};

/// Date, version, commit and CPU.
///
/// The commit is what `LAMINA_COMMIT` said when this was compiled; `benches/record.py` fills it in where it said nothing.
pub fn origin() -> Map<String, Value> {
    let date = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, false);
    let fields = [
        ("date", json!(date)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("commit", json!(option_env!("LAMINA_COMMIT"))),
        ("cpu", json!(cpu())),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The CPU's model, as the system names it.
#[cfg(target_os = "linux")]
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named =
        text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    named.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned()
}

/// The CPU's model, as the system names it.
#[cfg(not(target_os = "linux"))]
fn cpu() -> String {
    use sysinfo::{CpuRefreshKind, RefreshKind, System};
    let system = System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()));
    let named = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
