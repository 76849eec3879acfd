//! Measured speeds, kept between runs: they change with the machine, and not with the model.

use crate::{
    error::{Error, Result},
    stream_load::READERS,
};
use lamina_base::{DType, cpu_name, files::read_text};
use lamina_disk::{cache_folder, read_rate};
use lamina_plan::Backend;
use lamina_planner::{Hardware, ProductSpeed, measure};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How long measured speeds are believed.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long the disk is read to know its speed: it is measured each time, since it drifts most.
const DISK_TIME: Duration = Duration::from_millis(400);
/// Bytes per second of a disk that cannot be read yet: an ordinary one.
const UNKNOWN_DISK: f64 = 1e9;

/// Speeds that were found so far, each once.
#[derive(Default)]
pub struct KnownSpeeds {
    hardware: Option<Hardware>,
    disk: Option<DiskRate>,
    /// What was kept is not believed.
    renew: bool,
}

/// Bytes per second of a disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskRate {
    /// Bytes per second.
    pub bytes: f64,
    /// False where nothing could be read, and it is that of an ordinary disk.
    pub measured: bool,
}

impl KnownSpeeds {
    /// Nothing is known; with `renew` not even what was kept.
    pub fn new(renew: bool) -> KnownSpeeds {
        KnownSpeeds { renew, ..KnownSpeeds::default() }
    }

    /// Speeds of `backend` with products of `types`.
    ///
    /// # Errors
    /// When it cannot be measured.
    pub fn hardware(&mut self, backend: &dyn Backend, types: &[DType]) -> Result<Hardware> {
        let knows = |h: &&Hardware| types.iter().all(|t| h.products.iter().any(|p| p.0 == *t));
        if let Some(known) = self.hardware.as_ref().filter(knows) {
            return Ok(known.clone());
        }
        let found = known_speeds(backend, types, std::mem::take(&mut self.renew))?;
        Ok(self.hardware.insert(found).clone())
    }

    /// Bytes per second that `file` is read with.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn disk(&mut self, file: Option<&Path>) -> Result<DiskRate> {
        if let Some(known) = self.disk {
            return Ok(known);
        }
        let failed = |e| Error::Runtime(format!("the disk's speed cannot be measured: {e}"));
        let rate = file.map(|f| read_rate(f, READERS, DISK_TIME)).transpose().map_err(failed)?.flatten();
        let rate = DiskRate { bytes: rate.unwrap_or(UNKNOWN_DISK), measured: rate.is_some() };
        Ok(*self.disk.insert(rate))
    }
}

/// Speeds of `backend` with products of `types`: as they were measured last, or measured now.
///
/// # Errors
/// When the device cannot be measured.
fn known_speeds(backend: &dyn Backend, types: &[DType], renew: bool) -> Result<Hardware> {
    let (path, key) = (cache_folder().join("speeds.json"), key(backend));
    let mut all = read(&path);
    let kept = all.get(&key).filter(|_| !renew).and_then(kept_speeds);
    let missing: Vec<DType> = match &kept {
        Some(known) => types.iter().filter(|t| !known.products.iter().any(|p| p.0 == **t)).copied().collect(),
        None => types.to_vec(),
    };
    if let Some(known) = kept.clone().filter(|_| missing.is_empty()) {
        return Ok(known);
    }
    let unknown = || {
        let what = format!("predictions for {}: its speed cannot be measured", backend.name());
        Error::Unsupported(what)
    };
    let mut measured = measure(backend, &missing)?.ok_or_else(unknown)?;
    measured.products.extend(kept.into_iter().flat_map(|k| k.products));
    all.insert(key, value(&measured));
    write(&path, &all);
    Ok(measured)
}

/// What the speeds depend on.
fn key(backend: &dyn Backend) -> String {
    let about = backend.about();
    let version = env!("CARGO_PKG_VERSION");
    let build = if cfg!(debug_assertions) { " debug" } else { "" };
    format!("{} {} {} threads {} {version}{build}", cpu_name(), about.device, about.threads, about.kernels)
}

fn read(path: &Path) -> Map<String, Value> {
    let text = read_text(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Writes beside and renames: a reader sees the old file or the new one. Without a cache folder, it is measured each time.
fn write(path: &Path, all: &Map<String, Value>) {
    let beside: PathBuf = path.with_extension(format!("{}.tmp", std::process::id()));
    let made = path.parent().map(fs::create_dir_all);
    let written = made.is_some_and(|m| m.is_ok()) && fs::write(&beside, json!(all).to_string()).is_ok();
    if !written || fs::rename(&beside, path).is_err() {
        let _ = fs::remove_file(&beside);
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

fn value(speeds: &Hardware) -> Value {
    let product = |(dtype, speed): &(DType, ProductSpeed)| json!([dtype.name(), speed.points]);
    json!({
        "at": now(),
        "ram": speeds.ram,
        "products": speeds.products.iter().map(product).collect::<Vec<_>>(),
        "attend": [speeds.attend_one, speeds.attend_many],
        "operator": speeds.operator,
        "threads": speeds.threads,
    })
}

/// Speeds as they were written; none where they are too old, or not what this version writes.
fn kept_speeds(value: &Value) -> Option<Hardware> {
    let at = value["at"].as_u64()?;
    if now().abs_diff(at) > KEPT.as_secs() {
        return None;
    }
    let point = |p: &Value| Some((usize::try_from(p[0].as_u64()?).ok()?, p[1].as_f64()?));
    let product = |p: &Value| {
        let points = p[1].as_array()?.iter().map(point).collect::<Option<Vec<_>>>()?;
        Some((p[0].as_str()?.parse().ok()?, ProductSpeed { points }))
    };
    Some(Hardware {
        ram: value["ram"].as_f64().filter(|r| *r > 0.0)?,
        products: value["products"].as_array()?.iter().map(product).collect::<Option<_>>()?,
        attend_one: value["attend"][0].as_f64()?,
        attend_many: value["attend"][1].as_f64()?,
        operator: value["operator"].as_f64()?,
        threads: usize::try_from(value["threads"].as_u64()?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_as_they_were_written() {
        let points = vec![(1, 1.5e-12), (512, 7e-10)];
        let speeds = Hardware {
            ram: 2.5e10,
            products: vec![(DType::Q4_K, ProductSpeed { points })],
            attend_one: 1e-11,
            attend_many: 2e-12,
            operator: 3e-6,
            threads: 4,
        };
        let written = value(&speeds);
        assert_eq!(kept_speeds(&written), Some(speeds));
        let mut old = written.clone();
        old["at"] = json!(1);
        assert_eq!(kept_speeds(&old), None);
        let mut broken = written;
        broken["products"] = json!([["no type", []]]);
        assert_eq!(kept_speeds(&broken), None);
    }
}
